"""What a turn looks like as a trace: the port of whoever records spans.

A turn is a trace of its own, its model calls and tool calls are the spans in it. No span holds a
word of a message, an argument or a result.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol

from everturn_actors.model import ModelRequest, Outcome, Reply, ToolCall, Usage
from everturn_actors.ports import ToolKind
from everturn_actors.spec import AgentSpec, ModelSpec


class Span(Protocol):
    """One piece of work while it goes on."""

    @property
    def trace_id(self) -> str:
        """The trace it belongs to, as 32 hexadecimal digits; empty where nobody records it."""
        ...

    def replied(self, reply: Reply) -> None:
        """Note what came of a model call."""
        ...

    def used(self, usage: Usage) -> None:
        """Note what all model calls of a turn used."""
        ...

    def outcome(self, outcome: Outcome | None) -> None:
        """Note how a turn ended; None = it was cut short, and may go on."""
        ...

    def failed(self, kind: str) -> None:
        """Note which kind of error it ended with: one of few words."""
        ...


class Tracer(Protocol):
    """Records spans. Each method opens one that ends with its block, in the same task."""

    def apart(self) -> AbstractContextManager[None]:
        """Enclose work that is no part of what happens to have started it."""
        ...

    def turn(
        self, *, session_id: str, turn: int, channel: str, agent: str, spec: AgentSpec | None
    ) -> AbstractContextManager[Span]:
        """Open the span of a turn, which begins a trace where the task is `apart`.

        `spec` None = there is no such agent.
        """
        ...

    def model_call(
        self, *, session_id: str, agent: str, model: ModelSpec, request: ModelRequest
    ) -> AbstractContextManager[Span]:
        """Open the span of a model call, inside whatever span is open in this task."""
        ...

    def tool_call(
        self, *, session_id: str, agent: str, call: ToolCall, kind: ToolKind
    ) -> AbstractContextManager[Span]:
        """Open the span of a tool call, inside whatever span is open in this task."""
        ...

    def close(self) -> None:
        """Send what is not sent yet. Blocks; takes no span after that."""
        ...


class _NoSpan:
    trace_id = ""

    def replied(self, reply: Reply) -> None:
        pass

    def used(self, usage: Usage) -> None:
        pass

    def outcome(self, outcome: Outcome | None) -> None:
        pass

    def failed(self, kind: str) -> None:
        pass


_NOTHING: Final[AbstractContextManager[Span]] = nullcontext(_NoSpan())


class NoTracer:
    """A `Tracer` that records nothing."""

    def apart(self) -> AbstractContextManager[None]:
        """Enclose nothing."""
        return nullcontext()

    def turn(
        self, *, session_id: str, turn: int, channel: str, agent: str, spec: AgentSpec | None
    ) -> AbstractContextManager[Span]:
        """Open nothing."""
        del session_id, turn, channel, agent, spec
        return _NOTHING

    def model_call(
        self, *, session_id: str, agent: str, model: ModelSpec, request: ModelRequest
    ) -> AbstractContextManager[Span]:
        """Open nothing."""
        del session_id, agent, model, request
        return _NOTHING

    def tool_call(
        self, *, session_id: str, agent: str, call: ToolCall, kind: ToolKind
    ) -> AbstractContextManager[Span]:
        """Open nothing."""
        del session_id, agent, call, kind
        return _NOTHING

    def close(self) -> None:
        """Send nothing."""
