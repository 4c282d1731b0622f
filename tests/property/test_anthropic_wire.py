"""Bodies for Claude: whatever was said, the API's rules hold, and the beginning stays the same."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.messages_format import problem
from support.tables import table

from everturn_actors.model import (
    AnyMessage,
    ModelRequest,
    Notice,
    Reply,
    ToolCall,
    ToolDefinition,
    ToolResult,
    UserMessage,
)
from everturn_gateway.providers.anthropic.capabilities import capabilities_of
from everturn_gateway.providers.anthropic.wire import BodyWriter

texts = st.one_of(
    st.sampled_from(["", " ", "\n\t", "\u00a0"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
)
arguments = st.one_of(
    st.dictionaries(texts, texts, max_size=2).map(json.dumps),
    st.sampled_from(["", "[1]", "{", '{"a": NaN}', '{"a" : 1}']),
)
# Few ids, so that some stand twice in one conversation, as other providers give them.
ids = st.sampled_from(["call_1", "call_1_2", "functions.look:0", "functions.look.0", "toolu_1"])
names = st.sampled_from(["look", "find"])


@st.composite
def steps(draw: st.DrawFn) -> tuple[AnyMessage, ...]:
    """Draw a reply with calls, and a result for each."""
    own = draw(st.lists(ids, min_size=1, max_size=3, unique=True))
    calls = tuple(
        ToolCall(call_id=each, name=draw(names), arguments=draw(arguments)) for each in own
    )
    results = tuple(
        ToolResult(call_id=c.call_id, name=c.name, text=draw(texts), is_error=draw(st.booleans()))
        for c in calls
    )
    return (Reply(text=draw(texts), calls=calls), *results)


blocks: st.SearchStrategy[tuple[AnyMessage, ...]] = st.one_of(
    st.builds(UserMessage, text=texts).map(lambda m: (m,)),
    st.builds(Notice, text=texts).map(lambda m: (m,)),
    st.builds(Reply, text=texts).map(lambda m: (m,)),
    steps(),
)
conversations = st.lists(blocks, max_size=6)
LOOK = ToolDefinition(name="look", description="Looks", parameters={})


def written(messages: tuple[AnyMessage, ...], **fields: Any) -> dict[str, Any]:
    """Return the body of a request, parsed."""
    asked = ModelRequest(model="m", messages=messages, **{"system": "Be kind.", **fields})
    body: dict[str, Any] = json.loads(BodyWriter().body(asked, {"max_tokens": 100}))
    return body


def bare(body: dict[str, Any]) -> list[tuple[str, str]]:
    """Return role and block for each block, without marks."""
    return [
        (message["role"], json.dumps({k: v for k, v in block.items() if k != "cache_control"}))
        for message in body["messages"]
        for block in message["content"]
    ]


@given(conversations, texts, st.sampled_from([(), (LOOK,)]))
def test_whatever_was_said_the_rules_of_the_api_hold(
    drawn: list[tuple[AnyMessage, ...]], system: str, tools: tuple[ToolDefinition, ...]
) -> None:
    """One message that breaks them would end the conversation: it stays in every request."""
    messages = tuple(message for block in drawn for message in block)
    body = written(messages, system=system, tools=tools)
    again = written(messages, system=system, tools=tools)

    assert problem(body) is None
    assert again == body
    said = [m.text for m in messages if not isinstance(m, Notice) and m.text.strip()]
    sent = [block.get("text", block.get("content")) for _, block in map(_loaded, bare(body))]
    assert [text for text in sent if text in said] == said


def _loaded(pair: tuple[str, str]) -> tuple[str, dict[str, Any]]:
    return pair[0], json.loads(pair[1])


@given(conversations, blocks)
def test_a_longer_conversation_begins_with_the_shorter_one(
    drawn: list[tuple[AnyMessage, ...]], more: tuple[AnyMessage, ...]
) -> None:
    """What the cache holds is of use only while the beginning stays the same."""
    asked = (UserMessage(text="and now?"),)
    before = (*(message for block in drawn for message in block), *asked)
    first = bare(written(before, tools=(LOOK,)))
    second = bare(written((*before, *more, *asked), tools=(LOOK,)))

    assert second[: len(first)] == first


@table(
    ("name", "thinking", "takes_temperature"),
    [
        ("claude-2.1", "none", True),
        ("claude-instant-1.2", "none", True),
        ("claude-3-haiku-20240307", "none", True),
        ("claude-3-5-sonnet-20241022", "none", True),
        ("claude-3-7-sonnet-20250219", "budget", True),
        ("claude-opus-4-20250514", "budget", True),
        ("claude-sonnet-4-0", "budget", True),
        ("anthropic/claude-haiku-4.5", "budget", True),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "budget", True),
        ("claude-opus-4-6", "adaptive", True),
        ("claude-opus-4-7", "adaptive", False),
        ("claude-sonnet-5", "adaptive", False),
        ("claude-haiku-5-5", "adaptive", False),
        ("claude-mythos-preview", "adaptive", False),
        ("deepseek-chat", "budget", True),
    ],
)
def test_a_name_tells_how_a_model_thinks(name: str, thinking: str, takes_temperature: bool) -> None:
    """A wrong guess costs one refused request; a right one costs none."""
    capabilities = capabilities_of(name)

    assert (capabilities.thinking, capabilities.takes_temperature) == (thinking, takes_temperature)
