"""Each adapter beside the official client of its API: the same bytes, the same reading.

The requests go the other way: what an adapter sends, the official client's types have to accept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

import anthropic
import ollama
import openai
import pytest
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from msgspec import structs
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses import ResponseStreamEvent
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter
from support.answers import Answer
from support.model_api import ModelApi, open_model_api
from support.patience import WAIT_S
from support.provider_kinds import (
    ANTHROPIC,
    KEY,
    LOOK,
    OLLAMA,
    OPENAI,
    RESPONSES,
    a_conversation,
    ignore,
    open_kind,
    request,
)
from support.responses_format import compacted
from support.tables import table

from everturn_actors.model import (
    Attachment,
    ModelRequest,
    Notice,
    Reply,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from everturn_gateway.providers.responses.wire import BodyWriter
from everturn_gateway.providers.transport.opaque import pack

EVENTS: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
UNICODE = Answer(text="Grüße an 🌍, “alle”\n\n\u2028 und \x7f.")
EMPTY_PIECES = Answer(pieces=("", "a", "", " b"), finish_reason="length")
CALLS = Answer(
    text="Both: ",
    calls=(
        ToolCall(call_id="call_a", name="look", arguments='{"at": "x\\n\\u00e9"}'),
        ToolCall(call_id="call_b", name="look", arguments="{}"),
    ),
)
CALLS_ALONE = Answer(calls=(ToolCall(call_id="c", name="look", arguments='{"a":[1,{"b":null}]}'),))
CACHED = Answer(text="I", input_tokens=900, cached_tokens=800, cache_written_tokens=50)
THOUGHT = Answer(text="4", reasoning="two and two")


# --- Anthropic ---


def of_anthropic(message: anthropic.types.Message) -> Reply:
    """Return what the official client read."""
    usage = message.usage
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    reasons = {"end_turn": "stop", "max_tokens": "length", "tool_use": "tool_calls"}
    blocks = message.content
    return Reply(
        text="".join(b.text for b in blocks if b.type == "text"),
        reasoning="".join(b.thinking for b in blocks if b.type == "thinking"),
        calls=tuple(
            ToolCall(
                call_id=b.id,
                name=b.name,
                arguments=anthropic_json(b.input),
            )
            for b in blocks
            if b.type == "tool_use"
        ),
        usage=Usage(
            input_tokens=usage.input_tokens + read + written,
            output_tokens=usage.output_tokens,
            cached_tokens=read,
            cache_written_tokens=written,
        ),
        stop_reason=reasons.get(str(message.stop_reason), str(message.stop_reason)),
        model=message.model,
    )


def anthropic_json(value: object) -> str:
    """Return parsed arguments in a form that can be compared."""
    return TypeAdapter(object).dump_json(value).decode()


def comparable(reply: Reply) -> Reply:
    """Return a reply with arguments in the same form."""
    loads = TypeAdapter(object).validate_json
    calls = tuple(
        ToolCall(call_id=c.call_id, name=c.name, arguments=anthropic_json(loads(c.arguments)))
        for c in reply.calls
    )
    return Reply(
        text=reply.text,
        reasoning=reply.reasoning,
        calls=calls,
        usage=reply.usage,
        stop_reason=reply.stop_reason,
        model=reply.model,
    )


@table(
    "answer",
    [
        UNICODE,
        Answer(pieces=("", "a", "", " b"), finish_reason="max_tokens"),
        CALLS,
        CALLS_ALONE,
        CACHED,
        THOUGHT,
        Answer(
            text="Done.",
            blocks=(
                {"type": "thinking", "thinking": "hm, 🤔 so", "signature": "signed-1"},
                {"type": "redacted_thinking", "data": "b64=="},
            ),
        ),
    ],
)
async def test_anthropic_reads_as_the_official_client_does(answer: Answer) -> None:
    """An independent reading of the same events: text, thoughts, calls, usage and end agree."""
    async with open_model_api() as api, open_kind(ANTHROPIC, api) as adapter:
        api.script(answer, answer)
        client = anthropic.AsyncAnthropic(
            base_url=api.address, api_key=KEY, max_retries=0, timeout=WAIT_S
        )
        async with (
            client,
            client.messages.stream(
                model="m", max_tokens=10, messages=[{"role": "user", "content": "Hi"}]
            ) as stream,
        ):
            theirs = of_anthropic(await stream.get_final_message())
        ours = await adapter.complete(request(), ignore)

    assert comparable(ours) == theirs


async def test_the_api_of_these_tests_is_understood_by_the_official_clients() -> None:
    """What its own client would not know proves nothing."""
    # Whoever speaks for the real API has to be understood by its own client.
    async with open_model_api() as api:
        api.script(CALLS)
        async with anthropic.AsyncAnthropic(
            base_url=api.address, api_key=KEY, timeout=WAIT_S
        ) as client:
            message = await client.messages.create(
                model="m", max_tokens=10, messages=[{"role": "user", "content": "Hi"}]
            )

    assert [block.type for block in message.content] == ["text", "tool_use", "tool_use"]
    assert message.stop_reason == "tool_use"

    # An error that its own client would not know proves nothing.
    async with open_model_api() as api:
        api.script(OLLAMA.refuse(404, "model 'm' not found"))
        other = ollama.AsyncClient(host=api.address)
        with pytest.raises(ollama.ResponseError, match="not found") as raised:
            await other.chat(model="m", messages=[{"role": "user", "content": "Hi"}])
        await other._client.aclose()

    assert raised.value.status_code == 404


@table(
    ("status", "error"),
    [
        (401, anthropic.AuthenticationError),
        (429, anthropic.RateLimitError),
        (529, anthropic.APIStatusError),
    ],
)
async def test_the_refusals_of_these_tests_are_anthropics(
    status: int, error: type[anthropic.APIStatusError]
) -> None:
    """An error that its own client would not know proves nothing."""
    async with open_model_api() as api:
        api.script(ANTHROPIC.refuse(status, "no"))
        client = anthropic.AsyncAnthropic(
            base_url=api.address, api_key=KEY, max_retries=0, timeout=WAIT_S
        )
        async with client:
            with pytest.raises(error) as raised:
                await client.messages.create(
                    model="m", max_tokens=10, messages=[{"role": "user", "content": "Hi"}]
                )

    assert raised.value.type is not None
    assert raised.value.status_code == status


# --- OpenAI's responses ---


async def official_response(api: ModelApi) -> Reply:
    """Return an answer as the official client reads it, having checked each of its events."""
    end: openai.types.responses.Response | None = None
    text = ""
    client = openai.AsyncOpenAI(base_url=api.url, api_key=KEY, max_retries=0, timeout=WAIT_S)
    async with (
        client,
        await client.responses.create(model="m", input="Hi", store=False, stream=True) as stream,
    ):
        async for event in stream:
            EVENTS.validate_python(event.to_dict())
            match event.type:
                case "response.output_text.delta":
                    text += event.delta
                case "response.completed" | "response.incomplete":
                    end = event.response
                case _:
                    pass
    assert end is not None
    assert end.usage is not None
    calls = tuple(
        ToolCall(call_id=i.call_id, name=i.name, arguments=i.arguments)
        for i in end.output
        if i.type == "function_call"
    )
    assert end.output_text == text
    return Reply(
        text=text,
        reasoning="".join(s.text for i in end.output if i.type == "reasoning" for s in i.summary),
        calls=calls,
        usage=Usage(
            input_tokens=end.usage.input_tokens,
            output_tokens=end.usage.output_tokens,
            cached_tokens=end.usage.input_tokens_details.cached_tokens,
            cache_written_tokens=end.usage.input_tokens_details.cache_write_tokens,
        ),
        stop_reason="length" if end.incomplete_details else "tool_calls" if calls else "stop",
        model=end.model,
    )


@table(
    "answer", [UNICODE, EMPTY_PIECES, CALLS, CALLS_ALONE, CACHED, replace(CALLS, reasoning="hm")]
)
async def test_responses_are_read_as_the_official_client_does(answer: Answer) -> None:
    """An independent reading of the same events, each of which is one of OpenAI's."""
    async with open_model_api() as api, open_kind(RESPONSES, api) as adapter:
        api.script(answer, answer)
        theirs = await official_response(api)
        ours = await adapter.complete(request(), ignore)

    assert comparable(ours) == comparable(theirs)


