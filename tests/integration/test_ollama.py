"""Ollama's own API: the window a model is loaded with, how long it stays, and what it cuts."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.answers import Answer
from support.model_api import open_model_api
from support.patience import WAIT_S
from support.provider_kinds import LOOK, LOOKED, OLLAMA, ignore, open_kind, request
from support.tables import table

from everturn_actors.context.estimation.calibration import ModelStatistics
from everturn_actors.context.estimation.windows import input_window
from everturn_actors.errors import ContextOverflowError
from everturn_actors.model import Notice, Reply, ToolCall, ToolResult, UserMessage
from everturn_actors.spec import ModelSpec
from everturn_actors.turn.model_statistics import InMemoryModelStatistics
from everturn_gateway.providers import ProviderConfigError, open_providers

HELLO = {"role": "user", "content": "Hi"}


class Memory(InMemoryModelStatistics):
    """Tells when something was learnt."""

    def __init__(self) -> None:
        super().__init__()
        self.observed = anyio.Event()

    def record(self, model: ModelSpec, statistics: ModelStatistics) -> None:
        """Remember, and wake who waits."""
        super().record(model, statistics)
        self.observed.set()


async def test_a_request_has_the_form_of_the_documents() -> None:
    """Arguments are objects, results name their tool, limits stand among the options."""
    async with open_model_api() as api, open_kind(OLLAMA, api, context_window=8192) as adapter:
        await adapter.complete(
            request(
                Notice(text="2 left out"),
                UserMessage(text="look"),
                Reply(text="", calls=(LOOKED,), reasoning="hm"),
                ToolResult(call_id="toolu_01", name="look", text="a cat"),
                Reply(text="A cat.", reasoning="not sent"),
                UserMessage(text="so?"),
                tools=(LOOK,),
                max_output_tokens=50,
                temperature=0.5,
            ),
            ignore,
        )
        (received,) = api.requests

    assert (received.method, received.path) == ("POST", "/api/chat")
    assert "authorization" not in received.headers
    assert received.json() == {
        "model": "m",
        "stream": True,
        "truncate": False,
        "shift": False,
        "options": {"num_ctx": 8192, "num_predict": 50, "temperature": 0.5},
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "system", "content": "2 left out"},
            {"role": "user", "content": "look"},
            {
                "role": "assistant",
                "content": "",
                "thinking": "hm",
                "tool_calls": [
                    {"id": "toolu_01", "function": {"name": "look", "arguments": {"at": "x"}}}
                ],
            },
            {
                "role": "tool",
                "tool_name": "look",
                "tool_call_id": "toolu_01",
                "content": "a cat",
            },
            {"role": "assistant", "content": "A cat."},
            {"role": "user", "content": "so?"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "look",
                    "description": "Looks",
                    "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
                },
            }
        ],
    }


@table(
    ("fields", "num_ctx"),
    [
        ({}, None),
        ({"context_window": 16_384}, 16_384),
        ({"max_input_tokens": 8192}, 8192),
        ({"context_window": 16_384, "max_input_tokens": 8192}, 8192),
    ],
)
async def test_the_window_is_the_one_that_requests_are_made_for(
    fields: dict[str, Any], num_ctx: int | None
) -> None:
    """Loaded with less, Ollama would refuse what fits; with more, it would waste memory."""
    async with open_model_api() as api, open_kind(OLLAMA, api, **fields) as adapter:
        await adapter.complete(request(), ignore)
        options = api.requests[0].json()["options"]

    assert options.get("num_ctx") == num_ctx
    assert (
        num_ctx is None or input_window(ModelSpec(provider="ollama", name="m", **fields)) == num_ctx
    )


async def test_the_window_it_was_loaded_with_is_learnt() -> None:
    """Whoever sets none gets what the server has, and requests that fit."""
    model_statistics = Memory()
    async with open_model_api() as api:
        api.told = {"/api/ps": {"models": [{"name": "m:latest", "context_length": 4096}]}}
        model = OLLAMA.spec(api)
        async with open_providers(
            environ={}, models_dir=Path("none"), model_statistics=model_statistics
        ) as providers:
            await providers.make(model, Path("none")).complete(request(), ignore)
            with anyio.fail_after(WAIT_S):
                await model_statistics.observed.wait()

    assert input_window(model, model_statistics.of(model)) == 4096


@table(
    ("value", "sent"),
    [
        ("", None),
        ("24h", "24h"),
        ("1h30m", "1h30m"),
        ("-1", -1),
        ("0", 0),
        ("600", 600),
        ("1.5", 1.5),
        ("-1m", "-1m"),
    ],
)
async def test_how_long_a_model_stays_is_said_as_ollama_says_it(value: str, sent: object) -> None:
    """The variable of its own server is known to whoever runs one; unset, the server decides."""
    environ = {"OLLAMA_KEEP_ALIVE": value}
    async with open_model_api() as api, open_kind(OLLAMA, api, environ=environ) as adapter:
        await adapter.complete(request(), ignore)

        assert api.requests[0].json().get("keep_alive") == sent


@table("value", ["soon", "5 minutes", "1d", "--1"])
async def test_a_time_that_ollama_cannot_read_is_refused_at_load(value: str) -> None:
    """It would refuse every request."""
    async with open_providers(environ={"OLLAMA_KEEP_ALIVE": value}, models_dir=Path()) as providers:
        with pytest.raises(ProviderConfigError, match=r"OLLAMA_KEEP_ALIVE is .*such as 24h"):
            providers.make(ModelSpec(provider="ollama", name="m"), Path())


async def test_calls_without_ids_get_ids_that_stay() -> None:
    """Older versions give none; a result has to find its call, in this turn and after."""
    call = ToolCall(call_id="", name="look", arguments='{"at":"x"}')
    async with open_model_api() as api, open_kind(OLLAMA, api) as adapter:
        api.script(Answer(calls=(call, call)), Answer(calls=(call,)))
        first = await adapter.complete(request(tools=(LOOK,)), ignore)
        second = await adapter.complete(request(tools=(LOOK,)), ignore)

    ids = [c.call_id for reply in (first, second) for c in reply.calls]
    assert len(set(ids)) == 3
    assert all(call_id.startswith("call_") for call_id in ids)


async def test_a_window_that_is_full_or_too_small_is_no_finished_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The turn, or the owner, learns it."""
    # It must not look as if the model had finished.
    async with open_model_api() as api, open_kind(OLLAMA, api) as adapter:
        api.script(Answer(text="So", finish_reason="length"))

        assert (await adapter.complete(request(), ignore)).stop_reason == "length"

    # The turn makes the request shorter and remembers how much fits.
    async with open_model_api() as api, open_kind(OLLAMA, api) as adapter:
        api.script(OLLAMA.overflow)
        with pytest.raises(ContextOverflowError, match="exceeds the available context") as raised:
            await adapter.complete(request(), ignore)

    assert raised.value.window_tokens == 4096

    # The agent has forgotten its beginning; its owner has to know why, and not with every turn.
    async with open_model_api() as api, open_kind(OLLAMA, api, context_window=512) as adapter:
        api.script(*(Answer(text="Hm.", input_tokens=tokens) for tokens in (511, 512, 512)))
        with caplog.at_level(logging.WARNING):
            replies = [await adapter.complete(request(), ignore) for _ in range(3)]

    assert [reply.text for reply in replies] == ["Hm."] * 3
    (record,) = caplog.records
    assert record.message.startswith("model was sent more than its window")
    assert record.__dict__["window_tokens"] == 512


async def test_under_v1_its_other_api_is_spoken() -> None:
    """Whoever wrote that address meant OpenAI's format."""
    async with open_model_api() as api, open_kind(OLLAMA, api, base_url=api.url) as adapter:
        reply = await adapter.complete(request(), ignore)

    assert reply.text == "All right."
    assert api.requests[0].path == "/v1/chat/completions"
