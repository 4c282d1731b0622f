"""What the content of a message says, as values of ours. Pure: no IO, no clock.

Source: https://spec.matrix.org/v1.16/client-server-api/#instant-messaging, read 2026-11-26; and the
proposals 3381 (polls), 3488 and 3489 (locations), 4274 (galleries) and 4095 (previews).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from everturn_channels.ingestion.described import unknown_kind
from everturn_channels.ingestion.json_fields import (
    Json,
    number_of,
    object_of,
    objects_of,
    text_of,
    texts_of,
)

QUOTE_CHARS: Final = 500  # of a message that is replied to
BUTTONS: Final = "chat.everturn.buttons"
"The field of a message of the bot's that says what its buttons carry, in their order."
VOICE: Final = "org.matrix.msc3245.voice"
"The field of a voice note. Source: MSC 3245, which Element reads and writes."
NUMBERS: Final = (*(f"{n}\ufe0f\u20e3" for n in range(1, 10)), "\N{KEYCAP TEN}")
"The reactions that stand for buttons."
_POLLS: Final = frozenset({"m.poll.start", "org.matrix.msc3381.poll.start"})
_ENDS_OF_POLLS: Final = frozenset({"m.poll.end", "org.matrix.msc3381.poll.end"})
_CALLS: Final = frozenset(
    {
        "m.call.invite",
        "m.call.notify",
        "m.rtc.notification",
        "org.matrix.msc4075.call.notify",
        "org.matrix.msc4075.rtc.notification",
    }
)
BEACONS: Final = frozenset({"m.beacon", "org.matrix.msc3672.beacon"})
"Each place of somebody who shares where they go."
MESSAGES: Final = (
    frozenset({"m.room.message", "m.room.encrypted", "m.sticker"})
    | _POLLS
    | _ENDS_OF_POLLS
    | _CALLS
)
"Events that people write."
_FILES: Final = frozenset({"m.image", "m.audio", "m.video", "m.file"})
_GALLERIES: Final = frozenset({"m.gallery", "dm.filament.gallery"})
_PLACES: Final = ("m.location", "org.matrix.msc3488.location")
_PREVIEWS: Final = ("m.url_previews", "com.beeper.linkpreviews")
_PREVIEWS_MAX: Final = 5
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,3}(\.[0-9]{1,20})?")
_TIME_MAX_MS: Final = 253_402_300_799_000  # the last second of the year 9999


class Related(Struct, frozen=True, kw_only=True):
    """How a message relates to others."""

    replaces: str = ""
    "The message that it changes."
    thread: str = ""
    "The first message of the thread that it stands in."
    replies_to: str = ""
    "The message that it replies to; not the one that stands there for clients without threads."


def related(content: Json) -> Related:
    """Return how a message relates to others."""
    relation = object_of(content, "m.relates_to")
    target, kind = text_of(relation, "event_id"), text_of(relation, "rel_type")
    is_fallback = kind == "m.thread" and relation.get("is_falling_back") is True
    return Related(
        replaces=target if kind == "m.replace" else "",
        thread=target if kind == "m.thread" else "",
        replies_to="" if is_fallback else text_of(relation, "m.in_reply_to", "event_id"),
    )


def redacted_by(event: Json) -> str:
    """Return the event that a redaction takes back; its content says so since version 11 of rooms.

    >>> redacted_by({"type": "m.room.redaction", "content": {"redacts": "$1"}})
    '$1'
    """
    return text_of(event, "redacts") or text_of(event, "content", "redacts")


def is_message(kind: str, content: Json) -> bool:
    """Whether people read an event: kinds to come hold a text for those who do not know them."""
    return kind in MESSAGES or bool(_text(content))


def body_of(content: Json, name: str = "") -> str:
    """Return the text of a message, with the name of whoever does what an emote says.

    Of a file it is what was written below it, if anything was.
    """
    body = text_of(content, "body") or _text(content)
    kind = text_of(content, "msgtype")
    if kind in _FILES:
        named = text_of(content, "filename")
        return body if named and named != body else ""
    if text_of(content, "m.relates_to", "m.in_reply_to", "event_id"):
        body = _without_quote(body)
    return f"* {name} {body}" if kind == "m.emote" else body


def files_in(content: Json) -> Sequence[Json]:
    """Return what a message says of each of its files."""
    kind = text_of(content, "msgtype")
    if kind in _GALLERIES:
        return [
            each for each in objects_of(content, "itemtypes") if text_of(each, "itemtype") in _FILES
        ]
    return (content,) if kind in _FILES else ()


def described(kind: str, content: Json) -> str:
    """Return what an event holds that is neither text nor a file, for a model; empty = nothing."""
    if kind == "m.sticker":
        return f"sticker {_quoted(text_of(content, 'body'))}".rstrip()
    if kind in _POLLS:
        return _poll(content)
    if kind in _ENDS_OF_POLLS:
        return f"poll that ended {_quoted(_text(content))}".rstrip()
    if kind in _CALLS:
        return "call, which cannot be taken here"
    if kind in BEACONS:
        return f"{_location(content)}, live"
    match text_of(content, "msgtype"):
        case "m.location":
            return _location(content)
        case "m.key.verification.request":
            return "request to verify a device"
        case other:  # kinds to come have a text for those who do not know them
            is_read = text_of(content, "body") or _text(content) or files_in(content)
            return "" if is_read else unknown_kind(other or kind)


def previews(content: Json) -> tuple[str, ...]:
    """Return the previews of the links of a message, which its sender's client made."""
    found = [each for name in _PREVIEWS for each in objects_of(content, name)]
    shown = (
        [text_of(each, name) for name in ("og:title", "og:description", "matched_url")]
        for each in found[:_PREVIEWS_MAX]
    )
    return tuple(f"embed {' | '.join(filter(None, parts))}" for parts in shown if any(parts[:2]))


