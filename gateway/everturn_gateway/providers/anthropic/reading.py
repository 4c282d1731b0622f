"""One model reply out of the events of Anthropic's stream. Pure: no IO.

A reply counts only when the API said why it ended: a stream that merely stops is an error.

Source: https://platform.claude.com/docs/en/build-with-claude/streaming and
https://platform.claude.com/docs/en/api/messages (read 2026-11-22). Events of unknown types are
passed over, as those pages ask.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct, field

from everturn_actors.errors import ModelRefusedError
from everturn_actors.model import Reply, Usage
from everturn_gateway.providers.transport.encoding import dumps
from everturn_gateway.providers.transport.model_errors import error_in_stream, refusal_in
from everturn_gateway.providers.transport.opaque import pack
from everturn_gateway.providers.transport.parts import (
    CallParts,
    Reader,
    count_of,
    named,
    piece_of,
)

_STOP_REASONS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_USAGE: Final = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)
_COMPACTION: Final = "compaction"
_THOUGHTS: Final = ("thinking", "redacted_thinking")
_COUNTED: Final = ("text", "thinking")  # fields of a block that are counted where they are taken


class _Block(Struct):
    """One block of the reply, in the order in which they came."""

    kind: str
    begin: int = 0
    "Where a text begins in the text of the reply."
    end: int = 0
    call: CallParts | None = None
    thought: dict[str, object] | None = None
    "What is sent back as it is."
    pieces: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    "What its fields grow by."


class ReplyReader(Reader):
    """Collects one reply of Anthropic's stream. `origin` gets the thoughts back."""

    def __init__(
        self, *, where: str, model: str, on_text: Callable[[str], None], origin: str = ""
    ) -> None:
        super().__init__(where=where, model=model, on_text=on_text, origin=origin)
        self._blocks: list[_Block] = []
        self._by_index: dict[int, _Block] = {}
        self._reported: dict[str, int] = {}
        self._declined = ""
        self._compacted: dict[str, object] = {}
        "A summary that stands for the conversation, in the form in which it is sent back."

    @property
    def _has_parts(self) -> bool:
        return bool(self._blocks)

    def _take(self, name: bytes, data: bytes) -> str | None:
        event = self._parts.parsed(data)
        match event.get("type"):
            case "content_block_delta":
                return self._take_delta(event["index"], event["delta"])
            case "content_block_start":
                return self._take_block(event["index"], event["content_block"])
            case "message_start":
                message = event["message"]
                self._model = named(message.get("model") or self._model)
                self._take_usage(message.get("usage"))
            case "message_delta":
                self._take_usage(event.get("usage"))
                self._take_end(event["delta"])
            case "message_stop":
                self.done = True
            case "message":  # a server that was asked to stream and does not
                self._take_whole(event)
            case _ if name == b"error" or event.get("error"):
                raise error_in_stream(refusal_in(event), self._where)
            case _:
                pass
        return None

    def _reply(self) -> Reply:
        self._end_text()
        is_declined = self._stop_reason == "refusal"
        if is_declined and not self._parts.text_chars:
            why = f": {self._declined}" if self._declined else ""
            msg = f"{self._where}: the model declined to answer{why}"
            raise ModelRefusedError(msg)
        if self._compacted:
            return self._summary()
        # What a model was stopped at is not carried out.
        calls = [] if is_declined else [b.call for b in self._blocks if b.call]
        return Reply(
            text=self._parts.text,
            reasoning=self._parts.reasoning,
            calls=self._parts.calls(calls),
            usage=self._usage(),
            stop_reason=_STOP_REASONS.get(self._stop_reason, self._stop_reason),
            model=self._model,
            opaque=self._opaque() if calls else "",
        )

    def _summary(self) -> Reply:
        """Return the reply to a request for a summary; no `opaque` where it came to nothing."""
        text = self._compacted.get("content")
        is_whole = self._stop_reason == _COMPACTION and isinstance(text, str) and text.strip()
        return Reply(
            text=str(text or ""),
            usage=self._usage(),
            stop_reason=self._stop_reason,
            model=self._model,
            opaque=pack(self._origin, self._asked, self._compacted) if is_whole else "",
        )

    def _take_delta(self, index: int, delta: dict[str, object]) -> str | None:
        match delta["type"]:
            case "text_delta":
                return str(delta["text"])
            case "input_json_delta":
                call = self._by_index[index].call
                if call is not None:
                    piece = piece_of(delta["partial_json"])
                    self._parts.count(len(piece))
                    call.arguments.append(piece)
            case "thinking_delta":
                piece = piece_of(delta["thinking"])
                self._parts.think(piece)
                self._grow(index, "thinking", piece)
            case "signature_delta":
                piece = piece_of(delta["signature"])
                self._parts.count(len(piece))
                self._grow(index, "signature", piece)
            case "compaction_delta":  # whole, not a piece
                self._parts.count_part(delta)
                self._compacted |= {n: v for n, v in delta.items() if n != "type" and v is not None}
            case _:
                pass
        return None

    def _take_block(self, index: int, block: dict[str, Any]) -> str | None:
        kind = str(block["type"])
        self._end_text()
        self._parts.count_part({name: block[name] for name in block if name not in _COUNTED})
        taken = _Block(kind=kind, begin=self._parts.text_chars)
        text: str | None = None
        if kind == "text":
            if self._parts.text_chars:  # what stood apart must not run together
                self._parts.say("\n\n")
                taken.begin = self._parts.text_chars
            text = str(block.get("text") or "")
        elif kind == "tool_use":
            name = self._parts.tool_name(str(block["name"]))
            call = CallParts(call_id=str(block["id"]), name=name)
            if block.get("input"):
                call.arguments.append(dumps(block["input"]).decode())
            taken.call = call
        elif kind == _COMPACTION:
            self._compacted = {n: v for n, v in block.items() if v is not None}
        elif kind in _THOUGHTS:
            taken.thought = dict(block)
            if block.get("thinking"):
                self._parts.think(block["thinking"])
        self._blocks.append(taken)
        self._by_index[index] = taken
        return text

    def _end_text(self) -> None:
        if self._blocks and self._blocks[-1].kind == "text":
            self._blocks[-1].end = self._parts.text_chars

    def _grow(self, index: int, name: str, piece: str) -> None:
        self._by_index[index].pieces.setdefault(name, []).append(piece)

    def _take_end(self, delta: dict[str, object]) -> None:
        self._stop_reason = named(delta.get("stop_reason") or self._stop_reason)
        details: Any = delta.get("stop_details") or {}
        self._declined = str(details.get("explanation") or details.get("category") or "")

    def _take_whole(self, message: dict[str, Any]) -> None:
        self._model = named(message.get("model") or self._model)
        self._take_usage(message.get("usage"))
        for index, block in enumerate(message["content"]):
            if text := self._take_block(index, block):
                self._parts.say(text)
        self._take_end(message)
        self.done = True

    def _take_usage(self, reported: dict[str, object] | None) -> None:
        """Take what is reported; later numbers are totals and replace the earlier ones."""
        for name in _USAGE:
            value: object = (reported or {}).get(name)
            if isinstance(value, int):
                self._reported[name] = value

    def _usage(self) -> Usage:
        read = count_of(self._reported.get("cache_read_input_tokens"))
        written = count_of(self._reported.get("cache_creation_input_tokens"))
        return Usage(
            # The API counts what the cache did not know apart from what it did.
            input_tokens=count_of(self._reported.get("input_tokens")) + read + written,
            output_tokens=count_of(self._reported.get("output_tokens")),
            cached_tokens=read,
            cache_written_tokens=written,
        )

    def _opaque(self) -> str:
        """Return the blocks of a reply whose thoughts have to come back with its calls."""
        if not any(block.thought for block in self._blocks):
            return ""
        kept: list[dict[str, object]] = []
        calls = 0
        for block in self._blocks:
            if block.thought is not None:
                begun = block.thought
                grown = {n: str(begun.get(n) or "") + "".join(p) for n, p in block.pieces.items()}
                kept.append({**begun, **grown})
            elif block.call is not None:
                kept.append({"type": "call", "at": calls})
                calls += 1
            elif block.kind == "text" and block.end > block.begin:
                kept.append({"type": "text", "begin": block.begin, "end": block.end})
        return pack(self._origin, self._asked, kept)
