"""Ollama's `/api/chat`, as a model API on loopback sends it.

Sources, read 2026-11-22: https://docs.ollama.com/api/chat; refusals as the server words them.
"""

from __future__ import annotations

from typing import Any

import orjson
from support.answers import Answer, in_pieces

CREATED = "2026-11-22T10:00:00.123456789Z"


def chunks(answer: Answer) -> list[bytes]:
    """Return the lines: thoughts, one for each piece of the text, calls, and what ends it."""
    made, is_over = in_pieces(
        answer,
        piece=lambda text: _line(answer, {"content": text}),
        garbage=b'{"model":"fake-1","mess\n',
        error=lambda error: orjson.dumps({"error": error["message"]}) + b"\n",
    )
    if is_over:
        return made
    if answer.reasoning:
        made.insert(0, _line(answer, {"content": "", "thinking": answer.reasoning}))
    made += [_line(answer, {"content": "", "tool_calls": [_call(c)]}) for c in answer.calls]
    made.append(orjson.dumps(_last(answer, "")) + b"\n")
    return made


def completion(answer: Answer) -> bytes:
    """Return the body of an answer that is not streamed."""
    last = _last(answer, "".join(answer.all_pieces))
    if answer.calls:
        last["message"]["tool_calls"] = [_call(call) for call in answer.calls]
    return orjson.dumps(last)


def refused(status: int, message: str) -> Answer:
    """Return a refusal in Ollama's form."""
    return Answer(status=status, body=orjson.dumps({"error": message}))


def overflow(window_tokens: int = 4096) -> Answer:
    """Return the refusal of a request that is too long, which quotes llama.cpp's whole body."""
    said = {
        "code": 400,
        "message": (
            f"request (9031 tokens) exceeds the available context size ({window_tokens} tokens),"
            " try increasing it"
        ),
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 9031,
        "n_ctx": window_tokens,
    }
    return refused(400, orjson.dumps({"error": said}).decode())


def problem(body: Any) -> Answer | None:
    """Return what a request is refused with that Ollama could not read."""
    for message in body["messages"]:
        for call in message.get("tool_calls") or ():
            if not isinstance(call["function"]["arguments"], dict):
                return refused(400, "json: cannot unmarshal string into Go struct field arguments")
        if not isinstance(message["content"], str):
            return refused(400, "json: cannot unmarshal array into Go struct field content")
    return None


def _line(answer: Answer, message: dict[str, Any]) -> bytes:
    line = {
        "model": answer.model,
        "created_at": CREATED,
        "message": {"role": "assistant", **message},
        "done": False,
    }
    return orjson.dumps(line) + b"\n"


def _call(call: Any) -> dict[str, Any]:
    known = {"id": call.call_id} if call.call_id else {}
    return {
        **known,
        "function": {"index": 0, "name": call.name, "arguments": orjson.loads(call.arguments)},
    }


def _last(answer: Answer, content: str) -> dict[str, Any]:
    return {
        "model": answer.model,
        "created_at": CREATED,
        "message": {"role": "assistant", "content": content},
        "done": True,
        "done_reason": answer.finish_reason or "stop",
        "total_duration": 4_883_583_458,
        "load_duration": 1_334_875,
        "prompt_eval_count": answer.input_tokens,
        "prompt_eval_cached_count": answer.cached_tokens,
        "prompt_eval_duration": 342_546_000,
        "eval_count": answer.output_tokens,
        "eval_duration": 4_535_599_000,
    }
