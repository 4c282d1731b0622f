"""Windows that providers tell, over real sockets, in the background of the first calls."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest
from msgspec import structs
from support.model_api import ModelApi, open_model_api, overflow
from support.patience import WAIT_S
from support.tables import table

from everturn_actors.context.estimation.calibration import ModelStatistics, learn, prior_statistics
from everturn_actors.context.estimation.windows import input_window
from everturn_actors.errors import ContextOverflowError
from everturn_actors.model import ModelRequest, Reply, UserMessage
from everturn_actors.ports import ModelProvider, WindowSource
from everturn_actors.spec import ModelSpec
from everturn_actors.turn.model_statistics import InMemoryModelStatistics
from everturn_gateway.providers import Providers, open_providers
from everturn_gateway.providers.inquiry import Inquiring, Inquiry
from everturn_gateway.providers.openai_compatible import OpenAICompatible
from everturn_gateway.providers.transport import streaming as transport
from everturn_gateway.providers.transport.endpoints import Endpoint
from everturn_gateway.providers.transport.http_clients import HttpClients
from everturn_gateway.providers.transport.streaming import Connection

LISTING = "/v1/models"
MODEL = ModelSpec(provider="openai", name="m")
REQUEST = ModelRequest(model="m", system="", messages=(UserMessage(text="Hi"),))


class Memory(InMemoryModelStatistics):
    """Tells when something was learnt."""

    def __init__(self) -> None:
        super().__init__()
        self.observed = anyio.Event()

    def record(self, model: ModelSpec, statistics: ModelStatistics) -> None:
        """Remember, and wake who waits."""
        super().record(model, statistics)
        self.observed.set()


class Source:
    """A provider that answers when it is let."""

    def __init__(self, tells: int | None = None) -> None:
        self.tells = tells
        self.asks = 0
        self.answer = anyio.Event()

    async def complete(self, _request: ModelRequest, _on_text: Callable[[str], None]) -> Reply:
        """Reply at once."""
        return Reply()

    async def window_tokens(self) -> int | None:
        """Wait, and tell."""
        self.asks += 1
        await self.answer.wait()
        return self.tells


def ignore(_piece: str) -> None:
    """Take a piece of text that does not matter."""


def spec(api: ModelApi, provider: str = "openai") -> ModelSpec:
    """Return a model at the API."""
    return ModelSpec(provider=provider, name="m", base_url=api.url)


@asynccontextmanager
async def open_with(model_statistics: InMemoryModelStatistics) -> AsyncGenerator[Providers]:
    """Open the providers as the gateway does."""
    async with open_providers(
        environ={}, models_dir=Path("none"), model_statistics=model_statistics
    ) as providers:
        yield providers


async def told(provider: ModelProvider) -> int | None:
    """Ask a provider for its window."""
    assert isinstance(provider, WindowSource)
    return await provider.window_tokens()


@table(
    ("provider", "answers", "tokens", "asked"),
    [
        ("openai", {LISTING: {"data": [{"id": "m", "max_model_len": 4096}]}}, 4096, [LISTING]),
        (
            "openai",
            {
                LISTING: {"data": [{"id": "m", "meta": {"n_ctx_train": 131072}}]},
                "/props": {"default_generation_settings": {"n_ctx": 8192}},
            },
            8192,
            [LISTING, "/props"],
        ),
        (
            "openai",
            {"/api/ps": {"models": [{"name": "m", "context_length": 4096}]}},
            4096,
            [LISTING, "/props", "/api/ps"],
        ),
        (
            "openai",
            {"/api/v0/models": {"data": [{"id": "m", "loaded_context_length": 2048}]}},
            2048,
            [LISTING, "/props", "/api/ps", "/api/v0/models"],
        ),
        (
            "openai",
            {LISTING: {"data": [{"id": "m", "max_context_length": 32768}]}},
            32768,
            [LISTING, "/props", "/api/ps", "/api/v0/models"],
        ),
        ("openai", {}, None, [LISTING, "/props", "/api/ps", "/api/v0/models"]),
        (
            "ollama",
            {"/api/ps": {"models": [{"model": "m:latest", "context_length": 4096}]}},
            4096,
            ["/api/ps"],
        ),
        (
            "ollama",
            {"/api/ps": {"models": []}, "/api/show": {"parameters": "num_ctx 16384"}},
            16384,
            ["/api/ps", "/api/show"],
        ),
        ("ollama", {}, None, ["/api/ps", "/api/show"]),
        (
            "anthropic",
            {"/v1/models/m": {"id": "m", "type": "model", "max_input_tokens": 200_000}},
            200_000,
            ["/v1/models/m"],
        ),
        ("anthropic", {"/v1/models/m": {"type": "error"}}, None, ["/v1/models/m"]),
        (
            "gemini",
            {"/v1/models/m": {"name": "models/m", "inputTokenLimit": 1_048_576}},
            1_048_576,
            ["/v1/models/m"],
        ),
    ],
)
async def test_each_server_is_asked_in_its_own_way(
    provider: str, answers: dict[str, Any], tokens: int | None, asked: list[str]
) -> None:
    """What a model is served with decides what fits, not what it was trained for."""
    async with open_model_api() as api, open_with(InMemoryModelStatistics()) as providers:
        api.told = answers

        assert await told(providers.make(spec(api, provider), Path("none"))) == tokens
        assert [request.path for request in api.asked] == asked
        assert api.count == 0


async def test_the_question_carries_the_key() -> None:
    """A server that asks for a key does so for its list of models as well."""
    endpoint = Endpoint(address="", path="/v1/chat/completions", key="sk-1234", tells="listing")
    clients = HttpClients()
    async with open_model_api() as api:
        api.told = {LISTING: {"data": [{"id": "m", "context_length": 4096}]}}
        there = dataclasses.replace(endpoint, address=api.url.removesuffix("/v1"))
        provider = OpenAICompatible(
            Connection(endpoint=there, clients=clients, mask=str), model="m"
        )
        tokens = await provider.window_tokens()
        await clients.aclose()

    assert tokens == 4096
    assert api.asked[0].headers["authorization"] == "Bearer sk-1234"


@table(("provider", "header"), [("anthropic", "x-api-key"), ("gemini", "x-goog-api-key")])
async def test_the_question_carries_the_key_under_its_own_name(provider: str, header: str) -> None:
    """Gemini's own API does not take the key as its compatible one does."""
    environ = {f"{provider.upper()}_API_KEY": "sk-1234"}
    async with (
        open_model_api() as api,
        open_providers(environ=environ, models_dir=Path("none")) as providers,
    ):
        await told(providers.make(spec(api, provider), Path("none")))

    assert api.asked[0].headers[header] == "sk-1234"


