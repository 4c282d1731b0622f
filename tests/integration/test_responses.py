"""The Responses API, by the official client."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
import openai
import pytest
from openai.types.responses import FunctionToolParam, Response, ResponseInputItemParam
from pydantic import BaseModel
from support.gateway import open_http_gateway
from support.openai_client import client_of
from support.patience import WAIT_S
from support.tables import table

from everturn_actors.errors import ModelAuthError
from everturn_actors.model import Reply, ToolCall, ToolResult, Usage
from everturn_actors.testing import ScriptedProvider
from everturn_gateway.clock import SystemClock
from everturn_gateway.config.settings import ServerConfig

WORDS = "one two three"
WEATHER: FunctionToolParam = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"town": {"type": "string"}}},
    "strict": None,
}


class Place(BaseModel):
    """What a program wants to know."""

    town: str


async def test_a_response_has_text_usage_and_state(tmp_path: Path) -> None:
    """The fields that programs read are all there, and the next one goes on with the session.

    The official client makes structured output of one.
    """
    counted = Reply(text=WORDS, usage=Usage(input_tokens=7, output_tokens=3))
    provider = ScriptedProvider(counted, "and on", "Bonn", '{"town": "Bonn"}')
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        client_of(gateway) as client,
    ):
        one = await client.responses.create(
            model="test", input="hi", instructions="Be brief.", metadata={"ticket": "1"}
        )
        two = await client.responses.create(model="test", input="more", previous_response_id=one.id)
        got = await client.responses.retrieve(one.id)
        asked = await client.responses.input_items.list(two.id)
        parsed = await client.responses.parse(model="test", input="where?", text_format=Place)

    assert parsed.output_parsed == Place(town="Bonn")
    assert (one.status, one.output_text, one.model) == ("completed", WORDS, "test")
    assert one.usage
    assert (one.usage.input_tokens, one.usage.output_tokens) == (7, 3)
    assert one.metadata == {"ticket": "1"}
    assert two.output_text == "and on"
    assert two.previous_response_id == one.id
    assert [m.text for m in provider.requests[1].messages] == ["hi", WORDS, "more"]
    assert "Be brief." in provider.requests[0].system
    assert "Be brief." not in provider.requests[1].system
    assert (got.id, got.output_text, got.status) == (one.id, WORDS, "completed")
    assert [item.to_dict()["content"] for item in asked.data] == [
        [{"type": "input_text", "text": "more"}]
    ]


async def test_a_stream_has_the_events_that_the_client_expects(tmp_path: Path) -> None:
    """The official client follows a stream by its rules, and has the whole at its end."""
    provider = ScriptedProvider(WORDS)
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        client_of(gateway) as client,
        client.responses.stream(model="test", input="hi") as stream,
    ):
        events = [event async for event in stream]
        final = await stream.get_final_response()

    kinds = [event.type for event in events]
    pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert "".join(pieces) == WORDS
    numbers = [event.sequence_number for event in events]
    assert numbers == sorted(set(numbers))
    assert final.output_text == WORDS


@table("streams", [False, True], ids=["at once", "streamed"])
async def test_a_client_runs_its_own_tools(tmp_path: Path, streams: bool) -> None:
    """The turn waits for the output of the call, which names it."""
    call = ToolCall(call_id="c1", name="weather", arguments='{"town": "Bonn"}')
    provider = ScriptedProvider(Reply(text="I look.", calls=(call,)), "It rains.")
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        client_of(gateway) as client,
    ):
        one: Response
        if streams:
            async with client.responses.stream(model="test", input="hi", tools=[WEATHER]) as made:
                one = await made.get_final_response()
        else:
            one = await client.responses.create(model="test", input="hi", tools=[WEATHER])
        (given,) = [item for item in one.output if item.type == "function_call"]
        result: ResponseInputItemParam = {
            "type": "function_call_output",
            "call_id": given.call_id,
            "output": "rain",
        }
        two = await client.responses.create(
            model="test", input=[result], previous_response_id=one.id, tools=[WEATHER]
        )
        asked = await client.responses.input_items.list(two.id)

    shown = [m.text for m in provider.requests[1].messages if isinstance(m, ToolResult)]
    assert one.output_text == "I look."
    assert json.loads(given.arguments) == {"town": "Bonn"}
    assert two.output_text == "It rains."
    assert shown == ["rain"]
    assert [item.type for item in asked.data] == ["function_call_output"]


async def test_a_response_in_the_background_is_fetched(tmp_path: Path) -> None:
    """Nobody has to hold a connection for a long turn; it can be stopped by its id."""
    provider = ScriptedProvider(WORDS, "never")
    provider.hold()
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        client_of(gateway) as client,
    ):
        one = await client.responses.create(model="test", input="hi", background=True)
        waiting = await client.responses.retrieve(one.id)
        provider.release()
        with anyio.fail_after(WAIT_S):
            while (done := await client.responses.retrieve(one.id)).status == "in_progress":
                await anyio.lowlevel.checkpoint()
        provider.hold()
        two = await client.responses.create(model="test", input="hi", background=True)
        stopped = await client.responses.cancel(two.id)

    assert (one.status, waiting.status) == ("in_progress", "in_progress")
    assert (done.status, done.output_text) == ("completed", WORDS)
    assert stopped.status == "cancelled"


async def test_a_response_is_streamed_again(tmp_path: Path) -> None:
    """Whoever lost the stream has it from its beginning, while it runs and later.

    Or the rest of it, from the character on that the client does not have, while the reply grows.
    """
    provider = ScriptedProvider(WORDS, WORDS)
    provider.hold()
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        client_of(gateway) as client,
    ):
        begun = await client.responses.create(model="test", input="hi", background=True)
        stream = await client.responses.retrieve(begun.id, stream=True)
        kinds: list[str] = []
        async for event in stream:
            kinds.append(event.type)
            if event.type == "response.in_progress":
                provider.release()
        again = await client.responses.retrieve(begun.id, stream=True)
        text = [e.response.output_text async for e in again if e.type == "response.completed"]
        provider.hold()
        other = await client.responses.create(model="test", input="hi", background=True)
        stream = await client.responses.retrieve(other.id, stream=True)
        had: list[Any] = []
        async for event in stream:
            had.append(event)
            if event.type == "response.in_progress":
                provider.release()
            if event.type == "response.output_text.delta":
                break
        await stream.close()
        rest = await streamed(client, other.id, starting_after=had[-1].sequence_number)

    assert text_of(had) + text_of(rest) == WORDS
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert "response.output_text.delta" in kinds
    assert text == [WORDS]


async def streamed(client: openai.AsyncOpenAI, response_id: str, **more: Any) -> list[Any]:
    """Return the events of a response that is streamed again."""
    stream = await client.responses.retrieve(response_id, stream=True, **more)
    return [event async for event in stream]


def text_of(events: Iterable[Any]) -> str:
    """Return the text that a client has who adds the pieces up."""
    return "".join(each.delta for each in events if each.type == "response.output_text.delta")


async def test_a_stream_goes_on_at_every_number(tmp_path: Path) -> None:
    """Wherever it was lost, what is left completes it: the same numbers mean the same events."""
    call = ToolCall(call_id="c1", name="weather", arguments="{}")
    provider = ScriptedProvider(Reply(text="I look at it now.", calls=(call,)))
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        client_of(gateway) as client,
    ):
        stream = await client.responses.create(
            model="test", input="hi", tools=[WEATHER], stream=True
        )
        live: list[Any] = [event async for event in stream]
        response_id = live[0].response.id
        for had in range(len(live)):
            after = live[had].sequence_number
            rest = await streamed(client, response_id, starting_after=after)
            assert text_of(live[: had + 1]) + text_of(rest) == "I look at it now."
            assert [e for e in rest[:-1] if e.sequence_number <= after] == []
            kinds = [e.type for e in live[had + 1 :] if e.type != "response.output_text.delta"]
            left = [e.type for e in rest if e.type != "response.output_text.delta"]
            assert left == (kinds or ["response.completed"])
        beyond = await streamed(client, response_id, starting_after=10_000)
        with pytest.raises(openai.BadRequestError) as refused:
            await client.get(f"/responses/{response_id}?starting_after=2", cast_to=object)

    assert [event.type for event in beyond] == ["response.completed"]
    assert beyond[0].response.output_text == "I look at it now."
    assert refused.value.param == "starting_after"


async def test_a_text_that_a_restart_cut_short_is_not_pieced_together(tmp_path: Path) -> None:
    """Another reply was written since: what the client has is no part of it."""
    provider = ScriptedProvider("one two three")
    provider.hold()
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        client_of(gateway) as client,
    ):
        begun = await client.responses.create(model="test", input="hi", background=True)
        stream = await client.responses.retrieve(begun.id, stream=True)
        async for event in stream:
            if event.type == "response.output_text.delta":
                break
        await stream.close()
    after, restarted_at = event.sequence_number, SystemClock().now()
    async with (
        open_http_gateway(tmp_path, provider=ScriptedProvider("something else")) as gateway,
        client_of(gateway) as client,
    ):
        gateway.started_at = restarted_at
        with pytest.raises(openai.BadRequestError) as refused:
            await client.responses.retrieve(begun.id, stream=True, starting_after=after)
        again = await streamed(client, begun.id)

    assert refused.value.param == "starting_after"
    assert text_of(again) == "something else"


async def test_conversations_by_name_by_session_and_nothing_kept(tmp_path: Path) -> None:
    """A name, or the id of a session, goes on where it was; what is not stored is not fetched."""
    provider = ScriptedProvider("one", "two", "three", "four")
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        client_of(gateway) as client,
    ):
        await client.responses.create(model="test", input="a", conversation="ours")
        ours = await client.responses.create(model="test", input="b", conversation="ours")
        once = await client.responses.create(
            model="test",
            store=False,
            input=[
                {"role": "user", "content": "c"},
                {"role": "assistant", "content": "d"},
                {"role": "user", "content": [{"type": "input_text", "text": "e"}]},
            ],
        )
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(once.id)
        session_id = ours.id.removeprefix("resp_").rpartition("_")[0]
        by_id = await client.responses.create(model="test", input="f", conversation=session_id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(
                model="test", input="g", conversation="20260101T000000000-00000000"
            )

    assert session_id in by_id.id
    assert [[m.text for m in request.messages] for request in provider.requests] == [
        ["a"],
        ["a", "one", "b"],
        ["c", "d", "e"],
        ["a", "one", "b", "two", "f"],
    ]
    assert once.to_dict()["store"] is False


async def test_a_response_is_followed_more_than_once(tmp_path: Path) -> None:
    """Each way goes on by itself, through a restart; one request sent twice is one way."""
    async with open_http_gateway(tmp_path) as gateway, client_of(gateway) as client:
        one = await client.responses.create(model="test", input="a")
        two = await client.responses.create(model="test", input="b", previous_response_id=one.id)
        branch: Any = {"extra_headers": {"Idempotency-Key": "k"}, "previous_response_id": one.id}
        other = await client.responses.create(model="test", input="other b", **branch)
        again = await client.responses.create(model="test", input="other b", **branch)
        requests = [[m.text for m in r.messages] for r in gateway.provider.requests]
    async with open_http_gateway(tmp_path) as gateway, client_of(gateway) as client:
        await client.responses.create(model="test", input="c", previous_response_id=two.id)
        await client.responses.create(model="test", input="d", previous_response_id=other.id)
        requests += [[m.text for m in r.messages] for r in gateway.provider.requests]

    assert other == again
    assert requests[1:] == [
        ["a", "reply 1", "b"],
        ["a", "reply 1", "other b"],
        ["a", "reply 1", "b", "reply 2", "c"],
        ["a", "reply 1", "other b", "reply 3", "d"],
    ]


async def test_a_branch_of_a_shared_session_is_its_own(tmp_path: Path) -> None:
    """Who was given a session goes on in a branch that nobody else was given."""
    server = ServerConfig(require_token=True)
    async with open_http_gateway(tmp_path, server=server) as gateway:
        ann, ben, cem = [await gateway.token(name, "talk") for name in ("ann", "ben", "cem")]
        async with client_of(gateway, key=ann) as client:
            one = await client.responses.create(model="test", input="a")
            await client.responses.create(model="test", input="b", previous_response_id=one.id)
        (session,) = await gateway.service.reader.sessions(after="", limit=2)
        for name in ("ben", "cem"):
            await gateway.service.conversations.share(session.session_id, name)
        async with client_of(gateway, key=ben) as client:
            branch = await client.responses.create(
                model="test", input="other b", previous_response_id=one.id
            )
        async with client_of(gateway, key=cem) as client:
            await client.responses.retrieve(one.id)
            with pytest.raises(openai.NotFoundError):
                await client.responses.retrieve(branch.id)


async def test_what_cannot_be_done_is_refused(tmp_path: Path) -> None:
    """Each refusal names the field; a failed turn is an error and no answer."""
    provider = ScriptedProvider("one", "two", ModelAuthError("the key was refused"))
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        client_of(gateway) as client,
    ):
        one = await client.responses.create(model="test", input="hi")
        await client.responses.create(model="test", input="more", previous_response_id=one.id)
        for body, param in (
            ({"input": "x", "tools": [{"type": "web_search"}]}, "tools.0.type"),
            ({"input": [{"type": "item_reference", "id": "x"}]}, "input.0.type"),
            ({"input": [{"role": "user", "content": [{"type": "x"}]}]}, "input.0.content.0"),
            ({"input": [{"role": "robot", "content": "x"}]}, "input.0.role"),
            ({"input": "x", "previous_response_id": one.id, "conversation": "y"}, "conversation"),
        ):
            with pytest.raises(openai.BadRequestError) as caught:
                await client.post("/responses", body={"model": "test", **body}, cast_to=object)
            assert caught.value.param == param
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(
                model="test", input="x", previous_response_id="resp_20260101T000000000-00000000_2"
            )
        with pytest.raises(openai.APIStatusError, match="the key was refused"):
            await client.responses.create(model="test", input="hi")
