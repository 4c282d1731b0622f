"""What single vendors add to OpenAI's format: signed thoughts, thoughts in parts, what it cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest
from msgspec import structs
from support.answers import Answer
from support.model_api import open_model_api
from support.provider_kinds import (
    GEMINI,
    LOOK,
    LOOKED,
    OPENAI,
    OPENROUTER,
    Kind,
    ignore,
    open_kind,
    request,
)
from support.tables import table

from everturn_actors.errors import ModelRefusedError
from everturn_actors.model import Reply, ToolCall, ToolResult, UserMessage

SIGNATURE = "Q2lB/abc=="
SIGNED = {"google": {"thought_signature": SIGNATURE}}
ASKED = UserMessage(text="look at x")
FOUND = ToolResult(call_id="toolu_01", name="look", text="a cat")


def streamed(*deltas: dict[str, Any], usage: dict[str, Any] | None = None) -> Answer:
    """Return an answer of these deltas."""
    chunks: list[dict[str, Any]] = [
        {"model": "m", "choices": [{"index": 0, "delta": delta}]} for delta in deltas
    ]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    chunks.append({"choices": [], "usage": usage or {"prompt_tokens": 5, "completion_tokens": 2}})
    body = b"".join(b"data: %b\n\n" % orjson.dumps(chunk) for chunk in chunks)
    return Answer(body=body + b"data: [DONE]\n\n", headers={"content-type": "text/event-stream"})


def calling(call: ToolCall = LOOKED, **extra: Any) -> dict[str, Any]:
    """Return a delta with one whole call."""
    function = {"name": call.name, "arguments": call.arguments}
    return {
        "tool_calls": [
            {"index": 0, "id": call.call_id, "type": "function", "function": function, **extra}
        ]
    }


async def looped(kind: Kind, answer: Answer, name: str = "m") -> tuple[Reply, dict[str, Any]]:
    """Let a model call a tool; return its reply, and how that is sent back with the result."""
    async with open_model_api() as api, open_kind(kind, api, name=name) as adapter:
        api.script(answer)
        asked = replace(request(ASKED, tools=(LOOK,)), model=name)
        first = await adapter.complete(asked, ignore)
        again = request(ASKED, structs.replace(first), FOUND, tools=(LOOK,))
        await adapter.complete(replace(again, model=name), ignore)
        (message,) = [m for m in api.requests[1].json()["messages"] if m["role"] == "assistant"]
    return first, message


# --- Gemini ---


async def test_gemini_gets_the_signature_of_its_thought_back() -> None:
    """Without it Gemini 3 refuses the result of the call."""
    second = ToolCall(call_id="toolu_02", name="look", arguments="{}")
    reply, sent = await looped(
        GEMINI,
        streamed(calling(extra_content=SIGNED), calling(second), {"extra_content": {"a": 1}}),
    )

    assert [call.call_id for call in reply.calls] == ["toolu_01", "toolu_02"]
    first_call, second_call = sent["tool_calls"]
    assert first_call["extra_content"] == SIGNED
    assert "extra_content" not in second_call
    assert sent["extra_content"] == {"a": 1}


@table(
    ("name", "extra"),
    [
        ("gemini-3.5-flash", {"google": {"thought_signature": "skip_thought_signature_validator"}}),
        ("gemini-2.5-pro", None),
    ],
)
async def test_gemini_takes_over_calls_that_another_model_made(name: str, extra: object) -> None:
    """A fallback in the middle of a turn brings calls that Gemini did not sign."""
    async with open_model_api() as api, open_kind(GEMINI, api, name=name) as adapter:
        foreign = request(ASKED, Reply(calls=(LOOKED,)), FOUND, tools=(LOOK,))
        await adapter.complete(replace(foreign, model=name), ignore)
        message = api.requests[0].json()["messages"][2]

    assert message["tool_calls"][0].get("extra_content") == extra


@table(
    ("kind", "delta"),
    [
        (GEMINI, calling(extra_content=SIGNED)),
        (
            OPENROUTER,
            {
                "reasoning_details": [{"type": "reasoning.encrypted", "data": SIGNATURE}],
                **calling(),
            },
        ),
    ],
    ids=["gemini", "openrouter"],
)
async def test_what_one_vendor_signed_goes_to_nobody_else(kind: Kind, delta: Any) -> None:
    """OpenAI refuses fields that it does not know; and back at its own, all is still there."""
    async with (
        open_model_api() as home,
        open_model_api() as away,
        open_kind(kind, home) as own,
        open_kind(OPENAI, away) as openai,
    ):
        home.script(streamed(delta))
        first = await own.complete(request(ASKED, tools=(LOOK,)), ignore)
        asked = request(ASKED, first, FOUND, tools=(LOOK,))
        await openai.complete(asked, ignore)
        await own.complete(asked, ignore)

    assert SIGNATURE.encode() not in away.requests[0].body
    assert SIGNATURE.encode() in home.requests[1].body


async def test_a_call_that_openai_was_sent_is_still_marked_for_gemini() -> None:
    """What was kept for the one must not go to the other."""
    async with (
        open_model_api() as api,
        open_kind(OPENAI, api) as openai,
        open_kind(GEMINI, api) as gemini,
    ):
        asked = request(ASKED, Reply(calls=(LOOKED,)), FOUND, tools=(LOOK,))
        await openai.complete(asked, ignore)
        await gemini.complete(asked, ignore)
        marked = [b"skip_thought_signature" in received.body for received in api.requests]

    assert marked == [False, True]


async def test_a_reply_without_calls_keeps_nothing() -> None:
    """Nobody asks for it back, and the journal would grow by kilobytes a turn."""
    details = [{"type": "reasoning.text", "text": "hm", "index": 0}]
    async with open_model_api() as api, open_kind(OPENROUTER, api) as adapter:
        api.script(streamed({"reasoning_details": details}, {"content": "4"}))

        assert (await adapter.complete(request(), ignore)).opaque == ""


async def test_a_gemini_key_that_is_none_is_the_keys_fault() -> None:
    """Google calls it a bad request."""
    async with open_model_api() as api, open_kind(GEMINI, api) as adapter:
        api.script(GEMINI.refuse(400, "API key not valid. Please pass a valid API key."))
        with pytest.raises(Exception, match="API key not valid") as raised:
            await adapter.complete(request(), ignore)

    assert type(raised.value).__name__ == "ModelAuthError"


# --- OpenRouter ---


async def test_openrouter_gets_its_thoughts_back_in_their_order() -> None:
    """They come in pieces; behind it stands Claude or Gemini, which wants them whole."""

    def thought(**fields: Any) -> dict[str, Any]:
        return {"reasoning": "x", "reasoning_details": [fields]}

    text = "reasoning.text"
    reply, sent = await looped(
        OPENROUTER,
        streamed(
            thought(type=text, text="Where ", index=0, format="anthropic-claude-v1"),
            thought(type=text, text="is it?", index=0, signature=None),
            thought(type=text, signature="sig==", index=0),
            thought(type="reasoning.encrypted", data="abc", index=1),
            thought(type="reasoning.encrypted", data="def", index=1),
            thought(type=text, text="There.", index=2),
            calling(),
        ),
    )

    assert reply.reasoning == "x" * 6
    assert sent["reasoning_details"] == [
        {
            "type": text,
            "text": "Where is it?",
            "index": 0,
            "format": "anthropic-claude-v1",
            "signature": "sig==",
        },
        {"type": "reasoning.encrypted", "data": "abc", "index": 1},
        {"type": "reasoning.encrypted", "data": "def", "index": 1},
        {"type": text, "text": "There.", "index": 2},
    ]


@table(
    ("usage", "nanodollars"),
    [
        ({"cost": 0.00078}, 780_000),
        ({"cost": 0.0}, 0),
        ({"cost": None}, 0),
        ({"cost": 0.00001, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.0002}},
         210_000),
        ({"cost": 0.5, "is_byok": False, "cost_details": {"upstream_inference_cost": 0.4}},
         500_000_000),
    ],
)  # fmt: skip
async def test_openrouter_says_what_it_cost(usage: dict[str, Any], nanodollars: int) -> None:
    """A price that was charged needs no table of prices."""
    tokens = {
        "prompt_tokens": 100,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
    }
    async with open_model_api() as api, open_kind(OPENROUTER, api) as adapter:
        api.script(streamed({"content": "4"}, usage={**tokens, **usage}))
        read = (await adapter.complete(request(), ignore)).usage
        sent = api.requests[0].json()

    assert read.cost_nanodollars == nanodollars
    assert (read.input_tokens, read.cached_tokens, read.cache_written_tokens) == (100, 60, 30)
    assert sent["usage"] == {"include": True}


# --- DeepSeek, Kimi ---


async def test_thoughts_go_back_to_who_insists_on_them_alone() -> None:
    """Most servers refuse or drop them; a few refuse to go on without."""
    said = "The `reasoning_content` in the thinking mode must be passed back to the API."
    async with open_model_api() as api, open_kind(OPENAI, api) as adapter:
        api.script(OPENAI.refuse(400, said))
        asked = request(
            ASKED, Reply(calls=(LOOKED,), reasoning="hm"), FOUND, Reply(text="x", reasoning="no"),
            UserMessage(text="so?"), tools=(LOOK,),
        )  # fmt: skip
        for _ in range(2):
            await adapter.complete(asked, ignore)
        replies = [
            [m.get("reasoning_content") for m in r.json()["messages"] if m["role"] == "assistant"]
            for r in api.requests
        ]

    assert replies == [[None, None], ["hm", None], ["hm", None]]


async def test_a_server_that_insists_in_vain_ends_the_call() -> None:
    """It has been given what it asked for."""
    said = "The `reasoning_content` in the thinking mode must be passed back to the API."
    async with (
        open_model_api(default=OPENAI.refuse(400, said)) as api,
        open_kind(OPENAI, api) as adapter,
    ):
        with pytest.raises(ModelRefusedError, match="must be passed back"):
            await adapter.complete(request(), ignore)

    assert len(api.requests) == 2
