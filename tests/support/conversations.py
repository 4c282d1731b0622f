"""Hypothesis strategies for conversations, agents and whole event logs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec.structs import replace
from support.context_policies import POLICIES
from support.histories import hiding

from everturn_actors.events import (
    Body,
    CallFinished,
    CallStarted,
    Event,
    ModelReplied,
    Received,
    SessionStarted,
    StatusChanged,
    StepStarted,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.model import (
    Conversation,
    ConversationKey,
    OpenTurn,
    Outcome,
    Reply,
    Step,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
    UserMessage,
)
from everturn_actors.spec import AgentSpec, ContextSpec, ModelSpec, PromptSpec, SessionSpec
from everturn_actors.state.apply import apply
from everturn_actors.state.session_state import SessionState

STARTED = datetime(2026, 11, 21, 22, 49, 56, 123456, tzinfo=UTC)
KEY = ConversationKey(channel="http", chat="c1", agent="assistant")

OUTCOMES: tuple[Outcome, ...] = ("answered", "failed", "cancelled", "interrupted")

short_texts: SearchStrategy[str] = st.one_of(
    st.just(""), st.text(max_size=40), st.text(alphabet="ひらがな漢字한국어中文", max_size=60)
)

texts: SearchStrategy[str] = st.one_of(
    short_texts,
    st.sampled_from(["word ", "漢字", "👩‍👩‍👧", "{}\n"]).flatmap(
        lambda piece: st.integers(1, 1500).map(lambda times: piece * times)
    ),
)
"Empty, short, CJK and giant texts (up to some 37 KB)."

usages = st.builds(
    Usage,
    input_tokens=st.integers(0, 10**6),
    output_tokens=st.integers(0, 10**5),
    cached_tokens=st.integers(0, 10**6),
)


@st.composite
def steps(draw: st.DrawFn, *, max_calls: int = 3) -> Step:
    """Draw one step with up to `max_calls` calls side by side; ids are unique in it."""
    count = draw(st.integers(0, max_calls))
    calls = tuple(
        ToolCall(call_id=f"call_{number}", name="bash", arguments=draw(_arguments))
        for number in range(count)
    )
    return Step(
        reply=Reply(text=draw(texts), calls=calls, usage=draw(usages)),
        results=tuple(
            ToolResult(
                call_id=call.call_id, name=call.name, text=draw(texts), is_error=draw(st.booleans())
            )
            for call in calls
        ),
    )


_arguments = st.sampled_from(
    ["{}", '{"command":"ls -la"}', '{"text":"漢字"}', "{" + " " * 500 + "}"]
)


@st.composite
def turns(draw: st.DrawFn) -> Turn:
    """Draw a finished turn: one to three user messages, up to three steps, any outcome."""
    users = draw(st.lists(st.builds(UserMessage, text=texts), min_size=1, max_size=3))
    return Turn(
        number=1,
        users=tuple(users),
        steps=tuple(draw(st.lists(steps(), max_size=3))),
        outcome=draw(st.sampled_from(OUTCOMES)),
    )


@st.composite
def conversations(draw: st.DrawFn, *, max_turns: int = 6) -> Conversation:
    """Draw a conversation with a running turn, or without; every message has a seq of its own."""
    finished = draw(st.lists(turns(), max_size=max_turns))
    running = draw(turns()) if not finished or draw(st.booleans()) else None
    left = draw(st.sampled_from([0, 0, 1, 4321]))
    return numbered(finished, running, left_messages=left, instructions=draw(short_texts))


def numbered(
    finished: Sequence[Turn],
    running: Turn | None,
    *,
    left_messages: int = 0,
    instructions: str = "",
) -> Conversation:
    """Return a conversation of these turns, its messages and turns numbered throughout."""
    seq = 0

    def next_seq() -> int:
        nonlocal seq
        seq += 1
        return seq

    numbered_turns = [
        _numbered(turn, number, next_seq)
        for number, turn in enumerate([*finished, *([running] if running else [])], 1)
    ]
    last = numbered_turns.pop() if running else None
    return Conversation(
        turns=tuple(numbered_turns),
        current=None
        if last is None
        else OpenTurn(number=last.number, users=last.users, started_at=STARTED, steps=last.steps),
        left_messages=left_messages,
        instructions=instructions,
    )


def _numbered(turn: Turn, number: int, next_seq: Callable[[], int]) -> Turn:
    return replace(
        turn,
        number=number,
        users=tuple(replace(user, seq=next_seq()) for user in turn.users),
        steps=tuple(
            Step(
                reply=replace(step.reply, seq=next_seq()),
                results=tuple(replace(result, seq=next_seq()) for result in step.results),
            )
            for step in turn.steps
        ),
    )


def agent(
    *,
    window_tokens: int | None = None,
    reserve_tokens: int | None = None,
    cap_tokens: int = 20_000,
    prompt: PromptSpec | None = None,
) -> AgentSpec:
    """Return an agent with these numbers, which the policy duragent reads."""
    return AgentSpec(
        name="assistant",
        model=ModelSpec(
            provider="scripted",
            name="test-model",
            context_window=window_tokens,
            max_output_tokens=reserve_tokens,
        ),
        prompt=prompt or PromptSpec(),
        session=SessionSpec(
            context=ContextSpec(
                policy=POLICIES["duragent"].with_numbers({"max_history_tokens": cap_tokens})
            )
        ),
    )


class Log:
    """Writes events with the right numbers and times, for tests of what reads them."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.add(SessionStarted(session_id="s1", key=KEY))

    def add(self, body: Body) -> Event:
        """Append one event and return it."""
        seq = len(self.events) + 1
        event = Event(seq=seq, at=STARTED + timedelta(seconds=seq), body=body)
        self.events.append(event)
        return event

    def run(self, turn: Turn, *, window_messages: int = 1000) -> None:
        """Append all events of a finished turn."""
        received = tuple(
            self.add(Received(text=user.text, sender=user.sender)).seq for user in turn.users
        )
        self.add(TurnStarted(turn=turn.number, received=received, window_messages=window_messages))
        for number, step in enumerate(turn.steps, 1):
            self.add(StepStarted(turn=turn.number, step=number, model="test-model"))
            reply = step.reply
            self.add(ModelReplied(text=reply.text, calls=reply.calls, usage=reply.usage))
            for result in step.results:
                self.add(CallStarted(call_id=result.call_id))
            for result in reversed(step.results):  # calls side by side end in any order
                finished = CallFinished(
                    call_id=result.call_id,
                    text=result.text,
                    is_error=result.is_error,
                    path=result.path,
                )
                self.add(finished)
        self.add(TurnFinished(turn=turn.number, outcome=turn.outcome, error=turn.error))


