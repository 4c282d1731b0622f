"""Which model is asked next, when, and what a turn learns of it."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable

import anyio
import pytest
from msgspec import structs
from support.tables import table

from everturn_actors.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelError,
    ModelRefusedError,
    ModelTransientError,
    QuotaExhaustedError,
    RateLimitedError,
    ToolsRefusedError,
    TruncatedStreamError,
)
from everturn_actors.model import ModelRequest, Reply, UserMessage
from everturn_actors.spec import ModelSpec
from everturn_actors.testing import Scripted, ScriptedProvider
from everturn_gateway.providers.fallbacks import (
    FIRST_COOL_DOWN_S,
    MAX_ASKED_S,
    MAX_COOL_DOWN_S,
    Choice,
    CoolDowns,
    Fallbacks,
)

OWN = ModelSpec(provider="openai", name="big", temperature=0.7, max_output_tokens=4000)
NEXT = ModelSpec(provider="anthropic", name="other", temperature=0.2, max_output_tokens=1000)
LAST = ModelSpec(provider="builtin", name="builtin", temperature=None)
REQUEST = ModelRequest(
    model="big",
    system="Be kind.",
    messages=(UserMessage(text="Hi"),),
    temperature=0.7,
    max_output_tokens=4000,
    reasoning_effort="high",
)
DOWN = ModelTransientError("big: HTTP 500")


class Time:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Case:
    """Three models in a row, and the time."""

    def __init__(self, *scripts: list[Scripted]) -> None:
        self.time = Time()
        self.cooling = CoolDowns(self.time)
        self.models = [ScriptedProvider(*script) for script in scripts]
        self.shown: list[str] = []
        self.provider = self.agent()

    def agent(self) -> Fallbacks:
        """Return the models as another agent has them."""
        specs = (OWN, NEXT, LAST)
        own, *others = (
            Choice(model=spec, provider=model)
            for spec, model in zip(specs, self.models, strict=False)
        )
        return Fallbacks(own, others, cooling=self.cooling)

    async def ask(self, request: ModelRequest = REQUEST) -> Reply:
        """Ask as the agent."""
        return await self.provider.complete(request, self.shown.append)

    @property
    def calls(self) -> list[int]:
        """How often each model has been called."""
        return [len(model.requests) for model in self.models]


async def test_the_own_model_answers_while_it_can(caplog: pytest.LogCaptureFixture) -> None:
    """And an operator sees it when it does not."""
    # Nobody pays for another model without need.
    case = Case(["fine"], ["other"])
    reply = await case.ask()

    assert (reply.text, reply.fallback) == ("fine", "")
    assert case.models[0].requests == [REQUEST]
    assert case.calls == [1, 0]

    # The log names models and nothing that was said. An operator has to see that another model
    # answers; nobody has to read the error's text.
    case = Case([ModelTransientError("secret words")], ["ok"])
    with caplog.at_level(logging.DEBUG):
        await case.ask()

    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.__dict__["model"] == "openai/big"
    assert record.__dict__["next_model"] == "anthropic/other"
    assert record.__dict__["error"] == "ModelTransientError"
    assert not any("secret" in str(value) for value in record.__dict__.values())


@table(
    "error",
    [
        RateLimitedError("slow down", retry_after_s=30),
        ModelTransientError("HTTP 503"),
        TruncatedStreamError("broke off"),
        ModelAuthError("HTTP 401"),
        QuotaExhaustedError("no money"),
    ],
)
async def test_an_outage_is_bridged_at_once(error: ModelError) -> None:
    """A person waits for an answer, not for a provider."""
    case = Case([error], ["the other"])
    reply = await case.ask()

    assert reply.text == "the other"
    assert reply.fallback == "anthropic/other"


@table(
    "error",
    [
        ContextOverflowError("too long", window_tokens=8192),
        ToolsRefusedError("no tools"),
        ModelRefusedError("bad request"),
    ],
)
async def test_what_the_own_model_refuses_is_for_the_turn(error: ModelError) -> None:
    """The turn shortens the request; a fallback would hide that it is too long."""
    case = Case([error], ["the other"])
    with pytest.raises(type(error)) as raised:
        await case.ask()

    assert raised.value is error
    assert case.calls == [1, 0]
    assert not case.cooling.is_cooling(OWN)


async def test_the_request_is_addressed_to_the_fallback() -> None:
    """As the other model takes it, and as the caller wants it."""
    # The request is addressed to the fallback. Its name, its limits, its temperature: those of the
    # other model would be refused.
    case = Case([DOWN], ["yes"])
    await case.ask()

    assert case.models[1].requests == [
        dataclasses.replace(
            REQUEST,
            model="other",
            temperature=0.2,
            max_output_tokens=1000,
            reasoning_effort=None,
        )
    ]

    # What the caller chose for one request stays. A summary is asked for with a low temperature and
    # a short reply, from whomever.
    case = Case([DOWN], ["yes"])
    await case.ask(dataclasses.replace(REQUEST, temperature=0.1, max_output_tokens=300))

    sent = case.models[1].requests[0]
    assert (sent.temperature, sent.max_output_tokens) == (0.1, 300)


class Breaking:
    """A model that says something before it fails."""

    def __init__(self, text: str, error: ModelError) -> None:
        self.text, self.error = text, error
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Say it, and fail."""
        self.requests.append(request)
        on_text(self.text)
        await anyio.lowlevel.checkpoint()
        raise self.error


