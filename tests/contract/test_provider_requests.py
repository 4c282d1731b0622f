"""What a request becomes in each format, what comes back of a reply, and what models refuse."""

from __future__ import annotations

import dataclasses
import json
from base64 import b64encode
from typing import Any

import anyio
import pytest
from msgspec.structs import replace
from support import completions_format, messages_format, ollama_format, responses_format
from support.answers import Answer
from support.model_api import open_model_api
from support.provider_kinds import (
    ANTHROPIC,
    GEMINI,
    KINDS,
    LOOK,
    LOOKED,
    OLLAMA,
    OPENAI,
    OPENROUTER,
    OWN_FORMATS,
    RESPONSES,
    Kind,
    a_conversation,
    ignore,
    open_kind,
    request,
)
from support.tables import table

from everturn_actors.errors import ModelRefusedError
from everturn_actors.model import (
    Attachment,
    ModelRequest,
    Reply,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from everturn_gateway.providers.transport.attached import LARGE_BYTES

each_kind = table("kind", KINDS, ids=lambda kind: kind.title)
each_format = table("kind", OWN_FORMATS, ids=lambda kind: kind.title)

PICTURE = Attachment(name="a1.png", media_type="image/png", file_name="cat.png", size_bytes=2048)
PAPER = Attachment(name="b2.pdf", media_type="application/pdf", file_name="x.pdf", size_bytes=3)
PNG = b"\x89PNG and so on"
WORDS = "[attached, but not shown: cat.png, image/png, 2 KB]"
BLIND = {
    "openai": "Invalid content type. image_url is only supported by certain models.",
    "openrouter": "No endpoints found that support image input",
    "gemini": "This model does not support images.",
    "anthropic": "This model does not support image input.",
    "ollama": "Multimodal data provided, but model does not support multimodal requests.",
}


def messages_of(sent: Any) -> list[Any]:
    """Return the messages of a request."""
    messages: list[Any] = sent["input"] if "input" in sent else sent["messages"]
    return messages


def seen(sent: Any) -> list[str]:
    """Return the images of a request, in base64."""
    found: list[str] = []
    for message in messages_of(sent):
        found += message.get("images") or []
        content = message["content"] if isinstance(message.get("content"), list) else []
        for block in content:
            if block["type"] == "image_url":
                kind, _, data = block["image_url"]["url"].partition(";base64,")
                assert kind == "data:image/png"
                found.append(data)
            elif block["type"] == "input_image":
                found.append(block["image_url"].removeprefix("data:image/png;base64,"))
            elif block["type"] == "image":
                assert block["source"]["media_type"] == "image/png"
                found.append(block["source"]["data"])
    return found


def with_picture(**fields: Any) -> ModelRequest:
    """Return a request with an image and another file."""
    message = UserMessage(text="Who?", attachments=(PICTURE, PAPER))
    return request(message, **{"media": {PICTURE.name: PNG}, **fields})


@each_kind
async def test_a_turn_with_tools_is_sent_and_read(kind: Kind) -> None:
    """What the turn gets does not depend on who answered."""
    call = ToolCall(call_id="toolu_02", name="look", arguments='{"at": "y"}')
    second = ToolCall(call_id="toolu_03", name="look", arguments="{}")
    async with open_model_api() as api, open_kind(kind, api) as adapter:
        api.script(Answer(text="One moment. ", calls=(call, second), reasoning="hm"))
        reply = await adapter.complete(
            request(*a_conversation(), tools=(LOOK,), max_output_tokens=50), ignore
        )

    assert [(c.call_id, c.name, json.loads(c.arguments)) for c in reply.calls] == [
        ("toolu_02", "look", {"at": "y"}),
        ("toolu_03", "look", {}),
    ]
    assert (reply.text, reply.reasoning, reply.stop_reason) == ("One moment. ", "hm", "tool_calls")
    assert reply.model == "fake-1"
    assert reply.usage == Usage(input_tokens=11, output_tokens=7, cached_tokens=3)
    sent = api.requests[0].json()
    assert sent["model"] == "m"
    assert len(sent["tools"]) == 1


@each_kind
async def test_a_reply_with_calls_can_be_sent_back(kind: Kind) -> None:
    """The second step of every turn is made of the first."""
    call = ToolCall(call_id="toolu_02", name="look", arguments='{"at":"y"}')
    async with open_model_api() as api, open_kind(kind, api) as adapter:
        api.script(Answer(text="Hm.", calls=(call,), reasoning="why not"))
        asked = UserMessage(text="look at y")
        reply = await adapter.complete(request(asked, tools=(LOOK,)), ignore)
        result = ToolResult(call_id="toolu_02", name="look", text="a dog")
        last = await adapter.complete(request(asked, reply, result, tools=(LOOK,)), ignore)
        # A restart reads the same from the journal, without anything that was kept with it.
        fresh = replace(reply)
        await adapter.complete(request(asked, fresh, replace(result), tools=(LOOK,)), ignore)

    assert last.text == "All right."
    assert api.requests[1].body == api.requests[2].body


@each_kind
async def test_calls_are_put_together_once_and_texts_are_held_once(kind: Kind) -> None:
    """A long conversation costs neither the work of all its calls again nor twice its memory."""
    words = "a long text " * 100
    call = ToolCall(call_id="toolu_02", name="look", arguments='{"at":"y"}')
    asked, reply = UserMessage(text=words), Reply(text="Hm.", calls=(call,))
    result = ToolResult(call_id="toolu_02", name="look", text=words)
    said = (asked, reply, result, Reply(text=words))
    async with open_model_api() as api, open_kind(kind, api) as adapter:
        await adapter.complete(request(*said, tools=(LOOK,)), ignore)
        kept = dict(reply.memo)
        await adapter.complete(request(*said, UserMessage(text="new"), tools=(LOOK,)), ignore)

    assert kept
    assert all(reply.memo[form] is value for form, value in kept.items())
    assert not any(isinstance(each, bytes) for m in (asked, *said[2:]) for each in m.memo.values())


@each_kind
async def test_an_image_is_shown_and_other_files_are_told(kind: Kind) -> None:
    """A model sees what it can see, and knows of the rest."""
    async with open_model_api() as api, open_kind(kind, api) as adapter:
        asked = with_picture()
        await adapter.complete(asked, ignore)
        sent = api.requests[0].json()

    assert seen(sent) == [b64encode(PNG).decode()]
    text = json.dumps(sent)
    assert "[attached: x.pdf, application/pdf, 3 bytes]" in text
    assert "cat.png" not in text
    # Megabytes must not stay in memory with the message.
    assert all(PNG not in bytes(kept) for kept in asked.messages[0].memo.values())
    assert not any(b64encode(PNG) in bytes(kept) for kept in asked.messages[0].memo.values())


@each_kind
async def test_an_image_whose_bytes_are_not_there_is_told_in_words(kind: Kind) -> None:
    """Older images leave a request; the model has to know that there was one."""
    async with open_model_api() as api, open_kind(kind, api) as adapter:
        message = with_picture().messages[0]
        await adapter.complete(request(message), ignore)
        await adapter.complete(with_picture(), ignore)
        await adapter.complete(request(message, media={PICTURE.name: PNG}), ignore)
        first, _, third = (received.json() for received in api.requests)

    assert seen(first) == []
    assert f"Who?\\n{WORDS}\\n[attached: x.pdf" in json.dumps(first)
    # Words that were kept do not hide an image that is there now.
    assert len(seen(third)) == 1


@each_kind
async def test_an_image_of_an_unknown_kind_is_told_in_words(kind: Kind) -> None:
    """A drawing that no model can open must not fail the turn."""
    drawing = Attachment(name="c.svg", media_type="image/svg+xml", file_name="c.svg", size_bytes=9)
    message = UserMessage(text="", attachments=(drawing,))
    async with open_model_api() as api, open_kind(kind, api) as adapter:
        await adapter.complete(request(message, media={"c.svg": b"<svg/>"}), ignore)
        sent = api.requests[0].json()

    assert seen(sent) == []
    assert "[attached, but not shown: c.svg, image/svg+xml, 9 bytes]" in json.dumps(sent)


@each_kind
async def test_a_model_without_eyes_is_shown_no_image_again(kind: Kind) -> None:
    """The image stays in the conversation: refused once, it would be refused in every turn."""
    async with open_model_api() as api, open_kind(kind, api) as adapter:
        api.script(kind.refuse(400, BLIND[kind.name]))
        reply = await adapter.complete(with_picture(), ignore)
        await adapter.complete(with_picture(), ignore)
        sent = [received.json() for received in api.requests]

    assert reply.text == "All right."
    assert [len(seen(each)) for each in sent] == [1, 0, 0]
    assert WORDS in json.dumps(sent[1])


@each_kind
async def test_one_image_that_is_refused_says_nothing_of_the_next(kind: Kind) -> None:
    """It was too large; the model can see."""
    async with open_model_api() as api, open_kind(kind, api) as adapter:
        api.script(kind.refuse(400, "image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes"))
        await adapter.complete(with_picture(), ignore)
        await adapter.complete(with_picture(), ignore)

        assert [len(seen(received.json())) for received in api.requests] == [1, 0, 1]


@each_format
async def test_a_large_image_is_encoded_beside_the_loop(kind: Kind) -> None:
    """Ten photographs are a tenth of a second of work; other turns go on meanwhile."""
    data = bytes(LARGE_BYTES + 1)
    async with open_model_api() as api, open_kind(kind, api) as adapter:
        await adapter.complete(with_picture(media={PICTURE.name: data}), ignore)

        assert len(seen(api.requests[0].json())[0]) > LARGE_BYTES


@each_format
async def test_calls_side_by_side_learn_from_one_refusal(kind: Kind) -> None:
    """All sessions of an agent begin at once after a restart, and all have the same setting."""
    said = {
        "openai": "Unsupported parameter: 'reasoning_effort' is not supported with this model.",
        "openai-responses": "Unsupported parameter: 'reasoning.effort' is not supported.",
        "anthropic": "thinking: adaptive thinking is not supported on this model",
        "ollama": '"m" does not support thinking',
    }[kind.title]

    def answer(received: Any) -> Answer:
        sent = received.json()
        thinks = {"reasoning_effort", "reasoning", "thinking", "think"} & set(sent)
        return kind.refuse(400, said) if thinks else Answer(text="All right.")

    async with open_model_api(default=answer) as api, open_kind(kind, api) as adapter:
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(adapter.complete, request(reasoning_effort="high"), ignore)
        before = api.count
        await adapter.complete(request(reasoning_effort="high"), ignore)

        assert api.count == before + 1


@each_kind
async def test_a_server_that_refuses_everything_is_not_asked_for_ever(kind: Kind) -> None:
    """Each refusal takes something away, and in the end there is nothing left to take."""
    said = (
        "Unsupported: temperature, max_tokens, thinking, effort, cache_control, stream_options,"
        " reasoning_effort, image, think value, does not support thinking"
    )
    async with (
        open_model_api(default=kind.refuse(400, said)) as api,
        open_kind(kind, api) as adapter,
    ):
        with pytest.raises(ModelRefusedError, match="Unsupported"):
            await adapter.complete(
                with_picture(temperature=0.7, reasoning_effort="low", max_output_tokens=9), ignore
            )

        assert api.count < 12


@each_format
async def test_a_server_that_does_not_stream_is_read_all_the_same(kind: Kind) -> None:
    """Some proxies wait for the whole reply."""
    answer = Answer(text="All at once", calls=(LOOKED,), reasoning="hm" if kind != OPENAI else "")
    async with open_model_api() as api, open_kind(kind, api) as adapter:
        api.script(whole(kind, answer))
        reply = await adapter.complete(request(tools=(LOOK,)), ignore)

    assert (reply.text, reply.calls) == ("All at once", (LOOKED,))
    assert reply.stop_reason == "tool_calls"
    assert reply.usage.input_tokens == 11


def whole(kind: Kind, answer: Answer) -> Answer:
    """Return an answer that is sent whole, as JSON, though a stream was asked for."""
    forms = {
        "openai": completions_format,
        "openai-responses": responses_format,
        "anthropic": messages_format,
        "ollama": ollama_format,
    }
    body = forms[kind.title].completion(answer)
    return Answer(headers={"content-type": "application/json"}, body=body)


# --- how much a model thinks ---


@table(
    ("kind", "field", "value"),
    [
        (OPENAI, "reasoning_effort", "high"),
        (RESPONSES, "reasoning", {"effort": "high"}),
        (GEMINI, "reasoning_effort", "high"),
        (OPENROUTER, "reasoning", {"effort": "high"}),
        (ANTHROPIC, "output_config", {"effort": "high"}),
        (OLLAMA, "think", "high"),
    ],
)
async def test_how_much_to_think_is_said_in_each_ones_words(
    kind: Kind, field: str, value: object
) -> None:
    """One setting of the agent, five names for it; without it none is sent."""
    async with open_model_api() as api, open_kind(kind, api, name="claude-opus-5") as adapter:
        await adapter.complete(request(reasoning_effort="high"), ignore)
        await adapter.complete(request(), ignore)
        with_effort, without = (received.json() for received in api.requests)

    assert with_effort[field] == value
    assert field not in without
    assert not {"thinking", "think", "reasoning", "reasoning_effort"} & set(without)


@table(
    ("refusals", "thinks"),
    [
        (['think value "high" is not supported for this model'], True),
        (['"m" does not support thinking'], None),
        (['think value "high" is not supported', '"m" does not support thinking'], None),
    ],
)
async def test_ollama_thinks_as_its_model_can(refusals: list[str], thinks: object) -> None:
    """Some models take levels, some only yes, and some do not think."""
    async with open_model_api() as api, open_kind(OLLAMA, api) as adapter:
        api.script(*(OLLAMA.refuse(400, said) for said in refusals))
        await adapter.complete(request(reasoning_effort="high"), ignore)
        await adapter.complete(request(reasoning_effort="high"), ignore)

        sent = [received.json().get("think") for received in api.requests]
    assert sent[-2:] == [thinks, thinks]
    assert len(sent) == len(refusals) + 2


def _with_results(*names: str) -> ModelRequest:
    """Return a request whose last step has one result with an image for each name."""
    calls = tuple(ToolCall(call_id=f"toolu_{n}", name="look") for n, _ in enumerate(names))
    results = (
        ToolResult(
            call_id=each.call_id,
            name="look",
            text=f"result {name}",
            attachments=(Attachment(name=name, media_type="image/png", size_bytes=2048),),
        )
        for each, name in zip(calls, names, strict=True)
    )
    return request(
        UserMessage(text="look"),
        Reply(calls=calls),
        *results,
        tools=(LOOK,),
        media=dict.fromkeys(names, PNG),
    )


def _images_of_results(sent: Any) -> list[str]:
    blocks = [
        block
        for message in messages_of(sent)
        if isinstance(message.get("content"), list)
        for block in message["content"]
    ]
    held = [each["content"] for each in blocks if each["type"] == "tool_result"]
    inside = [block for content in held if isinstance(content, list) for block in content]
    return seen(sent) + [each["source"]["data"] for each in inside if each["type"] == "image"]


@each_kind
async def test_an_image_of_a_result_is_shown(kind: Kind) -> None:
    """A model that looks at a chart must see it; nothing may stand between the results."""
    async with open_model_api() as api, open_kind(kind, api) as adapter:
        await adapter.complete(_with_results("a.png", "b.png"), ignore)
        sent = api.requests[0].json()

    assert _images_of_results(sent) == [b64encode(PNG).decode()] * 2
    text = json.dumps(sent)
    assert "not shown" not in text
    roles = [each.get("role", each.get("type")) for each in messages_of(sent)]
    if kind.name != "anthropic":  # its results hold the images themselves
        result = "function_call_output" if kind == RESPONSES else "tool"
        assert roles[-3:] == [result, result, "user"]


@each_kind
async def test_an_image_of_a_result_that_is_not_there_is_told_in_words(kind: Kind) -> None:
    """A model without eyes, or one that was shown it long ago, has to know that it sees nothing."""
    asked = dataclasses.replace(_with_results("a.png"), media={})
    async with open_model_api() as api, open_kind(kind, api) as adapter:
        await adapter.complete(asked, ignore)
        sent = api.requests[0].json()

    assert _images_of_results(sent) == []
    assert "result a.png\\n[attached, but not shown: a.png, image/png, 2 KB]" in json.dumps(sent)
