"""Finds a past request in a session's log, and makes it again from the state it came from. Pure.

The state at that moment is what a replay of the log up to it gives. Today's agent renders it, so
the outcome says whether the request is the one that was sent; it is never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct, field

from everturn_actors.context.estimation.calibration import ModelStatistics
from everturn_actors.context.past.explain import Explanation, Hidden, Past, explain_request
from everturn_actors.context.projection.turns import blocks, flatten
from everturn_actors.context.render import Renderer
from everturn_actors.context.rendered import Rendered
from everturn_actors.errors import UnknownRequestError
from everturn_actors.events import (
    ContextReduced,
    Event,
    ModelChosen,
    ModelReplied,
    NotesShown,
    OlderQuoted,
    Pinned,
    SessionStarted,
    StepStarted,
    Summarised,
    Transcribed,
    TurnFinished,
    TurnStarted,
    Unpinned,
)
from everturn_actors.model import AnyMessage, ChosenModel, Conversation, ToolDefinition, Usage
from everturn_actors.spec import AgentSpec
from everturn_actors.state.apply import apply
from everturn_actors.state.session_state import SessionState

Known: TypeAlias = tuple[AgentSpec, tuple[ToolDefinition, ...], ModelStatistics]
"An agent as it is today: with its tools, and what is known about its model."

_NAMED = 5  # requests that an error names, around the number that was asked for
WINDOW = "window"  # the stage of the message-count window
SUMMARY = "summary"
_GONE = ("summarised", "dropped")
_TOLD_OF = ("dropped", "summarised")
_CHANGES = (
    StepStarted,
    ContextReduced,
    Summarised,
    NotesShown,
    OlderQuoted,
    Transcribed,
    Pinned,
    Unpinned,
    ModelChosen,
)
"Events after which a request may be made of another conversation than before."


def explain(
    session_id: str,
    events: Sequence[Event],
    seq: int,
    spec: AgentSpec,
    tools: tuple[ToolDefinition, ...],
    statistics: ModelStatistics,
) -> Explanation:
    """Return the account of the request that was sent at event `seq`, or next after it in its turn.

    Takes as long as a replay of the log up to there: run it beside the event loop.

    Args:
        session_id: Of the session, for errors.
        events: The whole log, archive included, oldest first.
        seq: Any event of a turn.
        spec: The agent as it is today.
        tools: Its tools as they are today.
        statistics: What is known about its model today.

    Raises:
        UnknownRequestError: No request was sent there; the text names those that were. Or the
            beginning of the log was discarded, so that none can be made again.
        ContextDoesNotFitError: Today's agent has no room for it.
    """
    replay = RequestReplay(session_id, (seq,))
    replay.read(events)
    return replay.explanations(lambda _: (spec, tools, statistics))[0]


class _SoughtRequest(Struct, kw_only=True):
    """A request that is looked for, and what it was made of once it is found."""

    seq: int
    turn: int = 0
    "The turn that `seq` belongs to; 0 = it has not come yet."
    past: Past | None = None
    past_states: tuple[_PastState, ...] = ()


class RequestReplay:
    """Finds past requests while a log is read, page by page, and makes them again.

    Each event is looked at once, however many requests are wanted, and nothing after the answer to
    the last of them is needed.
    """

    def __init__(self, session_id: str, seqs: Sequence[int]) -> None:
        """Begin before the first event.

        Args:
            session_id: Of the session, for errors.
            seqs: Each any event of a turn; its request is the one sent there, or next after it.
        """
        self._session_id = session_id
        self._wanted = [_SoughtRequest(seq=seq) for seq in seqs]
        self._replay = _Replay()
        self._open_turn = 0
        self._step: tuple[int, StepStarted] | None = None
        self._last_seq = 0
        self._requests = list[tuple[int, int]]()
        "Of each request that was met: where its step began, and by which number it is named."

    def read(self, events: Sequence[Event]) -> bool:
        """Take the next events, oldest first; return whether no more are needed.

        Raises:
            UnknownRequestError: The log does not begin at its beginning.
            CorruptJournalError: The events do not follow each other.
        """
        for event in events:
            if self._is_found:
                break
            self._read(event)
        return self._is_found

    def explanations(self, known: Callable[[ChosenModel | None], Known]) -> tuple[Explanation, ...]:
        """Return the accounts of the requests, when all was read that `read` asked for.

        Args:
            known: Returns the agent of today with a model that was chosen.

        Raises:
            UnknownRequestError: No request was sent there; the text names those that were.
            ContextDoesNotFitError: Today's agent has no room for it.
        """
        if self._step is not None and not self._is_found:  # the log ends before its answer
            self._close(self._last_seq, None)
        found: list[Explanation] = []
        for wanted in self._wanted:
            if wanted.past is None:
                why = self._which(wanted.seq)
                raise UnknownRequestError(self._session_id, wanted.seq, why)
            rendered, past_state = _again(wanted.past, wanted.past_states, known)
            messages, hidden = self._replay.account(past_state)
            found.append(explain_request(wanted.past, rendered, messages, hidden))
        return tuple(found)

    @property
    def _is_found(self) -> bool:
        return all(wanted.past is not None for wanted in self._wanted)

    def _read(self, event: Event) -> None:
        """Look at one event for all requests that are wanted."""
        body = event.body
        if not self._last_seq and not isinstance(body, SessionStarted):
            raise UnknownRequestError(
                self._session_id,
                self._wanted[0].seq,
                f"the log before event {event.seq} was discarded, and without its beginning no"
                " past request can be made again; `compaction: archive` keeps it",
            )
        match body:
            case TurnStarted():
                self._open_turn = body.turn
                for wanted in self._wanted:
                    if wanted.seq in body.received:
                        wanted.turn = wanted.turn or body.turn
            case StepStarted():
                self._step = (event.seq, body)
            case ModelReplied():
                self._close(event.seq, body)
            case TurnFinished():
                self._close(self._last_seq, None)
            case _:
                pass
        for wanted in self._wanted:
            if event.seq == wanted.seq:
                wanted.turn = wanted.turn or self._open_turn
        if isinstance(body, TurnFinished):
            self._open_turn = 0
        self._last_seq = event.seq
        # What is hidden after the answer was no part of the request.
        if not self._is_found:
            self._replay.read(event)

    def _close(self, end_seq: int, reply: ModelReplied | None) -> None:
        """Note that a request was answered by the event `end_seq`, or ended there without."""
        if self._step is None:
            return
        (started_seq, step), self._step = self._step, None
        replied_seq = end_seq if reply else 0
        self._requests.append((started_seq, replied_seq or started_seq))
        for wanted in self._wanted:
            # The event `seq` may be this answer: its turn is the one that is open.
            turn = wanted.turn or (self._open_turn if end_seq == wanted.seq else 0)
            # The first request at or after the number is the one; later ones of its turn are
            # others.
            if wanted.past is not None or step.turn != turn or end_seq < wanted.seq:
                continue
            wanted.past_states = tuple(self._replay.past_states)
            wanted.past = Past(
                turn=step.turn,
                step=step.step,
                started_seq=started_seq,
                replied_seq=replied_seq,
                model=step.model,
                prefix=reply.fingerprint.prefix if reply else "",
                reported=reply.usage if reply else Usage(),
            )

    def _which(self, seq: int) -> str:
        """Return which requests there are, those next to the one that was asked for."""
        if not self._last_seq:
            return "its log was discarded, or is not written yet"
        if not self._requests:
            return "no request was sent in this session yet"
        past_end = seq > self._last_seq
        where = f"the log ends at event {self._last_seq}; " if past_end else ""
        near = sorted(self._requests, key=lambda request: abs(request[0] - seq))[:_NAMED]
        names = ", ".join(str(named) for named in sorted(named for _, named in near))
        total = len(self._requests)
        of = f" (of {total} in all)" if total > len(near) else ""
        return f"{where}requests were sent for the events {names}{of}"


class _PastState(Struct, frozen=True, kw_only=True):
    """A state that a request may have been made of."""

    conversation: Conversation
    model: ChosenModel | None
    messages: int
    "How many messages of finished turns there were, let go or not."
    changes: int
    "How many times something had been hidden."


class _Replay(Struct):
    """Replays a log, and keeps what of it is hidden, and by which event.

    Messages and changes are only ever added, and a past state remembers how many there were: a
    copy of them at each step would make the whole quadratic.
    """

    state: SessionState | None = None
    past_states: list[_PastState] = field(default_factory=list[_PastState])
    "The states in which the newest step was, oldest first."
    _messages: list[AnyMessage] = field(default_factory=list[AnyMessage])
    _turns: list[tuple[int, tuple[int, ...]]] = field(
        default_factory=list[tuple[int, tuple[int, ...]]]
    )
    "Numbers of the finished turns, and the seqs of their messages."
    _gone_turns: int = 0
    "How many of the oldest of them are hidden whole."
    _hidden: dict[int, Hidden] = field(default_factory=dict[int, Hidden])
    _changes: list[tuple[int, Hidden]] = field(default_factory=list[tuple[int, Hidden]])
    "What became of which message, in the order in which it happened."
    _held_from: int = 1
    "The oldest turn that the session holds."
    _told_messages: int = 0
    "How many messages the summary stands for."

    def read(self, event: Event) -> None:
        """Take the next event; the state after it may be a past state."""
        before, self.state = self.state, apply(self.state, event)
        body = event.body
        if isinstance(body, TurnFinished) and before is not None and before.open_turn is not None:
            turn = before.open_turn.finished(body.outcome, body.error)
            self._messages += turn.messages
            self._turns.append((turn.number, tuple(message.seq for message in turn.messages)))
        self._note(event)
        # The request of a step is made of states within it, and of none before.
        if isinstance(body, StepStarted):
            self.past_states.clear()
        if isinstance(body, _CHANGES):
            past_state = _PastState(
                conversation=self.state.conversation,
                model=self.state.model,
                messages=len(self._messages),
                changes=len(self._changes),
            )
            self.past_states.append(past_state)

    def account(self, past_state: _PastState) -> tuple[tuple[AnyMessage, ...], dict[int, Hidden]]:
        """Return all messages of the session up to a past state, and what was done to them."""
        current = past_state.conversation.current
        running = () if current is None else flatten(blocks(current))
        messages = (*self._messages[: past_state.messages], *running)
        return messages, dict(self._changes[: past_state.changes])

    def _note(self, event: Event) -> None:
        """Note what an event hides."""
        match event.body:
            case ContextReduced() as body:
                self._hide_turns(body.cut_turn, Hidden("dropped", body.stage, event.seq))
                for seq in body.dropped:
                    self._hide(seq, Hidden("dropped", body.stage, event.seq))
                for each in body.replaced:
                    self._hide(each.seq, Hidden(each.disposition, body.stage, event.seq))
            case Summarised() as body:
                self._tell(body, Hidden("summarised", SUMMARY, event.seq))
            case _:
                pass
        first = _first_held(self.state)
        # Nothing in the log says so: the session lets go of turns beyond its window by itself.
        if first > self._held_from:
            self._held_from = first
            self._hide_turns(first, Hidden("dropped", WINDOW, event.seq))

    def _hide_turns(self, before: int, how: Hidden) -> None:
        """Note that the finished turns with a number below `before` are hidden."""
        # What is gone stays gone, and turns leave oldest first: none is looked at twice.
        while self._gone_turns < len(self._turns):
            number, seqs = self._turns[self._gone_turns]
            if number >= before:
                break
            for seq in seqs:
                self._hide(seq, how)
            self._gone_turns += 1

    def _tell(self, body: Summarised, how: Hidden) -> None:
        """Note which turns a summary tells of that the one before did not.

        Turns that had left before it was made are not among them: its number of messages says so.
        """
        new, self._told_messages = body.messages - self._told_messages, body.messages
        for number, seqs in reversed(self._turns):
            # It came after the summary was made.
            if number > body.last_turn:
                continue
            # Turns before were told by an earlier summary, or had left before any.
            if new <= 0:
                break
            new -= len(seqs)
            for seq in seqs:
                self._hide(seq, how)

    def _hide(self, seq: int, how: Hidden) -> None:
        """Note what became of a message; what is gone stays so, but a summary may tell of it."""
        known = self._hidden.get(seq)
        if (
            known is not None
            and known.disposition in _GONE
            and (known.disposition, how.disposition) != _TOLD_OF
        ):
            return
        self._hidden[seq] = how
        self._changes.append((seq, how))


def _first_held(state: SessionState | None) -> int:
    """Return the number of the oldest finished turn that is held; 0 where none is."""
    if state is None:
        return 0
    held = state.checkpointed or state.pending
    return held[0].number if held else 0


def _again(
    past: Past,
    past_states: Sequence[_PastState],
    known: Callable[[ChosenModel | None], Known],
) -> tuple[Rendered, _PastState]:
    """Return the request made again, and what it was made of.

    Within a step the context may change before the request is sent, or after a try that was too
    long, and beside it when a summary is done. The state whose request has the hash that was kept
    is the one; where none has, the last one.
    """
    renderer = Renderer()

    def rendered_of(past_state: _PastState) -> Rendered:
        spec, tools, statistics = known(past_state.model)
        turn = past_state.conversation.current
        offered = tools if turn is None or not statistics.calls_tools else turn.tools_beside(tools)
        return renderer.render(past_state.conversation, spec, offered, statistics)

    for past_state in reversed(past_states):
        rendered = rendered_of(past_state)
        # Proven, not guessed: the bytes are those that were sent.
        if past.prefix and rendered.fingerprint.prefix == past.prefix:
            return rendered, past_state
    return rendered_of(past_states[-1]), past_states[-1]
