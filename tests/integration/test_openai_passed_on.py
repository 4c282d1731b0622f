"""Embeddings and audio: a provider answers, with the gateway's key, by the official client."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import openai
import orjson
import pytest
from support.answers import Answer
from support.gateway import HttpGateway, open_http_gateway
from support.model_api import open_model_api, rate_limited, unauthorized
from support.openai_client import client_of

from everturn_gateway.config.settings import OpenAIApiConfig, PassedOnConfig, ServerConfig
from everturn_gateway.providers.passing_on import PassingOn

ROW = {"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}
EMBEDDED = {
    "object": "list",
    "data": [ROW],
    "model": "small",
    "usage": {"prompt_tokens": 3, "total_tokens": 3},
}


@asynccontextmanager
async def passing_on(folder: Path, url: str) -> AsyncGenerator[HttpGateway]:
    """Open a gateway that passes on to the provider at `url`, and wants tokens."""
    server = ServerConfig(require_token=True)
    async with (
        open_http_gateway(folder, server=server) as gateway,
        aclosing(
            PassingOn({"OPENAI_API_KEY": "sk-own"}, lambda t: t.replace("sk-own", "***"))
        ) as to,
    ):
        api = OpenAIApiConfig(passed_on=PassedOnConfig(provider="openai", base_url=url))
        gateway.config = replace(gateway.config, openai_api=api)
        gateway.passing_on = to
        yield gateway


async def test_a_provider_answers_with_the_gateways_key(tmp_path: Path) -> None:
    """The client sees what it would see there; its own token stays here."""
    async with (
        open_model_api() as api,
        passing_on(tmp_path, api.url) as gateway,
    ):
        token = await gateway.token("ann", "talk")
        async with client_of(gateway, key=token) as client:
            api.script(Answer(body=orjson.dumps(EMBEDDED)), Answer(body=b"ID3" + bytes(100_000)))
            embedded = await client.embeddings.create(
                model="small", input=["a"], encoding_format="float"
            )
            spoken = await client.audio.speech.create(model="tts", voice="alloy", input="hi")
            api.script(Answer(body=b'{"text": "hello"}'))
            heard = await client.audio.transcriptions.create(model="w", file=("a.wav", b"RIFF"))
    paths = [request.path for request in api.requests]

    assert embedded.data[0].embedding == [0.5, 0.25]
    assert len(spoken.content) == 100_003
    assert heard.text == "hello"
    assert paths == ["/v1/embeddings", "/v1/audio/speech", "/v1/audio/transcriptions"]
    assert {request.headers["authorization"] for request in api.requests} == {"Bearer sk-own"}
    assert b"RIFF" in api.requests[-1].body
    assert all(token.encode() not in str(request).encode() for request in api.requests)


async def test_what_is_not_answered_is_told_in_the_clients_shape(tmp_path: Path) -> None:
    """A refusal of the provider is the client's; one of the gateway's key is not."""
    async with open_model_api() as api, passing_on(tmp_path, api.url) as gateway:
        async with client_of(gateway, key=await gateway.token("ann", "talk")) as client:
            api.script(rate_limited(retry_after="7"), unauthorized(), Answer(status=307))
            with pytest.raises(openai.RateLimitError) as limited:
                await client.embeddings.create(model="m", input="x")
            for why in ("refused the gateway's key", "redirect"):
                with pytest.raises(openai.InternalServerError, match=why):
                    await client.embeddings.create(model="m", input="x")
        for token in (
            await gateway.token("ben", "talk", daily_cost_usd=1),
            await gateway.token("bea", "talk", agents=("test",)),
        ):
            async with client_of(gateway, key=token) as client:
                with pytest.raises(openai.PermissionDeniedError):
                    await client.embeddings.create(model="m", input="x")
        asked = api.count
        gateway.config = replace(gateway.config, openai_api=OpenAIApiConfig())
        async with client_of(gateway, key=await gateway.token("cid", "talk")) as client:
            with pytest.raises(openai.NotFoundError, match="passed_on"):
                await client.audio.speech.create(model="m", voice="alloy", input="x")

    assert limited.value.response.headers["retry-after"] == "7"
    assert asked == 3


async def test_nobody_is_there(tmp_path: Path) -> None:
    """The client gets an error at once, and the gateway stays."""
    async with passing_on(tmp_path, "http://127.0.0.1:9/v1") as gateway:
        token = await gateway.token("ann", "talk")
        async with client_of(gateway, key=token) as client:
            with pytest.raises(openai.InternalServerError, match="openai at http://127") as caught:
                await client.embeddings.create(model="m", input="x")

    assert caught.value.status_code == 502
