"""The gate of an agent, made with the first call that it is asked about."""

from __future__ import annotations

from collections.abc import Callable

import anyio
from anyio import to_thread

from everturn_actors.model import ToolCall
from everturn_actors.ports import Gate, Tool, ToolContext, Verdict


class LateGate:
    """Makes a gate when it is needed; implements `Gate`.

    What judges calls is a third of all that tools load, and who only talks needs none of it.
    """

    def __init__(self, make: Callable[[], Gate]) -> None:
        """Call `make`, in a thread, before the first answer."""
        self._make = make
        self._made: Gate | None = None
        self._lock = anyio.Lock()

    async def evaluate(self, call: ToolCall, tool: Tool, context: ToolContext) -> Verdict:
        """Say whether a call may run; see `Gate.evaluate`."""
        return await (await self._gate()).evaluate(call, tool, context)

    async def remember(self, pattern: str) -> None:
        """Allow `pattern` for good; see `Gate.remember`."""
        await (await self._gate()).remember(pattern)

    async def _gate(self) -> Gate:
        async with self._lock:  # one for all calls: what was allowed for good stands in it
            if self._made is None:
                self._made = await to_thread.run_sync(self._make)
        return self._made
