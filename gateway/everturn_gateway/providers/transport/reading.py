"""One model reply out of the chunks of a chat-completions stream. Pure: no IO.

A reply counts only when the provider said why it ended: a stream that merely stops is an error.

Sources: https://platform.openai.com/docs/api-reference/chat-streaming (read 2026-11-21);
`reasoning_content` is DeepSeek's, llama.cpp's and vLLM's name, `reasoning` OpenRouter's and
Ollama's; `extra_content`, with the signature of a thought, is Gemini's,
https://ai.google.dev/gemini-api/docs/thought-signatures; `reasoning_details` and `cost` are
OpenRouter's, https://openrouter.ai/docs/use-cases/reasoning-tokens and /usage-accounting (read
2026-11-22); `images`, with addresses that hold them, as well, https://openrouter.ai/docs/features/multimodal/image-generation.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct, field

from everturn_actors.errors import ModelTransientError
from everturn_actors.model import Reply, Usage
from everturn_gateway.providers.transport.model_errors import error_in_stream, refusal_in
from everturn_gateway.providers.transport.opaque import pack
from everturn_gateway.providers.transport.parts import (
    CallParts,
    Reader,
    count_of,
    named,
)

_NANODOLLARS: Final = 1_000_000_000
_DOLLARS_MAX: Final = 1_000.0  # of one call; sums of it fit everywhere
_GROWING: Final = ("reasoning.text", "reasoning.summary")  # details that come in pieces
_TEXTS: Final = ("text", "summary")  # their fields that grow


class _Detail(Struct, kw_only=True):
    """A part of OpenRouter's `reasoning_details`."""

    fields: dict[str, object]
    pieces: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    "What its texts grow by; joined at the end, since adding to a long text copies it."

    def goes_on_with(self, piece: dict[str, object]) -> bool:
        """Whether a piece belongs to the same thought."""
        own = self.fields.get("type"), self.fields.get("index")
        return own == (piece.get("type"), piece.get("index"))

    def take(self, piece: dict[str, object]) -> None:
        """Add a piece."""
        is_first, grows = not self.fields, piece.get("type") in _GROWING
        for name, value in piece.items():
            if grows and name in _TEXTS and isinstance(value, str):
                self.pieces.setdefault(name, []).append(value)
            elif value is not None or is_first:
                self.fields[name] = value

    def whole(self) -> dict[str, object]:
        """Return it as it goes back."""
        return {**self.fields, **{name: "".join(each) for name, each in self.pieces.items()}}


