"""A session as one line of JSON with the messages of OpenAI's chat format. Pure.

So other programs read it, and so do those that fine-tune models. It holds what people and the agent
said, the calls and their results; each call has its result behind it, as that format wants it.
Source: https://platform.openai.com/docs/api-reference/chat/create, `messages` (read 2026-11).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from everturn_actors.codec import encode
from everturn_actors.events import (
    AmbientStored,
    Announced,
    CallFinished,
    CallsAnswered,
    Discarded,
    Edited,
    Event,
    ModelReplied,
    Received,
    SessionStarted,
    Transcribed,
)

_NO_RESULT: Final = "[no result was kept]"


class OpenAIExport:
    """Reads the events of a session in their order."""

    def __init__(self) -> None:
        """Begin before the first event."""
        self._head: dict[str, str] = {}
        self._messages: list[tuple[int, dict[str, object]]] = []
        self._open: dict[str, str] = {}
        "Calls of the last reply that have no result yet, by id."
        self._waiting: list[tuple[int, dict[str, object]]] = []
        "What was said while results were to come: it stands behind them."

    def read(self, event: Event) -> None:
        """Take note of an event."""
        body = event.body
        match body:
            case SessionStarted(session_id=session_id, key=key):
                self._head = {"session_id": session_id, "agent": key.agent}
                if body.instructions:
                    self._say(event.seq, {"role": "system", "content": body.instructions})
            case Received(text=text) | AmbientStored(text=text):
                self._say(event.seq, {"role": "user", "content": text})
            case Announced(text=text):
                self._say(event.seq, {"role": "assistant", "content": text})
            case Edited(received=seq, text=text):
                self._change(seq, lambda _: text)
            case Transcribed(message=seq):
                self._change(seq, body.added_to)
            case Discarded(received=seqs):
                self._messages = [each for each in self._messages if each[0] not in seqs]
                self._waiting = [each for each in self._waiting if each[0] not in seqs]
            case ModelReplied(text=text, calls=calls):
                self._close()
                message: dict[str, object] = {"role": "assistant", "content": text or None}
                if calls:
                    message["tool_calls"] = [
                        {
                            "id": call.call_id,
                            "type": "function",
                            "function": {"name": call.name, "arguments": call.arguments},
                        }
                        for call in calls
                    ]
                self._messages.append((event.seq, message))
                self._open = {call.call_id: call.name for call in calls}
            case CallFinished(call_id=call_id, text=text):
                self._result(event.seq, call_id, text)
            case CallsAnswered(answers=answers):
                for each in answers:
                    self._result(event.seq, each.call_id, each.text)
            case _:
                pass

    def line(self) -> bytes:
        """Return the session up to here, with the end of its line."""
        self._close()
        messages = [message for _, message in self._messages]
        return encode({**self._head, "messages": messages}) + b"\n"

    def _say(self, seq: int, message: dict[str, object]) -> None:
        (self._waiting if self._open else self._messages).append((seq, message))

    def _change(self, seq: int, change: Callable[[str], str]) -> None:
        for number, message in (*self._messages, *self._waiting):
            if number == seq:
                message["content"] = change(str(message["content"]))

    def _result(self, seq: int, call_id: str, text: str) -> None:
        if self._open.pop(call_id, None) is None:
            return  # of a call that has one, or whose reply is no longer kept
        message: dict[str, object] = {"role": "tool", "tool_call_id": call_id, "content": text}
        self._messages.append((seq, message))
        if not self._open:
            self._flush()

    def _close(self) -> None:
        """Give a result to each call that has none."""
        for call_id in tuple(self._open):
            self._result(0, call_id, _NO_RESULT)
        self._flush()

    def _flush(self) -> None:
        self._messages += self._waiting
        self._waiting.clear()
