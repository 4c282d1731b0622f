"""The OpenAI-compatible routes, by the official client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import openai
import orjson
import pytest
from openai.types.chat import ChatCompletionMessageParam
from support.gateway import HttpGateway, open_http_gateway
from support.one_gateway import on_one_gateway
from support.openai_client import HI, KEY, client_of
from support.tables import table

from everturn_actors.errors import ModelAuthError
from everturn_actors.model import Reply, ToolResult, Usage
from everturn_actors.testing import ScriptedProvider, texts
from everturn_gateway.config.settings import ServerConfig

WORDS = "one two three four"


async def test_agents_are_models_and_do_what_models_of_text_do(tmp_path: Path) -> None:
    """A client's menu shows the agents; one that looks for another is told so in its own shape."""
    paths = ("embeddings", "images/generations", "completions", "moderations")
    async with open_http_gateway(tmp_path) as gateway, client_of(gateway) as client:
        models = [model async for model in client.models.list()]
        model = await client.models.retrieve("test")
        with pytest.raises(openai.NotFoundError) as unknown:
            await client.models.retrieve("nobody")
        missing: dict[str, openai.NotFoundError] = {}
        for path in paths:
            with pytest.raises(openai.NotFoundError) as caught:
                await client.post(f"/{path}", body={"model": "test"}, cast_to=object)
            missing[path] = caught.value

    assert [m.id for m in models] == ["test"]
    assert (model.id, model.object, model.owned_by) == ("test", "model", "everturn")
    assert unknown.value.code == "model_not_found"
    for path, error in missing.items():
        assert f"there is no /v1/{path} here" in error.message
        assert error.type == "invalid_request_error"


async def test_a_completion_has_text_usage_and_reason(tmp_path: Path) -> None:
    """The fields that programs read are all there."""
    usage = Usage(input_tokens=7, output_tokens=3, cached_tokens=2)
    provider = ScriptedProvider(Reply(text=WORDS, usage=usage, stop_reason="length"))
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        client_of(gateway) as client,
    ):
        completion = await client.chat.completions.create(model="test", messages=HI)

    assert completion.usage
    assert completion.usage.prompt_tokens_details
    assert completion.object == "chat.completion"
    assert completion.model == "test"
    assert completion.choices[0].message.content == WORDS
    assert completion.choices[0].finish_reason == "length"
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (7, 3)
    assert completion.usage.total_tokens == 10
    assert completion.usage.prompt_tokens_details.cached_tokens == 2
    assert completion.created > 1_700_000_000


