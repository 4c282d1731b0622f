"""Having a model write a summary: tries, bounds, and what is left when none answers."""

from __future__ import annotations

from collections.abc import Callable

import anyio
from msgspec.structs import replace
from support.conversations import simple_turn
from support.patience import WAIT_S
from support.tables import table

from everturn_actors.context.estimation.estimates import message_units, prompt_units
from everturn_actors.context.summaries import SummaryTask, digest
from everturn_actors.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelError,
    ModelRefusedError,
    ModelTransientError,
    RateLimitedError,
    TruncatedStreamError,
)
from everturn_actors.events import Summarised
from everturn_actors.model import (
    IncomingMessage,
    ModelRequest,
    Reply,
    Summary,
    ToolCall,
    Usage,
    UserMessage,
)
from everturn_actors.ports import ModelProvider, Summariser
from everturn_actors.spec import ModelSpec
from everturn_actors.testing import (
    ManualClock,
    ScriptedProvider,
    TestService,
    make_spec,
    open_test_service,
    texts,
)
from everturn_actors.turn.summaries import Patience, summarise

MODEL = ModelSpec(provider="scripted", name="writer")
TASK = SummaryTask(
    turns=tuple(simple_turn(number, text="word " * 200) for number in range(3, 30)),
    previous=Summary(last_turn=2, messages=7, text="What came before."),
)
DEADLINE_S = WAIT_S


class Caller:
    """Asks for one summary in a task of its own, so that a test can move the clock meanwhile."""

    def __init__(self, provider: ModelProvider) -> None:
        self.provider = provider
        self.clock = ManualClock()
        self.event: Summarised | None = None

    async def run(self) -> None:
        self.event = await ask(self.provider, clock=self.clock)


async def ask(
    provider: ModelProvider | None,
    *,
    task: SummaryTask = TASK,
    clock: ManualClock | None = None,
    timeout_s: float = DEADLINE_S,
    window_tokens: int = 128_000,
) -> Summarised:
    """Have `provider` summarise."""
    return await summarise(
        task,
        None if provider is None else Summariser(provider=provider, model=MODEL),
        clock=clock or ManualClock(),
        patience=Patience(timeout_s=timeout_s),
        window_tokens=window_tokens,
    )


def usage(tokens: int) -> Usage:
    """Return the usage of a request of so many tokens."""
    return Usage(input_tokens=tokens, output_tokens=1)


async def test_a_model_s_summary_becomes_an_event() -> None:
    """All of it is what a replay has to go on."""
    said = Reply(text="<think>hm</think>\n## Intent\nx\n", model="writer-2", usage=usage(100))
    provider = ScriptedProvider(said)

    event = await ask(provider)

    assert event == Summarised(
        last_turn=29,
        messages=7 + 27 * 2,
        text="## Intent\nx",
        source="model",
        tries=1,
        model="writer-2",
        usage=usage(100),
    )
    assert "What came before." in texts(provider.requests[0])[0]


async def test_without_a_summariser_there_is_a_digest_and_nothing_failed() -> None:
    """Asked for by hand, a summary needs no model, and must not start a cool-down."""
    event = await ask(None)

    assert (event.source, event.tries, event.error) == ("digest", 0, "")
    assert event.text == digest(TASK)
    assert (event.last_turn, event.messages) == (29, 7 + 27 * 2)