async def test_after_the_first_call_the_window_is_known() -> None:
    """Nobody configures it; from the second request on it fits, and of all agents.

    A reload of a hundred agents must not ask a hundred times.
    """
    model_statistics = Memory()
    async with open_model_api() as api, open_with(model_statistics) as providers:
        api.told = {LISTING: {"data": [{"id": "m", "max_model_len": 4096}]}}
        model = spec(api)
        provider = providers.make(model, Path("none"))
        before = input_window(model, model_statistics.of(model))
        await provider.complete(REQUEST, ignore)
        with anyio.fail_after(WAIT_S):
            await model_statistics.observed.wait()
        await provider.complete(REQUEST, ignore)
        for _ in range(2):
            await providers.make(spec(api), Path("none")).complete(REQUEST, ignore)

    assert before == 128_000
    assert input_window(model, model_statistics.of(model)) == 4096
    assert len(api.asked) == 1


async def test_an_agent_that_says_more_than_its_server_is_warned_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Ollama cuts a longer request silently: the agent would forget its prompt."""
    model_statistics = Memory()
    async with open_model_api() as api, open_with(model_statistics) as providers:
        api.told = {"/api/ps": {"models": [{"name": "m", "context_length": 4096}]}}
        model = structs.replace(spec(api, "ollama"), context_window=16_384)
        await providers.make(model, Path("none")).complete(REQUEST, ignore)
        with anyio.fail_after(WAIT_S):
            await model_statistics.observed.wait()

    assert input_window(model, model_statistics.of(model)) == 16_384
    assert [record.__dict__["served_tokens"] for record in caplog.records] == [4096]


async def test_what_was_observed_meanwhile_stays() -> None:
    """The answer comes after the report of the first call: it must not take that away."""
    model_statistics = Memory()
    async with open_model_api() as api, open_with(model_statistics) as providers:
        api.told = {LISTING: {"data": [{"id": "m", "max_model_len": 4096}]}}
        model = spec(api)
        await providers.make(model, Path("none")).complete(REQUEST, ignore)
        observed = learn(model_statistics.of(model), units=100_000, tokens=1_700)
        InMemoryModelStatistics.record(model_statistics, model, observed)
        with anyio.fail_after(WAIT_S):
            await model_statistics.observed.wait()

    assert model_statistics.of(model) == structs.replace(observed, window_tokens=4096)


async def test_a_refused_first_call_also_asks() -> None:
    """An overflow that names no number is the best reason to ask."""
    model_statistics = Memory()
    async with open_model_api() as api, open_with(model_statistics) as providers:
        api.told = {LISTING: {"data": [{"id": "m", "max_model_len": 4096}]}}
        api.script(overflow())
        model = spec(api)
        with pytest.raises(ContextOverflowError) as raised:
            await providers.make(model, Path("none")).complete(REQUEST, ignore)
        with anyio.fail_after(WAIT_S):
            await model_statistics.observed.wait()

    assert raised.value.window_tokens == 8192
    assert model_statistics.of(model).window_tokens == 4096


@table(("tells", "asks"), [(4096, 1), (None, 3)])
async def test_a_server_is_asked_until_it_tells_and_three_times_at_most(
    tells: int | None, asks: int
) -> None:
    """Otherwise every reply would be followed by questions."""
    model_statistics, source = InMemoryModelStatistics(), Source(tells)
    source.answer.set()
    async with anyio.create_task_group() as tasks:
        provider = Inquiring(
            source, model=MODEL, inquiry=Inquiry(model_statistics=model_statistics, tasks=tasks)
        )
        for _ in range(6):
            await provider.complete(REQUEST, ignore)
            await anyio.wait_all_tasks_blocked()

    assert source.asks == asks
    assert model_statistics.of(MODEL) == structs.replace(prior_statistics("m"), window_tokens=tells)


async def test_calls_do_not_wait_for_the_answer() -> None:
    """The question is asked beside the turns: a proxy that swallows it must not hold them up."""
    source = Source()
    async with anyio.create_task_group() as tasks:
        inquiry = Inquiry(model_statistics=InMemoryModelStatistics(), tasks=tasks)
        with anyio.fail_after(WAIT_S):
            for _ in range(3):
                await Inquiring(source, model=MODEL, inquiry=inquiry).complete(REQUEST, ignore)
                await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()

    assert source.asks == 1


async def test_a_silent_server_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a deadline the question would hold a connection for good."""
    monkeypatch.setattr(transport, "WINDOW_TIMEOUT_S", 0.05)
    async with open_silent() as address, open_with(InMemoryModelStatistics()) as providers:
        model = ModelSpec(provider="openai", name="m", base_url=address)
        with anyio.fail_after(WAIT_S):
            tokens = await told(providers.make(model, Path("none")))

    assert tokens is None


