"""Which sessions there are, page by page, and which of them have been idle for long.

The answers come from an index, `activity`, so that a page costs a page, however many sessions there
are. The files are believed and not the index: a row is read from them when it is asked for. The
index learns of appends in memory, and is written behind them, now and then, without a sync.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import TypeAlias

import anyio
from msgspec import structs

from everturn_actors.errors import JournalError
from everturn_actors.events import Event, Labelled, SessionEnded, SessionShared, SessionStarted
from everturn_actors.ids import is_session_id
from everturn_actors.journal.index import entries as index
from everturn_actors.journal.index.activity import ActivityTable
from everturn_actors.journal.index.rows import (
    EPOCH,
    News,
    microseconds,
    row_of,
    row_of_news,
    rows_read,
    with_viewer,
)
from everturn_actors.journal.log.codec import BadLineError
from everturn_actors.journal.log.layout import Layout
from everturn_actors.journal.snapshot.reader import BadSnapshotError
from everturn_actors.model import Labels
from everturn_actors.ports import ALL_SESSIONS, SessionFilter, SessionSummary
from everturn_actors.ports import Place as Recent
from everturn_actors.sqlite_cache import CacheError

logger = logging.getLogger(__name__)

START_DELAY_S = 1.0  # a start is not kept waiting by what can be done after it
WRITE_BEHIND_S = 5.0  # how long appends gather before the index is written
IDLE_AT_ONCE = 200  # sessions that are looked at in one go for their expiry
READ_AT_ONCE = 100  # sessions of which nothing is known yet, read in one go
QUICK_S = 0.005  # a folder that is read so quickly is read whenever it has changed
PATIENCE = 50  # any other one at most for this part of the time
_SETTLED_NS = 50_000_000  # file systems count time in ticks; a change within one cannot be seen

_LISTED = frozenset((SessionStarted, SessionShared, SessionEnded, Labelled))  # what a row goes by

BEGINNING: Place = (0, "")

Place: TypeAlias = tuple[int, str]
"Where a page of idle sessions ended: the last activity in the index, and the id."


class Listing:
    """The list of sessions of one workspace. `run` is its task; everything works without it."""

    def __init__(self, layout: Layout) -> None:
        """Begin without having looked at anything."""
        self._layout = layout
        self._table = ActivityTable(layout.index)
        self._news: dict[str, News | None] = {}
        "What is not in the index yet, by session; None = it was deleted."
        self._has_news = anyio.Event()
        self._seen_ns = -1
        "When the folder had changed last, as it was when it was read; -1 = look again."
        self._is_known = False
        "Whether the index was held against the folder since it was opened."
        self._took_s = 0.0
        "How long it took to read the names in the folder."
        self._read_at_s = 0.0
        self._mutex = threading.Lock()
        "Held while news are added or taken away."

    # --- on the event loop ---

    def note(self, session_id: str, events: Sequence[Event]) -> None:
        """Take notice of an append that is durable."""
        first = events[0].body
        agent, channel = None, ""
        if isinstance(first, SessionStarted):
            agent, channel = first.key.agent, first.key.channel
        is_ended: bool | None = False
        updated_at: datetime | None = events[-1].at
        viewers: tuple[str, ...] = ()
        labels: Labels | None = None
        # A loop, as each append of each turn comes here; of most events one look tells enough.
        for event in events:
            body = event.body
            if type(body) not in _LISTED:
                continue
            if isinstance(body, SessionEnded):
                is_ended = True
            elif isinstance(body, Labelled):
                labels = body.labels
            elif isinstance(body, SessionStarted | SessionShared):
                viewers = with_viewer(viewers, body)
        if labels is not None and all(isinstance(each.body, Labelled) for each in events):
            is_ended = updated_at = None
        with self._mutex:
            before = self._news.get(session_id)
            if before is not None:
                agent = before.agent if agent is None else agent
                channel = channel or before.channel
                viewers = (*before.viewers, *viewers) if viewers else before.viewers
                labels = labels or before.labels
                if updated_at is None:
                    updated_at, is_ended = before.updated_at, before.is_ended
            self._news[session_id] = News(agent, updated_at, is_ended, channel, viewers, labels)
        self._has_news.set()

    def forget(self, session_id: str) -> None:
        """Take notice that a session is deleted."""
        with self._mutex:
            self._news[session_id] = None
        self._has_news.set()

    async def run(self, in_thread: Callable[[Callable[[], float]], Awaitable[float]]) -> None:
        """Write behind what is noted, and read what is not known yet; never returns."""
        await anyio.sleep(START_DELAY_S)
        while True:
            self._has_news = anyio.Event()
            pause_s = await in_thread(self._keep_up)
            if not pause_s:
                await self._has_news.wait()
            await anyio.sleep(pause_s or WRITE_BEHIND_S)

    # --- in a thread ---

    def _keep_up(self) -> float:
        """Do a part of the work that makes the index complete; return how long to pause then.

        Returns:
            0 where nothing is left to do, or the index cannot be used.
        """
        began_s = time.monotonic()
        try:
            self._catch_up()
            has_more = self._read_some()
        except CacheError as error:
            self._give_up(error)
            return 0.0
        return time.monotonic() - began_s if has_more else 0.0  # half of one thread at most

    def rebuild(self) -> None:
        """Forget the index; it is made anew from the files."""
        self._is_known = False
        self._table.remove()

    def write_behind(self) -> None:
        """Write what is not written yet, where the index was used at all."""
        if self._table.is_open:
            try:
                self._write_behind()
            except CacheError as error:
                self._give_up(error)

    def close(self) -> None:
        """Let go of the file."""
        self._table.close()

    def page(
        self, *, after: str, limit: int, wanted: SessionFilter = ALL_SESSIONS
    ) -> tuple[SessionSummary, ...]:
        """Return up to `limit` sessions with an id below `after`; see `SessionStore.sessions`."""
        try:
            if wanted.seen_by:
                self._complete()  # who sees a session stands in its files
            else:
                self._catch_up()
            return tuple(self._page(after, limit, wanted))
        except CacheError as error:
            self._give_up(error)
            return index.list_sessions(self._layout, after=after, limit=limit, wanted=wanted)

    def recent(
        self, *, before: Recent | None, limit: int, wanted: SessionFilter = ALL_SESSIONS
    ) -> tuple[SessionSummary, ...]:
        """Return up to `limit` sessions by their last activity; see `SessionStore.recent`."""
        try:
            self._complete()
            place = None if before is None else (microseconds(before[0]), before[1])
            return tuple(_recent(self._table, self.summary, place, limit, wanted))
        except CacheError as error:
            self._give_up(error)
        return _by_activity(filter(wanted.admits, self._all()), before, limit)

    def agents(self) -> tuple[str, ...]:
        """Return the agents whose sessions have not all ended; see `SessionStore.agents`."""
        try:
            self._complete()
            return tuple(self._table.agents())
        except CacheError as error:
            self._give_up(error)
            return tuple(sorted({row.key.agent for row in self._all() if row.status != "ended"}))

    def idle(
        self, agent: str, before: datetime, place: Place
    ) -> tuple[tuple[SessionSummary, ...], Place | None]:
        """Return some idle sessions behind a place, and where to go on; None = there are no more.

        See `SessionStore.idle`.
        """
        before_us = microseconds(before)
        try:
            if place == BEGINNING:
                self._complete()
            found = self._table.idle(agent, before_us=before_us, after=place, limit=IDLE_AT_ONCE)
            rows, moved = list[SessionSummary](), list[SessionSummary]()
            for _, session_id in found:
                row = self.summary(session_id)
                if row is None:
                    continue
                # Where an idle one stands is left as it is, or the next page would have it again.
                (rows if _is_idle(row, agent, before) else moved).append(row)
            self._table.put(map(row_of, moved))
            return tuple(rows), found[-1] if found else None
        except CacheError as error:
            self._give_up(error)
        return tuple(row for row in self._all() if _is_idle(row, agent, before)), None

    def _complete(self) -> None:
        """Read all that is not known yet; an hour after a start, that is mostly nothing."""
        self._catch_up()
        while self._read_some():
            pass

    def _page(self, after: str, limit: int, wanted: SessionFilter) -> Iterator[SessionSummary]:
        """Yield what the files say of the sessions that the index names, until there are enough."""
        left = limit
        while left > 0 and (
            ids := self._table.newest(
                after=after, limit=left, seen_by=wanted.seen_by, agents=wanted.agents
            )
        ):
            after = ids[-1]
            found = map(self.summary, ids)
            rows = [row for row in found if row is not None and wanted.admits(row)]
            left -= len(rows)
            yield from rows

    def summary(self, session_id: str) -> SessionSummary | None:
        """Return what the files say of a session; see `SessionStore.summary`."""
        try:
            return index.summarise(self._layout.session(session_id))
        except (BadLineError, BadSnapshotError, JournalError, OSError):
            return None

    def _all(self) -> Iterator[SessionSummary]:
        found = map(self.summary, index.session_ids(self._layout))
        return (row for row in found if row is not None)

    def _catch_up(self) -> None:
        """Bring the index up to what the folder and the appends say.

        Raises:
            CacheError: It cannot be used.
        """
        now_ns, changed_ns = time.time_ns(), _changed_ns(self._layout)
        is_new = changed_ns != self._seen_ns
        since_s = time.monotonic() - self._read_at_s
        if not self._is_known or (
            is_new and (self._took_s < QUICK_S or since_s > PATIENCE * self._took_s)
        ):
            began_s = time.monotonic()
            self._table.reconcile(filter(is_session_id, _names(self._layout)))
            self._read_at_s = time.monotonic()
            self._took_s = self._read_at_s - began_s
            # A folder that changed just now may change again without showing it.
            self._seen_ns = changed_ns if now_ns - changed_ns > _SETTLED_NS else -1
            self._is_known = True
        self._write_behind()

    def _write_behind(self) -> None:
        with self._mutex:
            news, self._news = self._news, {}
        if not news:
            return
        try:
            self._table.put(
                (row_of_news(session_id, each) for session_id, each in news.items() if each),
                gone=[session_id for session_id, each in news.items() if each is None],
            )
        except CacheError:
            with self._mutex:
                self._news = {**news, **self._news}
            raise

    def _read_some(self) -> bool:
        """Read some of the sessions of which only the id is known; return whether there were any.

        Raises:
            CacheError: The index cannot be used.
        """
        ids = self._table.unread(READ_AT_ONCE)
        found = {session_id: self.summary(session_id) for session_id in ids}
        self._table.put(rows_read(found))
        return bool(ids)

    def _give_up(self, error: CacheError) -> None:
        """Go on without the index for this once."""
        self._is_known = False
        logger.warning(
            "the index of sessions cannot be used and is made anew; until then lists take longer",
            extra={"error": str(error)},
        )


def _recent(
    table: ActivityTable,
    summary: Callable[[str], SessionSummary | None],
    place: Place | None,
    limit: int,
    wanted: SessionFilter,
) -> Iterator[SessionSummary]:
    """Yield the sessions behind a place in the index, used last at the time that it knows."""
    left = limit
    while left > 0 and (found := table.recent(before=place, limit=left, wanted=wanted)):
        place = found[-1]
        for updated_us, session_id in found:
            row = summary(session_id)
            if row is not None and wanted.admits(row):
                left -= 1
                updated_at = EPOCH + timedelta(microseconds=updated_us)
                yield structs.replace(row, updated_at=updated_at)


def _by_activity(
    rows: Iterable[SessionSummary], before: Recent | None, limit: int
) -> tuple[SessionSummary, ...]:
    """Return rows behind a place, the last used first, where there is no index."""
    placed = sorted(((row.updated_at, row.session_id), row) for row in rows)
    found = (row for place, row in reversed(placed) if before is None or place < before)
    return tuple(islice(found, max(limit, 0)))


def _changed_ns(layout: Layout) -> int:
    try:
        return layout.sessions.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _names(layout: Layout) -> Iterator[str]:
    try:
        with os.scandir(layout.sessions) as entries:
            for entry in entries:
                yield entry.name
    except FileNotFoundError:
        return


def _is_idle(row: SessionSummary, agent: str, before: datetime) -> bool:
    return row.key.agent == agent and row.status != "ended" and row.updated_at < before
