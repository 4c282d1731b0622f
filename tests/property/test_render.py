"""What holds for every request of every session, whatever is said in it and whichever policy."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from hypothesis import event, example, given
from hypothesis import strategies as st
from msgspec import structs
from support.context_policies import POLICIES
from support.examples import examples
from support.live import LiveSession
from support.tables import table

from everturn_actors.context.catalog import policy_of
from everturn_actors.context.estimation.estimates import Estimates
from everturn_actors.context.policy import NO_HEADROOM
from everturn_actors.context.render import Renderer, render
from everturn_actors.context.rendered import Rendered
from everturn_actors.context.stages.cutting_ahead import newest_turn
from everturn_actors.errors import ContextDoesNotFitError
from everturn_actors.events import ContextReduced, Summarised
from everturn_actors.model import (
    Conversation,
    Notice,
    OpenTurn,
    Reply,
    ToolCall,
    ToolResult,
    UserMessage,
)
from everturn_actors.spec import AgentSpec, ContextSpec, ModelSpec, PromptSpec, SessionSpec
from everturn_actors.state.recovery import recover
from everturn_actors.state.session_state import SessionState

pieces = st.sampled_from(["word ", "漢字かな", "👩‍👩‍👧", '{"key": 17}\n', "A1b2C3", "\n"])
texts = st.one_of(
    st.sampled_from(["", "ok", "what now?"]),
    st.text(max_size=30),
    st.tuples(pieces, st.integers(1, 1200)).map(lambda pair: pair[0] * pair[1]),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One turn of a script."""

    users: tuple[str, ...]
    steps: tuple[tuple[str, ...], ...]
    "For each step with calls, the results of its calls."
    reply: str
    reports: bool
    "Whether the provider reports usage."
    restart: bool
    "Whether the process ends before the turn's last request."
    overflow: bool
    "Whether the provider refuses the turn's last request once."
    steered: tuple[str, ...]
    "Messages that come after its first step with calls."
    broken: bool
    "Whether the reply to the turn's last request cannot be used at first."
    summary: bool


said = st.builds(
    Said,
    users=st.lists(texts, min_size=1, max_size=2).map(tuple),
    steps=st.lists(st.lists(texts, min_size=1, max_size=3).map(tuple), max_size=5).map(tuple),
    reply=texts,
    reports=st.booleans(),
    restart=st.booleans(),
    overflow=st.sampled_from([False, False, False, True]),
    steered=st.one_of(st.just(()), st.lists(texts, max_size=2).map(tuple)),
    broken=st.sampled_from([False, False, False, True]),
    summary=st.booleans(),
)


def agent(policy: str, window: int, system: str = "You help.") -> AgentSpec:
    """Return an agent with this policy and window."""
    return AgentSpec(
        name="test",
        model=ModelSpec(
            provider="openai", name="m", context_window=window, max_output_tokens=window // 10
        ),
        prompt=PromptSpec(system_prompt=system),
        session=SessionSpec(context=ContextSpec(policy=POLICIES[policy])),
    )


def asked_always(spec: AgentSpec) -> AgentSpec:
    """Return the agent with a policy that has to be asked whatever there is to do."""
    policy = dataclasses.replace(policy_of(spec.session.context), headroom=lambda *_: NO_HEADROOM)
    context = structs.replace(spec.session.context, policy=policy)
    return structs.replace(spec, session=structs.replace(spec.session, context=context))


specs = st.builds(
    agent,
    st.sampled_from(list(POLICIES)),
    st.sampled_from([700, 2_000, 8_000, 40_000]),
)
scripts = st.lists(said, min_size=1, max_size=12)


def quiet(user: str, *steps: tuple[str, ...], reply: str = "") -> Said:
    """Return a turn in which nothing happens but its calls."""
    return Said(
        users=(user,),
        steps=steps,
        reply=reply,
        reports=False,
        restart=False,
        overflow=False,
        steered=(),
        broken=False,
        summary=False,
    )


# What stays once the long message is cut costs more for its size than what was there before.
DEARER_WHEN_CUT = [
    quiet("", ("",), ("",), ("", ""), ("", "", "word " * 802), reply='{"key": 17}\n' * 31),
    quiet("A1b2C3" * 890),
]


