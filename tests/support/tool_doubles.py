"""Tools and gates that do nothing but remember what was asked of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import anyio

from everturn_actors.model import ToolCall, ToolDefinition
from everturn_actors.ports import ALLOW, Tool, ToolCapabilities, ToolContext, ToolOutput, Verdict


class Deed:
    """A tool that counts how often each call of it began, whichever service it ran under."""

    def __init__(
        self,
        name: str,
        *,
        capabilities: ToolCapabilities | None = None,
        held: bool = False,
        gives: Callable[[ToolCall], str | ToolOutput] | None = None,
    ) -> None:
        """Prepare the tool.

        Args:
            name: Of the tool.
            capabilities: How it may be run; by default as one with effects.
            held: Whether a call waits for `let_go`.
            gives: The result of a call.
        """
        self.definition = ToolDefinition(name=name, description="", parameters={"type": "object"})
        self.capabilities = capabilities or ToolCapabilities()
        self.runs: Counter[str] = Counter()
        self.running: dict[str, anyio.Event] = {}
        "What each running call waits for."
        self._gives = gives
        self._held = held
        self._changed = anyio.Event()

    async def run(self, call: ToolCall, context: ToolContext) -> str | ToolOutput:
        """Count the call; wait where it is held."""
        self.runs[call.call_id] += 1
        go = self.running[call.call_id] = anyio.Event()
        self._changed.set()
        self._changed = anyio.Event()
        try:
            if self._held:
                await go.wait()
            return self._gives(call) if self._gives else f"{call.call_id} done"
        finally:
            self.running.pop(call.call_id, None)

    async def until_running(self, call_id: str) -> None:
        """Wait until a call runs."""
        while call_id not in self.running:
            await self._changed.wait()

    def let_go(self, call_id: str) -> None:
        """Let one running call end."""
        self.running[call_id].set()


class Rules:
    """A gate with one verdict for each tool; what is allowed for good outlives the service."""

    def __init__(self, verdicts: Mapping[str, Verdict]) -> None:
        """Prepare the gate; tools without a verdict are allowed."""
        self.verdicts = dict(verdicts)
        self.kept: list[str] = []
        "Patterns that are allowed for good."
        self.allowed: set[str] = set()
        "Ids of the calls that it let pass by itself."

    async def evaluate(self, call: ToolCall, tool: Tool, context: ToolContext) -> Verdict:
        """Say what the rules say."""
        verdict = self.verdicts.get(call.name, ALLOW)
        if verdict.effect == "ask" and verdict.pattern in self.kept:
            verdict = ALLOW
        if verdict.effect == "allow":
            self.allowed.add(call.call_id)
        return verdict

    async def remember(self, pattern: str) -> None:
        """Keep a pattern."""
        if pattern not in self.kept:
            self.kept.append(pattern)


def by_name(*tools: Deed) -> dict[str, Tool]:
    """Return tools as an agent holds them."""
    return {tool.definition.name: tool for tool in tools}
