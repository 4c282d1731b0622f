"""Messages as they come, and as the histories of channels tell them."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import anyio
from msgspec import structs

from everturn_actors.ports import Clock
from everturn_channels.adapter import ChatRef, ChatType, InboundHandler
from everturn_channels.errors import ConnectionLostError
from everturn_channels.ingestion.events import Backfill, Gap, PlatformEvent
from everturn_channels.ingestion.history import BacklogLimits, History
from everturn_channels.ingestion.json_fields import Json, number_of, objects_of, text_of
from everturn_channels.slack.cursors import ChannelCursors
from everturn_channels.slack.formats.text import TS, is_from_person, order_of, time_of
from everturn_channels.slack.names import is_dm
from everturn_channels.slack.reading import EventReader, Login
from everturn_channels.slack.requests import RequestFailedError

AT_ONCE: Final = 3
"Histories that are read at the same time."
PAGE: Final = 200
_PAGES: Final = 20
_MISSED: Final = "what was said there while nobody listened cannot be read"
_TYPES: Final = "public_channel,private_channel,mpim,im"

Settle = Callable[[tuple[str, str]], Awaitable[None]]
"Tells Slack that a message, by channel and id, is durable."

logger = logging.getLogger(__name__)


class Messages:
    """The messages of one login."""

    def __init__(
        self,
        *,
        login: Login,
        handler: InboundHandler,
        reader: EventReader,
        cursors: ChannelCursors,
        clock: Clock,
        limits: BacklogLimits,
    ) -> None:
        self._login, self._handler, self._reader = login, handler, reader
        self._cursors, self._clock, self._limits = cursors, clock, limits
        self._slots = anyio.Semaphore(AT_ONCE)
        self.settle: Settle = _settle_nothing

    def event(self, channel: str, raw: Json) -> PlatformEvent:
        """Return what is handed over for a message that has an id."""
        ts = text_of(raw, "ts")
        return PlatformEvent(
            chat=channel,
            id=(channel, ts),
            read=partial(self._reader.message, channel, raw),
            kind="message",
            awaited_at=ChatRef(id=channel, type="dm") if is_dm(channel) else None,
            confirm=partial(self.settle, (channel, ts)),
            advance=partial(self._passed, channel, ts, self._reader.thread(channel, raw)),
            gap=self.gap(channel),
        )

    def gap(self, channel: str) -> Gap:
        """Return what was said in a channel after its cursor."""
        return Gap(chat=channel, key=channel, read=partial(self._backfill, channel))

    async def gaps(self) -> Sequence[Gap]:
        """Return the gaps of all channels that the bot is in.

        One that was never seen is read from when Slack was last heard from; at the very first login
        nothing old is read.

        Raises:
            RequestFailedError: Slack does not list them.
        """
        began = self._cursors.heard_at() or self._cursors.now()
        found: list[str] = []
        async for conversation in self._conversations():
            channel = text_of(conversation, "id")
            if channel:
                self._login.names.note(conversation)
                await self._cursors.begin(channel, began)
                found.append(channel)
        await self._cursors.hear()
        # Those first that were written in last: Slack tells some fifty histories a minute.
        found.sort(key=lambda channel: order_of(self._cursors.get(channel)), reverse=True)
        return [self.gap(channel) for channel in found]

    async def _conversations(self) -> AsyncGenerator[Json]:
        cursor: str | None = None
        for _ in range(_PAGES):
            page = await self._login.api.read(
                "users.conversations",
                {"types": _TYPES, "exclude_archived": True, "limit": PAGE, "cursor": cursor},
            )
            for each in objects_of(page, "channels"):
                yield each
            cursor = text_of(page, "response_metadata", "next_cursor")
            if not cursor:
                return
        logger.warning("the bot is in more channels than are read after an absence")

    async def _passed(self, channel: str, ts: str, thread: str) -> None:
        await self._cursors.move(channel, ts)
        if thread:
            await self._cursors.note_thread(channel, thread)
        await self.settle((channel, ts))  # it may have come again since it was confirmed

    # --- histories ---

    async def _backfill(self, channel: str) -> Backfill:
        """Return what was said in a channel; nothing where Slack will never tell it.

        Raises:
            ConnectionLostError: Slack does not tell it now.
        """
        after = self._cursors.get(channel)
        if not after:
            return Backfill()
        try:
            async with self._slots:
                found = await self._read(channel, after)
        except RequestFailedError as error:
            fields = {"channel": channel, "why": str(error)}
            if error.is_refusal:
                logger.warning("a channel with a cursor cannot be read any more", extra=fields)
                return Backfill()
            logger.warning("a history could not be read", extra=fields)
            raise ConnectionLostError(_MISSED) from error
        history = History(self._limits, self._clock.now())
        newest = sorted(found, key=order_of, reverse=True)
        written = [ts for ts in newest if is_from_person(found[ts])]
        for ts in written:
            history.add(self.event(channel, found[ts]), time_of(ts))
        kind: ChatType = "dm" if is_dm(channel) else "group"
        where = ChatRef(id=channel, type=kind) if newest else None
        last = [self._passed_over(channel, newest[0])] if newest else []
        taken = history.backfill(where, *last)
        kept = {each.id for each in taken.events}
        # Slack may deliver these as well: they count as taken.
        left_out = [
            PlatformEvent(chat=channel, id=key, confirm=partial(self.settle, key))
            for key in ((channel, ts) for ts in reversed(written))
            if key not in kept
        ]
        return structs.replace(taken, events=(*left_out, *taken.events))

    def _passed_over(self, channel: str, ts: str) -> PlatformEvent:
        """Return what is handed over so that the cursor passes messages that nobody reads."""
        return PlatformEvent(chat=channel, advance=partial(self._cursors.move, channel, ts))

    async def _read(self, channel: str, after: str) -> dict[str, Json]:
        """Return what stands in a channel and its threads after a message, by id."""
        found: dict[str, Json] = {}
        threads, first = dict.fromkeys(self._cursors.threads(channel)), order_of(after)
        async for raw in self._pages("conversations.history", channel, after):
            ts, is_thread = text_of(raw, "ts"), bool(number_of(raw, "reply_count"))
            found[ts] = raw
            replied = order_of(text_of(raw, "latest_reply"))
            if replied > first or (is_thread and order_of(ts) > first):
                threads[ts] = None
            elif any(replied) or not is_thread:
                threads.pop(ts, None)  # nothing was written in it since
        for thread in threads:
            try:
                async for raw in self._pages("conversations.replies", channel, after, thread):
                    found.setdefault(text_of(raw, "ts"), raw)
            except RequestFailedError as error:
                if not error.is_refusal:  # else the thread is gone
                    raise
        return {ts: raw for ts, raw in found.items() if TS.fullmatch(ts) and order_of(ts) > first}

    async def _pages(
        self, method: str, channel: str, after: str, thread: str | None = None
    ) -> AsyncGenerator[Json]:
        """Yield the messages after one; of a channel those first that were written last.

        Of a channel some that are older come after them: they tell of what was written below them.
        """
        # Without an end Slack tells those first that are closest to the beginning.
        end = self._cursors.newest_possible() if thread is None else None
        left, cursor = History(self._limits, self._clock.now()).left, None
        while left > 0:
            page = await self._login.api.read(
                method,
                {
                    "channel": channel,
                    "ts": thread,
                    "oldest": None if thread is None else after,
                    "latest": end,
                    "limit": min(PAGE, left),
                    "cursor": cursor,
                },
            )
            messages = objects_of(page, "messages")
            for raw in messages:
                yield raw
            left -= len(messages)
            cursor = text_of(page, "response_metadata", "next_cursor")
            is_past = any(order_of(text_of(raw, "ts")) <= order_of(after) for raw in messages)
            if not cursor or not messages or (thread is None and is_past):
                return


async def _settle_nothing(key: tuple[str, str]) -> None:
    del key