def _poll(content: Json) -> str:
    poll = object_of(content, "m.poll") or object_of(content, "org.matrix.msc3381.poll.start")
    names = [_text(each) for each in objects_of(poll, "answers")]
    return f"poll {_quoted(_text(object_of(poll, 'question')))}: {' / '.join(names)}"


def _location(content: Json) -> str:
    """Return a location, as `location 52.52, 13.405, "at home"`.

    Its text is that of whoever sends it, or the address once more for clients without maps.
    """
    places = (object_of(content, name) for name in _PLACES)
    place: Json = next(filter(None, places), object_of(None))
    address = text_of(content, "geo_uri") or text_of(place, "uri")
    where = address.removeprefix("geo:").partition(";")[0].split(",")[:2]
    body = text_of(content, "body")
    said = text_of(place, "description") or ("" if address and address in body else body)
    shown = ", ".join(f"{float(each):.6g}" if _NUMBER.fullmatch(each) else each for each in where)
    return ", ".join(filter(None, (f"location {shown}".rstrip(), _quoted(said))))


def _text(value: Json) -> str:
    """Return the text of an event or of a part of one, by extensible events. Source: MSC 1767."""
    parts = objects_of(value, "m.text")
    stable = text_of(parts[0], "body") if parts else text_of(value, "m.text")
    return stable or text_of(value, "org.matrix.msc1767.text") or text_of(value, "body")


def _quoted(text: str) -> str:
    return f'"{text}"' if text else ""


def _without_quote(body: str) -> str:
    r"""Return the text of a reply without what older clients put above it.

    >>> _without_quote("> <@ann:e.org> first\n\nyes"), _without_quote("> of mine\nyes")
    ('yes', '> of mine\nyes')
    """
    lines = body.split("\n")
    if not lines[0].startswith(("> <@", "> * <@")):
        return body
    count = next((n for n, line in enumerate(lines) if not line.startswith("> ")), len(lines))
    if not count:
        return body
    return "\n".join(lines[count:]).lstrip("\n")


def mentions(content: Json, me: str, name: str) -> bool:
    """Whether a message names the bot; where its client says whom it names, that counts."""
    if "m.mentions" in content:
        return me in texts_of(content, "m.mentions", "user_ids")
    return _calls(name, me).search(text_of(content, "body")) is not None


def _calls(name: str, me: str) -> re.Pattern[str]:
    """Return what finds the bot's name in a text."""
    names = sorted({me, me[1:].partition(":")[0], name} - {""}, key=len, reverse=True)
    return re.compile(rf"(?<![\w@])@?(?:{'|'.join(map(re.escape, names))})(?!\w)", re.IGNORECASE)


def without_name(text: str, me: str, name: str) -> str:
    """Return a text without the bot's name at its start."""
    found = _calls(name, me).match(text.lstrip())
    if not found:
        return text.strip()
    return text.lstrip()[found.end() :].lstrip(" \t\n,:").rstrip()


def time_of(event: Json, now: datetime) -> datetime:
    """Return when an event was written, by its sender's homeserver; now where that is nonsense."""
    stamp = number_of(event, "origin_server_ts")
    if stamp is None or not 0 <= stamp <= _TIME_MAX_MS:
        return now
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=stamp)


def button_of(reaction: Json) -> int | None:
    """Return the number, from 0, of the button that a reaction stands for; None = of none."""
    key = text_of(reaction, "m.relates_to", "key").replace("\ufe0f", "")
    keys = [emoji.replace("\ufe0f", "") for emoji in NUMBERS]
    return keys.index(key) if key in keys else None
