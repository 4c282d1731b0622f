"""One reply out of the chunks of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from support.tables import table

from everturn_actors.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelError,
    ModelRefusedError,
    ModelTransientError,
    RateLimitedError,
    TruncatedStreamError,
)
from everturn_actors.model import Reply, ToolCall, Usage
from everturn_gateway.providers.transport.reading import ReplyReader

END: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def delta(**fields: Any) -> dict[str, Any]:
    """Return a chunk with this delta."""
    return {"model": "m-2", "choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


def call(**fields: Any) -> dict[str, Any]:
    """Return a chunk with one piece of a call."""
    function = {k: fields.pop(k) for k in ("name", "arguments") if k in fields}
    return delta(tool_calls=[{**fields, "function": function}])


def read(chunks: Sequence[dict[str, Any] | bytes], said: list[str] | None = None) -> Reply:
    """Read these chunks to the end."""
    reader = ReplyReader(
        where="m at host", model="m", on_text=(said if said is not None else []).append
    )
    for chunk in chunks:
        reader.take(b"", chunk if isinstance(chunk, bytes) else orjson.dumps(chunk))
    return reader.reply()


def test_text_is_handed_on_piece_by_piece_and_joined() -> None:
    """What people saw while it came must be what is stored."""
    said: list[str] = []
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 4},
    }

    reply = read(
        [
            delta(role="assistant", content=""),
            delta(content="Hel"),
            delta(content="lo"),
            END,
            {"choices": [], "usage": usage},
            b"[DONE]",
        ],
        said,
    )

    assert said == ["Hel", "lo"]
    assert reply == Reply(
        text="Hello",
        usage=Usage(input_tokens=9, output_tokens=2, cached_tokens=4),
        stop_reason="stop",
        model="m-2",
    )


@table("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_apart_from_the_text(name: str) -> None:
    """Servers name it differently; a person must not be sent it as the reply."""
    said: list[str] = []

    reply = read(
        [delta(**{name: "let me "}), delta(**{name: "see"}), delta(content="4"), END], said
    )

    assert (reply.reasoning, reply.text, said) == ("let me see", "4", ["4"])


@table(
    "chunks",
    [
        pytest.param(
            [
                call(index=0, id="a", name="f", arguments=""),
                call(index=1, id="b", name="g", arguments='{"y"'),
                call(index=0, arguments='{"x"'),
                call(index=1, arguments=":2}"),
                call(index=0, arguments=":1}"),
            ],
            id="openai: fragments by index",
        ),
        pytest.param(
            [
                call(index=0, id="a", name="f", arguments='{"x":1}'),
                call(index=0, id="b", name="g", arguments='{"y":2}'),
            ],
            id="every call numbered 0",
        ),
        pytest.param(
            [
                call(id="a", name="f", arguments='{"x":1}'),
                call(id="b", name="g", arguments='{"y"'),
                call(arguments=":2}"),
            ],
            id="no numbers",
        ),
        pytest.param(
            [
                {
                    "choices": [
                        {
                            "message": {
                                "content": None,
                                "tool_calls": [
                                    {"id": "a", "function": {"name": "f", "arguments": '{"x":1}'}},
                                    {"id": "b", "function": {"name": "g", "arguments": '{"y":2}'}},
                                ],
                            }
                        }
                    ]
                }
            ],
            id="not streamed",
        ),
    ],
)
def test_parallel_calls_are_put_together(chunks: list[dict[str, Any]]) -> None:
    """A call put together wrongly runs with another one's arguments."""
    reply = read([*chunks, END])

    assert [(c.call_id, c.name, orjson.loads(c.arguments)) for c in reply.calls] == [
        ("a", "f", {"x": 1}),
        ("b", "g", {"y": 2}),
    ]