@table("index", [0, 1])
async def test_after_the_first_word_nobody_else_is_asked(index: int) -> None:
    """What was shown cannot be taken back, and two half answers are worse than one error."""
    case = Case([DOWN], [DOWN], ["never"])
    error = TruncatedStreamError("broke off")
    models = [
        Choice(model=OWN, provider=case.models[0]),
        Choice(model=NEXT, provider=case.models[1]),
    ]
    models[index] = structs.replace(models[index], provider=Breaking("The answer is", error))
    provider = Fallbacks(
        models[0], [models[1], Choice(model=LAST, provider=case.models[2])], cooling=case.cooling
    )
    with pytest.raises(TruncatedStreamError):
        await provider.complete(REQUEST, case.shown.append)

    assert case.shown == ["The answer is"]
    assert case.models[2].requests == []
    assert case.cooling.is_cooling((OWN, NEXT)[index])


async def test_an_empty_piece_is_no_word() -> None:
    """Some servers begin every stream with one."""
    case = Case([DOWN], ["whole"])
    own = Choice(model=OWN, provider=Breaking("", TruncatedStreamError("broke off")))
    provider = Fallbacks(own, [Choice(model=NEXT, provider=case.models[1])], cooling=case.cooling)

    assert (await provider.complete(REQUEST, case.shown.append)).text == "whole"


async def test_what_a_fallback_refuses_says_nothing_of_the_own_model() -> None:
    """Its limits are its own."""
    # A fallback that cannot help is passed over. What is too long for it may fit the next; the own
    # model's limit is another one.
    small = ContextOverflowError("4,096 tokens", window_tokens=4096)
    case = Case([DOWN], [small], ["at last"])
    reply = await case.ask()

    assert (reply.text, reply.fallback) == ("at last", "builtin/builtin")

    # The limit of a fallback is never taken for the own model's. Else one outage would make every
    # later request of the agent tiny.
    case = Case([DOWN], [ContextOverflowError("4,096 tokens", window_tokens=4096)])
    with pytest.raises(ModelTransientError) as raised:
        await case.ask()

    assert not isinstance(raised.value, ContextOverflowError)
    assert str(raised.value) == "big: HTTP 500; fallback anthropic/other: 4,096 tokens"

    # Tools that a fallback refuses are kept for the own model. The turn would learn that the
    # agent's own model takes none.
    case = Case([DOWN], [ToolsRefusedError("no tools")])
    with pytest.raises(ModelTransientError):
        await case.ask()

    # An overflow in the middle of a fallback teaches nothing. It is the fallback's window that is
    # named.
    case = Case([DOWN], [])
    broken = Choice(
        model=NEXT, provider=Breaking("The", ContextOverflowError("full", window_tokens=4096))
    )
    provider = Fallbacks(Choice(model=OWN, provider=case.models[0]), [broken], cooling=case.cooling)
    with pytest.raises(ModelRefusedError) as refused:
        await provider.complete(REQUEST, case.shown.append)

    assert not isinstance(refused.value, ContextOverflowError)


async def test_a_model_that_failed_is_left_alone_for_a_while() -> None:
    """By everybody who has it, and no other model."""
    # A model that failed is left alone for a while. A dead provider must not cost every turn its
    # time-out; a healed one is used again.
    case = Case([DOWN, "back"], ["one", "two"])
    await case.ask()
    second = await case.ask()
    case.time.now_s += FIRST_COOL_DOWN_S
    third = await case.ask()

    assert second.fallback == "anthropic/other"
    assert (third.text, third.fallback) == ("back", "")
    assert case.calls == [2, 2]

    # All agents with the model leave it alone. One has paid for the lesson.
    case = Case([DOWN], ["one", "two"])
    await case.ask()
    await case.agent().complete(REQUEST, case.shown.append)

    assert case.calls == [1, 2]

    # The same model at another address is another one. Azure being down says nothing about OpenAI.
    cooling = CoolDowns(Time())
    cooling.failed(OWN, cooling.begin(OWN), None)

    assert cooling.is_cooling(OWN)
    assert not cooling.is_cooling(structs.replace(OWN, base_url="https://x.openai.azure.com"))


