"""OpenAI's Responses API, as a model API on loopback sends it, and what it refuses.

Sources, read 2026-11-26: https://developers.openai.com/api/reference/resources/responses and
/streaming-events, https://developers.openai.com/api/docs/guides/compaction, and the types of the
package `openai` 3.54, to which every event is held in the tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson
from support.answers import Answer, in_pieces

_ENCRYPTED = "enc-"
"With what everything begins that this API encrypted; it refuses anything else."


def compacted(name: str = "1") -> Mapping[str, Any]:
    """Return the item that stands for a conversation."""
    return {"type": "compaction", "id": f"cmp_{name}", "encrypted_content": f"{_ENCRYPTED}{name}"}


def chunks(answer: Answer) -> list[bytes]:
    """Return the events; the first chunk has all that comes before and with the first piece."""
    events = _Events()
    begun = {**_response(answer, ()), "status": "in_progress", "usage": None}
    lead = events.of("response.created", response=begun)
    lead += events.of("response.in_progress", response=begun)
    items = _items(answer)
    text = "".join(answer.all_pieces)
    place = sum(item["type"] in {"reasoning", "compaction"} for item in items) if text else 0
    for number, item in enumerate(items[:place]):
        lead += _whole(events, number, item)
    about = {"item_id": "msg_1", "output_index": place, "content_index": 0}
    if text:
        empty = {**items[place], "content": [], "status": "in_progress"}
        lead += events.of("response.output_item.added", output_index=place, item=empty)
        part = {"type": "output_text", "text": "", "annotations": []}
        lead += events.of("response.content_part.added", **about, part=part)
    made, is_over = in_pieces(
        answer,
        piece=lambda piece: events.of(
            "response.output_text.delta", **about, delta=piece, logprobs=[]
        ),
        garbage=b'event: response.output_text.delta\ndata: {"type":"response.outp\n\n',
        error=lambda error: events.of("error", **{"code": "server_error", "param": None, **error}),
    )
    if is_over:
        return [lead + made[0], *made[1:]] if made else made
    if text:
        done = events.of("response.output_text.done", **about, text=text, logprobs=[])
        done += events.of("response.content_part.done", **about, part=items[place]["content"][0])
        done += events.of("response.output_item.done", output_index=place, item=items[place])
        made.append(done)
    rest = range(place + bool(text), len(items))
    made += [_whole(events, number, items[number]) for number in rest]
    whole = _response(answer, items)
    made.append(events.of(f"response.{whole['status']}", response=whole))
    return [lead + made[0], *made[1:]]


def completion(answer: Answer) -> bytes:
    """Return the body of an answer that is not streamed."""
    return orjson.dumps(_response(answer, _items(answer)))


def refused(message: str, *, code: str | None = None, param: str | None = None) -> Answer:
    """Return a refusal in OpenAI's form."""
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return Answer(status=400, body=orjson.dumps({"error": error}))


def problem(body: Any) -> Answer | None:
    """Return what a request is refused with that the documents forbid."""
    if isinstance(body["input"], str):
        body = {**body, "input": [{"role": "user", "content": body["input"]}]}
    for number, item in enumerate(body["input"]):
        encrypted = item.get("encrypted_content")
        if encrypted is not None and not encrypted.startswith(_ENCRYPTED):
            return refused(
                f"The encrypted content {encrypted[:4]}... could not be verified.",
                code="invalid_encrypted_content",
            )
        unknown = item.keys() & {"status", "created_by"}
        if unknown:
            name = f"input[{number}].{min(unknown)}"
            return refused(f"Unknown parameter: '{name}'.", param=name, code="unknown_parameter")
    found = next(_problems(body), None)
    return refused(found) if found else None


