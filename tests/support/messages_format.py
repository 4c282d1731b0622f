"""Anthropic's Messages API, as a model API on loopback sends it, and what it refuses.

Sources, read 2026-11-22 (that of compaction 2026-11-26, and the types of the package `anthropic`): https://platform.claude.com/docs/en/build-with-claude/streaming,
https://platform.claude.com/docs/en/api/messages and /errors,
https://platform.claude.com/docs/en/build-with-claude/prompt-caching and /compaction-on-demand.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
from support.answers import Answer, in_pieces

LOOKBACK_BLOCKS = 20  # how far before a mark the API looks for what it has in its cache
_ID = re.compile(r"[a-zA-Z0-9_-]+")


def chunks(answer: Answer) -> list[bytes]:
    """Return the events; the first chunk has all that comes before and with the first piece."""
    lead = _start(answer)
    index = 0
    for block in (*answer.blocks, *_thoughts(answer)):
        lead += _whole_block(index, block)
        index += 1
    text = index
    if answer.all_pieces:
        lead += _event("content_block_start", index=text, content_block=_EMPTY_TEXT)
        lead += _event("ping")
    made, is_over = in_pieces(
        answer,
        piece=lambda piece: _event(
            "content_block_delta", index=text, delta={"type": "text_delta", "text": piece}
        ),
        garbage=b'event: content_block_delta\ndata: {"type":"content_bl\n\n',
        error=lambda error: _event("error", error={"type": "api_error", **error}),
    )
    if is_over:
        return [lead + made[0], *made[1:]] if made else made
    if answer.all_pieces:
        made.append(_event("content_block_stop", index=text))
        index += 1
    for call in answer.calls:
        block = {"type": "tool_use", "id": call.call_id, "name": call.name, "input": {}}
        made.append(_event("content_block_start", index=index, content_block=block))
        made += [
            _event(
                "content_block_delta",
                index=index,
                delta={
                    "type": "input_json_delta",
                    "partial_json": call.arguments[at : at + 5],
                },
            )
            for at in range(0, len(call.arguments), 5)
        ]
        made.append(_event("content_block_stop", index=index))
        index += 1
    made.append(
        _event(
            "message_delta",
            delta={"stop_reason": _stop_reason(answer), "stop_sequence": None},
            usage={"output_tokens": answer.output_tokens},
        )
    )
    made.append(_event("message_stop"))
    return [lead + made[0], *made[1:]]


def completion(answer: Answer) -> bytes:
    """Return the body of an answer that is not streamed."""
    text = "".join(answer.all_pieces)
    content = [
        *answer.blocks,
        *_thoughts(answer),
        *([{"type": "text", "text": text}] if text else []),
        *(
            {
                "type": "tool_use",
                "id": call.call_id,
                "name": call.name,
                "input": orjson.loads(call.arguments),
            }
            for call in answer.calls
        ),
    ]
    return orjson.dumps(
        {
            **_message(answer),
            "content": content,
            "stop_reason": _stop_reason(answer),
            "usage": {**_usage(answer), "output_tokens": answer.output_tokens},
        }
    )


def refused(
    status: int, kind: str, message: str, *, headers: Mapping[str, str] | None = None
) -> Answer:
    """Return a refusal in Anthropic's form."""
    error = {"type": kind, "message": message}
    body = {"type": "error", "error": error, "request_id": "req_011body"}
    return Answer(status=status, headers=headers or {}, body=orjson.dumps(body))


def overflow(window_tokens: int = 200_000) -> Answer:
    """Return the refusal of a request that is too long."""
    message = f"prompt is too long: {window_tokens + 10_000} tokens > {window_tokens} maximum"
    return refused(400, "invalid_request_error", message)


def overloaded() -> Answer:
    """Return what the API says when it has too much to do."""
    return refused(529, "overloaded_error", "Overloaded")


