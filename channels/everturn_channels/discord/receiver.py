"""What comes through Discord's gateway, put into the queues of its chats.

A cursor moves only after what it stands for was taken, so what waits in a queue when the process
ends is read again from the history. The same holds for what a full queue has no room for.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import discord
from anyio.abc import TaskGroup

from everturn_channels.adapter import Edit, InboundEvent, InboundHandler, Reaction
from everturn_channels.discord.catch_up import GapFinder
from everturn_channels.discord.client import Client
from everturn_channels.discord.cursors import ChannelCursors
from everturn_channels.discord.event_reader import EventReader
from everturn_channels.discord.mapping import chat_ref_of, is_from_people
from everturn_channels.discord.messages import Messages
from everturn_channels.discord.payloads import Heard, Payload, awaited_at, id_of
from everturn_channels.ingestion.chat_queues import ChatQueues
from everturn_channels.ingestion.events import PlatformEvent
from everturn_channels.rate_limits import RecentKeys

_EDITS_KNOWN = 5_000

log = logging.getLogger(__name__)


class Receiver:
    """Implements `client.Listener` for one login."""

    def __init__(
        self,
        *,
        handler: InboundHandler,
        client: Client,
        reader: EventReader,
        messages: Messages,
        cursors: ChannelCursors,
        queues: ChatQueues,
        tasks: TaskGroup,
        on_interaction: Callable[[discord.Interaction], Coroutine[Any, Any, None]],
    ) -> None:
        self._handler, self._client, self._reader = handler, client, reader
        self._messages, self._cursors, self._queues = messages, cursors, queues
        self._gaps = GapFinder(client, cursors, messages)
        self._tasks, self._on_interaction = tasks, on_interaction
        self._edits: RecentKeys[tuple[int, object]] = RecentKeys(_EDITS_KNOWN)
        self._session = self._since = 0

    def heard(self) -> None:
        """Something came."""
        self._handler.received()

    def began(self) -> None:
        """Hold the queues until it is known what was missed."""
        self._session += 1
        self._queues.hold()
        self._since = self._cursors.heard_at()
        user = self._client.user
        self._handler.connected(f"@{user.name}" if user else "")

    def ready(self) -> None:
        """Put what was missed in front of what was said since, and let the queues go on."""
        self._tasks.start_soon(self._release, self._session)

    def saw_guild(self, guild: discord.Guild) -> None:
        """Look at a guild that came later than the others."""
        if self._queues.released.is_set():
            self._tasks.start_soon(self._look_at, guild)

    def said(self, heard: Heard) -> None:
        """Put a message into the queue of its chat."""
        self._queues.put_nowait(self._messages.event(heard))

    def changed(self, message: discord.Message) -> None:
        """Put an edit into its queue, if the text was changed; Discord tells of much more."""
        key = (message.id, message.edited_at)
        if message.edited_at is None or key in self._edits or not is_from_people(message):
            return
        self._edits.note(key)
        chat, read = chat_ref_of(message.channel).id, partial(self._edit, message)
        self._queues.put_nowait(PlatformEvent(chat=chat, read=read, kind="MESSAGE_UPDATE"))

    def deleted(self, channel_id: int, message_id: int) -> None:
        """Put the deletion of a message into the queue of its chat."""
        channel = self._client.get_channel(channel_id)
        chat = str(channel_id) if channel is None else chat_ref_of(channel).id
        deletion = PlatformEvent(
            chat=chat,
            read=partial(self._delete, chat, message_id),
            is_in_order=True,
            kind="MESSAGE_DELETE",
        )
        self._queues.put_nowait(deletion)

    def reacted(self, reaction: Payload) -> None:
        """Put a reaction on a message of the bot's into the queue of its chat."""
        me, author = self._reader.me, id_of(reaction, "message_author_id")
        if id_of(reaction, "user_id") == me or author not in {0, me}:
            return
        channel = self._client.get_channel(id_of(reaction, "channel_id"))
        chat = str(id_of(reaction, "channel_id")) if channel is None else chat_ref_of(channel).id
        read = partial(self._react, reaction)
        event = PlatformEvent(chat=chat, read=read, kind="MESSAGE_REACTION_ADD")
        if not self._queues.put_nowait(event):
            log.warning("too much waits in a chat; a reaction is left out", extra={"chat": chat})

    def unreadable(self, kind: str, raw: object, fault: Exception | str) -> None:
        """Tell of an event that cannot be read; a message is passed over in its place."""
        is_message = kind == "MESSAGE_CREATE"
        awaited = awaited_at(raw, self._reader.me) if is_message else None
        self._handler.unreadable(kind, fault, awaited)
        channel_id, message_id = id_of(raw, "channel_id"), id_of(raw, "id")
        if is_message and channel_id and message_id:
            event = self._messages.passed_over(str(channel_id), channel_id, message_id)
            self._queues.put_nowait(event)

    def used(self, interaction: discord.Interaction) -> None:
        """Acknowledge at once: Discord waits three seconds."""
        self._tasks.start_soon(self._use, interaction)

    def give(self, event: InboundEvent, then: Callable[[], Awaitable[None]]) -> bool:
        """Put a command or a click into its queue; `then` is called when it was taken.

        Returns:
            Whether there was room.
        """
        given = PlatformEvent(
            chat=event.chat.id, events=(event,), kind="INTERACTION_CREATE", confirm=then
        )
        has_room = self._queues.put_nowait(given)
        if not has_room:
            log.warning("too much waits in a chat; a command or a press is left out")
        return has_room

    async def _edit(self, message: discord.Message) -> tuple[Edit]:
        return (await self._reader.edit(message),)

    async def _react(self, reaction: Payload) -> tuple[Reaction, ...]:
        return await self._reader.reaction(reaction)

    async def _delete(self, chat: str, message_id: int) -> tuple[()]:
        await self._handler.deleted(chat, str(message_id))
        return ()

    async def _use(self, interaction: discord.Interaction) -> None:
        try:
            await self._on_interaction(interaction)
        except Exception as error:  # the boundary around one interaction
            self._handler.unreadable("INTERACTION_CREATE", error)

    async def _release(self, session: int) -> None:
        since = self._since
        for guild in list(self._client.guilds):
            await self._look_at(guild)
        for gap in self._gaps.gaps_of_dms():
            self._queues.catch_up(gap)
        if session == self._session:
            self._queues.release()
        try:
            async for gap in self._gaps.open_dms(since):
                self._queues.catch_up(gap)
        except Exception as error:  # what may have been missed stops nothing that was not
            self._handler.unreadable("direct channels", error)

    async def _look_at(self, guild: discord.Guild) -> None:
        try:
            for gap in await self._gaps.gaps_of(guild):
                self._queues.catch_up(gap)
        except Exception as error:  # the boundary around one server
            self._handler.unreadable("GUILD_CREATE", error)
