"""OpenAI's chat completions, as a model API on loopback sends them.

Source: https://platform.openai.com/docs/api-reference/chat-streaming (read 2026-11-21).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from support.answers import Answer, in_pieces

from everturn_actors.model import ToolCall


def chunks(answer: Answer) -> list[bytes]:
    """Return the events: one for each piece of the text, what ends it, usage, and [DONE]."""
    made, is_over = in_pieces(
        answer,
        piece=lambda text: _delta(answer, {"content": text}),
        garbage=b'data: {"choices":[{"delta":{"cont\n\n',
        error=lambda error: _event({"error": error}),
    )
    if is_over:
        return made
    if answer.reasoning:
        made.insert(0, _delta(answer, {"reasoning_content": answer.reasoning}))
    for index, call in enumerate(answer.calls):
        made.extend(_call_chunks(answer, index, call))
    made.append(_delta(answer, {}, finish_reason=_finish_reason(answer)))
    made.append(_event({**_frame(answer), "choices": [], "usage": _usage(answer)}))
    made.append(b"data: [DONE]\n\n")
    return made


def _call_chunks(answer: Answer, index: int, call: ToolCall) -> list[bytes]:
    """Return a call as OpenAI streams it: its name first, its arguments in fragments."""
    begin: dict[str, Any] = {
        "id": call.call_id,
        "type": "function",
        "function": {"name": call.name, "arguments": ""},
    }
    fragments = [call.arguments[at : at + 5] for at in range(0, len(call.arguments), 5)]
    return [
        _delta(answer, {"tool_calls": [{"index": index, **part}]})
        for part in (begin, *({"function": {"arguments": piece}} for piece in fragments))
    ]


def completion(answer: Answer) -> bytes:
    """Return the body of an answer that is not streamed."""
    message: dict[str, Any] = {"role": "assistant", "content": "".join(answer.all_pieces)}
    if answer.calls:
        message["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in answer.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(answer)}
    frame = {**_frame(answer), "object": "chat.completion"}
    return orjson.dumps({**frame, "choices": [choice], "usage": _usage(answer)})


def _delta(answer: Answer, delta: Mapping[str, Any], *, finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return _event({**_frame(answer), "choices": [choice]})


def _event(value: Mapping[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"


def _frame(answer: Answer) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_760_000_000,
        "model": answer.model,
        "system_fingerprint": "fp_1",
    }


def _finish_reason(answer: Answer) -> str:
    return answer.finish_reason or ("tool_calls" if answer.calls else "stop")


def _usage(answer: Answer) -> dict[str, Any]:
    return {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
    }