@dataclass(slots=True)
class Carried(LiveSession):
    """Carries scripts; checks nothing but that it can go on."""

    refused: int = 0

    def play(self, script: list[Said]) -> None:
        """Carry every turn; one whose request cannot fit fails, and the next goes on."""
        for turn in script:
            self.begin(*(text or "?" for text in turn.users))
            try:
                self._answer(turn)
            except ContextDoesNotFitError:
                self.refused += 1
                event("does not fit")
            self.finish()
            if turn.summary and self.summarise():
                event("summarised")

    def _answer(self, turn: Said) -> None:
        for number, results in enumerate(turn.steps):
            made = self.call()
            calls = tuple(
                ToolCall(call_id=f"c{number}_{index}", name="bash", arguments='{"n": 1}')
                for index in range(len(results))
            )
            self.reply(calls=calls, tokens=self._cost(made) if turn.reports else 0)
            for call, result in zip(calls, results, strict=True):
                self.result(call, result)
            if number == 0 and turn.steered:
                event("steered")
                self.steer(*(text or "!" for text in turn.steered))
        if turn.restart:
            self.restart()
        made = self.call()
        if turn.overflow and self.overflow():
            event("halved")
            made = self.call()
        if turn.broken:
            self.break_reply("its arguments are not JSON")
            made = self.call()
        self.reply(turn.reply, tokens=self._cost(made) if turn.reports else 0)

    @staticmethod
    def _cost(made: Rendered) -> int:
        return Estimates(1.3).tokens(made.fingerprint.units)


def its_calls_have_their_results(made: Rendered) -> None:
    """IN-01: providers refuse a request with half a step, and the session would be stuck."""
    rest = [message for message in made.request.messages if not isinstance(message, Notice)]
    while rest:
        head, *rest = rest

        assert not isinstance(head, ToolResult)
        if isinstance(head, Reply):
            results, rest = rest[: len(head.calls)], rest[len(head.calls) :]

            assert [r.call_id for r in results if isinstance(r, ToolResult)] == [
                call.call_id for call in head.calls
            ]


def its_question_is_there(made: Rendered, turn: OpenTurn) -> None:
    """IN-02: a request without its question gets an answer to nothing."""
    shown = {message.seq: message.text for message in made.request.messages}
    newest = turn.heard[-1]

    assert newest.seq in shown
    head = shown[newest.seq].partition("[")[0].strip()
    assert newest.text.lstrip().startswith(head)
    assert head or newest.text.lstrip()[:1] in ("", "[")


def it_fits_with_its_reply(made: Rendered) -> None:
    """IN-03, or all that can be left out is left out, and the provider is asked whether it fits."""
    count, budget = made.policy.estimates(made.limits), made.budget
    cost = count.text(made.request.system) + count.tools(made.request.tools)
    cost += sum(count.message(message, 0) for message in made.request.messages)

    asks = made.policy.shrink is not None or not made.policy.promises_fit
    if asks and cost + budget.reserve_tokens > budget.window_tokens:
        event("sent at the edge")
        assert made.projection.current == newest_turn(made.projection) == 0
        return
    assert cost + budget.reserve_tokens <= budget.window_tokens


def it_tells_how_much_is_missing(made: Rendered, known: SessionState) -> None:
    """IN-09: the number is that of the log, whatever the session still holds in memory."""
    if made.policy.name == "picoclaw":
        return  # it tells the model of no number
    shown = sum(1 for message in made.request.messages if message.seq)

    assert made.omitted_messages == known.logged_messages - shown


@dataclass(slots=True)
class Watched(Carried):
    """Looks at every request when it is made."""

    def call(self) -> Rendered:
        """Make a request and check it against the state it came from."""
        made = super(Watched, self).call()
        self.check(made)
        return made

    def check(self, made: Rendered) -> None:
        """Check one request."""
        raise NotImplementedError


