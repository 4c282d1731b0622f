"""Request bodies: the joined bytes are the JSON that one serialisation would have given."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

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
from everturn_gateway.providers.transport.wire import BodyWriter

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
calls = st.builds(
    ToolCall, call_id=texts, name=texts, arguments=st.dictionaries(texts, texts).map(json.dumps)
)
messages: st.SearchStrategy[AnyMessage] = st.one_of(
    st.builds(UserMessage, text=texts),
    st.builds(Notice, text=texts),
    st.builds(Reply, text=texts, calls=st.lists(calls, max_size=2).map(tuple)),
    st.builds(ToolResult, call_id=texts, name=texts, text=texts),
)
tools = st.builds(
    ToolDefinition, name=texts, description=texts, parameters=st.dictionaries(texts, texts)
)


def expected(message: AnyMessage) -> dict[str, Any]:
    """Return a message as OpenAI's reference writes it."""
    match message:
        case UserMessage():
            return {"role": "user", "content": message.text}
        case Notice():
            return {"role": "system", "content": message.text}
        case ToolResult():
            return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
        case Reply():
            plain = {"role": "assistant", "content": message.text}
            called = [
                {
                    "id": call.call_id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in message.calls
            ]
            with_calls = {**plain, "content": message.text or None, "tool_calls": called}
            return with_calls if called else plain


@given(
    st.builds(
        ModelRequest,
        model=texts,
        system=texts,
        messages=st.lists(messages, max_size=6).map(tuple),
        tools=st.lists(tools, max_size=2).map(tuple),
        max_output_tokens=st.none() | st.integers(1, 10_000),
        temperature=st.none() | st.floats(0, 2),
    )
)
def test_a_body_is_the_json_of_its_request(request: ModelRequest) -> None:
    """Joining bytes must never give what a serialiser would not: not a comma, not a quote."""
    writer = BodyWriter()

    body = writer.body(request, max_tokens_field="max_tokens")

    system = [{"role": "system", "content": request.system}] if request.system else []
    want: dict[str, Any] = {
        "model": request.model,
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [*system, *map(expected, request.messages)],
    }
    if request.temperature is not None:
        want["temperature"] = request.temperature
    if request.max_output_tokens is not None:
        want["max_tokens"] = request.max_output_tokens
    if request.tools:
        want["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in request.tools
        ]
    assert json.loads(body) == want
    assert writer.body(request, max_tokens_field="max_tokens") == body