async def test_thoughts_go_back_encrypted_before_the_calls_that_they_led_to() -> None:
    """To the same model alone; where it refuses them, they are done without from then on."""
    asked, call = UserMessage(text="look at y"), ToolCall(call_id="c", name="look")
    result = ToolResult(call_id="c", name="look", text="a dog")
    async with open_model_api() as api, open_kind(RESPONSES, api) as adapter:
        api.script(Answer(text="One moment.", calls=(call,), reasoning="why not"))
        reply = await adapter.complete(request(asked, tools=(LOOK,)), ignore)
        step = request(asked, reply, result, tools=(LOOK,))
        await adapter.complete(step, ignore)
        await adapter.complete(replace(step, model="other"), ignore)
        shorter = structs.replace(reply, text="[The gateway left this out: 11 characters]")
        await adapter.complete(request(asked, shorter, result, tools=(LOOK,)), ignore)
        assert shorter.text in api.requests.pop().body.decode(), "a policy may have shortened it"
        kinds = [[i.get("type", i.get("role")) for i in r.json()["input"]] for r in api.requests]
        thought, said = api.requests[1].json()["input"][1:3]
        spoilt = structs.replace(reply, opaque=reply.opaque.replace("enc-", "bad-"))
        again = request(asked, spoilt, result, tools=(LOOK,))
        await adapter.complete(again, ignore)
        await adapter.complete(again, ignore)
        sent = [b"bad-" in each.body for each in list(api.requests)[3:]]

    assert (thought["encrypted_content"], said["phase"]) == ("enc-why not", "commentary")
    behind = ["assistant", "function_call", "function_call_output"]
    assert kinds == [["user"], ["user", "reasoning", *behind], ["user", *behind]]
    assert sent == [True, False, False]


