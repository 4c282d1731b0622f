"""What a request would cost, asked of its provider by the route it documents, when it matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_type_hints

import orjson
from anthropic.types import MessageCountTokensParams
from msgspec import structs
from openai.types.responses.input_token_count_params import InputTokenCountParams
from pydantic import TypeAdapter
from support.model_api import open_model_api, refused
from support.provider_kinds import (
    ANTHROPIC,
    GEMINI,
    LOOK,
    OPENAI,
    RESPONSES,
    a_conversation,
    request,
)
from support.tables import table

from everturn_actors.context.estimation.calibration import ModelStatistics
from everturn_actors.events import ContextReduced, ModelReplied, PromptCounted
from everturn_actors.model import CallOptions, IncomingMessage, ModelRequest, UserMessage
from everturn_actors.spec import ModelSpec
from everturn_actors.testing import ScriptedProvider, make_spec, open_test_service
from everturn_actors.turn.model_statistics import InMemoryModelStatistics
from everturn_gateway.providers.anthropic import Anthropic
from everturn_gateway.providers.openai_compatible import OpenAICompatible
from everturn_gateway.providers.responses import Responses, openai_question
from everturn_gateway.providers.transport.endpoints import Counts, endpoint_for
from everturn_gateway.providers.transport.http_clients import HttpClients
from everturn_gateway.providers.transport.streaming import Connection

WINDOW_TOKENS = 4_000
MODEL = ModelSpec(
    provider="test", name="test-model", context_window=WINDOW_TOKENS, max_output_tokens=500
)
KEYS = {f"{name}_API_KEY": "sk-1" for name in ("OPENAI", "ANTHROPIC", "GEMINI")}


def _check(body: Any, documented: Any) -> None:
    """Hold a body to the types of the vendor's own package: no field that these do not know."""
    TypeAdapter(documented).validate_python(body)
    assert body.keys() <= get_type_hints(documented).keys()


def _check_gemini(body: Any, _documented: Any) -> None:
    asked = body["generateContentRequest"]
    assert asked.keys() == {"model", "contents", "systemInstruction", "tools"}
    assert [each["role"] for each in asked["contents"]] == [
        *("user", "user", "model", "user", "model", "user")
    ]
    parts = [part for each in asked["contents"] for part in each["parts"]]
    assert {"functionCall": {"name": "look", "args": {"at": "x"}}} in parts
    assert {"functionResponse": {"name": "look", "response": {"output": "a cat"}}} in parts


def test_a_count_has_what_the_prompt_has_and_nothing_that_the_model_refuses() -> None:
    """A schema is a part of the prompt; a refused parameter would end each count with a refusal."""
    form = {"type": "json_schema", "json_schema": {"name": "word", "schema": {"type": "object"}}}
    asked = replace(
        request(UserMessage(text="hi")),
        reasoning_effort="high",
        options=CallOptions(response_format=form),
    )
    body = orjson.loads(openai_question(asked, "/v1", leave_out={"reasoning_effort"}).body)

    _check(body, InputTokenCountParams)
    assert body["text"]["format"]["name"] == "word"
    assert "reasoning" not in body


