"""Who answers, and the time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import datetime
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from everturn_actors.context.estimation.calibration import ModelStatistics
from everturn_actors.model import ChosenModel, OpenTurn, ShownNotes, ToolDefinition
from everturn_actors.ports.models import ModelProvider, Summariser
from everturn_actors.ports.tools import Gate, Tool, ToolContext
from everturn_actors.ports.voice import Speaker, Transcriber
from everturn_actors.spec import AgentSpec, PromptSpec


class Quotes(Struct, frozen=True, kw_only=True):
    """Older messages, as the model reads them behind a question."""

    text: str
    seqs: tuple[int, ...]
    "Of the events that are quoted, the best match first."


class Agent(Struct, frozen=True, kw_only=True):
    """One agent, ready to work: its values and the live things behind them."""

    spec: AgentSpec
    provider: ModelProvider
    tools: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    summariser: Summariser | None = None
    "None: older turns leave without a summary."
    gate: Gate | None = None
    "None: every call may run."
    prepare: Callable[[], Awaitable[None]] | None = None
    """Brings up what its tools need, before each turn; `tools` may have changed when it returns.

    Never raises, and has a deadline of its own: a tool that cannot be had says so when called.
    """
    notes: Callable[[ToolContext], Awaitable[ShownNotes]] | None = None
    """What its prompt is to say of the person and the work, for a conversation as it stands.

    None: its prompt has no notes. What the prompt says is an event in the log before it is sent.
    """
    quotes: Callable[[ToolContext], Awaitable[Quotes | None]] | None = None
    """Older messages of a conversation that seem to answer what its open turn asks, of those that
    are hidden; it gives None where there are none. None: nothing is quoted by itself."""
    transcriber: Transcriber | None = None
    "Hears voice notes before the model is called; None = it is told of them as of any file."
    speaker: Speaker | None = None
    "Speaks its answers, where `spec.spoken_replies` says so; None = they are text alone."
    deferred: Callable[[], Collection[str]] = tuple
    "Names of its tools that stand in no request now: the model finds them in another way."

    def offered(
        self, statistics: ModelStatistics, turn: OpenTurn | None
    ) -> tuple[ToolDefinition, ...]:
        """Return the tools as its model sees them; none for a model that takes none.

        Args:
            statistics: What is known of its model.
            turn: The open turn, whose caller may bring tools of its own.
        """
        if not statistics.calls_tools:
            return ()
        deferred = self.deferred()
        own = tuple([tool.definition for name, tool in self.tools.items() if name not in deferred])
        return own if turn is None else turn.tools_beside(own, deferred)

    def bare(self) -> Agent:
        """Return the agent without its prompt, tools and skills: its model alone."""
        spec = replace(self.spec, prompt=PromptSpec())
        return replace(
            self, spec=spec, tools={}, prepare=None, deferred=tuple, notes=None, quotes=None
        )


class Agents(Protocol):
    """Finds agents. A turn keeps the version it began with."""

    def get(self, name: str) -> Agent:
        """Return the current version of an agent.

        Raises:
            UnknownAgentError: There is none of this name.
        """
        ...

    def get_with(self, name: str, model: ChosenModel) -> Agent:
        """Return the current version of an agent with another model, as somebody chose it.

        Raises:
            UnknownAgentError: There is none of this name.
            UnusableModelError: The model cannot be used as it is configured; the text says why.
        """
        ...


class Clock(Protocol):
    """The time, so that tests can own it."""

    def now(self) -> datetime:
        """Return the present instant, UTC, aware."""
        ...

    async def sleep(self, delay_s: float) -> None:
        """Wait; `delay_s` is not negative."""
        ...
