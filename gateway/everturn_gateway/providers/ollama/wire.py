"""A request as the bytes of a body of Ollama's `/api/chat`. Pure: no IO.

Source: https://docs.ollama.com/api/chat (read 2026-11-22). `truncate` and `shift`, which make
Ollama refuse a request that its window cannot hold, stand in its source, api/types.go; versions
before 0.12.6 pass over them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Literal, TypeAlias, assert_never

import orjson

from everturn_actors.model import (
    AnyMessage,
    Attachment,
    ModelRequest,
    Notice,
    Reply,
    ToolCall,
    ToolResult,
    UserMessage,
    remember,
)
from everturn_gateway.providers.transport.asked import ollama_format, ollama_options
from everturn_gateway.providers.transport.attached import (
    base64,
    images_apart,
    pictures,
    text_with_files,
)
from everturn_gateway.providers.transport.encoding import compact, dumps, object_bytes
from everturn_gateway.providers.transport.wire import KeptBytes

_FORM: Final = "ollama"
_IMAGE_TYPES: Final = frozenset(("image/jpeg", "image/png", "image/webp"))

Thinking: TypeAlias = Literal["level", "on", "unasked"]
"How a model is made to think: by a level, by being told to, or not at all."
KeepAlive: TypeAlias = str | float | None


class BodyWriter:
    """Writes request bodies for one model of one agent."""

    def __init__(self, *, num_ctx: int | None = None, keep_alive: KeepAlive = None) -> None:
        self._num_ctx = num_ctx
        self._keep_alive = keep_alive
        self._kept = KeptBytes()

    def body(self, request: ModelRequest, *, thinking: Thinking) -> bytes:
        """Return the JSON body of a streaming request."""
        options: dict[str, object] = {}
        if self._num_ctx is not None:
            options["num_ctx"] = self._num_ctx
        if request.max_output_tokens is not None:
            options["num_predict"] = request.max_output_tokens
        if request.temperature is not None:
            options["temperature"] = request.temperature
        options |= ollama_options(request.options)
        head: dict[str, object] = {
            "model": request.model,
            "stream": True,
            # Left to itself, it drops the beginning of what is too long and says nothing.
            "truncate": False,
            "shift": False,
            "options": options,
        }
        head |= ollama_format(request.options)
        if self._keep_alive is not None:
            head["keep_alive"] = self._keep_alive
        if request.reasoning_effort is not None and thinking != "unasked":
            head["think"] = request.reasoning_effort if thinking == "level" else True
        messages: list[object] = [
            _message(each, request.media) for each in images_apart(request, _IMAGE_TYPES)
        ]
        if request.system:
            messages.insert(0, orjson.Fragment(self._kept.system(request.system)))
        # It has no field for what may be called: one that must call none is offered none.
        tools = self._kept.tools(() if request.options.tool_choice == "none" else request.tools)
        return b"".join((dumps(head)[:-1], b',"messages":', dumps(messages), tools, b"}"))


def _message(message: AnyMessage, media: Mapping[str, bytes]) -> object:
    """Return one element of `messages`; a reply with calls is kept as bytes."""
    if isinstance(message, UserMessage) and message.attachments:
        shown = pictures(message, media, _IMAGE_TYPES)
        if shown:
            return orjson.Fragment(_with_pictures(message, shown, media))
    if isinstance(message, ToolResult) and message.attachments:
        text = text_with_files(message, pictures(message, media, _IMAGE_TYPES))
        return {**_plain(message), "content": text}
    if isinstance(message, Reply) and message.calls:
        return orjson.Fragment(remember(message, _FORM, lambda: compact(_plain(message))))
    return _plain(message)


def _plain(message: AnyMessage) -> dict[str, object]:
    match message:
        case UserMessage(text=text):
            return {
                "role": "user",
                "content": text_with_files(message) if message.attachments else text,
            }
        case Notice(text=text):
            return {"role": "system", "content": text}
        case ToolResult(call_id=call_id, name=name, text=text):
            return {"role": "tool", "tool_name": name, "tool_call_id": call_id, "content": text}
        case Reply(text=text, calls=()):
            return {"role": "assistant", "content": text}
        case Reply(text=text, calls=calls, reasoning=reasoning):
            return {
                "role": "assistant",
                "content": text,
                # What led to the calls; templates drop it where the model has no use for it.
                **({"thinking": reasoning} if reasoning else {}),
                "tool_calls": [_call(call) for call in calls],
            }
        case _:
            assert_never(message)


def _call(call: ToolCall) -> dict[str, object]:
    given = object_bytes(call.arguments)
    arguments = orjson.Fragment(given) if given else {"arguments": call.arguments}
    return {"id": call.call_id, "function": {"name": call.name, "arguments": arguments}}


def _with_pictures(
    message: UserMessage, shown: Collection[Attachment], media: Mapping[str, bytes]
) -> bytes:
    images = b",".join(b'"%b"' % base64(media[each.name]) for each in shown)
    return b'{"role":"user","content":%b,"images":[%b]}' % (
        dumps(text_with_files(message, shown)),
        images,
    )
