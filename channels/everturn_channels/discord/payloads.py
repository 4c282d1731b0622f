"""Messages made of raw payloads, one by one: what cannot be read of one costs no other. No IO.

The library reads a payload all or nothing, and trusts it. Where that fails, parts that an answer
does not need are left out until the rest can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias, TypeGuard, cast

import discord
from discord.state import ConnectionState
from msgspec import Struct

from everturn_actors.json_values import as_list, is_object
from everturn_channels.adapter import ChatRef, IncomingFile
from everturn_channels.discord.mapping import chat_ref_of, is_from_people, read_message

Payload: TypeAlias = Mapping[str, Any]

_LEFT_OUT: Final = (
    *("poll", "components", "embeds", "reactions", "sticker_items", "stickers", "thread"),
    *("interaction", "interaction_metadata", "activity", "application", "application_id"),
    *("call", "role_subscription_data", "purchase_notification", "nonce", "position", "flags"),
    *("edited_timestamp", "member", "mention_roles", "message_snapshots", "attachments"),
    *("referenced_message", "message_reference", "mentions"),
)
"What a message can do without, what is missed least first."
_CORE: Final = ("id", "channel_id", "guild_id", "webhook_id", "type", "author", "content")
"What says who wrote what, and where."
_PERSON: Final = ("id", "username", "global_name", "bot")
_ID_DIGITS: Final = 20
_GUILD_EXTRAS: Final = (
    *("emojis", "stickers", "stage_instances", "guild_scheduled_events", "presences"),
    *("voice_states", "soundboard_sounds", "members", "icon", "banner", "splash"),
)
"What of a server nobody asks for here."
_GUILD_PARTS: Final = ("roles", "channels", "threads")

Parser: TypeAlias = Callable[[Any], object]


class Heard(Struct, frozen=True):
    """A message, and what it was made of."""

    message: discord.Message
    raw: Payload
    is_whole: bool
    "Whether nothing had to be left out to read it."


class PayloadReader:
    """Makes messages of payloads, with what one connection knows of its servers."""

    def __init__(self, state: ConnectionState[Any]) -> None:
        self._state = state

    def message(self, data: object, channel: Any = None) -> Heard | None:  # the library's
        """Return a message, or what can be read of it; None where that is nothing.

        Args:
            data: The payload.
            channel: Where it was written; None = as the payload says.
        """
        if not is_object(data):
            return None
        try:
            return Heard(self._built(data, channel), data, is_whole=True)
        except Exception:  # the boundary around one payload
            return self.reduced(data)

    def reduced(self, raw: Payload) -> Heard | None:
        """Return what can be read of a message that cannot be read whole; None where it cannot."""
        found = (message for message in map(self._proved, _reductions(raw)) if message is not None)
        message = next(found, None)
        return None if message is None else Heard(message, raw, is_whole=False)

    def _proved(self, data: Payload) -> discord.Message | None:
        """Return a message that can be read to its end; None where it cannot."""
        try:
            message = self._built(data, None)
            if is_from_people(message):
                me = self._state.self_id or 0
                read = read_message(message, message.channel, me, _no_file)
                words = cast("tuple[object, ...]", (read.text, read.sender.name))
                if not all(isinstance(each, str) for each in words):
                    return None
        except Exception:  # the boundary around one payload
            return None
        return message

    def _built(self, data: Any, channel: Any) -> discord.Message:  # the library's
        if channel is None:
            # There is no public way to it.
            channel, _ = self._state._get_guild_channel(data)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        message = discord.Message(state=self._state, channel=channel, data=data)
        chat_ref_of(message.channel)
        return message


async def _nothing(_limit_bytes: int) -> bytes:
    return b""


def _no_file(attachment: discord.Attachment) -> IncomingFile:
    """Return a file, of which nothing but its name is looked at."""
    return IncomingFile(fetch=_nothing, file_name=str(attachment.filename))


def _reductions(data: Payload) -> Iterator[Payload]:
    """Return a message's payload with less and less in it."""
    present = [key for key in _LEFT_OUT if key in data]
    for left_out in present:
        yield {key: value for key, value in data.items() if key != left_out}
    fewer = dict(data)
    for left_out in present:
        fewer.pop(left_out)
        yield dict(fewer)
    yield _core(data)


def _core(data: Payload) -> Payload:
    """Return a message's payload with nothing but who wrote what, and where."""
    core = {key: data[key] for key in _CORE if key in data}
    author = data.get("author")
    if is_object(author):
        core["author"] = _person(author)
    if not isinstance(core.get("content"), str):
        core["content"] = ""
    core.setdefault("type", 0)
    people = as_list(data.get("mentions"))
    core["mentions"] = [_person(each) for each in people if is_object(each) and id_of(each, "id")]
    return core


def _person(data: Payload) -> Payload:
    person = {key: data[key] for key in _PERSON if key in data}
    if not isinstance(person.get("username"), str):
        person["username"] = "somebody"
    if not isinstance(person.get("global_name"), str):
        person["global_name"] = None
    return person | {"discriminator": "0", "avatar": None}


def id_of(data: object, name: str) -> int:
    """Return an id that stands in a payload; 0 = there is none that can be one."""
    found = data.get(name) if is_object(data) else None
    text = str(found) if isinstance(found, str | int) and not isinstance(found, bool) else ""
    is_id = text.isascii() and text.isdigit() and len(text) <= _ID_DIGITS
    return int(text) if is_id else 0


def awaited_at(data: object, me: int) -> ChatRef | None:
    """Return where somebody waits for an answer to a message that cannot be read; None = nowhere.

    Args:
        data: The payload.
        me: The bot's id.
    """
    channel = id_of(data, "channel_id")
    if not channel or not is_object(data):
        return None
    author = data.get("author")
    if not is_object(author) or id_of(author, "id") == me:
        return None
    if author.get("bot") or data.get("webhook_id"):
        return None
    is_dm = data.get("guild_id") is None
    content = data.get("content")
    if not is_dm and not (isinstance(content, str) and f"<@{me}>" in content):
        return None
    return ChatRef(id=str(channel), type="dm" if is_dm else "group")


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def parse_guild(parse: Parser, state: ConnectionState[Any], data: Any) -> bool:  # JSON
    """Take in what can be read of a server that cannot be read whole; return whether any can.

    Args:
        parse: The library's own reader, which failed.
        state: Of the connection.
        data: The payload.
    """
    try:
        bare: dict[str, object] = {
            key: value for key, value in data.items() if key not in _GUILD_EXTRAS
        }
        empty: dict[str, object] = bare | {part: list[object]() for part in _GUILD_PARTS}
        for part in _GUILD_PARTS:
            items: object = bare.get(part)
            listed = items if _is_list(items) else []
            bare[part] = [item for item in listed if _can_be_read(state, empty | {part: [item]})]
        parse(bare)
    except Exception:  # the boundary around one payload
        return False
    return True


def _can_be_read(state: ConnectionState[Any], data: Any) -> bool:  # JSON
    try:
        guild = discord.Guild(data=data, state=state)
        for channel in (*guild.channels, *guild.threads):
            chat_ref_of(channel)
            int(getattr(channel, "last_message_id", None) or 0)
    except Exception:  # the boundary around one part of a payload
        return False
    return True
