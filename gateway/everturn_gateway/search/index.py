"""Keeps the index of what was said up to the logs: behind the turns, and from the logs themselves.

What sessions append is noted as it happens and written some seconds later, in a thread. What nobody
noted - before a start, while the index was damaged, in another process - is read from the logs,
the session that was used last first; until that is done answers say how far it is.

Where several nodes write into one database, each has an index of all of it. A search looks first
for what the others wrote, and what was erased on one node leaves the files of all.
"""

from __future__ import annotations

import logging
from asyncio import get_running_loop
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import anyio
from anyio import to_thread
from msgspec import Struct, field

from everturn_actors.errors import JournalError, StoreAwayError
from everturn_actors.events import Event, SessionStarted
from everturn_actors.ports import Clock, SessionStore
from everturn_actors.ports.search import MessageMatch, MessagePage, MessageQuery
from everturn_actors.sqlite_cache import CacheError
from everturn_actors.state.session_state import SessionState
from everturn_gateway.search.sources import (
    batch_of,
    file_text,
    indexed,
    removed,
    used_since,
    with_key,
)
from everturn_gateway.search.table import IndexedSession, MessageTable
from everturn_gateway.search.texts import file_of, says

Erasures: TypeAlias = Callable[[], Awaitable[int]]
"Gives the length of the record of erasures, which grows with each of them on any node."

logger = logging.getLogger(__name__)

ERASURES_KEY: Final = "erasures.jsonl"  # the record of them, among durable values
WRITE_BEHIND_S: Final = 5.0  # a search writes what waits by itself
START_DELAY_S: Final = 2.0  # the first moments of a process are for its turns
CATCH_UP_S: Final = 10.0  # of a search where nothing keeps the index: a command beside the gateway
NOTED_MOST: Final = 20_000  # events that wait to be written; what is beyond is read from the log
PAGE_EVENTS: Final = 500  # read and written at a time, some 30 ms of a thread
LOOK_EVERY_S: Final = 30.0  # where other processes write into the same store
SEARCHES_MOST: Final = 2  # at the same time; others wait for them
SHARED_WAIT_S: Final = 2.0  # of a search for what other processes wrote; then it says so
COMPARE_EVERY_S: Final = 6 * 3600.0  # with the list of sessions: others may have removed some
_MARGIN: Final = timedelta(minutes=1)  # between what is said to be indexed and what is believed
_SHARED_MARGIN: Final = timedelta(minutes=10)  # sessions have the times of the nodes' own clocks
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_COMPLETE: Final = "complete_to"
"Everything that was appended up to this instant is in the index; microseconds since 1970."
_ERASURES: Final = "erasures"
"The length of the record of erasures of which nothing is left in the index."


class _News(Struct):
    """What was noted of one session, and not written yet."""

    session: IndexedSession
    updated_at: datetime
    events: list[Event] = field(default_factory=list[Event])
    "Ascending, without holes; empty = more than is kept: the log has it."
    last_seq: int = 0


