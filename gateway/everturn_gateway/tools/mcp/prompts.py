"""The prompts of an MCP server: texts that a person may send, with places to fill in. Pure.

A model never sees the list: a prompt is a person's to choose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from everturn_actors.json_values import Json, as_object, is_list
from everturn_gateway.tools.mcp.errors import McpAnswerError
from everturn_gateway.tools.mcp.listing import NAME_CHARACTERS, shortened
from everturn_gateway.tools.mcp.results import result_text

GET: Final = "prompts/get"
LIST: Final = "prompts/list"
PROMPTS_MOST: Final = 100  # of one server
ARGUMENTS_MOST: Final = 20  # of one prompt


def sifted_prompts(result: Mapping[str, Any]) -> Json:
    """Return a page of prompts with what is shown of it, and nothing that is wrong."""
    entries: object = result.get("prompts")
    listed = entries[:PROMPTS_MOST] if is_list(entries) else []
    return {**result, "prompts": [each for each in map(_prompt, listed) if each]}


def _prompt(entry: object) -> dict[str, object] | None:
    said = as_object(entry)
    if not _is_name(said.get("name")):
        return None
    told: object = said.get("arguments")
    arguments = [
        {
            "name": each["name"],
            "description": _text(each.get("description")),
            "required": each.get("required") is True,
        }
        for each in map(as_object, told[:ARGUMENTS_MOST] if is_list(told) else [])
        if _is_name(each.get("name"))
    ]
    description = _text(said.get("description") or said.get("title"))
    return {"name": said["name"], "description": description, "arguments": arguments}


def _is_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= NAME_CHARACTERS and name.isprintable()


def _text(said: object) -> str:
    return " ".join(shortened(said).split()) if isinstance(said, str) else ""


def sifted_messages(result: Mapping[str, object]) -> dict[str, object]:
    """Return the messages of a prompt as one text of a person's.

    Raises:
        McpAnswerError: There are none.
    """
    messages: object = result.get("messages")
    if not is_list(messages) or not messages:
        msg = "its answer does not follow the protocol: messages is not a list with some in it"
        raise McpAnswerError(msg)
    text = "\n\n".join(_message(as_object(each)) for each in messages)
    content = {"type": "text", "text": text}
    return {**result, "messages": [{"role": "user", "content": content}]}


def _message(message: Mapping[str, object]) -> str:
    text = result_text({"content": [message.get("content")]})
    # A person's message may quote what an assistant would say; nothing may say it in its place.
    return f"assistant: {text}" if message.get("role") == "assistant" else text