async def test_the_providers_close_in_the_middle_of_a_question() -> None:
    """A stop of the gateway must neither wait for an answer nor fail for want of it."""
    async with open_model_api() as api, open_silent() as address:
        with anyio.fail_after(WAIT_S):
            async with open_with(InMemoryModelStatistics()) as providers:
                model = ModelSpec(provider="openai", name="m", base_url=address)
                silent = providers.make(model, Path("none"))
                answering = providers.make(spec(api), Path("none"))
                async with anyio.create_task_group() as asking:
                    asking.start_soon(told, silent)
                    await anyio.wait_all_tasks_blocked()
                    await answering.complete(REQUEST, ignore)
                    asking.cancel_scope.cancel()

    assert api.count == 1


async def test_nobody_at_the_address_is_no_answer() -> None:
    """Asking must never raise: the call itself says what is wrong."""
    async with open_model_api() as api:
        address = api.url
    async with open_with(InMemoryModelStatistics()) as providers:
        model = ModelSpec(provider="openai", name="m", base_url=address)

        assert await told(providers.make(model, Path("none"))) is None


@table("body", [b"<html>", b"", b"\xff", b"[[[", b'{"data": 3}', b"null"])
async def test_an_answer_that_is_none_tells_nothing(body: bytes) -> None:
    """Gateways in front of a model answer what they like."""
    async with open_model_api() as api, open_with(InMemoryModelStatistics()) as providers:
        api.told = dict.fromkeys((LISTING, "/props", "/api/ps", "/api/v0/models"), body)

        assert await told(providers.make(spec(api), Path("none"))) is None
        assert len(api.asked) == 4


async def test_a_local_model_says_what_it_is_started_with() -> None:
    """Its file's name tells nothing, and the table would give it 128,000."""
    model_statistics = InMemoryModelStatistics()
    small = ModelSpec(provider="local", name="mine.gguf")
    large = ModelSpec(provider="local", name="yours.gguf", context_window=16_384)
    async with open_with(model_statistics) as providers:
        tokens = await told(providers.make(small, Path("none")))
        providers.make(large, Path("none"))

    assert tokens == 4096
    assert input_window(small, model_statistics.of(small)) == 4096
    assert input_window(large, model_statistics.of(large)) == 16_384


@asynccontextmanager
async def open_silent() -> AsyncGenerator[str]:
    """Serve an address that takes connections and answers nothing."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - not Django's

    async def hold(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await anyio.sleep_forever()

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, hold)
        yield f"http://127.0.0.1:{port}"
        tasks.cancel_scope.cancel()