def _problems(body: Any) -> Iterator[str]:
    if body.get("store") is not False:
        yield "Nothing of these tests may be stored."
    if body.get("max_output_tokens", 16) < 16:
        yield "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16."
    known: set[str] = set()
    answered: set[str] = set()
    last = len(body["input"]) - 1
    if last < 0:
        yield "Missing required parameter: 'input'."
    for number, item in enumerate(body["input"]):
        match item.get("type", "message"):
            case "function_call":
                known.add(item["call_id"])
            case "function_call_output":
                if item["call_id"] not in known:
                    yield f"No tool call found for the output with call_id {item['call_id']}."
                answered.add(item["call_id"])
            case "reasoning":
                after = body["input"][number + 1] if number < last else {}
                if after.get("type", "message") == "compaction_trigger" or number == last:
                    yield f"Item '{item['id']}' was provided without its required following item."
            case "compaction_trigger":
                if number != last:
                    yield "A compaction trigger must be the final input item."
            case "message":
                if "content" not in item:
                    yield f"Missing required parameter: 'input[{number}].content'."
            case _:
                pass
    for call_id in sorted(known - answered):
        yield f"No tool output found for function call {call_id}."


class _Events:
    """Numbers the events of one response."""

    def __init__(self) -> None:
        self._number = -1

    def of(self, kind: str, **fields: Any) -> bytes:
        self._number += 1
        event = {"type": kind, "sequence_number": self._number, **fields}
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps(event))


def _items(answer: Answer) -> list[dict[str, Any]]:
    text = "".join(answer.all_pieces)
    items = [dict(each) for each in answer.blocks]
    if answer.reasoning:
        summary = [{"type": "summary_text", "text": answer.reasoning}]
        thought = {"type": "reasoning", "id": "rs_1", "summary": summary}
        items.append({**thought, "encrypted_content": f"{_ENCRYPTED}{answer.reasoning}"})
    if text:
        part = {"type": "output_text", "text": text, "annotations": []}
        message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
        phase = "commentary" if answer.calls else "final_answer"
        items.append({**message, "content": [part], **({"phase": phase} if items else {})})
    items += [
        {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": call.call_id,
            "name": call.name,
            "arguments": call.arguments,
            "status": "completed",
        }
        for number, call in enumerate(answer.calls)
    ]
    return items


def _whole(events: _Events, place: int, item: dict[str, Any]) -> bytes:
    """Return an item as it is streamed: begun empty, then its parts."""
    begun, made = dict(item), b""
    about = {"item_id": item["id"], "output_index": place}
    match item["type"]:
        case "function_call":
            begun |= {"arguments": "", "status": "in_progress"}
            text = item["arguments"]
            for at in range(0, len(text), 5):
                made += events.of(
                    "response.function_call_arguments.delta", **about, delta=text[at : at + 5]
                )
            made += events.of(
                "response.function_call_arguments.done",
                **about,
                arguments=text,
                name=item["name"],
            )
        case "reasoning":
            begun |= {"summary": [], "encrypted_content": "enc"}  # not whole yet
            for number, part in enumerate(item["summary"]):
                made += events.of(
                    "response.reasoning_summary_text.delta",
                    **about,
                    summary_index=number,
                    delta=part["text"],
                )
        case "compaction":
            begun |= {"encrypted_content": ""}
            made += events.of("response.compaction.compacting", **about)
        case _:
            pass
    added = events.of("response.output_item.added", output_index=place, item=begun)
    return added + made + events.of("response.output_item.done", output_index=place, item=item)


def _response(answer: Answer, items: Any) -> dict[str, Any]:
    is_cut = answer.finish_reason in {"length", "max_output_tokens"}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_760_000_000,
        "status": "incomplete" if is_cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "error": None,
        "model": answer.model,
        "output": list(items),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": answer.input_tokens,
            "input_tokens_details": {
                "cached_tokens": answer.cached_tokens,
                "cache_write_tokens": answer.cache_written_tokens,
            },
            "output_tokens": answer.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": answer.input_tokens + answer.output_tokens,
        },
    }