@table(
    ("kind", "counts", "path", "documented", "check"),
    [
        (ANTHROPIC, "anthropic", "/v1/messages/count_tokens", MessageCountTokensParams, _check),
        (OPENAI, "openai", "/v1/responses/input_tokens", InputTokenCountParams, _check),
        (RESPONSES, "openai", "/v1/responses/input_tokens", InputTokenCountParams, _check),
        (GEMINI, "gemini", "/v1/models/m:countTokens", None, _check_gemini),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
async def test_a_provider_is_asked_by_its_own_route_and_not_again_where_it_has_none(
    kind: Any, counts: Counts, path: str, documented: Any, check: Callable[[Any, Any], None]
) -> None:
    """A route that is missing is found out once; trouble that passes is not taken for that."""
    async with open_model_api() as api:
        api.counts = 1_234
        endpoint = replace(endpoint_for(kind.spec(api), KEYS), counts=counts)
        clients = HttpClients()
        connection = Connection(endpoint=endpoint, clients=clients, mask=str)
        makes = {"responses": Responses, "anthropic": Anthropic}
        make = makes.get(endpoint.api, OpenAICompatible)
        provider = make(connection, model="m")
        asked = request(*a_conversation(), tools=(LOOK,), max_output_tokens=900, temperature=0.5)
        try:
            assert await provider.count_tokens(asked) == 1_234
            check(api.asked[0].json(), documented)
            assert api.asked[0].path == path
            # A key that comes as a bearer token is refused there, whatever comes beside it.
            assert ("authorization" in api.asked[0].headers) == (counts == "openai")
            # A moment's trouble is no answer; that there is no such route is one for good.
            api.counts = refused(429, "slow down")
            assert await provider.count_tokens(asked) is None
            api.counts = None
            assert await provider.count_tokens(asked) is None
            api.counts = 1_234
            assert await provider.count_tokens(asked) is None
        finally:
            await clients.aclose()
        assert len(api.asked) == 3
        assert not api.requests


class Counting(ScriptedProvider):
    """A model whose provider counts."""

    def __init__(self, answer: Callable[[ModelRequest], Any]) -> None:
        super().__init__()
        self.counted: list[ModelRequest] = []
        self._answer = answer

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """See `PromptCounter.count_tokens`."""
        self.counted.append(request)
        answer = self._answer(request)
        if isinstance(answer, Exception):
            raise answer
        assert answer is None or isinstance(answer, int)
        return answer


def _characters(request: ModelRequest) -> int:
    """A tokenizer with one token for ten characters, where ours expects four."""
    return sum(len(message.text) for message in request.messages) // 10


async def _talk(provider: Counting, texts: list[str]) -> tuple[list[Any], ModelStatistics, bool]:
    """Return what is in the log, what was learnt, and whether every request is made again."""
    statistics = InMemoryModelStatistics()
    spec = structs.replace(make_spec(), model=MODEL)
    async with open_test_service(provider=provider, spec=spec, model_statistics=statistics) as test:
        session_id = ""
        for text in texts:
            done = await test.service.submit(IncomingMessage(text=text, key=test.key()))
            assert (await done.result()).outcome == "answered"
            session_id = done.session_id
        events = await test.service.reader.history(session_id, after=0, limit=1_000)
        replied = [each.seq for each in events if isinstance(each.body, ModelReplied)]
        explained = await test.service.reader.explain(session_id, *replied)
        is_same = all(each.verdict == "same" for each in explained)
        return [each.body for each in events], statistics.of(MODEL), is_same


async def test_what_the_provider_counts_keeps_what_an_estimate_would_have_cut() -> None:
    """An estimate that is far too high cuts; what the provider says does not, and is learnt."""
    far, near = ["hello"] * 3, ["word " * 700] * 5  # 3,500 characters each
    provider = Counting(_characters)
    await _talk(provider, far)
    assert not provider.counted, "far from the edge nobody is asked"
    provider = Counting(lambda _request: None)
    cut, guessed, _ = await _talk(provider, near)
    assert any(isinstance(each, ContextReduced) and each.cut_turn for each in cut)
    provider = Counting(_characters)
    kept, observed, is_same = await _talk(provider, near)
    counted = [each for each in kept if isinstance(each, PromptCounted)]
    assert [each.tokens for each in counted] == list(map(_characters, provider.counted))
    assert not any(isinstance(each, ContextReduced) for each in kept)
    assert observed.prices != guessed.prices
    assert is_same


@table("answer", [None, ValueError("odd"), -3], ids=repr)
async def test_a_count_that_does_not_come_costs_a_turn_nothing(answer: Any) -> None:
    """Whatever the provider makes of the question, the turn goes on by the estimate."""
    bodies, _, is_same = await _talk(Counting(lambda _request: answer), ["word " * 700] * 3)
    assert not any(isinstance(each, PromptCounted) for each in bodies)
    assert is_same