def problem(body: Any) -> Answer | None:
    """Return what a request is refused with that the documents forbid."""
    found = next(_problems(_in_blocks(body)), None)
    return refused(400, "invalid_request_error", found) if found else None


class PromptCache:
    """The cache of prompts, as the documents describe it.

    What a mark ends is written. It is read where a later request begins with the same, not further
    than 20 blocks before one of its marks.
    """

    def __init__(self) -> None:
        self._written: set[bytes] = set()

    def usage(self, body: Any) -> tuple[int, int, int]:
        """Take a request; return bytes read from the cache, written to it, and neither."""
        prefixes: list[tuple[bytes, int, bool]] = []
        digest, size = hashlib.sha256(), 0
        for block, is_marked in _blocks(_in_blocks(body)):
            digest.update(block)
            size += len(block)
            prefixes.append((digest.digest(), size, is_marked))
        read = 0
        for place, (_, _, is_marked) in enumerate(prefixes):
            if is_marked:
                near = prefixes[max(0, place + 1 - LOOKBACK_BLOCKS) : place + 1]
                read = max([read, *(s for key, s, _ in near if key in self._written)])
        marked = [(key, s) for key, s, is_marked in prefixes if is_marked]
        self._written.update(key for key, _ in marked)
        end = max([read, *(s for _, s in marked)])
        return read, end - read, size - end


_EMPTY_TEXT = {"type": "text", "text": ""}


def _problems(body: Any) -> Iterator[str]:
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        yield "max_tokens: Field required"
    thinking = body.get("thinking") or {}
    if thinking.get("type") == "enabled":
        budget = thinking["budget_tokens"]
        if not 1024 <= budget < body["max_tokens"]:
            yield "`max_tokens` must be greater than `thinking.budget_tokens`"
    if thinking and body.get("temperature", 1) != 1:
        yield ("`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.")
    if not 0 <= body.get("temperature", 1) <= 1:
        yield "temperature: range: 0..1"
    marks = sum(is_marked for _, is_marked in _blocks(body))
    if marks > 4:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {marks}."
    for block in body.get("system") or ():
        if not block["text"].strip():
            yield "system: text content blocks must be non-empty"
    compacts = body.get("compaction")
    if compacts and (compacts.get("type") != "summarize" or "context_management" in body):
        yield "compaction: type is `summarize`, and it goes without `context_management`"
    yield from _message_problems(
        body["messages"], has_tools=bool(body.get("tools")), compacts=bool(compacts)
    )


def _message_problems(messages: list[Any], *, has_tools: bool, compacts: bool) -> Iterator[str]:
    if not messages:
        yield "messages: at least one message is required"
    ids: set[str] = set()
    open_calls: list[str] = []
    first = messages[0]["content"][0] if messages and messages[0]["content"] else {}
    if first.get("type") == "compaction":  # it stands in the place of all that was before
        if not first.get("content") or not str(first.get("signature")).startswith("signed-"):
            yield "messages.0.content.0: the compaction block's `signature` does not verify"
        messages = messages[1:]
    if any(b["type"] == "compaction" for m in messages for b in m["content"]):
        yield "the compaction block is not the first block of the conversation"
    for number, message in enumerate(messages):
        where = f"messages.{number}"
        if message["role"] != ("user", "assistant")[number % 2]:
            yield 'messages: roles must alternate between "user" and "assistant"'
        if not message["content"]:
            yield f"{where}: all messages must have non-empty content"
        results = [b["tool_use_id"] for b in message["content"] if b["type"] == "tool_result"]
        firsts = [b["type"] for b in message["content"][: len(results)]]
        if sorted(results) != sorted(open_calls) or firsts != ["tool_result"] * len(results):
            yield (
                f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after"
            )
        open_calls = [b["id"] for b in message["content"] if b["type"] == "tool_use"]
        for call_id in open_calls:
            if call_id in ids:
                yield f"{where}: `tool_use` ids must be unique"
            if not _ID.fullmatch(call_id):
                yield f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
            ids.add(call_id)
        for block in message["content"]:
            if block["type"] == "text" and not block["text"].strip():
                yield f"{where}: text content blocks must contain non-whitespace text"
            if block["type"] == "tool_use" and not isinstance(block["input"], dict):
                yield f"{where}.tool_use.input: Input should be a valid dictionary"
            if block["type"] == "thinking" and not block["signature"].startswith("signed-"):
                yield f"{where}.content.0: Invalid `signature` in `thinking` block"
    if messages and messages[-1]["role"] == "assistant" and not compacts:
        yield "This model does not support assistant message prefill."
    if ids and not has_tools:
        yield "Requests which include `tool_use` or `tool_result` blocks must define tools."