@dataclass(slots=True)
class Promised(Watched):
    """Holds every request against everything that is promised of each."""

    logged: list[str] = field(default_factory=list[str])
    "What each event was when it was logged."

    def call(self) -> Rendered:
        """Note what is in the log, and check the request that is made of it."""
        self.logged += map(repr, self.events[len(self.logged) :])
        return super(Promised, self).call()

    def check(self, made: Rendered) -> None:
        """Check what can be seen in the request, and that looking changes nothing."""
        conversation, turn = self.known.conversation, self.known.open_turn
        assert turn is not None
        its_calls_have_their_results(made)
        its_question_is_there(made, turn)
        it_fits_with_its_reply(made)
        it_tells_how_much_is_missing(made, self.known)
        self._nothing_is_left_to_hide(conversation)
        self._a_restart_renders_the_same_bytes(made, conversation)

    def _nothing_is_left_to_hide(self, conversation: Conversation) -> None:
        """IN-04: a reduction that is applied again must not shorten further or renumber markers."""
        for spec in (self.spec, asked_always(self.spec)):
            again = Renderer().reduce(conversation, spec, self.tools, self.facts)

            assert again == ()

    def summarise(self) -> bool:
        """A policy that says how far it is from doing anything does nothing before that."""
        known = self.known.conversation, asked_always(self.spec), self.tools, self.facts
        due = Renderer().older_turns(*known)

        done = super(Promised, self).summarise()

        assert done or not due
        return done

    def _a_restart_renders_the_same_bytes(self, made: Rendered, conversation: Conversation) -> None:
        """IN-07: a request that a crash cut short is sent again as it was."""
        recovered = recover(None, self.events)
        assert recovered is not None
        again = render(recovered.state.conversation, self.spec, self.tools, self.facts)

        assert recovered.state.conversation == conversation
        assert again.request == made.request
        assert again.fingerprint == made.fingerprint
        assert again.tokens == made.tokens

    def check_the_log(self) -> None:
        """IN-06: what is stored is the truth; a request only looks at it."""
        assert [repr(each) for each in self.events[: len(self.logged)]] == self.logged


@examples(4)  # each makes some thirty requests, and holds every one against the whole log
@given(specs, scripts)
@example(agent("baseagent", 700), DEARER_WHEN_CUT)
@example(agent("everturn", 800), DEARER_WHEN_CUT)
def test_every_request_of_every_session_is_as_it_is_promised(
    spec: AgentSpec, script: list[Said]
) -> None:
    """IN-01 to IN-04, IN-06, IN-07 and IN-09: the reasons stand at what is checked."""
    session = Promised(spec)
    session.play(script)
    for body in session.reductions:
        event(body.stage)

    session.check_the_log()


@examples(12)
@given(st.sampled_from([2_000, 8_000, 40_000]), scripts)
def test_a_request_begins_with_the_one_before(window: int, script: list[Said]) -> None:
    """IN-10: what a provider has cached stays good until something is hidden."""

    class Check(Watched):
        before: tuple[int, Rendered] | None = None

        def check(self, made: Rendered) -> None:
            hidden = sum(isinstance(e.body, ContextReduced | Summarised) for e in self.events)
            before, self.before = self.before, (hidden, made)
            if before is None or before[0] != hidden:
                return
            event("goes on")
            one, two = before[1].request, made.request
            # The line about a reply that could not be used is said once, at the very end.
            kept = one.messages if one.messages[-1].seq else one.messages[:-1]

            assert two.system == one.system
            assert two.messages[: len(kept)] == kept
            assert not made.fingerprint.is_cache_miss

    session = Check(agent("everturn", window))
    session.play(script)

    assert session.known.cache_misses == 0


@table("policy", list(POLICIES))
def test_long_conversations_stay_in_the_window_under_every_policy(policy: str) -> None:
    """Many turns with large results: what people leave other systems over."""
    session = LiveSession(agent(policy, 16_000))
    for number in range(50):
        size = (number * 7919) % 1500
        session.turn(f"question {number}", "line of a result\n" * size, "short", reply="a " * 200)
        session.summarise()
    made = session.requests[-1]
    total = made.tokens + made.budget.reserve_tokens

    assert total <= 16_000
    assert made.request.messages[-1].text == "short"


def test_a_smaller_window_shows_no_message_that_a_larger_one_hides() -> None:
    """IN-05: more room never costs a message."""
    shown: list[set[str]] = []
    for window in (4_000, 16_000, 64_000):
        session = LiveSession(agent("everturn", window))
        for number in range(60):
            session.turn(f"question {number}", "result " * 50)
        newest = session.requests[-1].request
        shown.append({m.text for m in newest.messages if isinstance(m, UserMessage)})

    assert shown[0] < shown[1] < shown[2]