# --- Ollama ---


async def official_ollama(api: ModelApi) -> Reply:
    """Return an answer as the official client reads it."""
    text, thought, calls = "", "", list[ToolCall]()
    end = ollama.ChatResponse(message=ollama.Message(role="assistant"))
    client = ollama.AsyncClient(host=api.address)
    stream = await client.chat(model="m", messages=[{"role": "user", "content": "Hi"}], stream=True)
    async for end in stream:
        text += end.message.content or ""
        thought += end.message.thinking or ""
        calls += [
            ToolCall(
                call_id="", name=c.function.name, arguments=anthropic_json(c.function.arguments)
            )
            for c in end.message.tool_calls or ()
        ]
    await client._client.aclose()
    return Reply(
        text=text,
        reasoning=thought,
        calls=tuple(calls),
        usage=Usage(input_tokens=end.prompt_eval_count or 0, output_tokens=end.eval_count or 0),
        stop_reason="tool_calls" if calls else str(end.done_reason),
        model=str(end.model),
    )


@table(
    "answer",
    # The official client takes U+2028 in a text for the end of a line.
    [replace(UNICODE, text="Grüße 🌍\n"), EMPTY_PIECES, CALLS, CALLS_ALONE, THOUGHT],
)
async def test_ollama_reads_as_the_official_client_does(answer: Answer) -> None:
    """An independent reading of the same lines; it knows neither ids nor what was cached."""
    async with open_model_api() as api, open_kind(OLLAMA, api) as adapter:
        api.script(answer, answer)
        theirs = await official_ollama(api)
        ours = comparable(await adapter.complete(request(), ignore))

    calls = tuple(ToolCall(call_id="", name=c.name, arguments=c.arguments) for c in ours.calls)
    assert (ours.text, ours.reasoning, calls) == (theirs.text, theirs.reasoning, theirs.calls)
    assert (ours.stop_reason, ours.model) == (theirs.stop_reason, theirs.model)
    assert ours.usage.input_tokens == theirs.usage.input_tokens
    assert ours.usage.output_tokens == theirs.usage.output_tokens
    assert ours.usage.cached_tokens == answer.cached_tokens


