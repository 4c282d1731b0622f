"""What clients of OpenAI's API get wrong: an error in that shape, and the session goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionToolUnionParam
from support.gateway import HttpGateway, open_http_gateway
from support.openai_client import HI, client_of
from support.shell_agents import shell_agent
from support.tables import table

from everturn_actors.testing import ScriptedProvider
from everturn_gateway.config.settings import ServerConfig

CHAT = {"X-Everturn-Session": "desk"}


def tool(name: str) -> ChatCompletionToolUnionParam:
    """Return a tool that a client brings."""
    return {"type": "function", "function": {"name": name}}


async def goes_on(gateway: HttpGateway, client: openai.AsyncOpenAI, model: str, said: int) -> None:
    """Check that the conversation answers, and shows the model so many messages."""
    answer = await client.chat.completions.create(model=model, messages=HI, extra_headers=CHAT)
    assert answer.choices[0].finish_reason == "stop"
    assert len(gateway.provider.requests[-1].messages) == said


async def test_a_field_that_nobody_could_use_is_named(tmp_path: Path) -> None:
    """Nobody could tell which tool the model calls, or which chat is meant."""
    # Nobody could tell which of them is called.
    async with open_http_gateway(tmp_path) as gateway, client_of(gateway) as client:
        with pytest.raises(openai.BadRequestError, match="2 tools have the name 'a'") as caught:
            await client.chat.completions.create(
                model="test", messages=HI, tools=[tool("b"), tool("a"), tool("a")]
            )

        assert caught.value.param == "tools"

        # The header at fault is named.
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(
                model="test", messages=HI, extra_headers={"X-OpenWebUI-Chat-Id": "x" * 257}
            )

        assert caught.value.param == "X-OpenWebUI-Chat-Id"

    # Nobody could tell whose it is that the model calls.
    folder = tmp_path / "own"
    folder.mkdir()
    async with shell_agent(folder) as gateway, client_of(gateway) as client:
        await goes_on(gateway, client, "second", said=1)
        with pytest.raises(openai.BadRequestError, match="'bash' of its own") as caught:
            await client.chat.completions.create(
                model="second", messages=HI, tools=[tool("bash")], extra_headers=CHAT
            )
        await goes_on(gateway, client, "second", said=3)

    assert caught.value.param == "tools"


@table("call_id", ["call_1", "call_20260101T000000000-00000000_abcdef"])
@table("route", ["chat", "responses"])
async def test_a_result_for_a_call_that_was_never_made(
    tmp_path: Path, route: str, call_id: str
) -> None:
    """Neither an id of the client's own nor one like ours finds a turn."""
    async with open_http_gateway(tmp_path) as gateway, client_of(gateway) as client:
        await goes_on(gateway, client, "test", said=1)
        with pytest.raises(openai.BadRequestError):
            if route == "chat":
                await client.chat.completions.create(
                    model="test",
                    messages=[*HI, {"role": "tool", "tool_call_id": call_id, "content": "rain"}],
                    extra_headers=CHAT,
                )
            else:
                given: Any = [{"type": "function_call_output", "call_id": call_id, "output": "x"}]
                await client.responses.create(model="test", input=given, conversation="desk")
        await goes_on(gateway, client, "test", said=3)


async def test_a_form_that_no_answer_has(tmp_path: Path) -> None:
    """The model is asked a bounded number of times, and the turn fails with the reason."""
    form: Any = {"type": "json_schema", "json_schema": {"name": "none", "schema": {"not": {}}}}
    provider = ScriptedProvider("{}", "{}", "{}")
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        client_of(gateway) as client,
    ):
        with pytest.raises(openai.APIStatusError) as caught:
            await client.chat.completions.create(
                model="test", messages=HI, response_format=form, extra_headers=CHAT
            )
        asked = len(provider.requests)
        provider.script.clear()
        answer = await client.chat.completions.create(model="test", messages=HI, extra_headers=CHAT)

    assert caught.value.status_code == 502
    assert asked <= 3
    assert answer.choices[0].finish_reason == "stop"


