"""The log of one session as messages, read in chunks, from either end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from everturn_actors.events import (
    CallFinished,
    Event,
    ModelReplied,
    Summarised,
    TurnStarted,
)
from everturn_actors.model import ToolCall
from everturn_actors.ports import ToolContext
from everturn_gateway.search.standing import as_they_stand
from everturn_gateway.tools.recall.messages import Said, said

_LONG_AGO: Final = datetime(2020, 1, 1, tzinfo=UTC)
CHUNK_EVENTS: Final = 200  # held at a time: a log of any length is read in the same memory
_STEP_EVENTS = 50  # looked back at a time for the reply that made a call


class OpenedTurn(Struct, frozen=True, kw_only=True):
    """A turn that a summary stands for."""

    number: int
    first: int
    "Its first message."
    last: int
    "The last event before the next turn's messages."


class Opened(Struct, frozen=True, kw_only=True):
    """A summary, and what it is made of."""

    body: Summarised
    before: int = 0
    "The last turn of the summary that it carries on; 0 = it begins with the conversation."
    turns: tuple[OpenedTurn, ...]
    "The turns that it tells of beside that, oldest first, as far as the log has them."


class LogReader:
    """Reads what the store keeps of a session's log; numbers that were discarded are missing."""

    def __init__(self, context: ToolContext, session_id: str = "") -> None:
        """Read the log of the session of a call, or of another one."""
        self._store, self._session_id = context.store, session_id or context.session_id

    async def begun(self) -> datetime:
        """Return when the oldest event that there is was written."""
        found = await self._read(after=0, limit=1)
        return found[0].at if found else _LONG_AGO

    async def first_seq(self) -> int:
        """Return the number of the oldest event there is; 1 where there is none."""
        found = await self._read(after=0, limit=1)
        return found[0].seq if found else 1

    async def last_seq(self) -> int:
        """Return the number of the newest event, 0 where there is none, in few small reads."""
        known, step = 0, CHUNK_EVENTS
        while found := await self._read(after=known + step, limit=1):
            known, step = found[0].seq, step * 2
        beyond = known + step  # nothing is above it
        while beyond - known > CHUNK_EVENTS:
            middle = (known + beyond) // 2
            if found := await self._read(after=middle, limit=1):
                known = found[0].seq
            else:
                beyond = middle
        rest = await self._read(after=known, limit=CHUNK_EVENTS)
        return rest[-1].seq if rest else known

    async def message(self, seq: int) -> Said | None:
        """Return the message of this number; None where it is none, or not there (any more)."""
        found = await self._read(after=seq - 1, limit=1)
        if not found or found[0].seq != seq:
            return None
        calls = await self._calls_before(seq) if _begins_inside(found) else ()
        return next(said(await self._standing(found), calls), None)

    async def forward(self, first: int, last: int | None) -> AsyncGenerator[tuple[Said, ...]]:
        """Yield the messages from `first` to `last` (None = the newest), chunk by chunk."""
        after, calls = first - 1, await self._calls_before(first)
        while chunk := await self._read(after=after, limit=CHUNK_EVENTS):
            after = chunk[-1].seq
            wanted = [event for event in chunk if last is None or event.seq <= last]
            yield tuple(said(await self._standing(wanted), calls))
            if len(wanted) < len(chunk):
                return
            calls = _last_calls(chunk, calls)

    async def backward(self, last: int) -> AsyncGenerator[tuple[Said, ...]]:
        """Yield the messages up to `last`, newest chunk first; each chunk is oldest first."""
        while last > 0:
            after = max(last - CHUNK_EVENTS, 0)
            chunk = await self._read(after=after, limit=last - after)
            wanted = [event for event in chunk if event.seq <= last]
            if not wanted:
                oldest = await self._read(after=0, limit=1)
                if not oldest or oldest[0].seq > after:
                    return  # what is older was discarded
                last = after  # a gap in the middle: part of the archive was lost
                continue
            calls = await self._calls_before(wanted[0].seq) if _begins_inside(wanted) else ()
            yield tuple(said(await self._standing(wanted), calls))
            last = after

    async def summary(self, turn: int) -> Opened | None:
        """Return the first summary that tells of a turn, and its parts; None = none does."""
        own: tuple[int, Summarised] | None = None
        last = await self.last_seq()
        while last > 0:
            after = max(last - CHUNK_EVENTS, 0)
            chunk = await self._read(after=after, limit=last - after)
            for event in reversed([each for each in chunk if each.seq <= last]):
                if not isinstance(event.body, Summarised):
                    continue
                if event.body.last_turn < turn:
                    return None if own is None else await self._opened(*own)
                if own is None or event.body.last_turn < own[1].last_turn:
                    own = event.seq, event.body
            last = after
        return None if own is None else await self._opened(*own)

    async def _opened(self, seq: int, own: Summarised) -> Opened:
        """Return what a summary is made of: the one before it, and the turns since."""
        turns: list[OpenedTurn] = []
        last, end = seq - 1, seq
        while last > 0:
            after = max(last - CHUNK_EVENTS, 0)
            chunk = await self._read(after=after, limit=last - after)
            for event in reversed([each for each in chunk if each.seq <= last]):
                body = event.body
                if isinstance(body, Summarised) and body.last_turn < own.last_turn:
                    first = body.last_turn + 1
                    rest = tuple(reversed([each for each in turns if each.number >= first]))
                    return Opened(body=own, before=body.last_turn, turns=rest)
                if isinstance(body, TurnStarted):
                    begin = min((*body.received, event.seq))
                    if body.turn <= own.last_turn:
                        turns.append(OpenedTurn(number=body.turn, first=begin, last=end - 1))
                    end = begin
            last = after
        return Opened(body=own, turns=tuple(reversed(turns)))

    async def _standing(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """Return events without what was taken back before a turn had it."""

        async def read_after(seq: int, limit: int) -> Sequence[Event]:
            return await self._read(after=seq, limit=limit)

        return await as_they_stand(events, read_after, with_ambient=False)

    async def _read(self, *, after: int, limit: int) -> tuple[Event, ...]:
        return await self._store.read(self._session_id, after=max(after, 0), limit=limit)

    async def _calls_before(self, seq: int) -> tuple[ToolCall, ...]:
        """Return the calls of the step in which event `seq` stands: it may be a result of one."""
        last = seq - 1
        while last > 0:
            after = max(last - _STEP_EVENTS, 0)
            chunk = await self._read(after=after, limit=last - after)
            for event in reversed(chunk):
                if isinstance(event.body, ModelReplied) and event.seq <= last:
                    return event.body.calls
                if isinstance(event.body, TurnStarted) and event.seq <= last:
                    return ()
            last = after
        return ()


def _begins_inside(events: Sequence[Event]) -> bool:
    """Say whether a result stands in `events` whose call does not."""
    for event in events:
        if isinstance(event.body, ModelReplied):
            return False
        if isinstance(event.body, CallFinished):
            return True
    return False


def _last_calls(events: Sequence[Event], before: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    replies = (event.body for event in reversed(events) if isinstance(event.body, ModelReplied))
    newest = next(replies, None)
    return newest.calls if newest else before
