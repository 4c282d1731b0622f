"""Tools that a client of OpenAI's API brings along and runs itself, by the official client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import openai
import pytest
from openai.types.chat import (
    ChatCompletion,
    ChatCompletionMessageParam,
    ChatCompletionToolUnionParam,
)
from openai.types.shared_params import ResponseFormatJSONSchema
from support.gateway import open_http_gateway
from support.openai_client import HI, client_of
from support.tables import table

from everturn_actors.model import ModelRequest, Reply, ToolCall, ToolResult, Upload
from everturn_actors.testing import ScriptedProvider

WEATHER: ChatCompletionToolUnionParam = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a town.",
        "parameters": {"type": "object", "properties": {"town": {"type": "string"}}},
    },
}
CHAT = {"X-Everturn-Session": "our chat"}


def asking(*towns: str) -> Reply:
    """Return a reply that asks for the weather of towns."""
    calls = (
        ToolCall(call_id=f"c{n}", name="weather", arguments=json.dumps({"town": town}))
        for n, town in enumerate(towns)
    )
    return Reply(text="I look.", calls=tuple(calls), stop_reason="tool_calls")


def told(request: ModelRequest) -> list[str]:
    """Return the results of calls that a request shows."""
    return [m.text for m in request.messages if isinstance(m, ToolResult)]


def and_results(completion: ChatCompletion, *texts: str) -> list[ChatCompletionMessageParam]:
    """Return the whole conversation, as a client sends it with what its tools gave."""
    message = completion.choices[0].message
    assert message.tool_calls
    sent_back = cast("ChatCompletionMessageParam", message.to_dict())
    results: list[ChatCompletionMessageParam] = [
        {"role": "tool", "tool_call_id": call.id, "content": text}
        for call, text in zip(message.tool_calls, texts, strict=True)
    ]
    return [*HI, sent_back, *results]


@table("headers", [{}, CHAT], ids=["alone", "in a conversation"])
async def test_a_client_runs_its_own_tools(tmp_path: Path, headers: dict[str, str]) -> None:
    """The turn stops at such a call, and goes on with what the client says it gave."""
    provider = ScriptedProvider(asking("Bonn", "Jena"), "It rains.")
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        client_of(gateway) as client,
    ):
        first = await client.chat.completions.create(
            model="test", messages=HI, tools=[WEATHER], extra_headers=headers
        )
        second = await client.chat.completions.create(
            model="test",
            messages=and_results(first, "rain", "sun"),
            tools=[WEATHER],
            extra_headers=headers,
        )

    calls = first.choices[0].message.tool_calls or []
    assert first.choices[0].finish_reason == "tool_calls"
    assert first.choices[0].message.content == "I look."
    assert [json.loads(call.function.arguments) for call in calls if call.type == "function"] == [
        {"town": "Bonn"},
        {"town": "Jena"},
    ]
    assert all(len(call.id) <= 40 for call in calls)
    assert [tool.name for tool in provider.requests[0].tools][-1] == "weather"
    assert told(provider.requests[1]) == ["rain", "sun"]
    assert second.choices[0].message.content == "It rains."
    assert second.choices[0].finish_reason == "stop"


async def test_calls_come_in_a_stream(tmp_path: Path) -> None:
    """The official client puts the chunks together to the same call."""
    provider = ScriptedProvider(asking("Bonn"), "It rains.")
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        client_of(gateway) as client,
    ):
        async with client.chat.completions.stream(
            model="test", messages=HI, tools=[WEATHER]
        ) as stream:
            first = await stream.get_final_completion()
        async with client.chat.completions.stream(
            model="test", messages=and_results(first, "rain"), tools=[WEATHER]
        ) as stream:
            second = await stream.get_final_completion()

    assert first.choices[0].finish_reason == "tool_calls"
    assert first.choices[0].message.content == "I look."
    assert second.choices[0].message.content == "It rains."
    assert told(provider.requests[1]) == ["rain"]


async def test_a_turn_that_waits_for_its_client_survives_a_restart(tmp_path: Path) -> None:
    """The client finds its turn again by the call alone; nothing is asked twice."""
    before, after = ScriptedProvider(asking("Bonn")), ScriptedProvider("It rains.")
    async with (
        open_http_gateway(tmp_path, provider=before) as gateway,
        client_of(gateway) as client,
    ):
        first = await client.chat.completions.create(
            model="test", messages=HI, tools=[WEATHER], extra_headers=CHAT
        )
    async with (
        open_http_gateway(tmp_path, provider=after) as gateway,
        client_of(gateway) as client,
    ):
        second = await client.chat.completions.create(
            model="test", messages=and_results(first, "rain"), tools=[WEATHER]
        )
        again = await client.chat.completions.create(
            model="test", messages=and_results(first, "rain"), tools=[WEATHER], extra_headers=CHAT
        )

    assert second.choices[0].message.content == "It rains."
    assert told(after.requests[0]) == ["rain"]
    assert again.choices[0].message.content == "It rains."
    assert len(after.requests) == 1


async def test_a_conversation_that_nobody_kept_goes_on_from_what_the_client_sends(
    tmp_path: Path,
) -> None:
    """A client that keeps the conversation itself needs no session here: not after a restart."""
    provider = ScriptedProvider("It rains.")
    messages: list[ChatCompletionMessageParam] = [
        *HI,
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": "call_of_another_server",
                    "type": "function",
                    "function": {"name": "weather", "arguments": "{}"},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_of_another_server", "content": "rain"},
    ]
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        client_of(gateway) as client,
    ):
        answer = await client.chat.completions.create(
            model="test", messages=messages, tools=[WEATHER]
        )
        with pytest.raises(openai.BadRequestError, match="no turn of this conversation waits"):
            await client.chat.completions.create(
                model="test", messages=messages, tools=[WEATHER], extra_headers=CHAT
            )

    assert answer.choices[0].message.content == "It rains."
    assert told(provider.requests[0]) == ["rain"]
    assert [tool.name for tool in provider.requests[0].tools][-1] == "weather"


async def test_results_come_for_all_calls_of_a_turn_that_waits_or_are_refused(
    tmp_path: Path,
) -> None:
    """A turn that waits for another result would leave the client without an answer."""
    folder = tmp_path / "some"
    folder.mkdir()
    provider = ScriptedProvider(asking("Bonn", "Jena"))
    async with (
        open_http_gateway(folder, provider=provider) as gateway,
        client_of(gateway) as client,
    ):
        first = await client.chat.completions.create(
            model="test", messages=HI, tools=[WEATHER], extra_headers=CHAT
        )
        *some, _ = and_results(first, "rain", "sun")
        with pytest.raises(openai.BadRequestError, match="a tool message is missing for call_"):
            await client.chat.completions.create(
                model="test", messages=some, tools=[WEATHER], extra_headers=CHAT
            )

    # People who ask something else are not kept waiting by a tool that nobody ran.
    folder = tmp_path / "overtaken"
    folder.mkdir()
    provider = ScriptedProvider(asking("Bonn"), "Never mind then.")
    async with (
        open_http_gateway(folder, provider=provider) as gateway,
        client_of(gateway) as client,
    ):
        first = await client.chat.completions.create(
            model="test", messages=HI, tools=[WEATHER], extra_headers=CHAT
        )
        other = await client.chat.completions.create(
            model="test", messages=[{"role": "user", "content": "stop it"}], extra_headers=CHAT
        )
        with pytest.raises(openai.BadRequestError, match="no turn of this conversation waits"):
            await client.chat.completions.create(
                model="test", messages=and_results(first, "rain"), extra_headers=CHAT
            )

    assert other.choices[0].message.content == "Never mind then."
    assert told(provider.requests[1]) == ["not run: a new message came first"]


SCHEMA = {
    "type": "object",
    "properties": {"town": {"type": "string"}},
    "required": ["town"],
    "additionalProperties": False,
}


FORM: ResponseFormatJSONSchema = {
    "type": "json_schema",
    "json_schema": {"name": "place", "schema": SCHEMA, "strict": True},
}


def kept_media(folder: Path) -> list[bytes]:
    """Return the files that came with messages or replies."""
    return [each.read_bytes() for each in folder.rglob("media/*")]


@table("wrong", ["Bonn!", '{"city": "Bonn"}', '["Bonn"]'])
async def test_an_answer_has_the_form_that_was_asked_for(tmp_path: Path, wrong: str) -> None:
    """A program that parses the answer gets one that parses: the model is asked again for it.

    No line for an image stands behind it, and no image is kept of what could not be used.
    """
    bad, good = (
        Upload(data=b"\xff\xd8\xff" + each, media_type="image/jpeg") for each in (b"1", b"2")
    )
    provider = ScriptedProvider(
        Reply(text=wrong, images=(bad,)), Reply(text='{"town": "Bonn"}', images=(good, good))
    )
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        client_of(gateway) as client,
    ):
        answer = await client.chat.completions.create(
            model="test", messages=HI, response_format=FORM, extra_headers=CHAT
        )
        async with gateway.client() as reader:
            (row,) = (await reader.get("/api/v1/sessions")).json()["sessions"]
            listed = await reader.get(f"/api/v1/sessions/{row['id']}/messages")
            (attached,) = listed.json()["messages"][-1]["attachments"]

    assert kept_media(tmp_path) == [good.data]
    assert attached["media_type"] == "image/jpeg"
    assert json.loads(answer.choices[0].message.content or "") == {"town": "Bonn"}
    assert provider.requests[0].options.response_format == FORM
    assert "could not be used: it " in provider.requests[1].messages[-1].text


async def test_nothing_of_a_wrong_answer_is_streamed(tmp_path: Path) -> None:
    """What was shown cannot be taken back, and two answers in a row are no JSON."""
    provider = ScriptedProvider('{"city": "Bonn"}', '{"town": "Bonn"}')
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        client_of(gateway) as client,
    ):
        chunks = [
            chunk
            async for chunk in await client.chat.completions.create(
                model="test", messages=HI, response_format=FORM, stream=True
            )
        ]

    assert "".join(c.choices[0].delta.content or "" for c in chunks) == '{"town": "Bonn"}'
