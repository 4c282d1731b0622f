"""Sessions whose actor failed: when their next one starts, and from when on there is none.

In memory alone: the next start of the gateway tries each of them again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from anyio.abc import TaskGroup
from msgspec import Struct

from everturn_actors.errors import CoreError, SessionQuarantinedError
from everturn_actors.protocol.commands import (
    Cancel,
    ClientDisconnected,
    Command,
    End,
    GetState,
    GetStatus,
    is_ambient,
)
from everturn_actors.supervisor import Backoff, contain
from everturn_actors.turn.model_call import Timing

FAILURES_MAX: Final = 3  # in a row, each soon after the one before; then the session is left alone
SOON_S: Final = 60.0  # a failure later than this after the one before has nothing to do with it
BACKOFF_S: Final = 0.05  # before the second start after a failure; doubled with each further one
BACKOFF_MAX_S: Final = 0.4  # whoever asks is answered within a second
REVIVAL: Final = Backoff(first_s=5.0)
ENDING: Final = (Cancel, End)
"Commands after which nothing is left of a session that could fail."
_HARMLESS: Final = (*ENDING, ClientDisconnected, GetState, GetStatus)
_REMEMBERED: Final = 10_000  # sessions that failed; on a full disk it may be every one


class _Failures(Struct):
    """What is known of one session that failed."""

    at: float
    in_a_row: int = 0
    faults: int = 0
    "Of these, those that are neither the disk's nor another writer's."
    why: str = ""


class Quarantine:
    """Counts the failures of the sessions of one registry."""

    def __init__(self) -> None:
        self._failures: dict[str, _Failures] = {}

    def failed(self, session_id: str, cause: BaseException, *, at: float, counts: bool) -> None:
        """Note that a session's actor failed.

        Args:
            session_id: The session.
            cause: Why.
            at: When, on a clock that never jumps, in seconds.
            counts: Whether it would fail again for the same reason. A disk that is full for all is
                no reason to leave one session alone.
        """
        known = self._failures.pop(session_id, None)
        if known is None or (at - known.at > SOON_S and known.faults < FAILURES_MAX):
            known = _Failures(at=at)
        self._failures[session_id] = known  # the last to be forgotten
        known.at = at
        known.in_a_row += 1
        if counts:
            known.faults += 1
            known.why = str(cause) if isinstance(cause, CoreError) else type(cause).__name__
        while len(self._failures) > _REMEMBERED:
            del self._failures[next(iter(self._failures))]

    def release(self, session_id: str) -> None:
        """Forget what was known of a session: it works, or somebody let it go on."""
        self._failures.pop(session_id, None)

    def backoff_s(self, session_id: str, *, at: float) -> float:
        """Return how long the session's next actor waits before it begins."""
        known = self._failures.get(session_id)
        if known is None or known.in_a_row <= 1 or at - known.at > SOON_S:
            return 0.0  # what failed once mostly works the second time, and somebody waits
        return min(BACKOFF_S * 2.0 ** min(known.in_a_row - 2, 8), BACKOFF_MAX_S)

    def check(self, session_id: str, command: Command[object]) -> None:
        """Refuse what a session that is left alone does not take.

        Raises:
            SessionQuarantinedError: With what to do.
        """
        if isinstance(command, _HARMLESS) or is_ambient(command):
            return  # none of them lets anything go on that was open
        if (error := self.why_not(session_id)) is not None:
            raise error

    def why_not(self, session_id: str) -> SessionQuarantinedError | None:
        """Return why a session is not started any more; None where it is."""
        known = self._failures.get(session_id)
        if known is None or known.faults < FAILURES_MAX:
            return None
        return SessionQuarantinedError(session_id, known.faults, known.why)

    def __len__(self) -> int:
        """Return how many sessions are left alone."""
        return sum(known.faults >= FAILURES_MAX for known in self._failures.values())


class Revivals:
    """Starts sessions again by themselves: whoever wrote in a chat may not come back to it."""

    def __init__(
        self, timing: Timing, tasks: TaskGroup, revive: Callable[[str], Awaitable[None]]
    ) -> None:
        """Begin with none.

        Args:
            timing: How it waits.
            tasks: Where it waits.
            revive: Starts a session again, unless somebody was faster.
        """
        self._timing, self._tasks, self._revive = timing, tasks, revive
        self._times: dict[str, int] = {}
        "How often in a row a session that failed was, or will be, started again."

    def later(self, session_id: str) -> None:
        """Start a session again after a while, a longer one each time in a row."""
        times = self._times.pop(session_id, 0) + 1
        self._times[session_id] = times
        delay_s = REVIVAL.pause_s(times, self._timing.jitter())
        work = partial(self._wait_and_revive, session_id, times, delay_s)
        self._tasks.start_soon(contain, f"revival of {session_id}", work)

    def forget(self, session_id: str) -> None:
        """Begin to count anew: it works, or nothing in it is open."""
        self._times.pop(session_id, None)

    async def _wait_and_revive(self, session_id: str, times: int, delay_s: float) -> None:
        await self._timing.clock.sleep(delay_s)
        if self._times.get(session_id) == times:
            await self._revive(session_id)
