"""What comes through the gateway, handed in one after the other for each chat.

Each chat has a lane. A cursor moves only after what it stands for was taken, so what a lane holds
when the process ends is read again from the history. The same holds for what a full lane refuses.
Commands that something slow (a file) would hold up are taken beside their lane.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar, assert_never

import anyio
import discord
from anyio.abc import TaskGroup

from everturn_channels.adapter import Command, InboundEvent, InboundHandler
from everturn_channels.discord.catch_up import HEARD, Backlog, Looker, cursor_of, dms_of
from everturn_channels.discord.client import Client
from everturn_channels.discord.event_reader import EventReader
from everturn_channels.discord.lanes import Changed, Given, Item, Lanes, Missed, Passed, Said
from everturn_channels.discord.mapping import (
    chat_ref_of,
    is_from_people,
    read_command,
    read_text,
)
from everturn_channels.discord.payloads import Heard, awaited_at, id_of
from everturn_channels.errors import NotNowError
from everturn_channels.menu import PASSING

DMS_LIMIT = 500
"Direct channels whose history is looked at after an absence: those written in last."
_TAKEN_LIMIT = 5_000
_DMS_A_CURSOR = 45
"An id has up to 20 digits, and a cursor 1,000 characters."
_DMS = ("dms", *(f"dms {n}" for n in range(2, -(-DMS_LIMIT // _DMS_A_CURSOR) + 1)))
"The cursors that list them, those written in last first."

log = logging.getLogger(__name__)

_K = TypeVar("_K")


class Receiver:
    """Implements `client.Listener` for one login."""

    def __init__(
        self,
        *,
        handler: InboundHandler,
        client: Client,
        reader: EventReader,
        looker: Looker,
        tasks: TaskGroup,
        on_interaction: Callable[[discord.Interaction], Coroutine[Any, Any, None]],
    ) -> None:
        self._handler, self._client, self._reader, self._looker = handler, client, reader, looker
        self._tasks, self._on_interaction = tasks, on_interaction
        self._lanes = Lanes(self, tasks)
        self._taken: OrderedDict[int, None] = OrderedDict()
        self._begun: dict[int, anyio.Event] = {}
        "Messages that are being taken, and what tells when that is over."
        self._edits: OrderedDict[tuple[int, object], None] = OrderedDict()
        self._dms = dms_of(",".join(map(handler.cursor, _DMS)))
        self._session = 0
        self._since: list[int] = []
        "An id of the time when Discord was last heard from before this session; none = never."

    # --- what the client tells ---

    def heard(self) -> None:
        """Something came."""
        self._handler.received()

    def began(self) -> None:
        """Hold the lanes until it is known what was missed."""
        self._session += 1
        self._lanes.hold()
        self._since = dms_of(self._handler.cursor(HEARD))[:1]
        user = self._client.user
        self._handler.connected(f"@{user.name}" if user else "")

    def ready(self) -> None:
        """Put what was missed in front of what was said since, and let the lanes go on."""
        self._tasks.start_soon(self._release, self._session)

    async def _release(self, session: int) -> None:
        since = next(iter(self._since), 0)
        for guild in list(self._client.guilds):
            await self._look_at(guild)
        for channel_id in self._dms:
            self._lanes.miss(str(channel_id), channel_id, self._cursor(channel_id))
        if session == self._session:
            self._lanes.release()
        try:
            async for missed in self._looker.open_dms(since):
                await self._remember_dm(missed.channel_id)
                self._lanes.miss(missed.chat, missed.channel_id, missed.after)
        except Exception as error:  # noqa: BLE001 - what may have been missed stops nothing that was not
            self._handler.unreadable("direct channels", error)

    def saw_guild(self, guild: discord.Guild) -> None:
        """Look at a guild that came later than the others."""
        if self._lanes.is_released:
            self._tasks.start_soon(self._look_at, guild)

    def said(self, heard: Heard) -> None:
        """Put a message into its lane."""
        item, message = Said(heard), heard.message
        self._lanes.put(message, item)
        try:
            command = read_command(read_text(message, self._reader.me))
        except Exception:  # noqa: BLE001 - its lane comes to it, and says so
            return
        if command is not None and command[0] in PASSING:
            self._lanes.hurry(chat_ref_of(message.channel).id, item)

    def changed(self, message: discord.Message) -> None:
        """Put an edit into its lane, if the text was changed; Discord tells of much more."""
        key = (message.id, message.edited_at)
        if message.edited_at is None or key in self._edits or not is_from_people(message):
            return
        _keep(self._edits, key)
        self._lanes.put(message, Changed(message))

    def unreadable(self, kind: str, raw: object, fault: Exception | str) -> None:
        """Tell of an event that cannot be read; a message is passed over in its place."""
        is_message = kind == "MESSAGE_CREATE"
        self._handler.unreadable(
            kind, fault, awaited_at(raw, self._reader.me) if is_message else None
        )
        channel_id, message_id = id_of(raw, "channel_id"), id_of(raw, "id")
        if is_message and channel_id and message_id:
            self._lanes.add(str(channel_id), Passed(channel_id, message_id))

    def used(self, interaction: discord.Interaction) -> None:
        """Acknowledge at once: Discord waits three seconds."""
        self._tasks.start_soon(self._use, interaction)

    async def _use(self, interaction: discord.Interaction) -> None:
        try:
            await self._on_interaction(interaction)
        except Exception as error:  # noqa: BLE001 - the boundary around one interaction
            self._handler.unreadable("INTERACTION_CREATE", error)

    def give(self, event: InboundEvent, then: Callable[[], Awaitable[None]]) -> bool:
        """Put a command or a click into its lane; `then` is called when it was taken.

        Returns:
            Whether there was room.
        """
        item = Given(event, then)
        has_room = self._lanes.add(event.chat.id, item)
        if not has_room:
            log.warning("too much waits in a chat; a command or a press is left out")
        elif isinstance(event, Command) and event.name in PASSING:
            self._lanes.hurry(event.chat.id, item)
        return has_room

    async def _look_at(self, guild: discord.Guild) -> None:
        try:
            for missed in await self._looker.look_at(guild):
                self._lanes.miss(missed.chat, missed.channel_id, missed.after)
        except Exception as error:  # noqa: BLE001 - the boundary around one server
            self._handler.unreadable("GUILD_CREATE", error)

    async def deal(self, chat: str, item: Item) -> None:
        """Deal with the first item of a lane; see `Dealer`."""
        match item:
            case Said():
                await self._deal_with_message(item)
            case Passed(channel_id, message_id):
                await self._move_cursor(channel_id, message_id)
            case Changed(message):
                await self._take(await self._reader.edit(message))
            case Given(event, then):
                await self._take(event)
                await then()
            case Missed(channel_id, after):
                await self._catch_up(chat, channel_id, after)
            case _:
                assert_never(item)

    async def pass_by(self, said: Said) -> None:
        """Take a command that may pass others; its place stays, there the cursor moves."""
        await self._take_message(said, is_passing=True)

    def failed(self, item: Item, fault: Exception) -> None:
        """Tell of an item that could not be dealt with."""
        self._handler.unreadable(type(item).__name__.upper(), fault)

    async def _deal_with_message(self, said: Said) -> None:
        message = said.heard.message
        await self._take_message(said)
        await self._move_cursor(message.channel.id, message.id)
        if message.guild is None and isinstance(message.channel, discord.DMChannel):
            await self._remember_dm(message.channel.id)

    async def _take_message(self, said: Said, *, is_passing: bool = False) -> None:
        """Take a message, unless that was done; its lane and `_take_beside` may both come to it.

        Args:
            said: Anybody's.
            is_passing: Whether only a command that may pass others is taken.
        """
        message = said.heard.message
        while (begun := self._begun.get(message.id)) is not None:
            await begun.wait()
        if message.id in self._taken:
            return
        begun = self._begun[message.id] = anyio.Event()
        try:
            event = await self._reader.read(said.heard)
            is_command = isinstance(event, Command) and event.name in PASSING
            if is_passing and not is_command:
                return
            if event is not None:
                await self._take(event)
            _keep(self._taken, message.id)
        finally:
            del self._begun[message.id]
            begun.set()

    async def _take(self, event: InboundEvent) -> None:
        """Hand something in, as long as it takes: what comes after it waits in the lane.

        Raises:
            NotNowError: The gateway stops.
        """
        while True:
            try:
                await self._handler.handle(event)
            except NotNowError as error:
                if error.is_stopping:
                    raise
                await anyio.sleep(error.retry_after_s)
            else:
                return

    # --- cursors ---

    def _cursor(self, channel_id: int) -> int:
        return cursor_of(self._handler, channel_id)

    async def _move_cursor(self, channel_id: int, message_id: int) -> None:
        if self._cursor(channel_id) < message_id < self._looker.newest_possible():
            await self._handler.keep_cursor(str(channel_id), str(message_id))

    async def _remember_dm(self, channel_id: int) -> None:
        if channel_id in self._dms:
            return
        self._dms.append(channel_id)
        self._dms.sort(key=self._cursor, reverse=True)
        del self._dms[DMS_LIMIT:]
        for number, name in enumerate(_DMS):
            begin = number * _DMS_A_CURSOR
            if listed := self._dms[begin : begin + _DMS_A_CURSOR]:
                await self._handler.keep_cursor(name, ",".join(map(str, listed)))

    async def _catch_up(self, chat: str, channel_id: int, after: int) -> None:
        """Read what was said in a channel after its cursor, and hand it in."""
        while (backlog := await self._looker.read(channel_id, after)) is None:
            why = "what was said there while nobody listened cannot be read"
            await anyio.sleep(self._handler.blocked(chat, why))
        self._handler.unblocked(chat)
        await self._tell_skipped(backlog)
        for heard in backlog.messages:
            await self._deal_with_message(Said(heard))
        if backlog.newest:
            await self._move_cursor(channel_id, backlog.newest)

    async def _tell_skipped(self, backlog: Backlog) -> None:
        for count, why in backlog.skipped:
            if count and backlog.chat is not None:
                await self._handler.skipped(backlog.chat, count, why)


def _keep(kept: OrderedDict[_K, None], key: _K) -> None:
    kept[key] = None
    if len(kept) > _TAKEN_LIMIT:
        kept.popitem(last=False)