async def test_each_failure_in_a_row_doubles_the_time_up_to_a_bound() -> None:
    """A row ends with a reply, and calls that fail together are one failure."""
    # Each failure in a row doubles the time up to a bound. A long outage is asked about seldom, and
    # noticed to be over within minutes.
    case = Case([DOWN] * 20, ["ok"] * 40)
    seen = []
    for _ in range(9):
        await case.ask()
        begun = case.time.now_s
        while case.cooling.is_cooling(OWN):
            case.time.now_s += 1
        seen.append(case.time.now_s - begun)

    assert seen == [10, 20, 40, 80, 160, 320, 600, 600, 600]
    assert seen[-1] == MAX_COOL_DOWN_S

    # A reply ends the row. An outage last week says nothing about today's.
    case = Case([DOWN, DOWN, "fine", DOWN], ["ok"] * 9)
    for _ in range(4):
        await case.ask()
        case.time.now_s += MAX_COOL_DOWN_S
    case.time.now_s -= MAX_COOL_DOWN_S - FIRST_COOL_DOWN_S

    assert not case.cooling.is_cooling(OWN)

    # Calls that fail together count as one failure. Ten conversations at the moment of an outage
    # must not push the model away for ten minutes.
    case = Case([DOWN] * 10, ["ok"] * 10)
    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(case.ask)
    case.time.now_s += FIRST_COOL_DOWN_S

    assert case.calls[0] == 10
    assert not case.cooling.is_cooling(OWN)


@table(("asked_s", "cool_s"), [(1.0, FIRST_COOL_DOWN_S), (90.0, 90.0), (86_400.0, MAX_ASKED_S)])
async def test_a_provider_is_given_the_time_it_asks_for(asked_s: float, cool_s: float) -> None:
    """Asking sooner prolongs a rate limit; asking in a day forgets the model."""
    case = Case([RateLimitedError("slow", retry_after_s=asked_s)], ["ok"])
    await case.ask()
    case.time.now_s += cool_s - 0.5
    before = case.cooling.is_cooling(OWN)
    case.time.now_s += 1

    assert (before, case.cooling.is_cooling(OWN)) == (True, False)


async def test_after_the_cool_down_one_call_looks_first() -> None:
    """And no other waits for it."""
    # After the cool down one call looks first. Else every conversation would wait for the time-out
    # of a model that is still dead.
    case = Case([DOWN, "back"], ["one", "two", "three"])
    await case.ask()
    case.time.now_s += FIRST_COOL_DOWN_S
    case.models[0].hold()
    texts: list[str] = []

    async def ask() -> None:
        texts.append((await case.ask()).text)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await case.models[0].until_called(2)
        await ask()
        case.models[0].release()

    assert texts == ["two", "back"]
    assert not case.cooling.is_cooling(OWN)

    # A look that is cut off is no failure. Somebody typed /stop; the next look comes a cool-down
    # later.
    case = Case([DOWN, "back", "back"], ["one", "two"])
    await case.ask()
    case.time.now_s += FIRST_COOL_DOWN_S
    case.models[0].hold()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(case.ask)
        await case.models[0].until_called(2)
        tasks.cancel_scope.cancel()
    case.models[0].release()
    during = case.cooling.is_cooling(OWN)
    case.time.now_s += FIRST_COOL_DOWN_S

    assert during
    assert (await case.ask()).text == "back"


async def test_where_nobody_else_can_answer_who_is_left_alone_is_asked() -> None:
    """Models are left alone because others can answer."""
    # Where all are left alone they are asked all the same. Refusing without a try would turn a
    # hiccup of all into an outage of minutes.
    case = Case([DOWN, DOWN, DOWN], [DOWN, "again"], [DOWN])
    with pytest.raises(ModelTransientError):
        await case.ask()
    reply = await case.ask()

    assert reply.fallback == "anthropic/other"

    # The own model is asked last where the others fail. It is left alone because others can answer;
    # where they cannot, it may.
    case = Case([DOWN, "I am back"], ["one", DOWN])
    await case.ask()
    reply = await case.ask()

    assert (reply.text, reply.fallback) == ("I am back", "")


@table(
    ("errors", "kind", "retry_after_s"),
    [
        # Whichever is first ready again is waited for.
        (
            (RateLimitedError("a", retry_after_s=60), RateLimitedError("b", retry_after_s=5)),
            RateLimitedError,
            5,
        ),
        ((RateLimitedError("a", retry_after_s=60), DOWN), RateLimitedError, None),
        # A try may help as long as it may help one of them.
        ((ModelAuthError("a"), RateLimitedError("b", retry_after_s=5)), RateLimitedError, 5),
        ((ModelAuthError("a"), ModelRefusedError("b")), ModelAuthError, None),
        ((RateLimitedError("a", retry_after_s=9), ModelAuthError("b")), RateLimitedError, 9),
    ],
)
async def test_where_all_fail_the_error_says_what_each_said(
    errors: tuple[ModelError, ModelError], kind: type[ModelError], retry_after_s: float | None
) -> None:
    """The turn tries again if that may help anywhere; the person reads both reasons."""
    case = Case([errors[0]], [errors[1]])
    with pytest.raises(ModelError) as raised:
        await case.ask()

    assert type(raised.value) is kind
    assert raised.value.retry_after_s == retry_after_s
    assert str(raised.value) == f"{errors[0]}; fallback anthropic/other: {errors[1]}"
    assert raised.value.retryable == any(error.retryable for error in errors)
