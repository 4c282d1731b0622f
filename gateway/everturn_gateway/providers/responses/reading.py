"""One model reply out of the events of OpenAI's Responses API. Pure: no IO.

Texts come in pieces and are handed on at once; everything else is taken of its item when that is
whole. A reply counts only when the provider said how it ended.

Source: https://developers.openai.com/api/reference/resources/responses/streaming-events (read
2026-11-26), and the types of the package `openai` 3.54. Events of unknown types are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from everturn_actors.json_values import as_list, as_object
from everturn_actors.model import Reply, Usage
from everturn_gateway.providers.transport.model_errors import error_in_stream, refusal_in
from everturn_gateway.providers.transport.opaque import pack
from everturn_gateway.providers.transport.parts import (
    PART_CHARS,
    CallParts,
    Reader,
    count_of,
    named,
    piece_of,
)

_ENDS: Final = ("response.completed", "response.incomplete", "response.failed")
_COMPACTION: Final = "compaction"
_THOUGHT: Final = "reasoning"
# What goes back of an item; the rest says how it came about, and is refused in a request.
_KEPT: Final = ("type", "id", "summary", "content", "encrypted_content")


class ReplyReader(Reader):
    """Collects one reply of a stream of responses. `origin` gets back what is encrypted."""

    def __init__(
        self,
        *,
        where: str,
        model: str,
        on_text: Callable[[str], None],
        origin: str = "",
        compacts: bool = False,
    ) -> None:
        super().__init__(where=where, model=model, on_text=on_text, origin=origin)
        self._compacts = compacts
        "Whether it was asked for what stands for the conversation: what is said beside it is none."
        self._calls: list[CallParts] = []
        self._begins: dict[object, int] = {}
        "Where the text of each message begins in that of the reply, by its place in the output."
        self._kept: list[dict[str, object]] = []
        "The items in their order, as they go back."
        self._has_items = False
        self._usage = Usage()

    @property
    def _has_parts(self) -> bool:
        return self._has_items

    def _take(self, name: bytes, data: bytes) -> str | None:
        if data == b"[DONE]":  # some servers end like a chat completion
            return None
        event = self._parts.parsed(data)
        match event.get("type"):
            case "response.output_text.delta" | "response.refusal.delta":
                self._begin_text(event.get("output_index"))
                return piece_of(event["delta"])
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                self._parts.think(piece_of(event["delta"]))
            case "response.output_item.added":
                self._has_items = True
            case "response.output_item.done":
                return self._take_item(event.get("output_index"), event["item"])
            case kind if kind in _ENDS:
                self._take_end(event["response"])
            case None if event.get("object") == "response":  # asked to stream, it does not
                for index, item in enumerate(event["output"]):
                    if text := self._take_item(index, item):
                        self._parts.say(text)
                self._take_end(event)
            case kind if kind == "error" or name == b"error" or event.get("error"):
                raise error_in_stream(refusal_in(event), self._where)
            case _:
                pass
        return None

    def _reply(self) -> Reply:
        calls = self._parts.calls(self._calls)
        return Reply(
            text="" if self._compacts else self._parts.text,
            reasoning=self._parts.reasoning,
            calls=calls,
            usage=self._usage,
            stop_reason="tool_calls"
            if calls and self._stop_reason == "stop"
            else self._stop_reason,
            model=self._model,
            opaque=self._opaque(),
            images=self.images.made,
            lost_images=self.images.lost,
        )

    def _opaque(self) -> str:
        """Return what has to come back: thoughts with the calls they led to, and what is named."""
        if self._compacts:
            compacted = [item for item in self._kept if item["type"] == _COMPACTION]
            return pack(self._origin, self._asked, {"items": compacted[-1:]}) if compacted else ""
        # The thought before an answer is read by nobody again.
        unread = {_COMPACTION} if self._calls else {_COMPACTION, _THOUGHT}
        kept = [item for item in self._kept if item["type"] not in unread]
        while kept and kept[-1]["type"] == _THOUGHT:  # one that nothing follows is refused
            kept.pop()
        is_needed = any(item["type"] == _THOUGHT or item.get("phase") for item in kept)
        return pack(self._origin, self._asked, {"items": kept}) if is_needed else ""

    def _begin_text(self, place: object) -> None:
        if place not in self._begins:
            self._parts.count(PART_CHARS)
            if self._parts.text_chars:  # what stood apart must not run together
                self._parts.say("\n\n")
            self._begins[place] = self._parts.text_chars

    def _take_item(self, place: object, item: dict[str, Any]) -> str | None:
        """Take an item that is whole; return its text where that did not come in pieces."""
        self._has_items = True
        match item["type"]:
            case "message":
                return self._take_message(place, item)
            case "function_call":
                name = self._parts.tool_name(str(item["name"]))
                arguments = piece_of(item.get("arguments") or "")
                self._parts.count_part(arguments)
                call = CallParts(call_id=named(item["call_id"]), name=name, arguments=[arguments])
                self._kept.append({"type": "call", "at": len(self._calls)})
                self._calls.append(call)
            case "image_generation_call":
                self._take_image(place, item)
            case "reasoning" | "compaction" if item.get("encrypted_content"):
                kept = {n: item[n] for n in _KEPT if item.get(n) is not None}
                self._parts.count_part(kept)
                if item["type"] == _THOUGHT:
                    kept.setdefault("summary", [])
                self._kept.append(kept)
            case _:
                pass
        return None

    def _take_image(self, place: object, item: Mapping[str, object]) -> None:
        if item.get("result"):
            self.images.take(item["result"])
        else:
            why = f"none came: its making ended as {named(item.get('status') or 'failed')!r}"
            self.images.lose(why, named(item.get("id") or place))

    def _take_message(self, place: object, item: dict[str, Any]) -> str | None:
        text = None
        if place not in self._begins:
            self._begin_text(place)
            parts = item.get("content") or ()
            text = "".join(str(each.get("text") or each.get("refusal") or "") for each in parts)
        begin = self._begins[place]
        end = self._parts.text_chars + len(text or "")
        phase = {"phase": named(item["phase"])} if item.get("phase") else {}
        if end > begin:
            self._kept.append({"type": "text", "begin": begin, "end": end, **phase})
        return text

    def _take_end(self, response: dict[str, Any]) -> None:
        if response.get("status") == "failed" or response.get("error"):
            raise error_in_stream(refusal_in(response.get("error") or {}), self._where)
        # Some servers send them with the end alone; the others once more.
        for place, item in enumerate(map(as_object, as_list(response.get("output")))):
            if item.get("type") == "image_generation_call":
                self._take_image(place, item)
        self._model = named(response.get("model") or self._model)
        self._usage = _usage(response.get("usage") or {})
        details: Any = response.get("incomplete_details") or {}
        why = named(details.get("reason") or "")
        is_cut = why == "max_output_tokens" or (response.get("status") == "incomplete" and not why)
        self._stop_reason = "length" if is_cut else why or "stop"
        self.done = True


def _usage(reported: dict[str, Any]) -> Usage:
    details: Any = reported.get("input_tokens_details") or {}
    return Usage(
        input_tokens=count_of(reported.get("input_tokens")),
        output_tokens=count_of(reported.get("output_tokens")),
        cached_tokens=count_of(details.get("cached_tokens")),
        cache_written_tokens=count_of(details.get("cache_write_tokens")),
    )