class ReplyReader(Reader):
    """Collects one reply of a chat-completions stream."""

    def __init__(
        self, *, where: str, model: str, on_text: Callable[[str], None], origin: str = ""
    ) -> None:
        super().__init__(where=where, model=model, on_text=on_text, origin=origin)
        self._calls: list[CallParts] = []
        self._by_index: dict[int, CallParts] = {}
        self._extra: object = None
        self._details: list[_Detail] = []
        self._usage = Usage()

    @property
    def _has_parts(self) -> bool:
        return bool(self._calls)

    def _take(self, name: bytes, data: bytes) -> str | None:
        if data == b"[DONE]":
            self.done = True
            return None
        text: str | None = None
        chunk = self._parts.parsed(data)
        if name == b"error" or chunk.get("error") or chunk.get("object") == "error":
            raise error_in_stream(refusal_in(chunk), self._where)
        for choice in chunk.get("choices") or ():
            if not choice.get("index"):
                text = self._take_choice(choice)
        usage = chunk.get("usage")
        if usage:
            self._usage = _usage(usage)
        if not self._parts.text_chars and chunk.get("model"):
            self._model = named(chunk["model"])
        return text

    def _reply(self) -> Reply:
        if self._stop_reason == "error":
            msg = f"{self._where}: the model stopped with an error"
            raise ModelTransientError(msg)
        return Reply(
            text=self._parts.text,
            reasoning=self._parts.reasoning,
            calls=self._parts.calls(self._calls),
            usage=self._usage,
            stop_reason=self._stop_reason,
            model=self._model,
            opaque=self._opaque(),
            images=self.images.made,
            lost_images=self.images.lost,
        )

    def _opaque(self) -> str:
        """Return what has to come back with the calls; a reply without any needs nothing."""
        extras = [call.extra for call in self._calls]
        kept = {
            **({"calls": extras} if any(extras) else {}),
            **({"extra": self._extra} if self._extra else {}),
            **({"details": [each.whole() for each in self._details]} if self._details else {}),
        }
        return pack(self._origin, self._asked, kept) if kept and self._calls else ""

    def _take_choice(self, choice: dict[str, object]) -> str | None:
        # A server that was asked to stream and does not sends one `message` instead.
        delta: Any = choice.get("delta") or choice.get("message") or {}
        if reason := choice.get("finish_reason"):
            self._stop_reason = named(reason)
        if len(delta) == 1 and type(delta.get("content")) is str:
            text: str = delta["content"]  # as nearly every chunk comes: nothing else to look for
            return text
        reasoning: object = delta.get("reasoning_content") or delta.get("reasoning")
        if reasoning and isinstance(reasoning, str):
            self._parts.think(reasoning)
        for detail in delta.get("reasoning_details") or ():
            self._take_detail(detail)
        for position, piece in enumerate(delta.get("tool_calls") or ()):
            self._take_call(piece, position)
        if extra := delta.get("extra_content"):
            self._parts.count_part(extra)
            self._extra = extra
        if images := delta.get("images"):
            self._parts.images.take_all(images)
        content: Any = delta.get("content") or delta.get("refusal")
        if content is None or isinstance(content, str):
            return content
        parts: list[Any] = content
        self._parts.images.take_all([each for each in parts if each.get("type") == "image_url"])
        return "".join(str(part.get("text") or "") for part in parts)

    def _take_detail(self, piece: dict[str, object]) -> None:
        """Join the pieces of one thought; the others stay as they are, in their order."""
        self._parts.count_part(piece)
        kind, last = piece.get("type"), self._details[-1] if self._details else None
        if last is None or kind not in _GROWING or not last.goes_on_with(piece):
            last = _Detail(fields={})
            self._details.append(last)
        last.take(piece)

    def _take_call(self, piece: dict[str, object], position: int) -> None:
        call_id, index = str(piece.get("id") or ""), piece.get("index")
        if not isinstance(index, int):
            # Without an index: an id begins a call, a piece without one goes on with the last.
            index = position if call_id or not self._calls else None
        call = self._calls[-1] if index is None else self._by_index.get(index)
        if call is None or (call_id and call.call_id and call_id != call.call_id):
            # Some servers number every parallel call 0: a new id is a new call.
            call = CallParts()
            self._calls.append(call)
            self._parts.count_part(call_id)
        if index is not None:
            self._by_index[index] = call
        call.call_id = call.call_id or call_id
        if extra := piece.get("extra_content"):
            self._parts.count_part(extra)
            call.extra = extra
        function: Any = piece.get("function") or {}
        call.name = self._parts.tool_name(call.name + str(function.get("name") or ""))
        arguments: object = function.get("arguments") or ""
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments)
        self._parts.count(len(arguments))
        call.arguments.append(arguments)


def _usage(reported: dict[str, object]) -> Usage:
    details: Any = reported.get("prompt_tokens_details") or {}
    return Usage(
        input_tokens=count_of(reported.get("prompt_tokens")),
        output_tokens=count_of(reported.get("completion_tokens")),
        cached_tokens=count_of(
            details.get("cached_tokens") or reported.get("prompt_cache_hit_tokens")
        ),
        cache_written_tokens=count_of(details.get("cache_write_tokens")),
        cost_nanodollars=_cost(reported),
    )


def _cost(reported: dict[str, object]) -> int:
    """Return what OpenRouter charges; with a key of one's own, also what its provider charges."""
    details: Any = reported.get("cost_details") or {}
    own = details.get("upstream_inference_cost") if reported.get("is_byok") else 0
    return round((_dollars(reported.get("cost")) + _dollars(own)) * _NANODOLLARS)


def _dollars(value: object) -> float:
    """Return what is said to be a price, within reason; 0 for what is none."""
    if not isinstance(value, int | float) or not value > 0:  # NaN is not, either
        return 0
    return min(value, _DOLLARS_MAX)
