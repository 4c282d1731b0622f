"""Sessions that failed while something in them was open: started again, later and later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from anyio.abc import TaskGroup

from everturn_actors.supervisor import Backoff, contain
from everturn_actors.turn.model_call import Timing

REVIVAL: Final = Backoff(first_s=5.0)


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