# --- what is sent ---


def everything() -> ModelRequest:
    """Return a request with all that one can hold."""
    picture = Attachment(name="p.png", media_type="image/png", size_bytes=3)
    return request(
        *a_conversation()[:-1],
        UserMessage(text="and this?", attachments=(picture,)),
        Reply(
            text="Both: ",
            calls=(
                ToolCall(call_id="a", name="look", arguments="{}"),
                ToolCall(call_id="b", name="look", arguments='{"at": 1}'),
            ),
        ),
        ToolResult(call_id="a", name="look", text="", is_error=False),
        ToolResult(call_id="b", name="look", text="no such place", is_error=True),
        Reply(text="Neither."),
        UserMessage(text="and?"),
        tools=(LOOK,),
        max_output_tokens=4000,
        temperature=0.5,
        reasoning_effort="low",
        media={"p.png": b"png"},
    )


RESPONSE: TypeAdapter[Any] = TypeAdapter(ResponseCreateParamsStreaming)
ANTHROPICS: TypeAdapter[Any] = TypeAdapter(MessageCreateParamsStreaming)
OPENAIS: TypeAdapter[Any] = TypeAdapter(CompletionCreateParamsStreaming)


def forced(value: object) -> object:
    """Read every element: pydantic checks an iterable only when it is read."""
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, object]", value)
        return {key: forced(each) for key, each in pairs.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [forced(each) for each in cast("Iterable[object]", value)]
    return value


@table("name", ["claude-opus-5", "claude-sonnet-4-5", "claude-3-haiku-20240307"])
async def test_anthropics_types_accept_what_is_sent(name: str) -> None:
    """The official client would let the same request out."""
    async with open_model_api() as api, open_kind(ANTHROPIC, api, name=name) as adapter:
        await adapter.complete(replace(everything(), model=name), ignore)
        sent = api.requests[0].json()

    if name == "claude-3-haiku-20240307":  # the newest client knows no temperature any more
        assert sent.pop("temperature") == 0.5
    assert forced(ANTHROPICS.validate_python(sent)) == sent


async def test_the_official_types_accept_what_is_sent() -> None:
    """The official clients would let the same requests out, compacted conversations too."""
    # The official client would let the same request out.
    async with open_model_api() as api, open_kind(OPENAI, api) as adapter:
        await adapter.complete(everything(), ignore)
        sent = api.requests[0].json()

    assert forced(OPENAIS.validate_python(sent)) == sent

    # The official client would let the same request out, compacted conversations too.
    packed = pack("http://x", "m", {"items": [compacted()]})
    writer = BodyWriter(origin="http://x")
    asked = everything()
    long = replace(asked, messages=(Notice(text="long ago", opaque=packed), *asked.messages))
    for each in (asked, long, replace(long, compacts=True)):
        sent = TypeAdapter(object).validate_json(writer.body(each))

        assert forced(RESPONSE.validate_python(sent)) == sent

    # The official client would let the same request out.
    async with open_model_api() as api, open_kind(OLLAMA, api) as adapter:
        await adapter.complete(everything(), ignore)
        sent = api.requests[0].json()

    read = ollama._types.ChatRequest(**sent)
    assert read.think == "low"
    assert read.messages is not None
    assert [m["role"] for m in read.messages][:4] == ["system", "system", "user", "assistant"]
