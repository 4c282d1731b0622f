"""A limit that one refusal named is a hint: below what the operator says, and no turn's end."""

from __future__ import annotations

from msgspec.structs import replace
from support.tables import table
from support.tool_doubles import Deed, by_name

from everturn_actors.context.estimation.calibration import ModelStatistics
from everturn_actors.context.estimation.hints import with_limit
from everturn_actors.errors import ContextOverflowError, ToolsRefusedError
from everturn_actors.events import ContextReduced
from everturn_actors.model import IncomingMessage, ModelRequest, Reply, Usage
from everturn_actors.service import TurnResult
from everturn_actors.spec import AgentSpec
from everturn_actors.testing import (
    ManualClock,
    ScriptedProvider,
    TestService,
    make_spec,
    open_test_service,
)
from everturn_actors.turn.model_statistics import InMemoryModelStatistics

NAMED = 8_192
DAY_S = 24 * 3600.0


def refusal() -> ContextOverflowError:
    """Return what a provider says of a request that is too long for it."""
    return ContextOverflowError("maximum context length is 8192", window_tokens=NAMED)


def spec(window: int | None = None, prompt: str = "") -> AgentSpec:
    """Return an agent."""
    made = make_spec()
    return replace(
        made,
        model=replace(made.model, context_window=window, max_output_tokens=500),
        prompt=replace(made.prompt, system_prompt=prompt),
    )


async def say(test: TestService, text: str) -> TurnResult:
    """Submit a message and wait for its answer."""
    return await (await test.service.submit(IncomingMessage(text=text, key=test.key()))).result()


async def window(test: TestService, done: TurnResult) -> int:
    """Return the window that the next request is made for."""
    return (await test.service.reader.context(done.session_id)).window_tokens


async def test_what_one_refusal_taught_holds_for_a_day_and_not_against_answers() -> None:
    """The day after, the model may be asked for more; a new refusal would be learnt anew."""
    provider, clock = ScriptedProvider("one", refusal(), "two"), ManualClock()
    async with open_test_service(provider=provider, spec=spec(), clock=clock) as test:
        await say(test, "one")
        done = await say(test, "two")
        observed = await window(test, done)
        clock.advance(DAY_S)
        later = await window(test, done)

    assert (done.outcome, observed, later) == ("answered", NAMED, 128_000)

    # A router sends one request in a thousand to a smaller machine.

    def large(text: str) -> Reply:
        return Reply(text=text, usage=Usage(input_tokens=20_000, output_tokens=5))

    provider = ScriptedProvider(large("one"), refusal(), large("two"), refusal(), large("three"))
    async with open_test_service(provider=provider, spec=spec()) as test:
        await say(test, "one" * 20_000)
        await say(test, "two" * 20_000)
        done = await say(test, "three" * 20_000)
        stays = await window(test, done)

    assert (done.text, stays) == ("three", 128_000)

    # A server that is started anew with its parser gives an agent its tools back.
    provider, clock = ScriptedProvider(ToolsRefusedError("no tools")), ManualClock()
    model_statistics = InMemoryModelStatistics(clock.now)
    async with open_test_service(
        provider=provider,
        spec=spec(),
        model_statistics=model_statistics,
        clock=clock,
        tools=by_name(Deed("page")),
    ) as test:
        await say(test, "one")
        await say(test, "two")
        clock.advance(DAY_S)
        await say(test, "three")

    assert [len(request.tools) for request in provider.requests] == [1, 0, 0, 1]
    assert model_statistics.of(spec().model).no_tools is None  # it took them


async def test_an_explicit_window_stands_until_it_is_refused_twice() -> None:
    """Who wrote the file is told at once; what is refused again and again is no window."""
    long = "word " * 4_000
    provider = ScriptedProvider("one", refusal(), "two", refusal(), "three")
    async with open_test_service(provider=provider, spec=spec(64_000)) as test:
        first = await say(test, long)
        second = await say(test, long)
        stands, notes = await window(test, first), await told(test, first)
        third = await say(test, long)
        lowered, then = await window(test, first), await told(test, first)

    assert (second.outcome, third.outcome) == ("answered", "answered")
    assert (stands, lowered) == (64_000, NAMED)
    assert "spec.model.context_window says 64,000 tokens, and stands, but" in notes
    assert "named 8,192 tokens" in notes
    assert "64,000 tokens, and requests are made for 8,192 until" in then


