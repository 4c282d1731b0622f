"""One model reply out of the lines of Ollama's stream. Pure: no IO.

A reply counts only when Ollama said that it is done: a stream that merely stops is an error.

Source: https://docs.ollama.com/api/chat and /api/usage (read 2026-11-22).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everturn_actors.model import Reply, Usage
from everturn_gateway.providers.transport.encoding import dumps
from everturn_gateway.providers.transport.model_errors import error_in_stream, refusal_in
from everturn_gateway.providers.transport.parts import (
    CallParts,
    Reader,
    count_of,
    named,
)


class ReplyReader(Reader):
    """Collects one reply of Ollama's lines."""

    def __init__(self, *, where: str, model: str, on_text: Callable[[str], None]) -> None:
        super().__init__(where=where, model=model, on_text=on_text)
        self._calls: list[CallParts] = []
        self._usage = Usage()

    @property
    def complete(self) -> bool:
        """Whether the reply has ended, which Ollama says with its last line alone."""
        return self.done

    @property
    def _has_parts(self) -> bool:
        return bool(self._calls)

    def _take(self, name: bytes, data: bytes) -> str:
        del name  # lines have none
        line = self._parts.parsed(data)
        if line.get("error"):
            raise error_in_stream(refusal_in(line), self._where)
        message: Any = line.get("message") or {}
        if thought := message.get("thinking"):
            self._parts.think(thought)
        text: str = "" + (message.get("content") or "")
        for call in message.get("tool_calls") or ():
            self._take_call(call)
        if line.get("done"):
            self._take_end(line)
        return text

    def _reply(self) -> Reply:
        calls = self._parts.calls(self._calls)
        reason = self._stop_reason or "stop"
        return Reply(
            text=self._parts.text,
            reasoning=self._parts.reasoning,
            calls=calls,
            usage=self._usage,
            stop_reason="tool_calls" if calls and reason == "stop" else reason,
            model=self._model,
        )

    def _take_call(self, call: dict[str, object]) -> None:
        function: Any = call.get("function") or {}
        given: object = function.get("arguments") or {}
        arguments = given if isinstance(given, str) else dumps(given).decode()
        self._parts.count_part(call)
        # Older versions give no ids.
        self._calls.append(
            CallParts(
                call_id=str(call.get("id") or ""),
                name=self._parts.tool_name(str(function.get("name") or "")),
                arguments=[arguments],
            )
        )

    def _take_end(self, line: dict[str, object]) -> None:
        self.done = True
        self._stop_reason = named(line.get("done_reason") or "")
        self._model = named(line.get("model") or self._model)
        self._usage = Usage(
            input_tokens=count_of(line.get("prompt_eval_count")),
            output_tokens=count_of(line.get("eval_count")),
            cached_tokens=count_of(line.get("prompt_eval_cached_count")),
        )