def _in_blocks(body: Any) -> Any:
    """Return a request in which every text is a block, as the documents say it is meant."""

    def listed(content: Any) -> Any:
        return [{"type": "text", "text": content}] if isinstance(content, str) else content

    messages = [{**m, "content": listed(m["content"])} for m in body["messages"]]
    return {**body, "system": listed(body.get("system") or []), "messages": messages}


def _blocks(body: Any) -> Iterator[tuple[bytes, bool]]:
    """Yield tools, system and messages block by block, and whether each carries a mark."""
    for block in (*(body.get("tools") or ()), *(body.get("system") or ())):
        yield _bare(block), "cache_control" in block
    for message in body["messages"]:
        for block in message["content"]:
            yield message["role"].encode() + _bare(block), "cache_control" in block


def _bare(block: Mapping[str, Any]) -> bytes:
    return orjson.dumps({k: v for k, v in block.items() if k != "cache_control"})


def _thoughts(answer: Answer) -> list[dict[str, Any]]:
    if not answer.reasoning:
        return []
    return [{"type": "thinking", "thinking": answer.reasoning, "signature": "signed-1"}]


def _whole_block(index: int, block: Mapping[str, Any]) -> bytes:
    """Return a block as it is streamed: begun empty, then its parts."""
    begun, deltas = dict(block), list[dict[str, Any]]()
    match block["type"]:
        case "thinking":
            half = len(block["thinking"]) // 2
            begun |= {"thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": block["thinking"][:half]},
                {"type": "thinking_delta", "thinking": block["thinking"][half:]},
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        case "text":
            begun |= {"text": ""}
            deltas = [{"type": "text_delta", "text": block["text"]}]
        case "tool_use":
            begun |= {"input": {}}
            deltas = [
                {"type": "input_json_delta", "partial_json": orjson.dumps(block["input"]).decode()}
            ]
        case "compaction":
            begun |= {"content": None}
            deltas = [{"type": "compaction_delta", "content": block["content"]}]
        case _:
            pass
    parts = [_event("content_block_start", index=index, content_block=begun)]
    parts += [_event("content_block_delta", index=index, delta=delta) for delta in deltas]
    return b"".join([*parts, _event("content_block_stop", index=index)])


def _start(answer: Answer) -> bytes:
    message = {**_message(answer), "content": [], "stop_reason": None, "usage": _usage(answer)}
    return _event("message_start", message=message)


def _message(answer: Answer) -> dict[str, Any]:
    return {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "stop_sequence": None,
    }


def _usage(answer: Answer) -> dict[str, Any]:
    """Return the usage as it begins: what the cache knew stands apart from `input_tokens`."""
    return {
        "input_tokens": answer.input_tokens - answer.cached_tokens - answer.cache_written_tokens,
        "cache_creation_input_tokens": answer.cache_written_tokens,
        "cache_read_input_tokens": answer.cached_tokens,
        "output_tokens": 1,
        "service_tier": "standard",
    }


def _stop_reason(answer: Answer) -> str:
    return answer.finish_reason or ("tool_use" if answer.calls else "end_turn")


def _event(kind: str, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps({"type": kind, **fields}))
