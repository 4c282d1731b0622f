"""A request as the bytes of a chat-completions body, joined from parts that are kept. Pure: no IO.

A message is serialised once in its life and its bytes are kept with it, so that a request of a
thousand messages costs a join.

Source: https://platform.openai.com/docs/api-reference/chat/create (read 2026-11-21).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, assert_never, cast

import orjson

from everturn_actors.model import (
    AnyMessage,
    ModelRequest,
    Notice,
    Reply,
    ToolDefinition,
    ToolResult,
    UserMessage,
    remember,
)
from everturn_gateway.providers.endpoints import MaxTokensField

_FORM: Final = "openai"


class BodyWriter:
    """Writes request bodies for one model of one agent.

    Keeps the bytes of the last system prompt and the last tools it saw: they are the same from one
    call to the next, but for a new date or a new version of the agent.
    """

    def __init__(self) -> None:
        self._system: tuple[str, bytes] = ("", b"")
        self._tools: tuple[tuple[ToolDefinition, ...], bytes] = ((), b"")

    def body(
        self,
        request: ModelRequest,
        *,
        max_tokens_field: MaxTokensField,
        leave_out: Collection[str] = (),
    ) -> bytes:
        """Return the JSON body of a streaming request.

        `leave_out` names parameters that this model was found to refuse.
        """
        options: dict[str, Any] = {"model": request.model, "stream": True}
        if "stream_options" not in leave_out:
            options["stream_options"] = {"include_usage": True}
        if request.temperature is not None and "temperature" not in leave_out:
            options["temperature"] = request.temperature
        if request.max_output_tokens is not None:
            options[max_tokens_field] = request.max_output_tokens
        # The kept bytes are asked for here, not in a call for each: a request has a thousand.
        messages = [m.memo.get(_FORM) or message_bytes(m) for m in request.messages]
        if request.system:
            messages.insert(0, self._system_bytes(request.system))
        tools = b',"tools":' + self._tools_bytes(request.tools) if request.tools else b""
        return b'%b,"messages":[%b]%b}' % (_dumps(options)[:-1], b",".join(messages), tools)

    def _system_bytes(self, system: str) -> bytes:
        if self._system[0] != system:
            self._system = (system, _dumps({"role": "system", "content": system}))
        return self._system[1]

    def _tools_bytes(self, tools: tuple[ToolDefinition, ...]) -> bytes:
        if self._tools[0] != tools:
            self._tools = (tools, _dumps([_tool(tool) for tool in tools]))
        return self._tools[1]


def message_bytes(message: AnyMessage) -> bytes:
    """Return one element of `messages`, kept with the message."""
    kept = message.memo.get(_FORM)
    if kept is not None:
        return cast("bytes", kept)
    return remember(message, _FORM, lambda: _dumps(_message(message)))


def _message(message: AnyMessage) -> dict[str, Any]:
    match message:
        case UserMessage(text=text):
            return {"role": "user", "content": text}
        case Notice(text=text):
            return {"role": "system", "content": text}
        case ToolResult(call_id=call_id, text=text):
            return {"role": "tool", "tool_call_id": call_id, "content": text}
        case Reply(text=text, calls=()):
            # Reasoning is not sent back: most servers refuse it or drop it.
            return {"role": "assistant", "content": text}
        case Reply(text=text, calls=calls):
            return {
                "role": "assistant",
                "content": text or None,
                "tool_calls": [
                    {
                        "id": call.call_id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": call.arguments},
                    }
                    for call in calls
                ],
            }
        case _:
            assert_never(message)


def _tool(tool: ToolDefinition) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        },
    }


def _dumps(value: object) -> bytes:
    try:
        return orjson.dumps(value, default=dict)
    except orjson.JSONEncodeError:
        # A lone half of a surrogate pair, as a YAML escape can write it: no UTF-8 can hold it.
        return orjson.dumps(_mended(value), default=dict)


def _mended(value: object) -> object:
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            pairs = cast("dict[object, object]", value)
            return {_mended(key): _mended(item) for key, item in pairs.items()}
        case list():
            return [_mended(item) for item in cast("list[object]", value)]
        case _:
            return value