async def test_a_streamed_completion_is_the_same_in_pieces(tmp_path: Path) -> None:
    """What a client shows while it streams is what it would have got at once.

    One that does not know the last chunk without choices, with the usage, is not given it; and
    those that read the bytes themselves look for `data:` lines and `[DONE]`.
    """
    usage = Usage(input_tokens=7, output_tokens=3)
    provider = ScriptedProvider(*[Reply(text=WORDS, usage=usage) for _ in range(3)])
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        client_of(gateway) as client,
        gateway.client() as reader,
    ):
        stream = await client.chat.completions.create(
            model="test", messages=HI, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        stream = await client.chat.completions.create(model="test", messages=HI, stream=True)
        unasked = [chunk async for chunk in stream]
        raw = await reader.post(
            "/v1/chat/completions", json={"model": "test", "messages": HI, "stream": True}
        )

    deltas = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(deltas) == WORDS
    assert len([delta for delta in deltas if delta]) > 1
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage
    assert chunks[-1].usage.total_tokens == 10
    assert [chunk.usage for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert len({chunk.id for chunk in chunks}) == 1
    assert all(chunk.choices for chunk in unasked)
    assert all("usage" not in chunk.model_fields_set for chunk in unasked)
    lines = [line for line in raw.text.split("\n\n") if line]
    assert raw.headers["content-type"].startswith("text/event-stream")
    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"
    assert orjson.loads(lines[0][6:])["object"] == "chat.completion.chunk"


async def test_without_a_conversation_a_call_is_one_stateless_turn(tmp_path: Path) -> None:
    """A client that keeps the history itself gets exactly that history answered, and no session."""
    provider = ScriptedProvider("fine")
    messages: list[ChatCompletionMessageParam] = [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
        {"role": "user", "content": "time?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "clock", "arguments": "{}"}},
                {"id": "b", "type": "function", "function": {"name": "date", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "b", "content": "Monday"},
        {"role": "tool", "tool_call_id": "a", "content": "noon"},
        {"role": "assistant", "content": "Monday noon."},
        {"role": "user", "content": "thanks"},
        {"role": "user", "content": [{"type": "text", "text": "and now?"}]},
    ]
    async with open_http_gateway(tmp_path, provider=provider) as gateway:
        async with client_of(gateway) as client:
            completion = await client.chat.completions.create(model="test", messages=messages)
        sessions = await gateway.service.reader.sessions()

    request = provider.requests[0]
    results = [m for m in request.messages if isinstance(m, ToolResult)]
    assert completion.choices[0].message.content == "fine"
    assert "Be brief.\n\nBe kind." in request.system
    assert texts(request) == ["time?", "thanks\n\nand now?"]
    assert [(r.call_id, r.name, r.text) for r in results] == [
        ("a", "clock", "noon"),
        ("b", "date", "Monday"),
    ]
    assert sessions == ()


@table("by", ["header", "user"])
async def test_with_a_conversation_the_last_user_message_is_taken(tmp_path: Path, by: str) -> None:
    """The history is the gateway's own: what the client repeats of it is not said twice."""
    provider = ScriptedProvider("first", "second")
    headers = {"X-Everturn-Session": "desk 4"} if by == "header" else {}
    user = "desk 4" if by == "user" else openai.omit
    async with open_http_gateway(tmp_path, provider=provider) as gateway:
        async with client_of(gateway) as client:
            one = await client.chat.completions.with_raw_response.create(
                model="test", messages=HI, user=user, extra_headers=headers
            )
            two = await client.chat.completions.with_raw_response.create(
                model="test",
                messages=[
                    {"role": "user", "content": "a history that never was"},
                    {"role": "assistant", "content": "nor this"},
                    {"role": "user", "content": "again"},
                ],
                user=user,
                extra_headers=headers,
            )
        session_id = one.headers["x-everturn-session"]
        state = await gateway.service.view(session_id)

    assert two.headers["x-everturn-session"] == session_id
    assert texts(provider.requests[1]) == ["hi", "again"]
    assert (state.key.channel, state.key.chat, state.turns) == ("openai", "desk 4", 2)


async def test_a_session_id_continues_that_session(tmp_path: Path) -> None:
    """A conversation that was begun elsewhere goes on in an OpenAI client."""
    async with open_http_gateway(tmp_path) as gateway, client_of(gateway) as client:
        session_id = await gateway.session()
        header = {"X-Everturn-Session": session_id}
        completion = await client.chat.completions.create(
            model="test", messages=HI, extra_headers=header
        )
        state = await gateway.service.view(session_id)
        unknown = {"X-Everturn-Session": "20260101T000000000-00000000"}
        with pytest.raises(openai.NotFoundError):
            await client.chat.completions.create(model="test", messages=HI, extra_headers=unknown)

    assert state.turns == 1
    assert completion.id == f"chatcmpl-{session_id}-m2"


async def test_a_key_repeats_nothing(tmp_path: Path) -> None:
    """A client that repeats a call after a broken connection does not say it twice."""
    headers = {"X-Everturn-Session": "desk", "Idempotency-Key": "k"}
    provider = ScriptedProvider("first", "second")
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        client_of(gateway) as client,
    ):
        one = await client.chat.completions.create(model="test", messages=HI, extra_headers=headers)
        two = await client.chat.completions.with_raw_response.create(
            model="test", messages=HI, extra_headers=headers
        )

    assert two.parse() == one
    assert two.headers["idempotent-replayed"] == "true"
    assert len(provider.requests) == 1


async def test_what_has_no_effect_is_named(tmp_path: Path) -> None:
    """Nothing that a client asks for is dropped without a word."""
    async with open_http_gateway(tmp_path) as gateway, client_of(gateway) as client:
        answer = await client.chat.completions.with_raw_response.create(
            model="test",
            messages=[{"role": "user", "content": "hi", "name": "Ann"}],
            temperature=0.5,
            max_tokens=5,
            n=1,
            tools=[],
            extra_body={"top_k": 3, "späß": 1, "user_id": None},
            extra_headers={"Idempotency-Key": "k"},
        )
        plain = await client.chat.completions.with_raw_response.create(model="test", messages=HI)

    assert answer.headers["x-everturn-ignored"] == (
        "top_k, sp__, temperature, max_tokens, messages.name, Idempotency-Key"
    )
    assert "x-everturn-ignored" not in plain.headers


@on_one_gateway(
    ("change", "param"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools.0.function"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools.0.function.name"),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"n": 2}, "n"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "a", "schema": {"$ref": "http://127.0.0.1/x"}},
                }
            },
            "response_format.json_schema.schema",
        ),
        ({"logprobs": True}, "logprobs"),
        ({"temperature": 3}, "temperature"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "robot", "content": "hi"}]}, "messages.0.role"),
        ({"messages": [{"role": "system", "content": "hi"}]}, "messages.0.role"),
        ({"messages": [{"role": "assistant", "content": "hi"}]}, "messages.0"),
        ({"messages": [*HI, {"role": "tool", "content": "x"}]}, "messages.1.tool_call_id"),
        (
            {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]},
            "messages.0.content.0.input_audio",
        ),
        (
            {
                "messages": [
                    *HI,
                    {
                        "role": "assistant",
                        "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}],
                    },
                    *HI,
                ]
            },
            "messages.2",
        ),
        (
            {
                "messages": [
                    *HI,
                    {
                        "role": "assistant",
                        "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}],
                    },
                ]
            },
            "messages.1.role",
        ),
        ({"messages": [{"role": "user", "content": " "}]}, None),
        ({"model": 7}, "model"),
    ],
)
async def test_what_cannot_be_done_is_refused_by_name(
    gateway: HttpGateway, change: dict[str, Any], param: str | None
) -> None:
    """A client that asks for more than there is learns which parameter it was."""
    async with client_of(gateway) as client:
        body = {"model": "test", "messages": HI, **change}
        with pytest.raises(openai.BadRequestError) as caught:
            await client.post("/chat/completions", body=body, cast_to=object)

    assert caught.value.param == param
    assert caught.value.type == "invalid_request_error"


