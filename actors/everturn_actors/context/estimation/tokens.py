"""How many tokens a text, a message or a set of tools is taken to cost. Pure.

The estimator of the seed design: UTF-8 bytes // 4, each part of a message floored on its own. It
knows no tokenizer: prose in English is about right, code and Chinese, Japanese or Korean come out
low, which is what the margin of the budget is for.

Source: the seed design "Context Window Management", token counting.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import assert_never

from everturn_actors.model import (
    AnyMessage,
    Notice,
    Reply,
    ToolCall,
    ToolDefinition,
    ToolResult,
    UserMessage,
    remember,
)

BYTES_PER_TOKEN = 4
_MESSAGE_TOKENS = 4  # role and separators of one message
_FORM = "tokens"


def size_bytes(text: str) -> int:
    """Return the length of `text` in UTF-8."""
    # A lone surrogate has no UTF-8; it is counted, not refused: that is for the entry point to do.
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def estimate_text(text: str) -> int:
    """Return the estimated tokens of `text`, 0 for fewer than four bytes."""
    return size_bytes(text) // BYTES_PER_TOKEN


def estimate_message(message: AnyMessage) -> int:
    """Return the estimated tokens of one message, its envelope of four included.

    Counted once for each message value and kept with it.
    """
    # Asked for every message of every request: the answer is mostly there.
    known: int | None = message.memo.get(_FORM)
    return remember(message, _FORM, lambda: _estimate(message)) if known is None else known


def estimate_tools(tools: Sequence[ToolDefinition]) -> int:
    """Return the estimated tokens of the tool definitions as JSON; none cost nothing."""
    return estimate_text(tools_json(tools)) if tools else 0


def tools_json(tools: Sequence[ToolDefinition]) -> str:
    """Return tool definitions as the JSON that a request carries."""
    return _json([tool_json(tool) for tool in tools])


def tool_json(tool: ToolDefinition) -> dict[str, object]:
    """Return a tool as OpenAI's API, and Ollama's, are told it."""
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        },
    }


def calls_json(calls: Sequence[ToolCall]) -> str:
    """Return calls as the JSON that a request carries."""
    return _json(
        [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in calls
        ]
    )


def _estimate(message: AnyMessage) -> int:
    match message:
        case UserMessage() | Notice():
            return estimate_text(message.text) + _MESSAGE_TOKENS
        case Reply():
            return estimate_text(message.text) + _estimate_calls(message.calls) + _MESSAGE_TOKENS
        case ToolResult():
            return estimate_text(message.text) + estimate_text(message.call_id) + _MESSAGE_TOKENS
        case _:
            assert_never(message)


def _estimate_calls(calls: Sequence[ToolCall]) -> int:
    return estimate_text(calls_json(calls)) if calls else 0


def _json(value: object) -> str:
    # A schema may be any mapping, json only knows dicts.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=dict)
