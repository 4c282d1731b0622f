"""Finds a past request in a session's log, and makes it again from the state it came from. Pure.

The state at that moment is what a replay of the log up to it gives. Today's agent renders it, so
the outcome says whether the request is the one that was sent; it is never guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from everturn_actors.context.calibration import ModelFacts
from everturn_actors.context.explain import Explanation, Hidden, Past, explain_request
from everturn_actors.context.render import Rendered, Renderer
from everturn_actors.context.turns import blocks, flatten
from everturn_actors.errors import UnknownRequestError
from everturn_actors.events import (
    ContextReduced,
    Event,
    ModelReplied,
    SessionStarted,
    StepStarted,
    Summarised,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.model import AnyMessage, Conversation, ToolDefinition, Usage
from everturn_actors.spec import AgentSpec
from everturn_actors.state import SessionState, apply

_NAMED = 5  # requests that an error names, around the number that was asked for
WINDOW = "window"  # the stage of the message-count window
SUMMARY = "summary"
_GONE = ("summarised", "dropped")
_TOLD_OF = ("dropped", "summarised")


def explain(
    session_id: str,
    events: Sequence[Event],
    seq: int,
    spec: AgentSpec,
    tools: tuple[ToolDefinition, ...],
    facts: ModelFacts,
) -> Explanation:
    """Return the account of the request that was sent at event `seq`, or next after it in its turn.

    Takes as long as a replay of the log: run it beside the event loop.

    Args:
        session_id: Of the session, for errors.
        events: The whole log, archive included, oldest first.
        seq: Any event of a turn.
        spec: The agent as it is today.
        tools: Its tools as they are today.
        facts: What is known about its model today.

    Raises:
        UnknownRequestError: No request was sent there; the text names those that were. Or the
            beginning of the log was discarded, so that none can be made again.
        ContextDoesNotFitError: Today's agent has no room for it.
    """
    if not events:
        raise UnknownRequestError(session_id, seq, "its log was discarded, or is not written yet")
    if not isinstance(events[0].body, SessionStarted):
        raise UnknownRequestError(
            session_id,
            seq,
            f"the log before event {events[0].seq} was discarded, and without its beginning no"
            " past request can be made again; `compaction: archive` keeps it",
        )
    asked = _find(session_id, events, seq)
    replay = _Replay()
    for event in events:
        if event.seq > asked.last_seq:
            break
        replay.read(event, keep=event.seq >= asked.past.started_seq)
    rendered, scene = _again(asked.past, replay.scenes, spec, tools, facts)
    return explain_request(asked.past, rendered, scene.messages(), scene.hidden)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """A step of a log: the request was sent in it."""

    past: Past
    last_seq: int
    "The last event before the answer; of a step without one, its last event."


def _find(session_id: str, events: Sequence[Event], seq: int) -> _Request:
    """Return the request of the turn that event `seq` belongs to, at it or next after it."""
    requests = list(_requests(events))
    turn = _turn_of(events, seq)
    for request in requests:
        end = request.past.replied_seq or request.last_seq
        if request.past.turn == turn and end >= seq:
            return request
    raise UnknownRequestError(session_id, seq, _which(requests, seq, last_seq=events[-1].seq))


def _requests(events: Sequence[Event]) -> Iterator[_Request]:
    """Yield every request of the log, oldest first."""
    started: tuple[int, StepStarted] | None = None
    last_seq = 0
    for event in events:
        body = event.body
        match body:
            case StepStarted():
                started = (event.seq, body)
            case ModelReplied() if started is not None:
                yield _request(started, last_seq, event.seq, body)
                started = None
            case TurnFinished() if started is not None:
                yield _request(started, last_seq, 0, None)
                started = None
            case _:
                pass
        last_seq = event.seq
    if started is not None:
        yield _request(started, last_seq, 0, None)


def _request(
    started: tuple[int, StepStarted], last_seq: int, replied_seq: int, reply: ModelReplied | None
) -> _Request:
    seq, step = started
    return _Request(
        past=Past(
            turn=step.turn,
            step=step.step,
            started_seq=seq,
            replied_seq=replied_seq,
            model=step.model,
            prefix=reply.sent.prefix if reply else "",
            reported=reply.usage if reply else Usage(),
        ),
        last_seq=last_seq,
    )


def _turn_of(events: Sequence[Event], seq: int) -> int:
    """Return the number of the turn that an event belongs to; 0 where it belongs to none."""
    open_turn = 0
    for event in events:
        body = event.body
        if isinstance(body, TurnStarted):
            open_turn = body.turn
            if seq in body.received:
                return open_turn
        if event.seq == seq and open_turn:
            return open_turn
        if isinstance(body, TurnFinished):
            open_turn = 0
    return 0


def _which(requests: Sequence[_Request], seq: int, *, last_seq: int) -> str:
    """Return which requests there are, those next to `seq`."""
    if not requests:
        return "no request was sent in this session yet"
    where = f"the log ends at event {last_seq}; " if seq > last_seq else ""
    near = sorted(requests, key=lambda r: abs(r.past.started_seq - seq))[:_NAMED]
    seqs = [request.past.replied_seq or request.past.started_seq for request in near]
    names = ", ".join(map(str, sorted(seqs)))
    of = f" (of {len(requests)} in all)" if len(requests) > len(near) else ""
    return f"{where}requests were sent for the events {names}{of}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scene:
    """A state that a request may have been made of."""

    conversation: Conversation
    past_messages: tuple[AnyMessage, ...]
    "Of the finished turns, let go or not, oldest first."
    hidden: dict[int, Hidden]

    def messages(self) -> tuple[AnyMessage, ...]:
        """Return every message of the session up to here, oldest first."""
        current = self.conversation.current
        running = () if current is None else flatten(blocks(current))
        return (*self.past_messages, *running)


@dataclass(slots=True)
class _Replay:
    """Replays a log, and keeps what of it is hidden, and by which event."""

    state: SessionState | None = None
    scenes: list[_Scene] = field(default_factory=list[_Scene])
    "The states in which the asked step was, oldest first."
    _messages: list[AnyMessage] = field(default_factory=list[AnyMessage])
    _turns: list[tuple[int, tuple[int, ...]]] = field(
        default_factory=list[tuple[int, tuple[int, ...]]]
    )
    "Numbers of the finished turns, and the seqs of their messages."
    _hidden: dict[int, Hidden] = field(default_factory=dict[int, Hidden])
    _held_from: int = 1
    "The oldest turn that the session holds."
    _told_messages: int = 0
    "How many messages the summary stands for."

    def read(self, event: Event, *, keep: bool) -> None:
        """Take the next event; with `keep`, the state after it may be a scene."""
        before, self.state = self.state, apply(self.state, event)
        body = event.body
        if isinstance(body, TurnFinished) and before is not None and before.open_turn is not None:
            turn = before.open_turn.finished(body.outcome, body.error)
            self._messages += turn.messages
            self._turns.append((turn.number, tuple(message.seq for message in turn.messages)))
        self._note(event)
        if keep and isinstance(body, StepStarted | ContextReduced | Summarised):
            scene = _Scene(
                conversation=self.state.conversation,
                past_messages=tuple(self._messages),
                hidden=dict(self._hidden),
            )
            self.scenes.append(scene)

    def _note(self, event: Event) -> None:
        """Note what an event hides."""
        match event.body:
            case ContextReduced() as body:
                self._hide_turns(body.cut_turn, Hidden("dropped", body.stage, event.seq))
                for seq in body.dropped:
                    self._hide(seq, Hidden("dropped", body.stage, event.seq))
                for each in body.replaced:
                    self._hide(each.seq, Hidden(each.fate, body.stage, event.seq))
            case Summarised() as body:
                self._tell(body, Hidden("summarised", SUMMARY, event.seq))
            case _:
                pass
        first = _first_held(self.state)
        if first > self._held_from:
            self._held_from = first
            self._hide_turns(first, Hidden("dropped", WINDOW, event.seq))

    def _hide_turns(self, before: int, how: Hidden) -> None:
        """Note that the finished turns with a number below `before` are hidden."""
        for number, seqs in self._turns:
            if number >= before:
                break
            for seq in seqs:
                self._hide(seq, how)

    def _tell(self, body: Summarised, how: Hidden) -> None:
        """Note which turns a summary tells of that the one before did not.

        Turns that had left before it was made are not among them: its number of messages says so.
        """
        new, self._told_messages = body.messages - self._told_messages, body.messages
        for number, seqs in reversed(self._turns):
            if number > body.last_turn:
                continue
            if new <= 0:
                break
            new -= len(seqs)
            for seq in seqs:
                self._hide(seq, how)

    def _hide(self, seq: int, how: Hidden) -> None:
        """Note what became of a message; what is gone stays so, but a summary may tell of it."""
        known = self._hidden.get(seq)
        if known is not None and known.fate in _GONE and (known.fate, how.fate) != _TOLD_OF:
            return
        self._hidden[seq] = how


def _first_held(state: SessionState | None) -> int:
    """Return the number of the oldest finished turn that is held; 0 where none is."""
    if state is None:
        return 0
    held = state.checkpointed or state.pending
    return held[0].number if held else 0


def _again(
    past: Past,
    scenes: Sequence[_Scene],
    spec: AgentSpec,
    tools: tuple[ToolDefinition, ...],
    facts: ModelFacts,
) -> tuple[Rendered, _Scene]:
    """Return the request made again, and what it was made of.

    Within a step the context may change before the request is sent, or after a try that was too
    long, and beside it when a summary is done. The state whose request has the hash that was kept
    is the one; where none has, the last one.
    """
    renderer = Renderer()
    for scene in reversed(scenes):
        rendered = renderer.render(scene.conversation, spec, tools, facts)
        if past.prefix and rendered.sent.prefix == past.prefix:
            return rendered, scene
    return renderer.render(scenes[-1].conversation, spec, tools, facts), scenes[-1]
