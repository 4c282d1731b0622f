"""One event, one line of `events.jsonl`. Pure: bytes in, bytes out.

A line is a JSON object, `{"v":1,"seq":7,"at":…,"type":…,…,"crc":"89abcdef"}`. The checksum is the
CRC-32 of the bytes before `,"crc":`, begun with the session id, so that a line of another session
does not pass for one of ours.

Text that holds lone surrogates (a model may send them) is written with JSON escapes and comes back
as it was. A high surrogate right before a low one comes back as the character that the two mean:
JSON cannot tell them apart.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Sequence
from typing import cast

import orjson

from everturn_actors.checksums import is_whole, sealed, unsealed, why_not_whole
from everturn_actors.errors import StaleReadError, UnknownFormatError
from everturn_actors.events import Event
from everturn_actors.state.serialization import FORMAT_VERSION, decode_event, encode_event

_HEAD = re.compile(rb'\{"v":([0-9]{1,9}),"seq":([0-9]{1,18}),')
_DIGITS = 20  # a number of 64 bits has no more, its sign included
HEAD_BYTES = 64  # hold the version and the number at the head of any line
_OUR_VERSION = b'{"v":%d,' % FORMAT_VERSION
_OUR_HEAD = b'%b"seq":' % _OUR_VERSION


class BadLineError(Exception):
    """A line that is no line of this session's log; the text says why. Never leaves `journal`."""


def check_numbers(events: Sequence[Event], expected_seq: int) -> None:
    """Refuse events that would leave a hole: a bug of the caller.

    Raises:
        ValueError: The events are not numbered from `expected_seq + 1` on.
    """
    for number, event in enumerate(events, expected_seq + 1):
        if event.seq != number:
            msg = f"event {event.seq} cannot follow event {number - 1}"
            raise ValueError(msg)


def check_end(last_seq: int, at_least: int) -> None:
    """Refuse to read a log that ends before what its reader knows to be durable.

    Raises:
        StaleReadError: It does.
    """
    if last_seq < at_least:
        msg = f"the log ends at event {last_seq}, and event {at_least} is known to be durable"
        raise StaleReadError(msg)


def seed(session_id: str) -> int:
    """Return what the checksums of a session begin with."""
    return zlib.crc32(session_id.encode())


def encode(session_id: str, events: Iterable[Event]) -> bytes:
    """Return the lines of `events`, each with its newline."""
    start = seed(session_id)
    return b"".join(
        [sealed(b"%b%b" % (_OUR_VERSION, encode_event(event)[1:]), start) for event in events]
    )


def decode(line: bytes, start: int) -> Event:
    """Return the event of a line (without its newline); `start` is the session's `seed`.

    Raises:
        BadLineError: It is cut short, damaged, or of another session.
        UnknownFormatError: It is whole and was written by another version.
    """
    if not is_whole(line, start):
        _refuse_other_version(line)
        raise BadLineError(why_not_whole(line))
    try:
        if not line.startswith(_OUR_VERSION):
            raise _other_version(None)
        return decode_event(b"{" + unsealed(line)[len(_OUR_VERSION) :])
    except UnknownFormatError:
        _refuse_damaged(line)
        raise


def seq_of(line: bytes) -> int | None:
    """Return the number at the head of a line, unchecked, or None where the line has none."""
    head = _HEAD.match(line)
    return int(head[2]) if head else None


def whole_seq(line: bytes, start: int) -> int | None:
    """Return the number of a line that is whole and of this version; else None, see `decode`."""
    if line.startswith(_OUR_HEAD) and is_whole(line, start):
        return seq_of(line)
    return None


def owner_of(line: bytes) -> str:
    """Return the session that a whole first line names, or "" where it is no such line."""
    try:
        record = load_json(line)
    except ValueError:
        return ""
    if isinstance(record, dict):
        owner = record.get("session_id")
        if isinstance(owner, str) and owner.isascii() and is_whole(line, seed(owner)):
            return owner
    return ""


def dump_json(value: object) -> bytes:
    """Return `value` as compact JSON; what orjson refuses (surrogates, huge numbers) is escaped."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode()


def load_json(data: bytes) -> dict[str, object] | list[object] | str | float | bool | None:
    """Read JSON, with the escaped surrogates that orjson refuses and `dump_json` may have written.

    Raises:
        ValueError: It is no JSON, no UTF-8, or nested deeper than anybody writes.
    """
    try:
        return cast("dict[str, object]", orjson.loads(data))
    except orjson.JSONDecodeError as error:
        if b"\\u" not in data:
            raise
        try:
            return cast("dict[str, object]", json.loads(data, parse_int=_number))
        except RecursionError:
            raise error from None


def _number(digits: str) -> int | float:
    """Return a whole number as orjson does: what does not fit 64 bits is none that we write."""
    if len(digits) > _DIGITS:
        return float(digits)
    number = int(digits)
    return number if -(2**63) <= number < 2**64 else float(number)


def _refuse_damaged(line: bytes) -> None:
    """Raise where a line that is whole holds no record of this version."""
    try:
        record = load_json(line)
    except ValueError as error:
        msg = f"its checksum is right, but it holds no JSON: {error}"
        raise BadLineError(msg) from error
    if not isinstance(record, dict):
        msg = "it holds no JSON object"
        raise BadLineError(msg)
    if record.get("v") != FORMAT_VERSION:
        raise _other_version(record.get("v"))


def _refuse_other_version(line: bytes) -> None:
    """Raise where a later version, which may protect its lines in another way, wrote this one."""
    if line.startswith(_OUR_HEAD):
        return
    try:
        record = load_json(line)
    except ValueError:
        return
    version = record.get("v") if isinstance(record, dict) else None
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise _other_version(version)


def _other_version(version: object) -> UnknownFormatError:
    return UnknownFormatError(
        f"it has the event format {version!r}, which this version of Everturn does not know (it "
        f"knows {FORMAT_VERSION}); use the version that wrote it, or a later one"
    )
