"""The order of what comes: one queue for each chat, taken one after the other; chats side by side.

Queues are bounded. What cannot be taken now stays first in its chat and is tried again, or goes
back to a platform that brings it again; so nothing overtakes it, and other chats do not wait. A
command that something slow (a file) would hold up is taken beside its queue.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field

from everturn_actors.ports import Clock
from everturn_channels.adapter import InboundHandler, Message
from everturn_channels.errors import ConnectionLostError, NotNowError
from everturn_channels.ingestion.event_handler import EventHandler, Queued
from everturn_channels.ingestion.events import Backfill, Gap, PlatformEvent
from everturn_channels.ingestion.redelivery import Redelivery
from everturn_channels.ingestion.reordering import Reordering

logger = logging.getLogger(__name__)

CHAT_MAX: Final = 500  # events that wait in one chat
TOTAL_MAX: Final = 5_000  # and in all
PATIENCE_S: Final = 0.5  # so long a command waits for one event before it is taken beside its queue
SENT_BACK_S: Final = (
    1.0  # before what was sent back comes again, at least: others go back meanwhile
)
STUCK_S: Final = 60.0  # so long a chat may keep a cursor for all chats where it is
APART_S: Final = 5.0  # so long after a chat got stuck others were taken: it is not all that fails


class _Queue(Struct, eq=False):
    """The events of one chat."""

    chat: str
    items: deque[Queued | Gap] = field(default_factory=deque["Queued | Gap"])
    first: Queued | Gap | None = None
    "What is being taken."
    ids: set[Hashable] = field(default_factory=set[Hashable])
    gaps: set[Hashable] = field(default_factory=set[Hashable])
    stuck_since: datetime | None = None
    "Since when what is first cannot be taken."
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    "Of the task that takes them."
    passing: anyio.CancelScope | None = None
    "Of the task that lets commands pass; None = nothing waits long enough."


class ChatQueues:
    """The queues of one connection to a platform."""

    def __init__(
        self,
        handler: InboundHandler,
        clock: Clock,
        tasks: TaskGroup,
        *,
        chat_max: int = CHAT_MAX,
        total_max: int = TOTAL_MAX,
        redelivery_s: float = 0.0,
    ) -> None:
        """See `open_chat_queues`."""
        self._handler, self._clock, self._tasks = handler, clock, tasks
        self._events = EventHandler(handler)
        self._redelivery = Redelivery(redelivery_s)
        self._chat_max, self._total_max = chat_max, total_max
        self._queues: dict[str, _Queue] = {}
        self._total = 0
        self.released = anyio.Event()
        "Set while what waits is taken."
        self._changed = anyio.Event()
        self._last_taken = clock.now()
        self.reordering: Reordering | None = None
        "By when they were written the events of a chat are taken; None = as they come."

    # --- what an adapter does ---

    async def put(self, event: PlatformEvent) -> None:
        """Put an event into the queue of its chat.

        Waits while too much waits in all. Where too much waits in its chat the event goes back, if
        its platform brings it again, and waits for room else.
        """
        while self._total >= self._total_max or not self.put_nowait(event):
            if self._total < self._total_max and event.send_back is not None:
                await self._send_back(event, SENT_BACK_S)
                return
            await self._changed.wait()

    def put_nowait(self, event: PlatformEvent) -> bool:
        """Put an event into the queue of its chat; return whether that has seen to it.

        False: there is no room for it, and no gap of which it could be read again.
        """
        queue = self._queue(event.chat)
        if event.gap is not None and event.gap.key in queue.gaps:
            return True
        # Who can send it back waits for what becomes of this very one.
        if event.id is not None and event.send_back is None and event.id in queue.ids:
            return True
        waiting = len(queue.items) + (queue.first is not None)
        if waiting >= self._chat_max or self._total >= self._total_max:
            if event.gap is None:
                return False
            logger.warning("too much waits; a chat's history is read later", extra=_of(event))
            queue.gaps.add(event.gap.key)
            queue.items.append(event.gap)
            return True
        self._append(queue, event)
        return True

    def catch_up(self, gap: Gap) -> None:
        """Read a gap before whatever waits in its chat."""
        self._queue(gap.chat).items.appendleft(gap)

    def append_gap(self, gap: Gap) -> None:
        """Read a gap after whatever waits in its chat, and before what is put there later."""
        self._queue(gap.chat).items.append(gap)

    def hold(self) -> None:
        """Take nothing more until `release`: it is not known yet what was missed."""
        if self.released.is_set():
            self.released = anyio.Event()

    def release(self) -> None:
        """Take what waits."""
        self.released.set()

    async def until_idle(self) -> None:
        """Wait until nothing waits any more."""
        while self._queues:
            await self._changed.wait()

    async def make_room(self, chat: str) -> None:
        """Leave out what waits in a chat that has been stuck for long while others were taken.

        For a platform with one cursor for all chats, where it keeps what others write out of sight.
        Where all fails, the disk say, nothing is left out: it would help nobody.
        """
        queue, now = self._queues.get(chat), self._clock.now()
        if queue is None or queue.stuck_since is None:
            return
        since = queue.stuck_since
        all_fail = self._last_taken < since + timedelta(seconds=APART_S)
        if all_fail or now < since + timedelta(seconds=STUCK_S):
            return
        del self._queues[chat]
        queue.scope.cancel()
        self._end(queue)
        await self._leave_out(queue)

    # --- one queue ---

    def _queue(self, chat: str) -> _Queue:
        queue = self._queues.get(chat)
        if queue is None:
            queue = self._queues[chat] = _Queue(chat)
            self._tasks.start_soon(self._work, queue, name=f"chat:{chat}")
        return queue

    def _append(self, queue: _Queue, event: PlatformEvent) -> None:
        if self.reordering is None:
            queue.items.append(Queued(event))
        else:
            self.reordering.insert(queue.items, Queued(event))
        queue.ids.add(event.id)
        self._total += 1
        if queue.passing is None and (queue.first is not None or len(queue.items) > 1):
            queue.passing = anyio.CancelScope()
            self._tasks.start_soon(self._let_commands_pass, queue, queue.passing)

    async def _work(self, queue: _Queue) -> None:
        """Take what waits in a queue, until it is empty."""
        with queue.scope:
            while queue.items:
                await self.released.wait()
                if self.reordering is not None:
                    await self.reordering.wait(queue.items[0])
                queue.first = item = queue.items.popleft()
                if isinstance(item, Gap):
                    await self._fill(queue, item)
                else:
                    await self._take(queue, item)
                    self._forget(queue, item)
                queue.first = queue.stuck_since = None
            del self._queues[queue.chat]
            self._end(queue)

    async def _take(self, queue: _Queue, item: Queued) -> None:
        """Take what is first in a queue, as long as it takes, or send it back."""
        event = item.event
        if item.passing is not None:
            await item.passing.wait()
        while not item.is_taken:
            wait_s = 0.0
            if event.send_back is not None:
                wait_s = self._redelivery.wait_s(event.chat, event.position, self._clock.now())
            if not wait_s:
                try:
                    await self._events.take(item)
                    break
                except NotNowError as error:
                    wait_s = error.retry_after_s
            if event.send_back is not None:
                await self._send_back(event, wait_s)
                return
            queue.stuck_since = queue.stuck_since or self._clock.now()
            await self._clock.sleep(wait_s)
        self._last_taken = self._clock.now()
        if event.send_back is not None:
            self._redelivery.taken(event.chat, event.position, self._last_taken)
        await self._events.notify(event, event.advance)

    async def _send_back(self, event: PlatformEvent, wait_s: float) -> None:
        assert event.send_back is not None
        wait_s = max(wait_s, SENT_BACK_S)
        self._redelivery.note(event.chat, event.position, self._clock.now(), wait_s)
        await self._events.notify(event, partial(event.send_back, wait_s))

    def _forget(self, queue: _Queue, item: Queued) -> None:
        queue.ids.discard(item.event.id)
        self._total -= 1
        self._notify()

    def _end(self, queue: _Queue) -> None:
        if queue.passing is not None:
            queue.passing.cancel()
        self._notify()

    def _notify(self) -> None:
        """Let those go on who wait for room, or for the end of it."""
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def _let_commands_pass(self, queue: _Queue, scope: anyio.CancelScope) -> None:
        """Take commands beside a queue that waits for one and the same event for a while."""
        with scope:
            while True:
                await self.released.wait()
                slow = queue.first
                await self._clock.sleep(PATIENCE_S)
                if slow is None or queue.first is not slow:
                    continue
                for item in list(queue.items):
                    if not isinstance(item, Queued) or item.event.is_in_order:
                        continue
                    if not item.is_looked_at:
                        await self._events.take_if_passing(item)

    # --- what was missed, and what is left out ---

    async def _fill(self, queue: _Queue, gap: Gap) -> None:
        """Put what was written in a gap before all that waits, and tell of what is left out."""
        queue.gaps.discard(gap.key)
        found = await _read(gap, self._handler, self._clock)
        for count, why in found.skipped:
            if count and found.chat is not None:
                await self._handler.skipped(found.chat, count, why)
        queue.items.extendleft(Queued(event) for event in reversed(found.events))
        queue.ids.update(event.id for event in found.events)
        self._total += len(found.events)

    async def _leave_out(self, queue: _Queue) -> None:
        chat, count = None, 0
        for item in (queue.first, *queue.items):
            if not isinstance(item, Queued):
                continue
            self._forget(queue, item)
            if item.is_taken:
                continue
            with suppress(NotNowError):  # then nobody knows whose it was
                for each in await self._events.read(item):
                    if isinstance(each, Message):
                        chat, count = each.chat, count + 1
            await self._events.notify(item.event, item.event.confirm)
        logger.error(
            "messages that cannot be kept hold up all other chats, and are left out",
            extra={"chat": queue.chat, "messages": count},
        )
        if chat is not None:
            why = "they could not be kept, and held up everybody else"
            await self._handler.skipped(chat, count, why)


async def _read(gap: Gap, handler: InboundHandler, clock: Clock) -> Backfill:
    """Return what was written in a gap, as soon as the platform tells it."""
    while True:
        try:
            found = await gap.read()
        except ConnectionLostError as error:
            await clock.sleep(handler.blocked(gap.chat, str(error)))
        except Exception as error:  # the boundary around one history
            # What came once comes again: to ask for it for ever would leave the chat deaf.
            handler.unreadable("history", error)
            return Backfill()
        else:
            handler.unblocked(gap.chat)
            return found


def _of(event: PlatformEvent) -> dict[str, str]:
    return {"chat": event.chat, "kind": event.kind}


@asynccontextmanager
async def open_chat_queues(
    handler: InboundHandler,
    clock: Clock,
    *,
    chat_max: int = CHAT_MAX,
    total_max: int = TOTAL_MAX,
    redelivery_s: float = 0.0,
    is_held: bool = False,
) -> AsyncGenerator[ChatQueues]:
    """Take what is put into queues, until the block ends; what the block raises leaves it as it is.

    What still waits then was not confirmed: it comes again from the platform, or from a cursor.

    Args:
        handler: Of the channel.
        clock: The time.
        chat_max: So many events wait in one chat.
        total_max: And so many in all.
        redelivery_s: How long an event that was sent back is awaited before those after it in its
            chat are taken; 0 = as long as the platform was told to wait.
        is_held: Whether nothing is taken before `ChatQueues.release`.
    """
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        queues = ChatQueues(
            handler,
            clock,
            tasks,
            chat_max=chat_max,
            total_max=total_max,
            redelivery_s=redelivery_s,
        )
        if not is_held:
            queues.release()
        try:
            yield queues
        except Exception as error:  # it leaves the block below, and not in a group
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