async def test_errors_have_the_shape_of_openai(tmp_path: Path) -> None:
    """A client's own error classes work: token, agent, method, size and JSON."""
    server = ServerConfig(api_token=KEY, max_upload_bytes=1)  # the other limit holds then
    async with open_http_gateway(tmp_path, server=server) as gateway:
        async with client_of(gateway, key="wrong") as client:
            with pytest.raises(openai.AuthenticationError) as wrong_key:
                await client.chat.completions.create(model="test", messages=HI)
        async with client_of(gateway) as client:
            with pytest.raises(openai.NotFoundError) as wrong_model:
                await client.chat.completions.create(model="nobody", messages=HI)
        async with gateway.client(token=KEY) as plain:
            path = "/v1/chat/completions"
            kind = {"Content-Type": "application/json"}
            answers = [
                await plain.put(path),
                await plain.get("/v1/nothing"),
                await plain.post(path, content=b"{", headers=kind),
                await plain.post(path, content=b"x" * 2_000_000, headers=kind),
            ]

    assert wrong_key.value.type == "authentication_error"
    assert wrong_model.value.code == "model_not_found"
    assert [answer.status_code for answer in answers] == [405, 404, 400, 413]
    assert all(set(answer.json()) == {"error"} for answer in answers)


async def test_a_failed_turn_is_an_error_and_is_not_repeated_by_the_client(tmp_path: Path) -> None:
    """The official client repeats server errors by itself; that would say the message again.

    A stream that breaks off without a word would look like an answer.
    """
    provider = ScriptedProvider(*[ModelAuthError("the key was refused") for _ in range(2)])
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        client_of(gateway, retries=2) as client,
    ):
        with pytest.raises(openai.InternalServerError) as caught:
            await client.chat.completions.create(model="test", messages=HI, user="desk")
        asked = len(provider.requests)
        stream = await client.chat.completions.create(model="test", messages=HI, stream=True)
        with pytest.raises(openai.APIError, match="the key was refused"):
            async for _ in stream:
                pass

    assert caught.value.message.endswith("the key was refused")
    assert caught.value.code == "turn_failed"
    assert asked == 1


async def test_a_stream_that_its_client_closes_ends_the_stateless_turn(tmp_path: Path) -> None:
    """Nobody waits for a stateless turn whose client is gone, and nothing leaks."""
    provider = ScriptedProvider(WORDS)
    provider.hold()
    async with open_http_gateway(tmp_path, provider=provider) as gateway:
        async with client_of(gateway) as client:
            stream = await client.chat.completions.create(model="test", messages=HI, stream=True)
            async for chunk in stream:
                if chunk.choices[0].delta.content:
                    break
            await stream.close()
        provider.release()
        async with client_of(gateway) as client:
            later = await client.chat.completions.create(model="test", messages=HI)

    assert later.choices[0].message.content == "reply 2"


async def test_calls_run_side_by_side(tmp_path: Path) -> None:
    """Many stateless calls at once are each answered with their own reply."""
    provider = ScriptedProvider()
    provider.script = [lambda request: f"you said {texts(request)[-1]}"] * 20
    answers: dict[int, str | None] = {}
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        client_of(gateway) as client,
        anyio.create_task_group() as tasks,
    ):

        async def ask(number: int) -> None:
            completion = await client.chat.completions.create(
                model="test", messages=[{"role": "user", "content": str(number)}]
            )
            answers[number] = completion.choices[0].message.content

        for number in range(20):
            tasks.start_soon(ask, number)

    assert answers == {number: f"you said {number}" for number in range(20)}
