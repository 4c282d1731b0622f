"""Claude's own API: thoughts that come back, marks for the cache, and what each model refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from llmock.pytest_plugin import LLMock
from llmock.testing import LLMockServer
from support import messages_format
from support.answers import Answer
from support.messages_format import PromptCache
from support.model_api import Received, open_model_api
from support.provider_kinds import (
    ANTHROPIC,
    KEYS,
    LOOK,
    LOOKED,
    answered,
    ignore,
    open_impatient,
    open_kind,
    request,
)
from support.tables import table

from everturn_actors.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelRefusedError,
)
from everturn_actors.model import (
    AnyMessage,
    Notice,
    Reply,
    ToolCall,
    ToolResult,
    UserMessage,
)
from everturn_actors.spec import ModelSpec
from everturn_gateway.providers import open_providers
from everturn_gateway.providers.anthropic.capabilities import Effort

NEW, MIDDLE, OLD, OLDEST = (
    "claude-opus-5",
    "claude-sonnet-4-6",
    "claude-sonnet-4-5-20250929",
    "claude-3-haiku-20240307",
)
THINKING = {"type": "thinking", "thinking": "Where is it?", "signature": "signed-abc=="}
HIDDEN = {"type": "redacted_thinking", "data": "EncryptedBase64=="}
AGAIN = {"type": "thinking", "thinking": "", "signature": "signed-def=="}
USE = {"type": "tool_use", "id": "toolu_01", "name": "look", "input": {"at": "x"}}
FOUND = ToolResult(call_id="toolu_01", name="look", text="a cat")
ASKED = UserMessage(text="look at x")


# --- what is sent ---


async def test_a_request_has_the_form_of_the_documents() -> None:
    """Sides take turns, results come first, notes are framed, blank texts and replies are out."""
    async with open_model_api() as api, open_kind(ANTHROPIC, api, name=OLDEST) as adapter:
        await adapter.complete(
            request(
                Notice(text="2 messages are left out"),
                UserMessage(text="look"),
                UserMessage(text="  \n"),
                Reply(text="Let me see.", calls=(LOOKED,)),
                ToolResult(call_id="toolu_01", name="look", text="not there", is_error=True),
                UserMessage(text="hurry"),
                Reply(text=" "),
                UserMessage(text="well?"),
                tools=(LOOK,),
                temperature=1.5,
            ),
            ignore,
        )
        (received,) = api.requests

    assert (received.method, received.path) == ("POST", "/v1/messages")
    assert received.headers["x-api-key"] == KEYS["ANTHROPIC_API_KEY"]
    assert received.headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in received.headers
    mark = {"cache_control": {"type": "ephemeral"}}
    assert received.json() == {
        "model": "m",
        "stream": True,
        "max_tokens": 4096,
        "temperature": 1.0,
        "tools": [
            {
                "name": "look",
                "description": "Looks",
                "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}},
                **mark,
            }
        ],
        "system": [{"type": "text", "text": "Be kind.", **mark}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "[Note of the gateway: 2 messages are left out]"},
                    {"type": "text", "text": "look", **mark},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Let me see."},
                    {"type": "tool_use", "id": "toolu_01", "name": "look", "input": {"at": "x"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_01",
                        "content": "not there",
                        "is_error": True,
                    },
                    {"type": "text", "text": "hurry"},
                    {"type": "text", "text": "well?", **mark},
                ],
            },
        ],
    }


async def test_another_providers_history_is_taken_over() -> None:
    """Ids that stand twice or have signs of their own, a reply first, arguments that are none."""
    calls = (
        ToolCall(call_id="functions.look:0", name="look", arguments='{"at": NaN}'),
        ToolCall(call_id="call_1", name="look"),
    )
    results = tuple(ToolResult(call_id=c.call_id, name="look", text="") for c in calls)
    async with open_model_api() as api, open_kind(ANTHROPIC, api) as adapter:
        for _ in range(2):  # what was kept with the messages is not mixed up
            await adapter.complete(
                request(Reply(calls=calls), *results, Reply(calls=calls), *results, Reply()), ignore
            )
        first, second = api.requests

    messages = first.json()["messages"]
    ids = [b["id"] for m in messages for b in m["content"] if b["type"] == "tool_use"]
    assert ids == ["functions_look_0", "call_1", "functions_look_0_2", "call_1_2"]
    assert messages[0]["content"][0]["text"] == "[What was said before is left out.]"
    assert messages[1]["content"][0]["input"] == {"arguments": '{"at": NaN}'}
    # No tools are offered, yet some were called: they are named, and none may be called.
    assert [tool["name"] for tool in first.json()["tools"]] == ["look"]
    assert first.json()["tool_choice"] == {"type": "none"}
    assert first.body == second.body


# --- thoughts ---


async def test_thoughts_come_back_with_the_calls_they_led_to() -> None:
    """Without them, or with one letter changed, the API refuses the results of the calls."""
    blocks = (THINKING, HIDDEN, {"type": "text", "text": "Let me see."}, AGAIN, USE)
    async with open_model_api() as api, open_kind(ANTHROPIC, api, name=NEW) as adapter:
        api.script(Answer(blocks=blocks, finish_reason="tool_use"))
        first = await adapter.complete(request(ASKED, tools=(LOOK,)), ignore)
        await adapter.complete(request(ASKED, first, FOUND, tools=(LOOK,)), ignore)
        later = request(
            ASKED, first, FOUND, Reply(text="A cat."), UserMessage(text="so?"), tools=(LOOK,)
        )
        await adapter.complete(later, ignore)
        loop, after = (received.json()["messages"] for received in list(api.requests)[1:])

    assert first.reasoning == "Where is it?"
    assert loop[1] == {"role": "assistant", "content": list(blocks)}
    # Nor do they leave later: the beginning of the request stays the same.
    assert after[1] == loop[1]


async def test_a_reply_without_calls_keeps_no_thoughts() -> None:
    """Nobody asks for them back, and the journal would grow by kilobytes a turn."""
    async with open_model_api() as api, open_kind(ANTHROPIC, api, name=NEW) as adapter:
        api.script(Answer(text="A cat.", blocks=(THINKING,)))
        reply = await adapter.complete(request(), ignore)

    assert (reply.reasoning, reply.opaque) == ("Where is it?", "")


async def test_thoughts_go_back_to_the_model_that_had_them_alone() -> None:
    """A signature of one model is refused by another."""
    async with open_model_api() as api, open_kind(ANTHROPIC, api) as adapter:
        api.script(Answer(blocks=(THINKING, USE), finish_reason="tool_use"))
        first = await adapter.complete(request(ASKED, tools=(LOOK,)), ignore)
        other = request(ASKED, first, FOUND, tools=(LOOK,))
        async with open_kind(ANTHROPIC, api, name=NEW) as another:
            await another.complete(replace(other, model=NEW), ignore)
        content = api.requests[-1].json()["messages"][1]["content"]

    assert [block["type"] for block in content] == ["tool_use"]


async def test_text_that_was_shortened_keeps_its_thoughts() -> None:
    """What the window's policy changed stands where it stood; thoughts come first."""
    blocks = ({"type": "text", "text": "Long. " * 9}, THINKING, USE)
    async with open_model_api() as api, open_kind(ANTHROPIC, api) as adapter:
        api.script(Answer(blocks=blocks, finish_reason="tool_use"))
        first = await adapter.complete(request(ASKED, tools=(LOOK,)), ignore)
        short = Reply(text="Long…", calls=first.calls, opaque=first.opaque)
        await adapter.complete(request(ASKED, short, FOUND, tools=(LOOK,)), ignore)
        content = api.requests[-1].json()["messages"][1]["content"]

    assert content == [THINKING, {"type": "text", "text": "Long…"}, USE]


