"""A model API that is hostile, or broken, costs a call: never a session, never the gateway."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from math import inf, nan
from typing import Protocol, TypeAlias

import pytest
from support.tables import table

from everturn_actors.errors import ModelError, ModelTransientError
from everturn_actors.model import Reply
from everturn_channels.errors import QUIET_MAX_S, NotSentError
from everturn_gateway.providers.anthropic import reading as anthropic_reading
from everturn_gateway.providers.ollama import reading as ollama_reading
from everturn_gateway.providers.responses import reading as responses_reading
from everturn_gateway.providers.transport.model_errors import error_for, read_refusal, retry_after_s
from everturn_gateway.providers.transport.parts import COUNT_MAX, NAME_CHARS
from everturn_gateway.providers.transport.reading import ReplyReader
from everturn_gateway.providers.transport.windows import (
    configured_in,
    entry_of,
    loaded_in,
    served_in,
    slot_in,
    trained_in,
)


class Reader(Protocol):
    """What makes a reply of the chunks of a stream."""

    def take(self, name: bytes, data: bytes, /) -> None:
        """Take one."""
        ...

    def reply(self) -> Reply:
        """Return the reply."""
        ...


Make: TypeAlias = Callable[..., Reader]
OPENAI, ANTHROPIC, OLLAMA = ReplyReader, anthropic_reading.ReplyReader, ollama_reading.ReplyReader
RESPONSES = responses_reading.ReplyReader
LAST: dict[object, str] = {
    OPENAI: '{"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}',
    ANTHROPIC: '{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}',
    OLLAMA: '{"done": true, "message": {"content": "x"}}',
    RESPONSES: '{"type": "response.completed", "response": {"status": "completed"}}',
}
VALUES = (
    *("null", "1", "-1", "1e308", "1e999", "NaN", '"x"', '"\\ud800"', "[]", "[1]", "[[]]", "{}"),
    *('{"a": 1}', "true", "9" * 30, "9" * 5000, "[" * 5000 + "]" * 5000),
)
CHUNKS: tuple[tuple[Make, str], ...] = (
    (OPENAI, "V"),
    (OPENAI, '{"choices": V}'),
    (OPENAI, '{"choices": [{"index": V, "delta": V, "finish_reason": V}]}'),
    (OPENAI, '{"choices": [{"delta": {"content": V}}]}'),
    (OPENAI, '{"choices": [{"delta": {"content": [V]}}]}'),
    (OPENAI, '{"choices": [{"delta": {"reasoning": V, "extra_content": V}}]}'),
    (OPENAI, '{"choices": [{"delta": {"reasoning_details": [V]}}]}'),
    (OPENAI, '{"choices": [{"delta": {"tool_calls": [V]}}]}'),
    (OPENAI, '{"choices": [{"delta": {"tool_calls": [{"index": V, "id": V}]}}]}'),
    (OPENAI, '{"choices": [{"delta": {"tool_calls": [{"function": {"name": V}}]}}]}'),
    (OPENAI, '{"choices": [{"delta": {"tool_calls": [{"function": {"arguments": V}}]}}]}'),
    (OPENAI, '{"usage": V}'),
    (OPENAI, '{"usage": {"prompt_tokens": V, "completion_tokens": V, "cost": V}}'),
    (OPENAI, '{"usage": {"cost": 1, "is_byok": V, "cost_details": V}}'),
    (OPENAI, '{"model": V, "error": V}'),
    (OPENAI, '{"error": {"message": V, "code": V, "type": V, "param": V}}'),
    (ANTHROPIC, '{"type": V}'),
    (ANTHROPIC, '{"type": "content_block_start", "index": V, "content_block": V}'),
    (ANTHROPIC, '{"type": "content_block_delta", "index": V, "delta": V}'),
    (ANTHROPIC, '{"type": "content_block_start", "index": 0, "content_block": BLOCK}'),
    (ANTHROPIC, '{"type": "message_start", "message": {"model": V, "usage": V}}'),
    (ANTHROPIC, '{"type": "message_start", "message": {"usage": {"input_tokens": V}}}'),
    (ANTHROPIC, '{"type": "message_delta", "delta": {"stop_reason": V, "stop_details": V}}'),
    (ANTHROPIC, '{"type": "message", "content": [V]}'),
    (OLLAMA, '{"message": V}'),
    (OLLAMA, '{"message": {"content": V, "thinking": V}}'),
    (OLLAMA, '{"message": {"tool_calls": [V]}}'),
    (OLLAMA, '{"message": {"tool_calls": [{"id": V, "function": {"name": V, "arguments": V}}]}}'),
    (OLLAMA, '{"done": V, "done_reason": V, "prompt_eval_count": V, "model": V}'),
    (RESPONSES, '{"type": V, "error": V}'),
    (RESPONSES, '{"type": "response.output_text.delta", "output_index": V, "delta": V}'),
    (RESPONSES, '{"type": "response.output_item.done", "output_index": V, "item": V}'),
    (RESPONSES, '{"type": "response.output_item.done", "item": {"type": "message", "content": V}}'),
    (RESPONSES, '{"type": "response.output_item.done", "item": ITEM}'),
    (RESPONSES, '{"type": "response.completed", "response": V}'),
    (RESPONSES, '{"type": "response.incomplete", "response": {"incomplete_details": V}}'),
    (RESPONSES, '{"type": "response.completed", "response": {"model": V, "usage": V}}'),
    (RESPONSES, '{"type": "response.completed", "response": {"usage": {"input_tokens": V}}}'),
    (RESPONSES, '{"object": "response", "output": [V]}'),
)


BLOCK = '{"type": "tool_use", "id": V, "name": V, "input": V}'
ITEM = '{"type": "function_call", "call_id": V, "name": V, "arguments": V}'


def read(make: Make, chunks: Iterable[str]) -> Reply:
    """Return what a reader makes of chunks."""
    reader = make(where="here", model="m", on_text=lambda _: None)
    for chunk in chunks:
        reader.take(b"", chunk.encode())
    return reader.reply()


@table(("make", "chunk"), CHUNKS)
def test_no_chunk_is_more_than_an_error_of_its_call(make: Make, chunk: str) -> None:
    """Anything else would fail the session, and again with every start: its turn stays open."""
    for value in VALUES:
        try:
            given = chunk.replace("BLOCK", BLOCK).replace("ITEM", ITEM).replace("V", value)
            reply = read(make, (given, LAST[make]))
        except ModelError:
            continue

        # what is kept of it fits into 64 bits however often it is added up
        usage = reply.usage
        assert 0 <= usage.input_tokens <= 3 * COUNT_MAX
        assert 0 <= usage.output_tokens <= COUNT_MAX
        assert 0 <= usage.cost_nanodollars <= 10**13
        assert len(reply.model) <= NAME_CHARS
        assert len(reply.stop_reason) <= NAME_CHARS


@table(
    ("make", "piece"),
    [
        (OPENAI, '{"choices": [{"delta": {"tool_calls": [{"id": "%d"}]}}]}'),
        (OPENAI, '{"choices": [{"delta": {"tool_calls": [{"function": {"name": "n%d"}}]}}]}'),
        (OPENAI, '{"choices": [{"delta": {"reasoning_details": [{"type": "z", "n": %d}]}}]}'),
        (OPENAI, '{"choices": [{"delta": {"extra_content": {"n": %d}}}]}'),
        (
            ANTHROPIC,
            '{"type": "content_block_start", "index": %d, "content_block": {"type": "text"}}',
        ),
        (OLLAMA, '{"message": {"tool_calls": [{"id": "%d", "function": {"name": "a"}}]}}'),
        (RESPONSES, '{"type": "response.output_text.delta", "output_index": %d, "delta": ""}'),
    ],
)
def test_a_reply_that_says_nothing_ends_as_well(
    make: Make, piece: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls without arguments, blocks without text: kept in memory for as long as it streams."""
    monkeypatch.setattr("everturn_gateway.providers.transport.parts.REPLY_LIMIT_CHARS", 64 * 1024)
    with pytest.raises(ModelTransientError, match=r"longer than|does not end"):
        read(make, (piece % number for number in range(2_000)))