class StoreMessageIndex:
    """`MessageIndex` over any store, on SQLite. Opened by `open_message_index`."""

    def __init__(
        self,
        table: MessageTable,
        store: SessionStore,
        clock: Clock,
        *,
        erasures: Erasures | None = None,
    ) -> None:
        """Begin with nothing looked at.

        Args:
            table: Where it is kept.
            store: Whose logs it is made of.
            clock: The time.
            erasures: Where other processes append to the same store.
        """
        self._table, self._store, self._erasures = table, store, erasures
        self._clock, self._margin = clock, _SHARED_MARGIN if erasures else _MARGIN
        self._read_at: dict[str, datetime] = {}
        "`updated_at` of sessions as they were read lately: what others write is looked for often."
        self._walking = anyio.Lock()
        self._losses = 0
        "How often the file was made anew: what a walk has read before that is there no more."
        self._news: dict[str, _News] = {}
        self._noted = 0
        self._has_news = anyio.Event()
        self._writing = anyio.Lock()
        self._threads = ThreadPoolExecutor(SEARCHES_MOST, "search")
        self._is_kept = False
        "Whether `run` runs."
        self._is_complete = False
        self._searched_to: datetime | None = None
        "How far the walk through the sessions is; None = it has not begun."

    # --- MessageIndex ---

    def note(self, state: SessionState, events: Sequence[Event]) -> None:
        """See `MessageIndex.note`."""
        news = self._news.get(state.session_id)
        if news is None:
            news = _News(indexed(state), state.updated_at)
            self._news[state.session_id] = news
        elif news.session.shared_with != state.shared_with:
            news.session = indexed(state)
        is_next = not news.last_seq or news.events
        news.last_seq, news.updated_at = state.last_seq, state.updated_at
        if is_next and self._noted < NOTED_MOST:
            news.events += events
            self._noted += len(events)
        else:
            self._noted -= len(news.events)
            news.events.clear()
        self._has_news.set()

    async def search(self, query: MessageQuery) -> MessagePage:
        """See `MessageIndex.search`."""
        try:
            is_current = await self._catch_up(query)
            # Threads of its own, as a long conversation searches in each turn: anyio's limiter and
            # scopes around its threads take as long as the search.
            search = partial(self._table.search, query)
            found, has_more = await get_running_loop().run_in_executor(self._threads, search)
        except CacheError as error:
            self._lost(error)
            return MessagePage(matches=(), searched_to=self._clock.now())
        is_all = self._is_complete and is_current
        searched_to = None if is_all else self._searched_to or self._clock.now()
        matches: tuple[MessageMatch, ...] = tuple(found)
        return MessagePage(matches=matches, has_more=has_more, searched_to=searched_to)

    async def _catch_up(self, query: MessageQuery) -> bool:
        """Bring the index up to what was said, as far as that is soon done; return whether it is.

        While it is made for the first time, a search that is asked meanwhile does not wait for it.
        """
        is_current = True
        if query.is_newest_needed:
            await self._write_news()
        if self._is_complete:
            if self._erasures and query.is_newest_needed:
                with anyio.move_on_after(SHARED_WAIT_S) as scope:
                    await self._follow_erasures()
                    await self._walk()
                is_current = not scope.cancelled_caught
        elif not self._is_kept:
            with anyio.move_on_after(CATCH_UP_S):
                await self._walk()
        return is_current

    async def forget(self, session_id: str) -> None:
        """See `MessageIndex.forget`."""
        async with self._writing:
            self._read_at.pop(session_id, None)
            news = self._news.pop(session_id, None)
            self._noted -= len(news.events) if news else 0
            try:
                await to_thread.run_sync(self._table.forget, session_id)
            except CacheError as error:
                self._lost(error)

    async def purge(self) -> None:
        """Overwrite what was forgotten: until then the file holds words that no search finds."""
        begins = True
        try:
            while await to_thread.run_sync(partial(self._table.purge, begins=begins)):
                begins = False
        except CacheError as error:  # and put away, with all that it held
            self._lost(error)

    async def erased(self, before: int, after: int) -> None:
        """Take note that the record of erasures grew by one whose words this index forgot.

        Args:
            before: Its length until then.
            after: Its length now.
        """
        try:
            if await to_thread.run_sync(self._table.mark, _ERASURES) == before:
                await self._put((), ((_ERASURES, after),))
        except CacheError as error:
            self._lost(error)

    # --- maintenance ---

    async def run(self) -> None:
        """Write behind what is noted, and read what nobody noted; never returns."""
        self._is_kept = True
        try:
            await anyio.sleep(START_DELAY_S)
            compare_at = 0.0
            while True:
                await self._guarded(self.keep_up())
                now = anyio.current_time()
                is_due = self._erasures and self._is_complete and now >= compare_at
                # Where the database was away it is done at the next look.
                if is_due and await self._guarded(self.forget_removed()):
                    compare_at = now + COMPARE_EVERY_S
                with anyio.move_on_after(LOOK_EVERY_S if self._erasures else float("inf")):
                    await self._has_news.wait()
                await anyio.sleep(WRITE_BEHIND_S)
        finally:
            self._is_kept = False

    async def close(self) -> None:
        """Write what is noted, where the index was used, and let go of the file."""
        if self._table.is_open and self._is_complete:
            await self._guarded(self._write_news())
        # First these: a search that nobody waits for would open the file again.
        await to_thread.run_sync(self._threads.shutdown)
        await to_thread.run_sync(self._table.close)

    async def read_session(self, session: IndexedSession, *, is_all: bool = False) -> None:
        """Bring the index up to the log of one session.

        Args:
            session: Which one.
            is_all: Whether the index is one of this session and no other.

        Raises:
            CacheError: The index cannot be used.
            JournalError: The log cannot be read.
        """
        known = await to_thread.run_sync(self._table.last_seqs, (session.session_id,))
        after = known[session.session_id]
        while True:
            page = await self._store.read(session.session_id, after=after, limit=PAGE_EVENTS)
            if not page:
                break
            if not after and isinstance(page[0].body, SessionStarted):
                session = with_key(session, page[0].body)
            await self._put([(session, page)])
            after = page[-1].seq
        self._is_complete = self._is_complete or is_all

    async def keep_up(self) -> None:
        """Write what is noted, and read what nobody noted."""
        await self._follow_erasures()
        if not self._is_complete or self._erasures:
            await self._walk()
        await self._write_news()

    async def _follow_erasures(self) -> None:
        """Begin anew where another process erased what a person said; the logs have it no more.

        Which sessions these words stood in is written nowhere, and the log of one that was written
        anew ends where it ended.
        """
        if self._erasures is None:
            return
        length = await self._erasures()
        if await to_thread.run_sync(self._table.mark, _ERASURES) == length:
            return
        async with self._walking, self._writing:
            self._is_complete, self._searched_to = False, None
            self._read_at.clear()
            await to_thread.run_sync(self._table.remove)
            await self._put((), ((_ERASURES, length),))

    async def forget_removed(self) -> None:
        """Forget sessions that other processes removed, and overwrite what they held."""
        is_any = False
        try:
            async with aclosing(removed(self._store, self._table)) as gone:
                async for session_id in gone:
                    await self.forget(session_id)
                    is_any = True
        finally:
            if is_any:  # also where the store was away for the rest of them
                await self.purge()

    async def _guarded(self, work: Awaitable[None]) -> bool:
        """Do some work; return whether it was done. What went wrong is told."""
        try:
            await work
        except CacheError as error:
            self._lost(error)
        except JournalError as error:
            logger.warning("what was said cannot be indexed", extra={"error": str(error)})
        else:
            return True
        return False

    async def _walk(self) -> None:
        """Read from the logs whatever happened since the index was known to be complete."""
        async with self._walking:
            began, table, losses = self._clock.now(), self._table, self._losses
            mark = await to_thread.run_sync(table.mark, _COMPLETE)
            since = _EPOCH + timedelta(microseconds=mark) - self._margin
            read_at: dict[str, datetime] = {}
            async with aclosing(used_since(self._store, since)) as used:
                async for row in used:
                    # Not where nothing happened in it since that was done last.
                    if self._read_at.get(row.session_id) != row.updated_at:
                        async with self._writing:
                            await self._read_quietly(indexed(row))
                    if self._erasures and row.updated_at >= began - self._margin:
                        read_at[row.session_id] = row.updated_at
                    if not self._is_complete:
                        self._searched_to = row.updated_at
            if losses == self._losses:
                self._read_at = read_at
                self._is_complete, self._searched_to = True, None
                await self._put((), _complete_to(began))

    async def _read_quietly(self, session: IndexedSession) -> None:
        try:
            await self.read_session(session)
        except StoreAwayError:
            raise  # it is read when the store is back
        except JournalError as error:  # `doctor` tells of it; all others are found
            fields = {"session_id": session.session_id, "error": str(error)}
            logger.debug("a log cannot be indexed", extra=fields)

    async def _write_news(self) -> None:
        """Write what is noted; return when it is found."""
        if not self._news:
            return
        # Whoever searches may leave; what was taken off the list has to be written all the same.
        with anyio.CancelScope(shield=True):
            try:
                await self._write_taken()
            except BaseException:
                self._is_complete = False  # what was taken is read from the logs again
                raise

    async def _write_taken(self) -> None:
        async with self._writing:
            began = self._clock.now()
            self._has_news = anyio.Event()
            news, self._news, self._noted = self._news, {}, 0
            whole: list[tuple[IndexedSession, Sequence[Event]]] = []
            known = await to_thread.run_sync(self._table.last_seqs, tuple(news))
            for session_id, each in news.items():
                if each.events and each.events[0].seq <= known[session_id] + 1:
                    whole.append((each.session, each.events))
                else:
                    await self._read_quietly(each.session)
            # Where others write, too, only a walk knows of all that they wrote.
            knows_all = self._is_complete and not self._erasures
            await self._put(whole, _complete_to(began) if knows_all else ())
            if self._erasures:
                self._read_at |= {key: each.updated_at for key, each in news.items()}

    async def _put(
        self,
        news: Sequence[tuple[IndexedSession, Sequence[Event]]],
        marks: Sequence[tuple[str, int]] = (),
    ) -> None:
        files = {
            place: await file_text(self._store, *place)
            for session, events in news
            for event in filter(says, events)
            if (place := (session.session_id, file_of(event)))[1]
        }
        batches = (batch_of(session, events, files) for session, events in news if events)
        await to_thread.run_sync(self._table.put, batches, marks)  # and made in that thread

    def _lost(self, error: CacheError) -> None:
        """Begin anew: the next look makes the index from the logs."""
        self._is_complete, self._searched_to = False, None
        self._losses += 1
        self._read_at.clear()
        self._has_news.set()
        logger.warning(
            "the index of what was said cannot be used and is made anew from the logs; until then"
            " searches find less",
            extra={"error": str(error)},
        )


@asynccontextmanager
async def open_message_index(
    path: Path | None, store: SessionStore, clock: Clock, *, erasures: Erasures | None = None
) -> AsyncGenerator[StoreMessageIndex]:
    """Open the index of what a store's logs say; nothing is read or made before its first use.

    Args:
        path: Its file; None = in memory.
        store: Whose logs it is made of.
        clock: The time.
        erasures: Where other processes append to the same store.
    """
    index = StoreMessageIndex(MessageTable(path), store, clock, erasures=erasures)
    try:
        yield index
    finally:
        with anyio.CancelScope(shield=True):
            await index.close()


def _complete_to(at: datetime) -> tuple[tuple[str, int], ...]:
    """Return the mark that everything up to an instant is in the index."""
    return ((_COMPLETE, (at - _EPOCH) // timedelta(microseconds=1)),)