async def test_thoughts_that_are_refused_stay_away_from_then_on() -> None:
    """The account or the proxy changed: the conversation must go on without them."""
    said = "messages.1.content.0: Invalid `signature` in `thinking` block"
    async with open_model_api() as api, open_kind(ANTHROPIC, api) as adapter:
        api.script(Answer(blocks=(THINKING, USE), finish_reason="tool_use"))
        first = await adapter.complete(request(ASKED, tools=(LOOK,)), ignore)
        api.script(ANTHROPIC.refuse(400, said))
        for _ in range(2):
            await adapter.complete(request(ASKED, first, FOUND, tools=(LOOK,)), ignore)
        kinds = [
            [block["type"] for block in received.json()["messages"][1]["content"]]
            for received in list(api.requests)[1:]
        ]

    assert kinds == [["thinking", "tool_use"], ["tool_use"], ["tool_use"]]


@table(
    ("name", "effort", "limit", "wanted"),
    [
        (NEW, "low", None, {"max_tokens": 16_384, "thinking": {"type": "adaptive"},
                            "output_config": {"effort": "low"}}),
        (NEW, None, 900, {"max_tokens": 900}),
        (MIDDLE, None, None, {"max_tokens": 16_384, "temperature": 0.7}),
        (MIDDLE, "high", None, {"max_tokens": 16_384, "thinking": {"type": "adaptive"},
                                "output_config": {"effort": "high"}}),
        (OLD, None, None, {"max_tokens": 4096, "temperature": 0.7}),
        (OLD, "medium", None, {"max_tokens": 4096 + 8192,
                               "thinking": {"type": "enabled", "budget_tokens": 8192 // 2 + 2048}}),
        (OLD, "high", 4000, {"max_tokens": 4000,
                             "thinking": {"type": "enabled", "budget_tokens": 2000}}),
        (OLD, "high", 2000, {"max_tokens": 2000, "temperature": 0.7}),
        (OLDEST, "high", None, {"max_tokens": 4096, "temperature": 0.7}),
    ],
)  # fmt: skip
async def test_each_model_thinks_in_its_own_way(
    name: str, effort: Effort | None, limit: int | None, wanted: dict[str, Any]
) -> None:
    """A budget is refused by the new ones, an effort by the old ones, a temperature by both."""
    async with open_model_api() as api, open_kind(ANTHROPIC, api, name=name) as adapter:
        asked = request(reasoning_effort=effort, max_output_tokens=limit, temperature=0.7)
        await adapter.complete(asked, ignore)
        body = api.requests[0].json()

    for field in ("model", "stream", "system", "messages"):
        body.pop(field)
    assert body == wanted


@table("before", [Reply(calls=(LOOKED,)), "thought"], ids=["foreign", "own"])
async def test_a_budget_is_given_where_its_own_thought_leads_on(before: Reply | str) -> None:
    """With results of calls that no thought of its own led to, the API refuses a budget."""
    async with open_model_api() as api, open_kind(ANTHROPIC, api, name=OLD) as adapter:
        if isinstance(before, str):
            api.script(Answer(blocks=(THINKING, USE), finish_reason="tool_use"))
            asked = request(ASKED, tools=(LOOK,), reasoning_effort="low")
            reply = await adapter.complete(asked, ignore)
        else:
            reply = before
        await adapter.complete(
            request(ASKED, reply, FOUND, tools=(LOOK,), reasoning_effort="low"), ignore
        )
        body = api.requests[-1].json()

    assert ("thinking" in body) is isinstance(before, str)


NO_BUDGET = (
    '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and'
    ' "output_config.effort" to control thinking behavior.'
)
REFUSALS: tuple[tuple[str, str, str, object], ...] = (
    # model, what it says, field, what the field is from then on
    ("unheard-of", "`temperature` is deprecated for this model.", "temperature", None),
    ("claude-next-9", "This model does not support the effort parameter.", "output_config", None),
    (
        "claude-next-9",
        "adaptive thinking is not supported on this model",
        "thinking",
        {"type": "enabled", "budget_tokens": 2048},
    ),
    (
        OLD,
        NO_BUDGET,
        "thinking",
        {"type": "adaptive"},
    ),
    (
        NEW,
        "max_tokens: 16384 > 8192, which is the maximum allowed number of output tokens for m",
        "max_tokens",
        8192,
    ),
)


@table(("name", "said", "field", "then"), REFUSALS)
async def test_what_a_model_refuses_is_done_without_from_then_on(
    name: str, said: str, field: str, then: object
) -> None:
    """Models come out that no table knows; each costs one refused request, not every turn."""
    effort = None if field in {"temperature", "max_tokens"} else "low"
    async with open_model_api() as api, open_kind(ANTHROPIC, api, name=name) as adapter:
        api.script(ANTHROPIC.refuse(400, said))
        for _ in range(2):
            await adapter.complete(request(temperature=0.7, reasoning_effort=effort), ignore)
        values = [received.json().get(field) for received in api.requests]

    assert len(values) == 3
    assert values[0] != then
    assert values[1:] == [then, then]


async def test_a_proxy_without_a_cache_gets_no_marks() -> None:
    """Others speak Anthropic's format and know less of it."""
    said = "messages.0.content.0.text.cache_control: Extra inputs are not permitted"
    async with open_model_api() as api, open_kind(ANTHROPIC, api) as adapter:
        api.script(ANTHROPIC.refuse(400, said))
        await adapter.complete(request(tools=(LOOK,)), ignore)
        bodies = [received.body for received in api.requests]

    assert [b"cache_control" in body for body in bodies] == [True, False]


# --- what is read ---


@table(
    ("reason", "read"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("something_new", "something_new"),
    ],
)
async def test_why_it_ended_is_told_in_the_words_of_all_providers(reason: str, read: str) -> None:
    """The turn knows one set of words."""
    async with open_model_api() as api, open_kind(ANTHROPIC, api) as adapter:
        api.script(Answer(text="So", finish_reason=reason))

        assert (await adapter.complete(request(), ignore)).stop_reason == read


async def test_a_model_that_declines_without_a_word_fails_the_turn_with_its_reason() -> None:
    """An empty answer would tell nobody anything."""
    end = {
        "type": "message_delta",
        "delta": {
            "stop_reason": "refusal",
            "stop_details": {"type": "refusal", "category": "bio", "explanation": "Not this."},
        },
        "usage": {"output_tokens": 1},
    }
    body = b"event: message_delta\ndata: %b\n\n" % orjson.dumps(end)
    async with open_model_api() as api, open_kind(ANTHROPIC, api) as adapter:
        api.script(Answer(body=body, headers={"content-type": "text/event-stream"}))
        with pytest.raises(ModelRefusedError, match=r"declined to answer: Not this\."):
            await adapter.complete(request(), ignore)


async def test_what_a_model_was_stopped_at_is_not_carried_out() -> None:
    """The calls of a reply that a filter ended are not run."""
    async with open_model_api() as api, open_kind(ANTHROPIC, api) as adapter:
        api.script(Answer(text="I will", calls=(LOOKED,), finish_reason="refusal"))
        reply = await adapter.complete(request(), ignore)

    assert (reply.text, reply.calls) == ("I will", ())


async def test_texts_that_stood_apart_do_not_run_together() -> None:
    """Between two blocks of text stood a thought; what people read has to show it."""
    said: list[str] = []
    blocks = ({"type": "text", "text": "One."}, THINKING, {"type": "text", "text": "Two."}, USE)
    async with open_model_api() as api, open_kind(ANTHROPIC, api) as adapter:
        api.script(Answer(blocks=blocks, finish_reason="tool_use"))
        first = await adapter.complete(request(ASKED, tools=(LOOK,)), said.append)
        await adapter.complete(request(ASKED, first, FOUND, tools=(LOOK,)), ignore)
        content = api.requests[-1].json()["messages"][1]["content"]

    assert "".join(said) == first.text == "One.\n\nTwo."
    assert content == list(blocks)


async def test_unknown_events_and_blocks_are_passed_over() -> None:
    """The documents announce that there will be new ones."""
    events = (
        b'event: ping\ndata: {"type":"ping"}\n\n'
        b'event: later\ndata: {"type":"later","index":0}\n\n'
        b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
        b'"content_block":{"type":"new_kind","x":1}}\n\n'
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
        b'"delta":{"type":"new_delta","y":2}}\n\n'
    )
    tail = b"".join(messages_format.chunks(Answer(text="All right.")))
    async with open_model_api() as api, open_kind(ANTHROPIC, api) as adapter:
        kind = {"content-type": "text/event-stream"}
        api.script(Answer(body=events + tail, headers=kind))

        assert (await adapter.complete(request(), ignore)).text == "All right."


# --- the cache of prompts ---


class CachingApi:
    """Answers with the usage that the cache of prompts would give."""

    def __init__(self) -> None:
        self.cache = PromptCache()
        self.read: list[int] = []
        self.sizes: list[int] = []

    def __call__(self, received: Received) -> Answer:
        """Answer one request."""
        read, written, rest = self.cache.usage(received.json())
        self.read.append(read)
        self.sizes.append(read + written + rest)
        assert rest == 0  # the last mark ends the request
        return Answer(
            text="All right.",
            input_tokens=read + written + rest,
            cached_tokens=read,
            cache_written_tokens=written,
        )


async def test_each_request_reads_all_that_the_one_before_it_sent() -> None:
    """Of a growing conversation only what is new is paid for in full, however much that is."""
    caching = CachingApi()
    history: list[AnyMessage] = []
    async with (
        open_model_api(default=caching) as api,
        open_kind(ANTHROPIC, api, name=NEW) as adapter,
    ):
        for turn in range(12):
            history.append(UserMessage(text=f"question {turn}"))
            # Every third turn calls tools; one of them thirty at once, beyond what is looked back.
            for step in range(3 if turn % 3 == 0 else 0):
                count = 30 if (turn, step) == (6, 1) else 2
                calls = tuple(
                    ToolCall(call_id=f"t{turn}_{step}_{n}", name="look", arguments="{}")
                    for n in range(count)
                )
                await adapter.complete(request(*history, tools=(LOOK,)), ignore)
                history.append(Reply(text="Hm.", calls=calls))
                history += [ToolResult(call_id=c.call_id, name="look", text="a cat") for c in calls]
            if turn == 8:  # a person adds something while the turn runs
                history.append(UserMessage(text="and be quick"))
            reply = await adapter.complete(request(*history, tools=(LOOK,)), ignore)
            history.append(reply)

    assert len(caching.read) == 12 + 4 * 3
    assert caching.read[0] == 0
    # To the byte: what a request reads is the whole of the request before it.
    assert caching.read[1:] == caching.sizes[:-1]


async def test_tools_and_system_are_read_by_the_next_conversation() -> None:
    """All conversations of an agent begin alike."""
    caching = CachingApi()
    async with open_model_api(default=caching) as api, open_kind(ANTHROPIC, api) as adapter:
        for text in ("first", "second"):
            await adapter.complete(request(UserMessage(text=text), tools=(LOOK,)), ignore)

    alike = caching.sizes[0] - len(b'user{"type":"text","text":"first"}')
    assert caching.read == [0, alike]


async def test_usage_counts_what_the_cache_knew() -> None:
    """The API counts apart what was cached; an estimate of the next prompt needs all of it."""
    async with open_model_api() as api, open_kind(ANTHROPIC, api) as adapter:
        api.script(Answer(text="a", input_tokens=100, cached_tokens=60, cache_written_tokens=30))
        usage = (await adapter.complete(request(), ignore)).usage

    assert (usage.input_tokens, usage.cached_tokens, usage.cache_written_tokens) == (100, 60, 30)


# --- judged by llmock ---


RECOVERED: tuple[tuple[str, Callable[[LLMock], object]], ...] = (
    ("rate limit", lambda mock: mock.rate_limit(times=2, retry_after=0.2)),
    ("500", lambda mock: mock.fail(500)),
    ("529", lambda mock: mock.fail(529)),
    ("disconnect", lambda mock: mock.disconnect(after_chunks=2)),
    ("truncate", lambda mock: mock.truncate(after_chunks=2)),
    # Paced: sent at once, all of it is away before the mock can see that the client left.
    ("corrupt", lambda mock: mock.pace(50).corrupt(after_chunks=2)),
    ("slow first token", lambda mock: mock.slow_first_token(0.2)),
)


@pytest.fixture
def llmock_server() -> Iterator[LLMockServer]:
    """Give each test a server of its own: one for all would count what came late from another."""
    with LLMockServer() as server:
        yield server


def at(llmock: LLMock) -> ModelSpec:
    """Return a model of the mock."""
    return ModelSpec(
        provider="anthropic", name="claude-opus-4-6", base_url=llmock.base_url("anthropic")
    )


@table("fault", [fault for _, fault in RECOVERED], ids=[name for name, _ in RECOVERED])
async def test_llmock_finds_nothing_wrong_with_a_recovered_fault(
    fault: Callable[[LLMock], object], tmp_path: Path
) -> None:
    """A judge that is not ours: it knows what clients get wrong."""
    with LLMockServer() as server:
        llmock = LLMock(server)
        fault(llmock)
        llmock.reply("The whole reply in one piece of work.", times=None)
        async with open_providers(environ=KEYS, models_dir=tmp_path) as providers:
            reply = await answered(providers.make(at(llmock), tmp_path), request())

        assert isinstance(reply, Reply)
        assert reply.text == "The whole reply in one piece of work."
        llmock.assert_resilient(strict=True)


FINAL: tuple[tuple[str, Callable[[LLMock], object], type[Exception]], ...] = (
    ("400", lambda mock: mock.fail(400), ModelRefusedError),
    ("401", lambda mock: mock.fail(401), ModelAuthError),
    ("404", lambda mock: mock.fail(404), ModelRefusedError),
    ("overflow", lambda mock: mock.context_overflow(), ContextOverflowError),
)


@table(("fault", "kind"), [each[1:] for each in FINAL], ids=[each[0] for each in FINAL])
async def test_llmock_sees_no_retry_of_what_cannot_succeed(
    fault: Callable[[LLMock], object], kind: type[Exception], tmp_path: Path
) -> None:
    """A refused key is not right the second time."""
    with LLMockServer() as server:
        llmock = LLMock(server)
        fault(llmock)
        async with open_providers(environ=KEYS, models_dir=tmp_path) as providers:
            assert type(await answered(providers.make(at(llmock), tmp_path), request())) is kind

        llmock.assert_resilient(strict=True)


async def test_llmock_tool_calls_make_a_whole_loop(llmock: LLMock, tmp_path: Path) -> None:
    """Its calls are as the real provider streams them."""
    llmock.call_tool("look", {"at": "the cat"})
    asked = UserMessage(text="look at the cat")
    async with open_providers(environ=KEYS, models_dir=tmp_path) as providers:
        adapter = providers.make(at(llmock), tmp_path)
        first = await adapter.complete(request(asked, tools=(LOOK,)), ignore)
        results = tuple(
            ToolResult(call_id=call.call_id, name=call.name, text="asleep") for call in first.calls
        )
        last = await adapter.complete(request(asked, first, *results, tools=(LOOK,)), ignore)

    assert [(call.name, call.arguments) for call in first.calls] == [("look", '{"at": "the cat"}')]
    assert first.stop_reason == "tool_calls"
    assert last.text
    assert last.usage.input_tokens > 0
    llmock.assert_resilient(strict=True)


async def test_llmock_stall_is_left_in_time(llmock: LLMock) -> None:
    """It notices a client that sits through a silence."""
    llmock.stall(seconds=3)
    async with open_impatient(ANTHROPIC, llmock.base_url("anthropic"), 0.3) as adapter:
        reply = await answered(adapter, request())

    assert isinstance(reply, Reply), reply
    llmock.assert_resilient(strict=True)