@table("declared", [None, 128_000])
async def test_a_provider_that_names_no_number_is_refused_by_but_a_few_times(
    declared: int | None,
) -> None:
    """What it refused is an upper bound: without one, it refuses every sixth turn for ever."""
    real, refused = 8_000, list[int]()

    def small(request: ModelRequest) -> Reply:
        tokens = (len(request.system) + sum(len(m.text) for m in request.messages)) // 4
        if tokens > real:
            refused.append(tokens)
            raise ContextOverflowError
        return Reply(text="word " * 200, usage=Usage(input_tokens=tokens, output_tokens=250))

    provider = ScriptedProvider(*[small] * 200)
    async with open_test_service(provider=provider, spec=spec(declared)) as test:
        outcomes = [(await say(test, "word " * 300)).outcome for _ in range(80)]
        huge = await say(test, "word " * 60_000)

    assert {*outcomes, huge.outcome} == {"answered"}
    assert len(refused) <= 3


@table("text", ["\u12a0\u121b\u122d\u129b " * 8_000, "e\u0301\u0323" * 15_000, "q" * 60_000])
async def test_a_message_that_no_estimate_knows_is_shortened_until_it_is_taken(text: str) -> None:
    """Amharic, stacked accents, one letter again and again: a cold session failed on each."""

    def counted(request: ModelRequest) -> Reply:
        tokens = sum(len(message.text.encode()) for message in request.messages)
        if tokens > NAMED:
            raise refusal()
        return Reply(text="read", usage=Usage(input_tokens=tokens, output_tokens=5))

    provider = ScriptedProvider(*[counted] * 30)
    async with open_test_service(provider=provider, spec=spec()) as test:
        done = await say(test, text)
        (shown,) = provider.requests[-1].messages

    assert (done.outcome, done.text) == ("answered", "read")
    assert shown.text.startswith(text[:100])
    assert len(provider.requests) < 10


async def told(test: TestService, done: TurnResult) -> str:
    """Return what people are told of the model."""
    return " ".join((await test.service.reader.context(done.session_id)).notes)


async def test_an_agent_that_does_not_fit_a_learnt_limit_is_tried_all_the_same() -> None:
    """Long instructions and many tools would fail every turn for what was once said of another."""
    clock = ManualClock()
    model_statistics, agent = (
        InMemoryModelStatistics(clock.now),
        spec(prompt="A rule to obey. " * 4_000),
    )
    facts = with_limit(ModelStatistics(scale=1.0), NAMED, said="too long", now=clock.now())
    model_statistics.record(agent.model, facts)
    provider = ScriptedProvider("word " * 50, "word " * 50)
    async with open_test_service(
        provider=provider, spec=agent, model_statistics=model_statistics, clock=clock
    ) as test:
        first = await say(test, "one")
        second = await say(test, "two")
        events = await test.service.history(first.session_id, after=0, limit=100)
        report = await test.service.reader.context(first.session_id)

    assert report.window_tokens == 128_000
    assert report.notes[1:] == (
        "prompt and tools alone are larger, so requests are made without it",
    )
    assert (first.outcome, second.outcome) == ("answered", "answered")
    assert len(provider.requests[1].messages) == 3
    assert not [event for event in events if isinstance(event.body, ContextReduced)]


async def test_where_the_provider_refuses_it_again_the_error_says_all_of_it() -> None:
    """Then it is so: what is too large, what the limit is, and how it is forgotten."""
    clock = ManualClock()
    model_statistics, agent = (
        InMemoryModelStatistics(clock.now),
        spec(prompt="A rule to obey. " * 4_000),
    )
    model_statistics.record(
        agent.model, with_limit(ModelStatistics(scale=1.0), NAMED, said="too long", now=clock.now())
    )
    provider = ScriptedProvider(*[refusal()] * 4)
    async with open_test_service(
        provider=provider, spec=agent, model_statistics=model_statistics, clock=clock
    ) as test:
        failed = await say(test, "one")

    assert failed.outcome == "failed"
    assert "system prompt" in failed.error
    assert "the window counts as 8,192 tokens, not 128,000" in failed.error
    assert "`everturn model forget scripted/scripted`" in failed.error
