"""What people write in Slack, as text that a model reads. Pure: no IO, no clock.

Source: https://docs.slack.dev/messaging/formatting-message-text and
https://docs.slack.dev/reference/events/message, read 2026-11-27.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from everturn_channels.ingestion.json_fields import Json, object_of, text_of

QUOTE_CHARS: Final = 1_400  # of the message that began a thread
TS: Final = re.compile(r"[0-9]{1,11}\.[0-9]{1,6}")
"The id of a message, which is the time when it was written."
_TAG: Final = re.compile(r"<([^<>\n]*)>")
_PERSON: Final = re.compile(r"@([UW][A-Z0-9]{1,20})")
_ENTITIES: Final = (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))
BY_PEOPLE: Final = frozenset({"", "file_share", "me_message", "thread_broadcast"})
"Kinds of messages that people write."
NOTES: Final = frozenset(
    {
        "app_conversation_join",
        "app_conversation_leave",
        "assistant_app_thread",
        "bot_add",
        "bot_disable",
        "bot_enable",
        "bot_message",
        "bot_remove",
        "channel_archive",
        "channel_canvas_updated",
        "channel_convert_to_private",
        "channel_convert_to_public",
        "channel_join",
        "channel_leave",
        "channel_name",
        "channel_posting_permissions",
        "channel_purpose",
        "channel_topic",
        "channel_unarchive",
        "ekm_access_denied",
        "file_comment",
        "group_archive",
        "group_join",
        "group_leave",
        "group_name",
        "group_purpose",
        "group_topic",
        "group_unarchive",
        "joiner_notification",
        "joiner_notification_for_inviter",
        "message_changed",
        "message_deleted",
        "message_replied",
        "pinned_item",
        "reminder_add",
        "tabbed_canvas_updated",
        "tombstone",
        "unpinned_item",
    }
)
"Kinds of messages that say what happened, and that nobody wrote."


def is_from_person(raw: Json) -> bool:
    """Whether a person wrote a message."""
    is_bot = bool(raw.get("bot_id")) or text_of(raw, "user") in {"", "USLACKBOT"}
    return not is_bot and text_of(raw, "subtype") not in NOTES


def deleted_in(event: Json) -> str:
    """Return the message that an event says is deleted; empty = it says no such thing.

    Of the first one of a thread a stone is left, as a change of it.
    """
    now = object_of(event, "message")
    is_change = text_of(event, "subtype") == "message_changed"
    if is_change and text_of(now, "subtype") == "tombstone":
        return text_of(now, "ts")
    return text_of(event, "deleted_ts") if text_of(event, "subtype") == "message_deleted" else ""


def thread_of(raw: Json) -> str:
    """Return the first message of the thread that a message stands in; empty = in none."""
    thread = text_of(raw, "thread_ts")
    return thread if thread != text_of(raw, "ts") and TS.fullmatch(thread) else ""


def time_of(ts: str) -> datetime:
    """Return when a message was written, by its id.

    Raises:
        ValueError: It is no id of a message.
    """
    if not TS.fullmatch(ts):
        msg = f"{ts[:40]!r} is no id of a message"
        raise ValueError(msg)
    return datetime.fromtimestamp(float(ts), UTC)


def ts_of(at: datetime) -> str:
    """Return the id that a message of a time would have.

    >>> ts_of(datetime(2026, 11, 27, tzinfo=UTC))
    '1795737600.000000'
    """
    return f"{int(at.timestamp())}.{at.microsecond:06d}"


def order_of(ts: str) -> tuple[int, int]:
    """Return what tells which of two messages was first; zeros where it is no id."""
    if not TS.fullmatch(ts):
        return 0, 0
    seconds, _, rest = ts.partition(".")
    return int(seconds), int(rest.ljust(6, "0"))


def people_in(text: str) -> list[str]:
    """Return the ids of those who are mentioned."""
    return [found[1] for tag in _TAG.findall(text) if (found := _PERSON.match(tag))]


def readable(text: str, names: Mapping[str, str], me: str = "") -> str:
    """Return a text in plain words and Markdown; `me` is left out where it begins or ends it.

    >>> readable("<@U0> ask <@U1> &amp; see <https://e.org|this>", {"U1": "Ann"}, "U0")
    'ask @Ann & see [this](https://e.org)'
    """
    text = text.strip()
    mention = re.escape(f"<@{me}") + r"(?:\|[^<>]*)?>"
    if me:
        text = re.sub(rf"^(?:{mention}[\s,:]*)+|(?:\s*{mention})+$", "", text)
    return _unescaped(_TAG.sub(_tag_reader(names), text))


def _tag_reader(names: Mapping[str, str]) -> Callable[[re.Match[str]], str]:
    def read(found: re.Match[str]) -> str:
        target, _, label = found[1].partition("|")
        if person := _PERSON.fullmatch(target):
            return f"@{names.get(person[1]) or label or person[1]}"
        if target.startswith("#"):
            return f"#{label or target[1:]}"
        if target.startswith("!"):
            kind = target[1:].partition("^")[0]
            return label or f"@{kind}"
        bare = target.removeprefix("mailto:").removeprefix("tel:")
        if label and label not in {target, bare}:
            return f"[{label}]({target})"
        return bare

    return read


def _unescaped(text: str) -> str:
    for written, char in _ENTITIES:
        text = text.replace(written, char)
    return text


def mentions(text: str, person: str) -> bool:
    """Whether a text mentions somebody."""
    return person in people_in(text)
