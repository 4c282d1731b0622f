"""What the content of a message says, as values of ours. Pure: no IO, no clock.

Source: https://spec.matrix.org/v1.16/client-server-api/#instant-messaging, read 2026-11-26.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

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
MESSAGES: Final = frozenset(
    {
        "m.room.message",
        "m.room.encrypted",
        "m.sticker",
        "m.poll.start",
        "org.matrix.msc3381.poll.start",
    }
)
"Events that people write."
_FILES: Final = frozenset({"m.image", "m.audio", "m.video", "m.file"})
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


def body_of(content: Json, name: str = "") -> str:
    """Return the text of a message, with the name of whoever does what an emote says.

    Of a file it is what was written below it, if anything was.
    """
    body = text_of(content, "body")
    kind = text_of(content, "msgtype")
    if kind in _FILES:
        named = text_of(content, "filename")
        return body if named and named != body else ""
    if text_of(content, "m.relates_to", "m.in_reply_to", "event_id"):
        body = _without_quote(body)
    return f"* {name} {body}" if kind == "m.emote" else body


def has_file(content: Json) -> bool:
    """Whether a message is a file."""
    return text_of(content, "msgtype") in _FILES


def described(kind: str, content: Json) -> str:
    """Return what an event holds beside text and files, for a model; empty = nothing."""
    if kind == "m.sticker":
        return f'sticker "{text_of(content, "body")}"'
    if kind in {"m.poll.start", "org.matrix.msc3381.poll.start"}:
        return _poll(content)
    match text_of(content, "msgtype"):
        case "m.location":
            return _location(content)
        case "m.key.verification.request":
            return "request to verify a device"
        case other:  # kinds to come have a text for those who do not know them
            return (
                ""
                if text_of(content, "body")
                else f"message of a kind that is not known here: {other}"
            )


def _poll(content: Json) -> str:
    poll = object_of(content, "m.poll") or object_of(content, "org.matrix.msc3381.poll.start")
    names = [_poll_text(each) for each in objects_of(poll, "answers")]
    return f'poll "{_poll_text(object_of(poll, "question"))}": {" / ".join(names)}'


def _location(content: Json) -> str:
    """Return a location; `geo:` addresses are those of RFC 5870, most accurate first."""
    place = text_of(content, "geo_uri").removeprefix("geo:").partition(";")[0].replace(",", ", ")
    said = text_of(content, "body")
    return f"location {place or said}" + (f', "{said}"' if place and said else "")


def _poll_text(value: Json) -> str:
    parts = objects_of(value, "m.text")
    stable = text_of(parts[0], "body") if parts else ""
    return stable or text_of(value, "org.matrix.msc1767.text") or text_of(value, "body")


def _without_quote(body: str) -> str:
    """Return the text of a reply without what older clients put above it."""
    lines = body.split("\n")
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
