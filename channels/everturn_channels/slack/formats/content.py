"""What a message holds: its words, what it passes on, and the rest in words for a model. Pure.

Previews of links, messages that are passed on and pasted tables all come as attachments.
Source: https://docs.slack.dev/reference/messaging/attachments, read 2026-11-27; `is_share` and the
files of what is passed on were read of clients of the API (hermes-agent, pull request 75481).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from everturn_channels.ingestion.described import unknown_kind
from everturn_channels.ingestion.json_fields import Json, object_of, objects_of, text_of
from everturn_channels.slack.formats.blocks import is_table, text_of_blocks
from everturn_channels.slack.formats.text import BY_PEOPLE, readable

_SHARED: Final = ("is_share", "is_msg_unfurl", "is_reply_unfurl")
_HUDDLES: Final = frozenset({"huddle_thread", "sh_room_created", "sh_room_shared"})
_NO_PREVIEW: Final = "[no preview available]"
_KIND_CHARS: Final = 40


class PassedOn(Struct, frozen=True, kw_only=True):
    """A message that another one passes on."""

    written: str
    "Its words, in Slack's mark-up."
    author: str
    "Who wrote it; empty = Slack does not say."


def written_in(raw: Json) -> str:
    """Return the words of a message in Slack's mark-up, with the tables in it."""
    pasted = [block for each in _others(raw) for block in objects_of(each, "blocks")]
    return _with_tables(text_of(raw, "text"), objects_of(raw, "blocks"), pasted)


def passed_on(raw: Json) -> Sequence[PassedOn]:
    """Return the messages that a message passes on."""
    found: list[PassedOn] = []
    for each in shared_in(raw):
        within = [object_of(part, "message") for part in objects_of(each, "message_blocks")]
        blocks = [block for part in within for block in objects_of(part, "blocks")]
        written = _with_tables(text_of(each, "text"), blocks) or _fallback(each)
        found.append(PassedOn(written=written, author=text_of(each, "author_name")))
    return found


def shared_in(raw: Json) -> Sequence[Json]:
    """Return the attachments that are messages passed on."""
    return [each for each in objects_of(raw, "attachments") if _is_shared(each)]


def embeds_in(raw: Json) -> tuple[str, ...]:
    """Return the previews of links, and what else others than the sender say in a message."""
    return tuple(filter(None, map(_embed, _others(raw))))


def described(raw: Json) -> tuple[str, ...]:
    """Return what kind of a message it is, for a model, where it is not one of words and files."""
    kind = text_of(raw, "subtype")
    if raw.get("room") or kind in _HUDDLES:
        return ("huddle",)
    return () if kind in BY_PEOPLE else (unknown_kind(kind[:_KIND_CHARS]),)


def unread(raw: Json) -> str:
    """Return what stands for a message of which nothing else can be said; empty = it holds nothing.

    To name the bot and say no more is to hold nothing.
    """
    held = [*objects_of(raw, "blocks"), *objects_of(raw, "attachments")]
    kinds = dict.fromkeys(text_of(each, "type") or "attachment" for each in held)
    if not kinds or text_of(raw, "text").strip():
        return ""
    return unknown_kind(", ".join(kinds)[:_KIND_CHARS])


def _with_tables(text: str, blocks: Sequence[Json], pasted: Sequence[Json] = ()) -> str:
    """Return a text, or what its blocks say where there is none, and the tables below it.

    Blocks say what the text says, but for tables, which stand there alone.
    """
    own = text.strip() or _without_tables(blocks)
    tables = [block for block in (*blocks, *pasted) if is_table(block)]
    return "\n\n".join(filter(None, (own, text_of_blocks(tables))))


def _without_tables(blocks: Sequence[Json]) -> str:
    return text_of_blocks([block for block in blocks if not is_table(block)])


def _is_shared(attachment: Json) -> bool:
    return any(attachment.get(name) is True for name in _SHARED)


def _others(raw: Json) -> Sequence[Json]:
    """Return the attachments that are no messages."""
    return [each for each in objects_of(raw, "attachments") if not _is_shared(each)]


def _fallback(attachment: Json) -> str:
    found = text_of(attachment, "fallback").strip()
    return "" if found == _NO_PREVIEW else found


def _embed(attachment: Json) -> str:
    """Return the preview of a link, or what else an app put below a message; empty = a table."""
    author, title = text_of(attachment, "author_name"), text_of(attachment, "title")
    said = text_of(attachment, "text") or _without_tables(objects_of(attachment, "blocks"))
    fields = (
        f"{text_of(each, 'title')}: {text_of(each, 'value')}"
        for each in objects_of(attachment, "fields")
    )
    head = (text_of(attachment, "pretext"), title, f"by {author}" if author else "", said)
    parts = [part for part in (*head, *fields, text_of(attachment, "footer")) if part]
    address = text_of(attachment, "title_link") or text_of(attachment, "from_url")
    parts = [*(parts or [_fallback(attachment)]), address]
    shown = " | ".join(readable(part, {}) for part in parts if part)
    return f"embed {shown}" if shown else ""
