"""Request bodies: the joined bytes are the JSON that one serialisation would have given."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
from everturn_gateway.providers.transport.wire import (
    LONG_MESSAGES,
    NEW_MESSAGES,
    BodyWriter,
    KeptBytes,
    SentBytes,
)

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


def _said(*numbers: int) -> list[AnyMessage]:
    return [
        UserMessage(text=f"{n}, he said", seq=n) if n % 2 else Reply(text=f'"{n}"', seq=n)
        for n in numbers
    ]


changes = st.one_of(
    st.tuples(st.just("more"), st.integers(1, 2 * NEW_MESSAGES)),
    st.tuples(st.just("cut"), st.integers(1, NEW_MESSAGES)),
    st.tuples(st.just("replaced"), st.integers(0, LONG_MESSAGES)),
    st.tuples(st.just("told"), st.just(0)),
    st.tuples(st.just("asked of another model"), st.just(0)),
)


@given(
    st.lists(changes, max_size=8),
    st.sampled_from(["", "You are a test."]),
    st.sampled_from([0, 3_000, 2**20]),
)
def test_what_is_kept_of_a_conversation_never_changes_a_request(
    steps: list[tuple[str, int]], system: str, most_bytes: int
) -> None:
    """However it goes on, a request is what somebody writes who has seen none before."""
    sent = SentBytes(most_bytes)
    writer, model = BodyWriter(sent=sent), "one"
    said = _said(*range(1, LONG_MESSAGES + NEW_MESSAGES))
    for what, number in steps:
        last: list[AnyMessage] = []
        if what == "more":
            said += _said(*range(len(said) + 1, len(said) + 1 + number))
        elif what == "cut":
            del said[:number]
        elif what == "replaced" and number < len(said):
            said[number] = Reply(text="something else")
        elif what == "told":
            last = [UserMessage(text="[Your last reply could not be used.]")]
        else:
            model += "!"
        request = ModelRequest(model=model, system=system, messages=(*said, *last))

        body = writer.body(request, max_tokens_field="max_tokens")

        assert body == BodyWriter().body(request, max_tokens_field="max_tokens")
        want = [{"role": "system", "content": system}] if system else []
        assert json.loads(body)["messages"] == [*want, *map(expected, request.messages)]
        assert sent.size_bytes <= most_bytes


def test_of_a_long_conversation_only_what_is_new_is_written() -> None:
    """Written anew with each turn, a thousand messages take longer than all else of the turn."""
    sent, written = SentBytes(), list[int]()

    def write(some: Sequence[AnyMessage]) -> bytes:
        written.append(len(some))
        return b"{}"

    said = _said(*range(1, 1_000))
    for turn in range(50):
        said += _said(1_000 + 2 * turn, 1_001 + 2 * turn)
        sent.parts(tuple(said), "", write)

    assert sum(written) < len(said) + 50 * 2 * NEW_MESSAGES


def test_a_prompt_that_another_thread_keeps_meanwhile_goes_to_nobody_else() -> None:
    """Requests with large images are written in threads; a prompt may hold somebody's notes."""
    kept = KeptBytes()
    kept.system("of one")

    class Meanwhile(str):
        __slots__ = ()

        def __ne__(self, other: object) -> bool:
            kept.system("of another")
            return False

    assert b"of one" in kept.system(Meanwhile("of one"))