class _HidingLog(Log):
    """A log in which something is hidden from the model right after some of the events."""

    def __init__(self, draw: st.DrawFn, after: AbstractSet[int]) -> None:
        self._draw, self._after = draw, after
        self._state: SessionState | None = None
        super().__init__()

    def add(self, body: Body) -> Event:
        """Append one event and, where it is time, what is hidden after it; return the former."""
        event = super().add(body)
        self._state = apply(self._state, event)
        if event.seq in self._after:
            self.add(self._draw(hiding(self._state)))
        return event


@st.composite
def logs(draw: st.DrawFn, *, max_turns: int = 30, window_messages: int = 1000) -> list[Event]:
    """Draw the log of a session whose turns have all ended, some of them after a pause.

    Anywhere in it, also inside a turn, something may have been hidden from the model for good.
    """
    shapes = draw(
        st.lists(
            st.tuples(st.integers(1, 3), st.lists(st.integers(0, 6), max_size=3), st.booleans()),
            min_size=1,
            max_size=max_turns,
        )
    )
    log = _HidingLog(draw, draw(st.sets(st.integers(1, 150), max_size=4)))
    for number, (users, calls, paused) in enumerate(shapes, 1):
        log.run(simple_turn(number, users=users, calls=calls), window_messages=window_messages)
        if paused:
            log.add(StatusChanged(status="paused"))
            log.add(StatusChanged(status="active"))
    return log.events


def simple_turn(
    number: int, *, users: int = 1, calls: Sequence[int] = (0,), text: str = "hi"
) -> Turn:
    """Return a turn with `users` messages and one step for each number of calls."""
    return Turn(
        number=number,
        users=tuple(UserMessage(text=f"{text} {number}.{index}") for index in range(users)),
        steps=tuple(
            Step(
                reply=Reply(
                    text=f"reply {number}.{index}",
                    calls=tuple(ToolCall(call_id=f"c{call}", name="bash") for call in range(count)),
                    usage=Usage(input_tokens=10, output_tokens=2),
                ),
                results=tuple(
                    ToolResult(call_id=f"c{call}", name="bash", text=f"result {call}")
                    for call in range(count)
                ),
            )
            for index, count in enumerate(calls)
        ),
    )