@table("value", [json.loads(v) for v in VALUES[:-2]] + ["9" * 6000])
def test_what_a_server_says_of_itself_is_a_window_or_nothing(value: object) -> None:
    """It is asked beside a turn, by a task of the gateway's own: an error there ended all."""
    listings = (
        value,
        {"data": value},
        {"data": [value]},
        {"data": [{"id": value, "name": value, "model": value, "meta": value}]},
        {"models": [{"name": "m", "context_length": value}]},
        {"default_generation_settings": value, "n_ctx": value, "parameters": value},
        {"parameters": f"num_ctx {value}"},
    )
    for listing in listings:
        entry = entry_of(listing, "m")
        found = (
            *(served_in(entry), trained_in(entry), slot_in(listing)),
            *(loaded_in(listing, "m"), configured_in(listing)),
        )

        assert all(each is None or 256 <= each <= 100_000_000 for each in found)


@table(
    "asked",
    [
        *("Fri, 31 Dec 99999999999999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 +2359"),
        *("9" * 400, "1e400", "nan", "-5", "soon", ""),
    ],
)
def test_whatever_a_server_asks_to_wait_is_a_time_or_nothing(asked: str) -> None:
    """A date that no calendar has was an error that nobody expected."""
    wait_s = retry_after_s({"retry-after": asked, "date": "Sun, 22 Nov 2026 08:00:00 GMT"})

    assert wait_s is None or 0 <= wait_s < inf


@table(
    ("asked_s", "paused_s"),
    [(3, 3), (-1, 0), (10.0**300, QUIET_MAX_S), (inf, QUIET_MAX_S), (nan, 0)],
)
def test_no_platform_silences_a_bot_for_good(asked_s: float, paused_s: float) -> None:
    """Added to the present, it has to be a moment that there is."""
    assert NotSentError(retry_after_s=asked_s).retry_after_s == paused_s


def test_a_page_of_open_brackets_is_read_at_once() -> None:
    """64 KiB of them held the event loop for four seconds, a megabyte would for a quarter hour."""
    refusal = read_refusal(b"<" * 1024 * 1024)

    assert len(refusal.message) < 1000
    assert isinstance(error_for(502, refusal, {}, "here"), ModelTransientError)