def test_calls_get_ids_of_their_own() -> None:
    """A result finds its call by its id alone, so none may be empty or used twice."""
    reply = read([
        call(index=0, name="f"),
        call(index=1, id="same", name="g"),
        call(index=2, id="same", name="h", arguments="{}"),
        END,
    ])  # fmt: skip

    again = read([call(index=0, name="f"), END])

    assert reply.calls[1:] == (
        ToolCall(call_id="same", name="g"),
        ToolCall(call_id="same_3", name="h"),
    )
    assert reply.calls[0].call_id.startswith("call_")
    assert reply.calls[0].call_id != again.calls[0].call_id


@table("arguments", ["{", "[1]", '"text"', '{"a": NaN}', "{} trailing"])
def test_arguments_are_handed_on_as_the_model_wrote_them(arguments: str) -> None:
    """The turn judges them, and tells the model what was wrong; another try here would not."""
    reply = read([call(index=0, id="a", name="f", arguments=arguments), END])

    assert reply.calls == (ToolCall(call_id="a", name="f", arguments=arguments),)


@table(
    ("chunks", "kind", "said"),
    [
        # It could be neither run nor sent back.
        (
            [call(index=0, id="a", arguments="{}"), END],
            *(ModelTransientError, "a call that names no tool"),
        ),
        # Half a reply looks like a whole one; only the finish reason tells.
        ([delta(content="The answer is"), b"[DONE]"], TruncatedStreamError, "broke off"),
        # To skip a chunk that makes no sense would leave a hole in the reply.
        *(
            ([delta(content="a"), chunk, END], ModelTransientError, "a chunk of the reply")
            for chunk in (b"{", b"nonsense", b"[1]", b'{"choices":[7]}', b'"x"', b"\xff")
        ),
    ],
)
def test_a_reply_that_is_not_whole_is_an_error(
    chunks: list[dict[str, Any] | bytes], kind: type[ModelError], said: str
) -> None:
    """Whatever is missing from it."""
    with pytest.raises(kind, match=said):
        read(chunks)


def test_a_filtered_reply_keeps_its_stop_reason() -> None:
    """The turn has to know that a filter ended the reply, not the model."""
    filtered = {"choices": [{"index": 0, "delta": {}, "finish_reason": "content_filter"}]}

    assert read([delta(content="I"), filtered]).stop_reason == "content_filter"


@table(
    ("error", "kind"),
    [
        ({"error": {"message": "slow down", "code": 429}}, RateLimitedError),
        ({"error": {"message": "busy", "type": "overloaded_error"}}, ModelTransientError),
        ({"error": {"message": "x", "code": "context_length_exceeded"}}, ContextOverflowError),
        ({"error": {"message": "bad", "type": "invalid_request_error"}}, ModelRefusedError),
        ({"error": {"message": "no", "type": "authentication_error"}}, ModelAuthError),
        ({"error": "all wrong"}, ModelTransientError),
        ({"object": "error", "message": "gone", "code": 500}, ModelTransientError),
    ],
)
def test_an_error_inside_the_stream_is_the_error_of_the_call(
    error: dict[str, Any], kind: type[ModelError]
) -> None:
    """Providers fail after 200 OK as well, and the turn must treat it alike."""
    with pytest.raises(ModelError) as raised:
        read([delta(content="a"), error])

    assert type(raised.value) is kind
    assert str(raised.value).startswith("m at host: ")


def test_a_character_cut_in_two_is_joined_or_replaced_at_the_end() -> None:
    """Servers that count in UTF-16 cut an emoji into two escapes, in two chunks."""
    said: list[str] = []
    halves = [
        b'{"choices":[{"delta":{"content":"ok \\ud83d"}}]}',
        b'{"choices":[{"delta":{"content":"\\ude00!"}}]}',
    ]

    reply = read([*halves, END], said)

    assert reply.text == "ok 😀!" == "".join(said)

    # What cannot be stored as UTF-8 must not reach the journal.
    reply = read([b'{"choices":[{"delta":{"content":"a\\ud83d"}}]}', END])

    assert reply.text == "a\N{REPLACEMENT CHARACTER}"


def test_content_in_parts_is_read() -> None:
    """Some servers send a list of parts where OpenAI sends a text."""
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "so"}]

    assert read([delta(content=parts), END]).text == "so"