async def test_failures_that_may_pass_are_tried_again_a_little_later() -> None:
    """A provider has bad moments; the pause grows."""
    caller = Caller(ScriptedProvider(ModelTransientError("down"), TruncatedStreamError(), "fine"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(caller.run)
        await caller.clock.until_sleeping(0.1)
        caller.clock.advance(0.1)
        await caller.clock.until_sleeping(0.2)
        caller.clock.advance(0.2)

    assert caller.event is not None
    assert (caller.event.source, caller.event.text, caller.event.tries) == ("model", "fine", 3)
    assert caller.event.error == ""


async def test_the_third_failure_leaves_a_digest_and_says_why() -> None:
    """D18: a summary that fails for ever must not be asked for for ever."""
    provider = ScriptedProvider(*[ModelTransientError(f"down {n}") for n in (1, 2, 3)])
    caller = Caller(provider)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(caller.run)
        for pause_s in (0.1, 0.2):
            await caller.clock.until_sleeping(pause_s)
            caller.clock.advance(pause_s)

    assert caller.event is not None
    assert (caller.event.source, caller.event.text) == ("digest", digest(TASK))
    assert (caller.event.tries, caller.event.error) == (3, "down 3")
    assert len(provider.requests) == 3


async def test_answers_that_are_no_summary_are_tried_again_and_paid_for() -> None:
    """An empty text in its place would lose the conversation; the tokens were spent anyway."""
    provider = ScriptedProvider(
        Reply(text=" ", usage=usage(100)),
        Reply(text="<think>too long to", usage=usage(20)),
        Reply(text="x" * 100_000, usage=usage(3)),
    )
    caller = Caller(provider)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(caller.run)
        for pause_s in (0.1, 0.2):
            await caller.clock.until_sleeping(pause_s)
            caller.clock.advance(pause_s)

    assert caller.event is not None
    assert (caller.event.source, caller.event.tries) == ("digest", 3)
    assert caller.event.usage == Usage(input_tokens=123, output_tokens=3)
    assert caller.event.error == "the model gave 100,000 characters, which is no summary"


async def test_what_a_provider_asks_to_wait_is_waited() -> None:
    """Asking earlier only makes it longer."""
    caller = Caller(ScriptedProvider(RateLimitedError("slow", retry_after_s=7), "fine"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(caller.run)
        await caller.clock.until_sleeping(7)
        caller.clock.advance(6.5)
        await caller.clock.until_sleeping(0.5)
        caller.clock.advance(0.5)

    assert caller.event is not None
    assert (caller.event.text, caller.event.tries) == ("fine", 2)


async def test_a_wait_beyond_the_deadline_is_not_begun() -> None:
    """Whoever ran /compact would sit there for nothing."""
    event = await ask(ScriptedProvider(RateLimitedError("slow", retry_after_s=3600)))

    assert (event.source, event.tries, event.error) == ("digest", 1, "slow")


async def test_a_fault_of_the_provider_leaves_a_digest() -> None:
    """A summary is made beside the session: what nobody foresaw in it must not end the session."""
    event = await ask(ScriptedProvider(KeyError("choices")))

    assert (event.source, event.tries) == ("digest", 1)
    assert "KeyError" in event.error


@table("error", [ModelAuthError("bad key"), ModelRefusedError("no such model")])
async def test_a_refusal_ends_the_tries(error: ModelError) -> None:
    """The next answer would be the same."""
    provider = ScriptedProvider(error)
    event = await ask(provider)

    assert (event.source, event.tries, event.error) == ("digest", 1, str(error))
    assert len(provider.requests) == 1


async def test_an_overflow_halves_the_input_at_once() -> None:
    """D18: the same input would overflow again; and nothing has to be waited for."""
    provider = ScriptedProvider(ContextOverflowError("big"), ContextOverflowError("big"), "fine")

    event = await ask(provider)
    sizes = [len(texts(request)[0]) for request in provider.requests]

    assert (event.source, event.text, event.tries) == ("model", "fine", 3)
    assert sizes[1] < 0.6 * sizes[0]
    assert sizes[2] < 0.6 * sizes[1]
    assert all("What came before." in texts(request)[0] for request in provider.requests)


async def test_overflows_without_end_leave_a_digest() -> None:
    """Its own window may be too small for anything."""
    provider = ScriptedProvider(*[ContextOverflowError("big")] * 9)

    event = await ask(provider)

    assert (event.source, event.tries, event.error) == ("digest", 3, "big")


async def test_one_deadline_holds_for_all_tries() -> None:
    """R10: a model that hangs must not keep the session without a summary for ever."""
    provider = ScriptedProvider()
    provider.hold()

    event = await ask(provider, timeout_s=0.01)

    assert (event.source, event.text, event.tries) == ("digest", digest(TASK), 1)
    assert event.error == "no summary within 0.01 s"


async def test_the_deadline_tells_what_failed_before() -> None:
    """`no summary within 120 s` alone hides a provider that refuses half of all requests."""
    provider = ScriptedProvider(ContextOverflowError("too big"))
    provider.hold()

    event = await ask(provider, timeout_s=1)

    assert event.error == "no summary within 1 s; before: too big"
    assert event.tries == 2


async def test_an_endless_error_is_cut() -> None:
    """It is written to the log of the session, and shown."""
    event = await ask(ScriptedProvider(ModelRefusedError("x" * 9999)))

    assert event.error == "x" * 500


async def test_cancelling_closes_the_request_and_gives_nothing() -> None:
    """A session that is put to rest must not leave a request running behind it."""
    provider = Hanging()
    caller = Caller(provider)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(caller.run)
        await provider.called.wait()
        tasks.cancel_scope.cancel()

    assert provider.closed
    assert caller.event is None


class Hanging:
    """A model that never answers, and tells when its request is closed."""

    def __init__(self) -> None:
        self.called = anyio.Event()
        self.closed = False

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        assert request.model == "writer"
        on_text("beg")
        self.called.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.closed = True
        raise NotImplementedError


async def test_a_small_window_bounds_the_request() -> None:
    """A local model of 4,096 tokens is asked about the ends of what a large one is told whole."""
    provider = ScriptedProvider("small", "large")
    await ask(provider, window_tokens=4096)
    await ask(provider)
    small, large = (texts(request)[0] for request in provider.requests)

    assert len(small) < 4096 * 4 < len(large)
    assert [request.max_output_tokens for request in provider.requests] == [1024, 4096]


async def test_what_arrives_while_a_summary_is_written_is_not_in_it() -> None:
    """D13: the cut must not move with the conversation that grows meanwhile."""
    event = await ask(ScriptedProvider("fine"))
    later = SummaryTask(
        turns=(simple_turn(30, text="late"),),
        previous=Summary(last_turn=event.last_turn, messages=event.messages, text=event.text),
    )
    provider = ScriptedProvider("finer")
    chained = await ask(provider, task=later)
    (message,) = provider.requests[0].messages

    assert isinstance(message, UserMessage)
    assert "fine" in message.text
    assert "late 30.0" in message.text
    assert (chained.last_turn, chained.messages) == (30, event.messages + 2)


SMALL = replace(
    make_spec(),
    model=ModelSpec(provider="scripted", name="scripted", context_window=8_192, cache_life_s=300),
)


def cached(request: ModelRequest) -> Reply:
    """Return the reply of a provider that counts as the estimate does, and caches."""
    tokens = prompt_units(request.system) + sum(map(message_units, request.messages))
    counted = Usage(input_tokens=tokens // 100, output_tokens=150, cached_tokens=50)
    return Reply(text="said " * 120, usage=counted)


async def talk(test: TestService, turns: int) -> str:
    """Say so much; return the session's id."""
    session_id = ""
    for _ in range(turns):
        test.provider.script = [cached]
        submission = await test.service.submit(IncomingMessage(text="word " * 120, key=test.key()))
        await submission.result()
        session_id = submission.session_id
    return session_id


async def test_a_summary_is_asked_for_behind_what_the_cache_has() -> None:
    """All but the wish was sent before; an answer that is no summary is asked for as data."""
    calls = Reply(calls=(ToolCall(call_id="c", name="x"),), stop_reason="tool_calls")
    writer = ScriptedProvider("## Intent\nfirst", calls, "## Intent\nsecond")
    async with open_test_service(spec=SMALL, summariser=writer) as test:
        session_id = await talk(test, 1)
        while not writer.requests:
            await talk(test, 1)
            await anyio.wait_all_tasks_blocked()
        asked, sent = writer.requests[0], test.provider.requests[-1]
        assert asked.system == sent.system
        assert asked.messages[: len(sent.messages)] == sent.messages
        assert asked.messages[-2].text == "said " * 120
        assert "Tell of everything from the beginning up to the message" in asked.messages[-1].text
        while len(writer.requests) < 3:
            await talk(test, 1)
            await anyio.wait_all_tasks_blocked()
        summary = (await test.service.view(session_id)).reductions.summary
        assert summary is not None
        assert "second" in summary.text
        assert writer.requests[1].messages[-1].text.startswith("[The gateway asks this")
        assert "<conversation-" in writer.requests[2].messages[0].text


async def test_what_a_fallback_says_when_asked_to_compact_is_no_summary() -> None:
    """It goes on with the conversation; what it wants back would be of no use to the own model."""
    said = Reply(text="An answer.", opaque="of another", fallback="other/m")
    writer = ScriptedProvider(said, "## Intent\nfirst")
    compaction = ModelRequest(model="m", system="", messages=(), compacts=True)

    event = await ask(writer, task=replace(TASK, compaction=compaction))

    assert (event.source, event.text, event.opaque) == ("model", "## Intent\nfirst", "")


async def test_a_conversation_that_rests_is_summarised_before_its_cache_goes() -> None:
    """The next request is paid for whole in any case; who goes on talking is left alone."""
    writer, clock = ScriptedProvider("## Intent\nrest"), ManualClock()
    async with open_test_service(spec=SMALL, summariser=writer, clock=clock) as test:
        session_id = await talk(test, 14)
        await clock.until_sleeping(270)
        clock.advance(200)
        await talk(test, 1)
        await anyio.wait_all_tasks_blocked()
        clock.advance(100)  # the first rest was none
        await anyio.wait_all_tasks_blocked()
        assert not writer.requests
        clock.advance(200)
        await writer.until_called()
        await anyio.wait_all_tasks_blocked()
        state = await test.service.view(session_id)
    assert state.reductions.summary is not None
