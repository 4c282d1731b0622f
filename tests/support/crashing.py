"""A store whose process ends at a chosen write, and what must be true of a session afterwards."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Literal, TypeAlias, TypeVar

import anyio

from everturn_actors.errors import JournalError
from everturn_actors.events import (
    ApprovalDecided,
    CallFinished,
    CallStarted,
    Event,
    ModelReplied,
    Received,
    Steered,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.gaps import Gap
from everturn_actors.model import (
    Compaction,
    ConversationKey,
    ModelRequest,
    Notice,
    Reply,
    ToolResult,
    UserMessage,
)
from everturn_actors.ports import (
    ALL_SESSIONS,
    Loaded,
    Place,
    SessionFilter,
    SessionStore,
    SessionSummary,
)
from everturn_actors.state.session_state import SessionState

T = TypeVar("T")

Moment: TypeAlias = Literal["before", "half", "after"]
"When the process ends: before a write is on the disk, with half of its events there, or after it."


class ProcessEndedError(JournalError):
    """The process has ended; nothing more reaches the disk."""

    def __init__(self) -> None:
        super().__init__("")


class CrashingStore:
    """`SessionStore` over another one; from a chosen write on, nothing happens any more."""

    def __init__(self, inner: SessionStore) -> None:
        """Begin with a process that does not end."""
        self._inner = inner
        self.writes: list[str] = []
        "The name of each durable write that was begun."
        self.at: tuple[int, Moment] | None = None
        "Which write the process ends at, counted from 1; None = none."
        self.ended = anyio.Event()
        self.working = 0
        "Operations on the disk that have begun and are not over."

    def end(self) -> None:
        """End the process now."""
        self.ended.set()

    async def _do(self, work: Callable[[], Awaitable[T]]) -> T:
        if self.ended.is_set():
            raise ProcessEndedError
        self.working += 1
        try:
            done = await work()
        finally:
            self.working -= 1
        if self.ended.is_set():  # it came to the disk, and nobody heard of it
            raise ProcessEndedError
        return done

    async def _write(
        self,
        name: str,
        work: Callable[[], Awaitable[T]],
        half: Callable[[], Awaitable[None]] | None = None,
    ) -> T:
        self.writes.append(name)
        if self.at is None or len(self.writes) != self.at[0]:
            return await self._do(work)
        moment = self.at[1]
        if moment == "after":
            await self._do(work)
        elif moment == "half" and half is not None:
            await self._do(half)
        self.end()
        raise ProcessEndedError

    async def load(self, session_id: str) -> Loaded | None:
        """See `SessionStore.load`."""
        return await self._do(lambda: self._inner.load(session_id))

    async def inspect(self, session_id: str) -> Loaded | None:
        """See `SessionStore.inspect`."""
        return await self._do(lambda: self._inner.inspect(session_id))

    async def append(self, session_id: str, events: Sequence[Event], *, expected_seq: int) -> None:
        """See `SessionStore.append`."""
        first = events[: len(events) // 2]

        async def half() -> None:
            if first:
                await self._inner.append(session_id, first, expected_seq=expected_seq)

        name = "append " + " ".join(type(event.body).__name__ for event in events)
        await self._write(
            name, lambda: self._inner.append(session_id, events, expected_seq=expected_seq), half
        )

    async def save_snapshot(self, state: SessionState, *, compaction: Compaction) -> None:
        """See `SessionStore.save_snapshot`."""
        await self._write(
            "snapshot", lambda: self._inner.save_snapshot(state, compaction=compaction)
        )

    async def save_result(self, session_id: str, name: str, text: str) -> None:
        """See `SessionStore.save_result`."""
        await self._write("result", lambda: self._inner.save_result(session_id, name, text))

    async def save_media(self, session_id: str, name: str, data: bytes) -> None:
        """See `SessionStore.save_media`."""
        await self._write("media", lambda: self._inner.save_media(session_id, name, data))

    async def bind(
        self, key: ConversationKey, session_id: str, *, instead_of: str | None = None
    ) -> str:
        """See `SessionStore.bind`."""
        return await self._write(
            "bind", lambda: self._inner.bind(key, session_id, instead_of=instead_of)
        )

    async def mark_active(self, session_id: str) -> None:
        """See `SessionStore.mark_active`."""
        await self._write("active", lambda: self._inner.mark_active(session_id))

    async def mark_passive(self, session_id: str) -> None:
        """See `SessionStore.mark_passive`."""
        await self._write("resting", lambda: self._inner.mark_passive(session_id))

    async def delete(self, session_id: str) -> None:
        """See `SessionStore.delete`."""
        await self._write("delete", lambda: self._inner.delete(session_id))

    async def read(
        self, session_id: str, *, after: int, limit: int, at_least: int = 0
    ) -> tuple[Event, ...]:
        """See `SessionStore.read`."""
        return await self._do(
            lambda: self._inner.read(session_id, after=after, limit=limit, at_least=at_least)
        )

    async def explain_gap(self, session_id: str, first: int, last: int) -> tuple[Gap, ...]:
        """See `SessionStore.explain_gap`."""
        return await self._do(lambda: self._inner.explain_gap(session_id, first, last))

    async def sessions(
        self, *, after: str, limit: int, wanted: SessionFilter = ALL_SESSIONS
    ) -> tuple[SessionSummary, ...]:
        """See `SessionStore.sessions`."""
        return await self._do(lambda: self._inner.sessions(after=after, limit=limit, wanted=wanted))

    async def recent(
        self, *, before: Place | None, limit: int, wanted: SessionFilter = ALL_SESSIONS
    ) -> tuple[SessionSummary, ...]:
        """See `SessionStore.recent`."""
        return await self._do(lambda: self._inner.recent(before=before, limit=limit, wanted=wanted))

    async def summary(self, session_id: str) -> SessionSummary | None:
        """See `SessionStore.summary`."""
        return await self._do(lambda: self._inner.summary(session_id))

    async def agents(self) -> tuple[str, ...]:
        """See `SessionStore.agents`."""
        return await self._do(self._inner.agents)

    def idle(self, agent: str, *, before: datetime) -> AsyncGenerator[SessionSummary]:
        """See `SessionStore.idle`."""
        return self._inner.idle(agent, before=before)

    async def read_result(self, session_id: str, name: str) -> str | None:
        """See `SessionStore.read_result`."""
        return await self._do(lambda: self._inner.read_result(session_id, name))

    async def read_media(self, session_id: str, name: str) -> bytes | None:
        """See `SessionStore.read_media`."""
        return await self._do(lambda: self._inner.read_media(session_id, name))

    async def bound(self, key: ConversationKey) -> str:
        """See `SessionStore.bound`."""
        return await self._do(lambda: self._inner.bound(key))

    async def active(self) -> tuple[str, ...]:
        """See `SessionStore.active`."""
        return await self._do(self._inner.active)


# --- what must be true ---


def check_request(request: ModelRequest, newest: UserMessage | None = None) -> None:
    """Check IN-01, and IN-02 where the newest message is given: a provider would take it."""
    rest = [message for message in request.messages if not isinstance(message, Notice)]
    while rest:
        head, *rest = rest
        assert not isinstance(head, ToolResult), "a result without its call"
        if isinstance(head, Reply):
            results, rest = rest[: len(head.calls)], rest[len(head.calls) :]
            ids = [each.call_id for each in results if isinstance(each, ToolResult)]
            assert ids == [call.call_id for call in head.calls], "calls and results differ"
    if newest is not None:
        assert any(message.seq == newest.seq for message in request.messages), "no question"


def check_log(log: Sequence[Event], accepted: Sequence[int]) -> None:
    """Check the whole log of a session that has come to rest.

    Args:
        log: From its first event on.
        accepted: The messages whose senders were told that they are accepted.
    """
    assert [event.seq for event in log] == list(range(1, len(log) + 1)), "a hole"
    bodies = [event.body for event in log]
    received = [event.seq for event in log if isinstance(event.body, Received)]
    assert set(accepted) <= set(received), "an accepted message is lost"
    read = [seq for b in bodies if isinstance(b, TurnStarted | Steered) for seq in b.received]
    assert sorted(read) == received, "a message is in no turn, or in two"
    started = [body.turn for body in bodies if isinstance(body, TurnStarted)]
    finished = [body.turn for body in bodies if isinstance(body, TurnFinished)]
    assert started == finished == list(range(1, len(started) + 1)), "turns do not end in order"
    for earlier, later in pairwise(sorted(received)):
        assert read.index(earlier) < read.index(later), "messages are read out of order"


def check_calls(log: Sequence[Event], allowed: set[str]) -> None:
    """Check that each call has one result, in call order, and that none ran that was not allowed.

    Args:
        log: From the first event on; the ids of its calls are all different.
        allowed: Calls that the gate let pass without asking.
    """
    asked = [c.call_id for e in log if isinstance(e.body, ModelReplied) for c in e.body.calls]
    given = [event.body.call_id for event in log if isinstance(event.body, CallFinished)]
    assert given == asked[: len(given)], "results are missing, twice there, or out of order"
    may_run = set(allowed)
    for event in log:
        match event.body:
            case ApprovalDecided(call_id=call_id, decision="allow_once" | "allow_always"):
                may_run.add(call_id)
            case CallStarted(call_id=call_id):
                assert call_id in may_run, "a call began that nobody allowed"
            case _:
                pass
