"""One session's context as its actor carries it: events, state, renderer; no loop, no disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from everturn_actors.context.estimation.calibration import ModelStatistics, learn
from everturn_actors.context.estimation.window import window_messages
from everturn_actors.context.estimation.windows import input_window
from everturn_actors.context.headroom import HIDINGS_MOST
from everturn_actors.context.projection.projection import projection_units
from everturn_actors.context.render import Renderer
from everturn_actors.context.rendered import Rendered
from everturn_actors.context.summaries import digest, summary_task
from everturn_actors.events import (
    Body,
    CallFinished,
    CallStarted,
    ContextReduced,
    Event,
    ModelReplied,
    Received,
    ReplyBroken,
    SessionStarted,
    Steered,
    StepStarted,
    Summarised,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.model import (
    ConversationKey,
    Outcome,
    ToolCall,
    ToolDefinition,
    ToolResult,
    Usage,
)
from everturn_actors.spec import AgentSpec
from everturn_actors.state.apply import apply
from everturn_actors.state.recovery import recover
from everturn_actors.state.session_state import SessionState

RECALL = ToolDefinition(name="recall_context", description="Reads back.", parameters={})
SESSION = "20261122T000000000-00000000"
KEY = ConversationKey(channel="test", chat="chat", agent="test")


@dataclass(slots=True)
class LiveSession:
    """A session that is carried from turn to turn; every request it makes is kept."""

    spec: AgentSpec
    tools: tuple[ToolDefinition, ...] = (RECALL,)
    facts: ModelStatistics = field(default_factory=lambda: ModelStatistics(scale=1.0, reports=3))
    events: list[Event] = field(default_factory=list[Event])
    state: SessionState | None = None
    renderer: Renderer = field(default_factory=Renderer)
    now: datetime = datetime(2026, 11, 22, tzinfo=UTC)
    requests: list[Rendered] = field(default_factory=list[Rendered])
    stored: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        self.record(SessionStarted(session_id=SESSION, key=KEY))

    @property
    def known(self) -> SessionState:
        """The present state."""
        assert self.state is not None
        return self.state

    @property
    def reductions(self) -> list[ContextReduced]:
        """What was hidden so far, oldest first."""
        return [e.body for e in self.events if isinstance(e.body, ContextReduced)]

    def record(self, *bodies: Body) -> None:
        """Log events and apply them."""
        for body in bodies:
            self.now += timedelta(seconds=1)
            event = Event(seq=len(self.events) + 1, at=self.now, body=body)
            self.state = apply(self.state, event)
            self.events.append(event)

    def restart(self) -> None:
        """Forget all but the log."""
        recovered = recover(None, self.events)
        assert recovered is not None
        self.state, self.renderer = recovered.state, Renderer()

    def begin(self, *texts: str) -> None:
        """Begin a turn that answers these messages."""
        seqs: list[int] = []
        for text in texts:
            self.record(Received(text=text))
            seqs.append(self.known.last_seq)
        limit = window_messages(input_window(self.spec.model, self.facts))
        turn = self.known.turns + 1
        self.record(TurnStarted(turn=turn, received=tuple(seqs), window_messages=limit))

    def steer(self, *texts: str) -> None:
        """Let messages come while the turn runs, between two of its steps."""
        turn = self.known.open_turn
        assert turn is not None
        seqs: list[int] = []
        for text in texts:
            self.record(Received(text=text))
            seqs.append(self.known.last_seq)
        self.record(Steered(turn=turn.number, received=tuple(seqs)))

    def break_reply(self, reason: str) -> None:
        """Log that the reply to the last request cannot be used."""
        turn = self.known.open_turn
        assert turn is not None
        self.record(ReplyBroken(turn=turn.number, step=len(turn.steps) + 1, reason=reason))

    def call(self) -> Rendered:
        """Make the next request of the running turn.

        Raises:
            ContextDoesNotFitError: None fits.
        """
        turn = self.known.open_turn
        assert turn is not None
        if turn.step is None:
            self.record(StepStarted(turn=turn.number, step=len(turn.steps) + 1, model="m"))
        for _ in range(HIDINGS_MOST):
            known = self.known.conversation, self.spec, self.tools, self.facts
            if not (hidden := self.renderer.reduce(*known)):
                break
            self.record(*hidden)
        made = self.renderer.render(self.known.conversation, self.spec, self.tools, self.facts)
        self.requests.append(made)
        return made

    def overflow(self) -> bool:
        """Do what is done after the provider refused a request; whether anything was hidden."""
        known = self.known.conversation, self.spec, self.tools, self.facts
        most = projection_units(self.renderer.render(*known).projection) // 2
        made = self.renderer.shrink(*known, most_units=most)
        if made is None:
            return False
        self.record(made[0])
        return True

    def reply(self, text: str = "", calls: tuple[ToolCall, ...] = (), *, tokens: int = 0) -> None:
        """Log the reply to the last request, which the provider says cost so many tokens."""
        fingerprint, outside = self.requests[-1].fingerprint, self.requests[-1].outside
        before = self.known
        units, cost = fingerprint.units, tokens
        if (
            tokens
            and before.fingerprint.prefix
            and not fingerprint.is_cache_miss
            and before.reported.input_tokens
        ):
            units, cost = units - before.fingerprint.units, cost - before.reported.input_tokens
        self.facts = learn(self.facts, units=units, tokens=cost)
        self.record(
            ModelReplied(
                text=text,
                calls=calls,
                fingerprint=fingerprint,
                usage=Usage(input_tokens=tokens),
                outside=outside.sources,
                retells=outside.is_retold,
            )
        )

    def result(self, call: ToolCall, text: str, *, source: str = "") -> None:
        """Log what a call gave, as the policy takes it in; with `source`, text from outside."""
        path = f"{call.call_id}.txt"
        result = ToolResult(call_id=call.call_id, name=call.name, text=text)
        short = self.renderer.shorten_result(self.spec, self.tools, self.facts, result, path)
        if short != text:
            self.stored[path] = text
        self.record(
            CallStarted(call_id=call.call_id),
            CallFinished(
                call_id=call.call_id,
                text=short,
                path=path if short != text else "",
                untrusted=bool(source),
                source=source,
            ),
        )

    def finish(self) -> None:
        """End the running turn."""
        turn = self.known.open_turn
        assert turn is not None
        is_done = bool(turn.steps) and not turn.steps[-1].reply.calls
        outcome: Outcome = "answered" if is_done else "failed"
        self.record(TurnFinished(turn=turn.number, outcome=outcome))

    def turn(self, text: str, *results: str, reply: str = "done", tokens: int = 0) -> Rendered:
        """Carry a whole turn, one call a step; return its last request."""
        self.begin(text)
        for number, result in enumerate(results):
            self.call()
            call = ToolCall(call_id=f"c{self.known.turns}_{number}", name="bash")
            self.reply(calls=(call,), tokens=tokens)
            self.result(call, result)
        made = self.call()
        self.reply(reply, tokens=tokens)
        self.finish()
        return made

    def summarise(self) -> bool:
        """Do what follows a turn, with a digest for a summary; whether there was need."""
        conversation = self.known.conversation
        older = self.renderer.older_turns(conversation, self.spec, self.tools, self.facts)
        task = summary_task(conversation, older_turns=older) if older else None
        if task is None:
            return False
        self.record(
            Summarised(
                last_turn=task.last_turn,
                messages=task.messages,
                text=digest(task),
                source="digest",
                outside=task.outside,
            )
        )
        return True
