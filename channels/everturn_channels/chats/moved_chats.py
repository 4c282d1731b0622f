"""Chats that moved, at the edge between a channel and its platform.

What comes from such a chat is handed on under the first id that it had, and what is said there
goes to the id that it has now (`aliases.py`). Messages are numbered anew in the new chat: an id of
a message says to which of its chat's ids it belongs, where that is not the first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from msgspec.structs import replace

from everturn_actors.errors import JournalError
from everturn_channels.adapter import (
    Adapter,
    ButtonClick,
    Capabilities,
    ChatRef,
    Command,
    Edit,
    InboundEvent,
    InboundHandler,
    Message,
    Outbound,
    Reaction,
)
from everturn_channels.chats.aliases import ChatAliases
from everturn_channels.connection_drain import ConnectionDrain
from everturn_channels.errors import ChatMovedError, NotSentError, RefusedError

T = TypeVar("T")

_HOPS: Final = 3  # a chat that moves more often while one message is sent is none


def moved_chat_ref(chat: ChatRef, aliases: ChatAliases) -> ChatRef:
    """Return a chat as it is known here, with all ids that it goes by."""
    others = aliases.others(chat.id)
    if not others:
        return chat
    first = aliases.first(chat.id)
    return replace(chat, id=first, aliases=aliases.others(first))


def moved_event(event: InboundEvent, aliases: ChatAliases) -> InboundEvent:
    """Return what arrived as from the chat that is known here."""
    raw = event.chat.id
    chat = moved_chat_ref(event.chat, aliases)
    if chat is event.chat:
        return event
    match event:
        case Message() | Edit() | Command():
            return replace(event, chat=chat, id=_named(raw, event.id, chat.id))
        case ButtonClick():
            return replace(event, chat=chat)
        case Reaction():
            return replace(event, chat=chat, message_id=_named(raw, event.message_id, chat.id))


def moved_name(chat: str, message_id: str, aliases: ChatAliases) -> tuple[str, str]:
    """Return how a chat and a message in it are called here."""
    first = aliases.first(chat)
    return first, _named(chat, message_id, first)


class MovingAdapter(Adapter):
    """An adapter whose chats may move. See `Adapter`."""

    def __init__(self, adapter: Adapter, aliases: ChatAliases) -> None:
        self.name = adapter.name
        self._adapter, self._aliases = adapter, aliases
        self._drain = ConnectionDrain()

    @property
    def platform(self) -> str:
        """See `Adapter.platform`."""
        return self._adapter.platform

    @property
    def capabilities(self) -> Capabilities:
        """See `Adapter.capabilities`."""
        return self._adapter.capabilities

    async def serve(self, handler: InboundHandler) -> None:
        """See `Adapter.serve`; the handler knows the aliases itself."""
        await self._drain.serve(partial(self._adapter.serve, handler))

    async def stand_by(self) -> None:
        """See `Adapter.stand_by`."""
        await self._drain.serve(self._adapter.stand_by)

    async def check(self) -> Sequence[str]:
        """See `Adapter.check`."""
        return await self._adapter.check()

    def render(self, markdown: str, *, is_plain: bool = False) -> tuple[str, ...]:
        """See `Adapter.render`."""
        return self._adapter.render(markdown, is_plain=is_plain)

    async def send(self, message: Outbound) -> str:
        """See `Adapter.send`. A message to reply to that is out of reach is left out."""

        async def send(now: str) -> str:
            reply_to = _bare(message.reply_to, message.chat_id, now) or ""
            sent = await self._adapter.send(replace(message, chat_id=now, reply_to=reply_to))
            return _named(now, sent, message.chat_id)

        return await self._there(message.chat_id, send)

    async def edit(self, chat_id: str, topic: str, platform_id: str, payload: str) -> None:
        """See `Adapter.edit`. What was said before the chat moved is out of reach."""

        async def edit(now: str) -> None:
            name = _reachable(platform_id, chat_id, now)
            await self._adapter.edit(now, topic, name, payload)

        await self._there(chat_id, edit)

    async def show_draft(self, chat_id: str, topic: str, draft: int, text: str) -> None:
        """See `Adapter.show_draft`."""

        async def show(now: str) -> None:
            await self._adapter.show_draft(now, topic, draft, text)

        await self._there(chat_id, show)

    async def type(self, chat_id: str, topic: str) -> None:
        """See `Adapter.type`."""

        async def show(now: str) -> None:
            await self._adapter.type(now, topic)

        await self._there(chat_id, show)

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """See `Adapter.react`."""

        async def react(now: str) -> None:
            await self._adapter.react(now, _reachable(message_id, chat_id, now), emoji)

        await self._there(chat_id, react)

    async def _there(self, chat: str, call: Callable[[str], Awaitable[T]]) -> T:
        """Make a call where a chat is now; where the platform says that it moved, there.

        Raises:
            NotSentError: It moved, and that could not be kept.
            SendError: That of the call.
        """
        for _ in range(_HOPS):
            now = self._aliases.current(chat)
            try:
                with self._drain:
                    return await call(now)
            except ChatMovedError as error:  # refused, so surely not done
                try:
                    is_known = await self._aliases.add(now, error.to)
                except JournalError as fault:
                    msg = f"a chat has another id, which cannot be kept: {fault}"
                    raise NotSentError(msg) from fault
                if not is_known or self._aliases.current(chat) == now:
                    raise
        msg = "a chat has another id each time that something is sent to it"
        raise RefusedError(msg, is_chat_gone=True)


def _named(raw: str, message_id: str, chat: str) -> str:
    """Return how a message of the chat `raw` is called in one that is known as `chat`."""
    return message_id if raw == chat else f"{raw}/{message_id}"


def _bare(name: str, chat: str, now: str) -> str | None:
    """Return the id of a message in the chat `now`; None where it belongs to an earlier one."""
    if chat == now:
        return name
    raw, _, message_id = name.partition("/")
    return message_id if raw == now and message_id else None


def _reachable(name: str, chat: str, now: str) -> str:
    found = _bare(name, chat, now)
    if found is None:
        msg = "the message was written before the chat was given another id"
        raise RefusedError(msg)
    return found