async def test_a_response_that_is_gone_or_somebody_elses_is_not_followed(tmp_path: Path) -> None:
    """One's own can still be read."""
    # It is answered like one that is not there, newest or not.
    server = ServerConfig(require_token=True)
    async with open_http_gateway(tmp_path, server=server) as gateway:
        ann, ben = [await gateway.token(name, "talk") for name in ("ann", "ben")]
        async with client_of(gateway, key=ann) as client:
            one = await client.responses.create(model="test", input="a")
            two = await client.responses.create(
                model="test", input="b", previous_response_id=one.id
            )
        async with client_of(gateway, key=ben) as client:
            for previous in (one.id, two.id):
                with pytest.raises(openai.NotFoundError) as unknown:
                    await client.responses.create(
                        model="test", input="mine", previous_response_id=previous
                    )
                assert unknown.value.param == "previous_response_id"
        async with client_of(gateway, key=ann) as client:
            await client.responses.create(model="test", input="c", previous_response_id=two.id)

    assert [m.text for m in gateway.provider.requests[-1].messages][::2] == ["a", "b", "c"]

    # It can still be read, and is not followed.
    folder = tmp_path / "ended"
    folder.mkdir()
    async with open_http_gateway(folder) as gateway, client_of(gateway) as client:
        one = await client.responses.create(model="test", input="a")
        (session,) = await gateway.service.reader.sessions(after="", limit=2)
        await gateway.service.reset(session.session_id)
        with pytest.raises(openai.ConflictError) as ended:
            await client.responses.create(model="test", input="b", previous_response_id=one.id)
        kept = await client.responses.retrieve(one.id)

    assert ended.value.code == "session_ended"
    assert kept.output_text == one.output_text


@table("route", ["chat", "responses"])
async def test_a_stream_that_its_client_leaves(tmp_path: Path, route: str) -> None:
    """The turn pauses, and goes on with the next message of the conversation."""
    provider = ScriptedProvider("one two three", "again")
    provider.hold()
    async with open_http_gateway(tmp_path, provider=provider) as gateway:
        async with client_of(gateway) as client:
            stream: Any
            if route == "chat":
                stream = await client.chat.completions.create(
                    model="test", messages=HI, stream=True, extra_headers=CHAT
                )
            else:
                stream = await client.responses.create(
                    model="test", input="hi", conversation="desk", stream=True
                )
            async for _ in stream:
                break
            await stream.close()
        provider.release()
        async with client_of(gateway) as client:
            answer = await client.chat.completions.create(
                model="test", messages=HI, extra_headers=CHAT
            )
        (session,) = await gateway.service.reader.sessions(after="", limit=2)
        state = await gateway.service.view(session.session_id)

    assert answer.choices[0].finish_reason == "stop"
    assert sum(len(turn.heard) for turn in state.held_turns) == 2


@table("route", ["chat", "responses"])
async def test_an_idempotency_key_that_came_with_another_message(
    tmp_path: Path, route: str
) -> None:
    """The answer of the message before would be taken for that of the new one."""
    async with open_http_gateway(tmp_path) as gateway, client_of(gateway) as client:

        async def ask(text: str) -> Any:
            key = {**CHAT, "Idempotency-Key": "k"}
            if route == "responses":
                return await client.responses.create(
                    model="test", input=text, conversation="desk", extra_headers=key
                )
            said: Any = [{"role": "user", "content": text}]
            return await client.chat.completions.create(
                model="test", messages=said, extra_headers=key
            )

        first, again = await ask("one"), await ask("one")
        with pytest.raises(openai.APIStatusError) as reused:
            await ask("two")

    assert first.id == again.id
    assert reused.value.code == "idempotency_key_reused"


async def test_an_edited_message_that_is_empty(tmp_path: Path) -> None:
    """It is refused before anything becomes of the chat that it would change."""
    page = {"X-OpenWebUI-Chat-Id": "0e1f7d5c"}
    async with open_http_gateway(tmp_path) as gateway, client_of(gateway) as client:
        await client.chat.completions.create(model="test", messages=HI, extra_headers=page)
        with pytest.raises(openai.BadRequestError):
            await client.chat.completions.create(
                model="test", messages=[{"role": "user", "content": " "}], extra_headers=page
            )
        (session,) = await gateway.service.reader.sessions(after="", limit=2)

    assert session.status == "active"
