"""Events as JSON, for whoever writes them down or sends them: the journal, HTTP. Pure.

A record is `{"seq": 1, "at": "2026-11-21T22:49:56.123456Z", "type": "received", ...}`; fields that
hold their default are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache

from everturn_actors.codec import WAY_OUT, Codec, CodecError, dump, encode
from everturn_actors.errors import UnknownFormatError
from everturn_actors.events import Body, Event

FORMAT_VERSION = 2
"""How a record is to be read: the names of its head, its times, what a left out field means.

New types and new fields leave it as it is. A version that does not know one stops at the event that
has it, names it and says what to do, which tells more than a number could; and a log in which none
of them stands can still be read by the version before.
"""

_BODY = Codec[Body](Body)
_FORMER_TYPES = {"silent_message": "ambient_stored"}
"What types were called before, and are in logs of that time."
_HEAD = re.compile(rb'\{"seq":(0|[1-9][0-9]{0,17}),"at":"([0-9TZ:.+-]{1,40})",')
_TAGGED = re.compile(rb'"type":"([a-z_]{1,100})"')


@lru_cache(maxsize=64)  # the events of one append have one instant
def utc_text(moment: datetime) -> str:
    """Write an aware instant in UTC with microseconds: `2026-11-21T22:49:56.123456Z`."""
    return in_utc(moment).isoformat(timespec="microseconds")[:-6] + "Z"


def in_utc(moment: datetime) -> datetime:
    """Return an instant that was read in UTC.

    Raises:
        ValueError: It names no time zone, or lies outside the years that there are in UTC.
    """
    if moment.tzinfo is UTC:
        return moment
    if moment.tzinfo is None:
        msg = f"{moment} names no time zone"
        raise ValueError(msg)
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        msg = f"{moment} is no time in UTC"
        raise ValueError(msg) from error


def type_name(body: Body) -> str:
    """Return the name of an event's type, as it stands in a record: `received`."""
    return str(type(body).__struct_config__.tag)


def encode_event(event: Event) -> bytes:
    """Return the record of `event` as JSON."""
    at, body = utc_text(event.at).encode(), encode(event.body)
    return b'{"seq":%d,"at":"%b",%b' % (event.seq, at, body[1:])


def decode_event(record: bytes) -> Event:
    """Return the event of a record; the inverse of `encode_event`.

    Raises:
        UnknownFormatError: A type or field that this version does not know, or a value of the
            wrong kind.
    """
    head = _HEAD.match(record)
    if head is None:
        msg = f"its head is not that of event format {FORMAT_VERSION}; {WAY_OUT}"
        raise UnknownFormatError(msg)
    seq = int(head[1])
    try:
        at = in_utc(datetime.fromisoformat(head[2].decode()))
        return Event(seq=seq, at=at, body=_BODY.decode(b"{" + record[head.end() :]))
    except ValueError as error:
        found = _TAGGED.match(record, head.end())
        kind = found[1].decode() if found else ""
        if found and kind in _FORMER_TYPES:  # asked after a failure: it costs other lines nothing
            name = _FORMER_TYPES[kind].encode()
            return decode_event(record[: found.start(1)] + name + record[found.end(1) :])
        raise _unreadable(seq, kind, error) from error


def to_record(event: Event) -> dict[str, object]:
    """Return `event` as a dict of JSON values."""
    return {"seq": event.seq, "at": utc_text(event.at), **dump(event.body)}


def from_record(record: Mapping[str, object]) -> Event:
    """Return the event of a record; the inverse of `to_record`.

    Raises:
        UnknownFormatError: As for `decode_event`.
    """
    body = dict(record)
    seq, at = body.pop("seq", None), body.pop("at", None)
    kind = str(body.get("type", ""))
    if kind in _FORMER_TYPES:
        body["type"] = _FORMER_TYPES[kind]
    try:
        if type(seq) is not int or not isinstance(at, str):
            msg = "needs a seq, which is int, and at, a time"
            raise CodecError(msg)
        moment = in_utc(datetime.fromisoformat(at))
        return Event(seq=seq, at=moment, body=_BODY.load(body))
    except ValueError as error:
        raise _unreadable(seq, kind, error) from error


def _unreadable(seq: object, kind: str, error: ValueError) -> UnknownFormatError:
    if isinstance(error, CodecError) and error.path == "type":
        return UnknownFormatError(
            f"event {seq} has the type {kind!r}, which this version (event format "
            f"{FORMAT_VERSION}) does not know; {WAY_OUT}"
        )
    return UnknownFormatError(
        f"event {seq} cannot be read by event format {FORMAT_VERSION}: {error}"
    )
