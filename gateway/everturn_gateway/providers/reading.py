"""One model reply out of the chunks of a chat-completions stream. Pure: no IO.

A reply counts only when the provider said why it ended: a stream that merely stops is an error.

Source: https://platform.openai.com/docs/api-reference/chat-streaming (read 2026-11-21);
`reasoning_content` is DeepSeek's, llama.cpp's and vLLM's name, `reasoning` OpenRouter's and
Ollama's.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from everturn_actors.errors import ModelTransientError, TruncatedStreamError
from everturn_actors.model import Reply, ToolCall, Usage
from everturn_gateway.providers.model_errors import error_in_stream, refusal_in

REPLY_LIMIT_CHARS = 4 * 1024 * 1024  # text and arguments of one reply; no model writes that much

_HIGH_SURROGATES: Final = ("\ud800", "\udbff")


@dataclass(slots=True)
class _Call:
    """A call whose pieces still arrive."""

    call_id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])


class ReplyReader:
    """Collects one reply; hands each piece of its text on at once.

    Errors it raises carry a text that is not masked yet and begins with `where`.
    """

    def __init__(self, *, where: str, model: str, on_text: Callable[[str], None]) -> None:
        self._where = where
        self._model = model
        self._on_text = on_text
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._usage = Usage()
        self._stop_reason = ""
        self._half = ""
        "The first half of a surrogate pair whose second half comes with the next chunk."
        self._size_chars = 0
        self.done = False
        "Whether the provider said that nothing more comes."

    @property
    def complete(self) -> bool:
        """Whether the reply itself has ended; usage may still follow."""
        return bool(self._stop_reason)

    @property
    def begun(self) -> bool:
        """Whether anything of a reply has arrived."""
        return bool(self._text or self._reasoning or self._calls or self._stop_reason)

    def take(self, name: bytes, data: bytes) -> None:
        """Take one event of the stream: its name and its data.

        Raises:
            ModelError: The provider reports one, or the chunk is not what it should be.
        """
        if data == b"[DONE]":
            self.done = True
            return
        text: str | None = None
        try:
            chunk: Any = self._parsed(data)
            if name == b"error" or chunk.get("error") or chunk.get("object") == "error":
                raise error_in_stream(refusal_in(chunk), self._where)
            for choice in chunk.get("choices") or ():
                if not choice.get("index"):
                    text = self._take_choice(choice)
            usage = chunk.get("usage")
            if usage:
                self._usage = _usage(usage)
            if not self._text and chunk.get("model"):
                self._model = str(chunk["model"])
        except (AttributeError, TypeError) as error:
            msg = f"{self._where}: a chunk of the reply has an unknown form: {_excerpt(data)}"
            raise ModelTransientError(msg) from error
        if text:
            self._say(text)

    def reply(self) -> Reply:
        """Return the reply.

        Raises:
            TruncatedStreamError: The stream ended without a finish reason.
            ModelTransientError: The provider ended it with an error, or a call cannot be read.
        """
        if self._half:
            self._half, torn = "", self._half
            self._say(_mend(torn))
        if not self._stop_reason:
            msg = f"{self._where}: the reply broke off: the stream ended without a finish reason"
            raise TruncatedStreamError(msg)
        if self._stop_reason == "error":
            msg = f"{self._where}: the model stopped with an error"
            raise ModelTransientError(msg)
        return Reply(
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            calls=self._finished_calls(),
            usage=self._usage,
            stop_reason=self._stop_reason,
            model=self._model,
        )

    def _parsed(self, data: bytes) -> Any:  # noqa: ANN401 - JSON
        try:
            return orjson.loads(data)
        except ValueError:
            pass
        try:
            # orjson refuses half a surrogate pair, which servers that count in UTF-16 do send.
            return json.loads(data)
        except ValueError as error:
            msg = f"{self._where}: a chunk of the reply did not parse: {_excerpt(data)}"
            raise ModelTransientError(msg) from error

    def _take_choice(self, choice: dict[str, Any]) -> str | None:
        # A server that was asked to stream and does not sends one `message` instead.
        delta: Any = choice.get("delta") or choice.get("message") or {}
        if reason := choice.get("finish_reason"):
            self._stop_reason = str(reason)
        reasoning: Any = delta.get("reasoning_content") or delta.get("reasoning")
        if reasoning and isinstance(reasoning, str):
            self._reasoning.append(_mend(reasoning))
            self._count(len(reasoning))
        for position, piece in enumerate(delta.get("tool_calls") or ()):
            self._take_call(piece, position)
        content: Any = delta.get("content") or delta.get("refusal")
        if content is None or isinstance(content, str):
            return content
        parts: list[Any] = content
        return "".join(str(part.get("text") or "") for part in parts)

    def _take_call(self, piece: dict[str, Any], position: int) -> None:
        call_id, index = str(piece.get("id") or ""), piece.get("index")
        if not isinstance(index, int):
            # Without an index: an id begins a call, a piece without one goes on with the last.
            index = position if call_id or not self._calls else None
        call = self._calls[-1] if index is None else self._by_index.get(index)
        if call is None or (call_id and call.call_id and call_id != call.call_id):
            # Some servers number every parallel call 0: a new id is a new call.
            call = _Call()
            self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
        call.call_id = call.call_id or call_id
        function: Any = piece.get("function") or {}
        call.name += str(function.get("name") or "")
        arguments: Any = function.get("arguments") or ""
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments)
        self._count(len(arguments))
        call.arguments.append(arguments)

    def _finished_calls(self) -> tuple[ToolCall, ...]:
        calls: list[ToolCall] = []
        taken: set[str] = set()
        for number, call in enumerate(self._calls, start=1):
            arguments = _mend("".join(call.arguments)) or "{}"
            if not call.name or not _is_object(arguments):
                cut = ", cut off at the output limit" if self._stop_reason == "length" else ""
                msg = (
                    f"{self._where}: the arguments of the call of {call.name or '(no name)'!r}"
                    f" did not parse as a JSON object{cut}"
                )
                raise ModelTransientError(msg)
            call_id = call.call_id or f"call_{number}"
            while call_id in taken:
                call_id += f"_{number}"
            taken.add(call_id)
            calls.append(ToolCall(call_id=call_id, name=call.name, arguments=arguments))
        return tuple(calls)

    def _say(self, text: str) -> None:
        if self._half:
            text, self._half = self._half + text, ""
        try:
            text.encode()
        except UnicodeEncodeError:
            if _HIGH_SURROGATES[0] <= text[-1] <= _HIGH_SURROGATES[1]:
                text, self._half = text[:-1], text[-1]
            text = _mend(text)
        if text:
            self._count(len(text))
            self._text.append(text)
            self._on_text(text)

    def _count(self, size_chars: int) -> None:
        self._size_chars += size_chars
        if self._size_chars > REPLY_LIMIT_CHARS:
            msg = f"{self._where}: the reply is longer than {REPLY_LIMIT_CHARS} characters"
            raise ModelTransientError(msg)


def _usage(reported: dict[str, Any]) -> Usage:
    details: Any = reported.get("prompt_tokens_details") or {}
    return Usage(
        input_tokens=_count_of(reported.get("prompt_tokens")),
        output_tokens=_count_of(reported.get("completion_tokens")),
        cached_tokens=_count_of(
            details.get("cached_tokens") or reported.get("prompt_cache_hit_tokens")
        ),
    )


def _count_of(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(orjson.loads(arguments), dict)
    except ValueError:
        return False


def _mend(text: str) -> str:
    """Join surrogate pairs; replace halves that stand alone by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _excerpt(data: bytes) -> str:
    return repr(data[:80].decode("utf-8", "replace"))
