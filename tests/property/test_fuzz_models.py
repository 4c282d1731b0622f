"""What model APIs send, made bad: an error of the call, or a reply that can be kept and sent back.

See `test_fuzz_journal` for how to run it for longer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, TypeAlias

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from support import completions_format, messages_format, ollama_format, responses_format
from support.answers import Answer
from support.examples import examples
from support.mutations import as_json, in_pieces, mutated, torn
from support.responses_format import compacted

from everturn.testing._histories import SESSION_ID, STARTED_AT
from everturn_actors.errors import ModelError, RateLimitedError
from everturn_actors.events import Body, Event, ModelReplied, ReplyBroken
from everturn_actors.journal.log.codec import decode, encode, seed
from everturn_actors.model import (
    DEFAULT_OPTIONS,
    ModelRequest,
    PromptFingerprint,
    Reply,
    ToolCall,
    ToolResult,
    UserMessage,
)
from everturn_actors.turn.reply_flaws import flaw_of
from everturn_gateway.providers.anthropic import reading as anthropic_reading
from everturn_gateway.providers.anthropic import wire as anthropic_wire
from everturn_gateway.providers.ollama import reading as ollama_reading
from everturn_gateway.providers.ollama import wire as ollama_wire
from everturn_gateway.providers.ollama.lines import LineParser
from everturn_gateway.providers.responses import reading as responses_reading
from everturn_gateway.providers.responses import wire as responses_wire
from everturn_gateway.providers.transport.model_errors import error_for, read_refusal
from everturn_gateway.providers.transport.reading import ReplyReader
from everturn_gateway.providers.transport.sse import EventParser, EventTooLargeError
from everturn_gateway.providers.transport.wire import BodyWriter

ORIGIN: Final = "http://127.0.0.1:1"
CALLS: Final = (
    ToolCall(call_id="call_1", name="look", arguments='{"at": "the sky", "n": [1, 2]}'),
    ToolCall(call_id="call_2", name="look", arguments="{}"),
)
ANSWERS: Final = (
    Answer(text="It is seven o'clock, \U0001f600 and all is well."),
    Answer(text="Let me see.", reasoning="Where? There.", calls=CALLS),
    Answer(calls=CALLS[:1], finish_reason="tool_calls"),
)
ERRORS: Final = (
    {"error": {"message": "Rate limit: retry in 7s", "type": "tokens", "code": 429, "param": None}},
    {"error": {"message": "maximum context length is 8192 tokens", "code": "x", "n_ctx": 8192}},
    [{"error": {"code": 400, "message": "API key not valid", "status": "INVALID_ARGUMENT"}}],
    {"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}, "request_id": "r"},
    {"error": '{"error": {"code": 400, "message": "exceeds the available context size (4096)"}}'},
    {"detail": [{"loc": ["body", "messages"], "msg": "Field required"}]},
)


class Parser(Protocol):
    """Cuts a stream into events."""

    def feed(self, piece: bytes, /) -> list[tuple[bytes, bytes]]:
        """Return what a piece completes."""
        ...

    def finish(self) -> list[tuple[bytes, bytes]]:
        """Return what is left."""
        ...


class Reader(Protocol):
    """Makes a reply of them."""

    def take(self, name: bytes, data: bytes, /) -> None:
        """Take one."""
        ...

    def reply(self) -> Reply:
        """Return the reply."""
        ...


class Format(NamedTuple):
    """How one kind of API speaks."""

    chunks: Callable[[Answer], list[bytes]]
    whole: Callable[[Answer], bytes]
    parser: Callable[[], Parser]
    reader: Callable[..., Reader]


FORMATS: Final = (
    Format(
        completions_format.chunks,
        completions_format.completion,
        EventParser,
        lambda **known: ReplyReader(**known, origin=ORIGIN),
    ),
    Format(
        messages_format.chunks,
        messages_format.completion,
        EventParser,
        lambda **known: anthropic_reading.ReplyReader(**known, origin=ORIGIN),
    ),
    Format(ollama_format.chunks, ollama_format.completion, LineParser, ollama_reading.ReplyReader),
    Format(
        responses_format.chunks,
        responses_format.completion,
        EventParser,
        lambda **known: responses_reading.ReplyReader(**known, origin=ORIGIN),
    ),
)
OPENAI, ANTHROPIC, OLLAMA, RESPONSES = FORMATS
THINKING: Final = {"type": "thinking", "thinking": "", "signature": ""}
IMAGE: Final = {
    "type": "image_generation_call",
    "id": "ig",
    "status": "done",
    "result": "iVBORw0KGgo=",
}
EXTRAS: Final = (
    {"choices": [{"delta": {"reasoning_details": [{"type": "reasoning.text", "text": "so"}]}}]},
    {"choices": [{"delta": {"extra_content": {"google": {"thought_signature": "c2ln"}}}}]},
    {"usage": {"prompt_tokens": 3, "cost": 0.01, "is_byok": True, "cost_details": {"x": 0.1}}},
    {"usage": {"prompt_tokens_details": {"cached_tokens": 1}}, "choices": []},
    {"type": "content_block_start", "index": 0, "content_block": THINKING},
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "signature_delta", "signature": "s"},
    },
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "thinking_delta", "thinking": "t"},
    },
    {"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking"}},
    {"error": {"message": "Busy", "code": 502}},
    {"type": "response.output_item.done", "output_index": 7, "item": dict(compacted())},
    {"type": "response.output_item.done", "output_index": 8, "item": {"type": "message"}},
    {"type": "response.output_text.delta", "output_index": 9, "delta": "x"},
    {
        "choices": [
            {"delta": {"images": [{"image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]}}
        ]
    },
    {"choices": [{"delta": {"content": [{"type": "image_url", "image_url": "http://x"}]}}]},
    {"type": "response.output_item.done", "output_index": 6, "item": IMAGE},
    {"type": "response.completed", "response": {"output": [IMAGE, {**IMAGE, "result": None}]}},
    {"type": "response.failed", "response": {"status": "failed", "error": {"code": "busy"}}},
)
Said: TypeAlias = tuple[Format, list[bytes]]


@st.composite
def changed_streams(draw: st.DrawFn) -> Said:
    """Return a stream in which some of the JSON says something else."""
    form, answer = draw(st.sampled_from(FORMATS)), draw(st.sampled_from(ANSWERS))
    chunks = b"".join(form.chunks(answer)).splitlines()
    if draw(st.integers(0, 5)) == 0:
        chunks = [form.whole(answer)]
    at = [n for n, line in enumerate(chunks) if line.partition(b"{")[1]]
    if draw(st.booleans()):
        extra = draw(st.sampled_from(EXTRAS))
        where = draw(st.integers(0, len(chunks)))
        prefix = b"" if form is OLLAMA else b"data: "
        chunks[where:where] = [prefix + as_json(extra), b""]
        at = [n for n, line in enumerate(chunks) if line.partition(b"{")[1]]
    for _ in range(draw(st.integers(1, 3))):
        number = draw(st.sampled_from(at))
        before, brace, rest = chunks[number].partition(b"{")
        try:
            value = json.loads(brace + rest)
        except (ValueError, RecursionError):
            continue
        chunks[number] = before + as_json(draw(mutated(value)))
    return form, [line + b"\n" for line in chunks]


@st.composite
def torn_streams(draw: st.DrawFn) -> Said:
    """Return a stream in pieces of which some bytes are not what they were."""
    form, answer = draw(st.sampled_from(FORMATS)), draw(st.sampled_from(ANSWERS))
    tokens = (
        b"data: ",
        b"\r\n",
        b"\n\n",
        b"\r",
        b"event: error\n",
        b"[DONE]",
        b"\xef\xbb\xbf",
        b":",
    )
    return form, draw(in_pieces(draw(torn(b"".join(form.chunks(answer)), tokens=tokens))))


def reply_of(said: Said) -> Reply | None:
    """Return what the gateway makes of a stream; None where it is an error of the call."""
    form, pieces = said
    shown: list[str] = []
    parser, reader = form.parser(), form.reader(where="m at here", model="m", on_text=shown.append)
    try:
        for piece in pieces:
            for name, data in parser.feed(piece):
                reader.take(name, data)
        for name, data in parser.finish():
            reader.take(name, data)
        reply = reader.reply()
    except (ModelError, EventTooLargeError):
        return None

    assert reply.text == "".join(shown)
    return reply


def check(reply: Reply) -> None:
    """Check that a reply can be kept, read at the next start, and sent back, to any API."""
    reason = flaw_of(reply, DEFAULT_OPTIONS, sent_files=False)
    body: Body = ModelReplied(
        text=reply.text,
        reasoning=reply.reasoning,
        calls=reply.calls,
        usage=reply.usage,
        stop_reason=reply.stop_reason,
        model=reply.model,
        fingerprint=PromptFingerprint(),
        opaque=reply.opaque,
    )
    if reason:
        body = ReplyBroken(
            turn=1, step=1, reason=reason, text=reply.text, usage=reply.usage, model=reply.model
        )
    event = Event(seq=1, at=STARTED_AT, body=body)
    assert decode(encode(SESSION_ID, [event])[:-1], seed(SESSION_ID)) == event
    if not reason:
        results = [ToolResult(call_id=c.call_id, name=c.name, text="ok") for c in reply.calls]
        request = ModelRequest(
            model="m", system="", messages=(UserMessage(text="Hi"), replace(reply, seq=2), *results)
        )
        for written in (
            BodyWriter(origin=ORIGIN).body(request, max_tokens_field="max_tokens", echoes=True),
            anthropic_wire.BodyWriter(origin=ORIGIN).body(request, {"max_tokens": 100}),
            ollama_wire.BodyWriter().body(request, thinking="on"),
            responses_wire.BodyWriter(origin=ORIGIN).body(request),
        ):
            assert isinstance(json.loads(written.decode()), dict)


def events(*said: object) -> list[bytes]:
    """Return a stream of these events."""
    return [b"data: " + as_json(each) + b"\n\n" for each in said]


LISTS_FOR_TEXTS: Final = (
    {"type": "content_block_start", "index": 0, "content_block": THINKING},
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "signature_delta", "signature": [1]},
    },
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "tool_use", "id": "a", "name": "b"},
    },
    {
        "type": "content_block_delta",
        "index": 1,
        "delta": {"type": "input_json_delta", "partial_json": ["a"]},
    },
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
)


@examples(45)
@given(changed_streams() | torn_streams())
@example((ANTHROPIC, events(*LISTS_FOR_TEXTS)))
def test_any_stream_is_an_error_of_its_call_or_a_reply_that_lasts(said: Said) -> None:
    """A reply stands in the log for good: one that cannot be read again costs the session."""
    reply = reply_of(said)

    if reply is not None:
        check(reply)


@examples(24)
@given(
    st.sampled_from(ERRORS).flatmap(mutated).map(as_json)
    | st.sampled_from(ERRORS).flatmap(lambda e: torn(as_json(e))),
    st.sampled_from([400, 401, 402, 404, 408, 413, 429, 500, 502, 529]),
)
def test_any_refusal_is_an_error_in_one_line_for_people(body: bytes, status: int) -> None:
    """What a server says of its failure must not become a failure of the gateway."""
    error = error_for(status, read_refusal(body), {"retry-after": "2"}, "m at here")

    assert str(error).startswith("m at here: ")
    assert len(str(error)) < 2_000
    assert "\n" not in str(error)
    assert error.retry_after_s is None or isinstance(error, RateLimitedError) or error.retryable
