"""Reads a request of the Responses API, as the chat completion that asks for the same. Pure.

Source: https://platform.openai.com/docs/api-reference/responses/create (read 2026-11).
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from everturn_actors.json_values import as_object, is_list, is_object
from everturn_gateway.http.openai.parameters import Lenient
from everturn_gateway.http.openai.refusals import refuse
from everturn_gateway.http.openai.request import ChatRequest, checked_name, named_by

_PARTS: Final = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
# What is said of the answer, in the words of chat completions.
_SAME: Final = ("parallel_tool_calls", "temperature", "top_p")
_READ: Final = (
    *("model", "input", "instructions", "previous_response_id", "conversation", "store", "stream"),
    *("background", "tools", "tool_choice", "text", "max_output_tokens", "reasoning", "metadata"),
    *("user", "include", "truncation", *_SAME),
)
"Fields that are read here, or that ask for nothing that could be missed."
_NAMES: Final = {
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "response_format": "text.format",
    "response_format.json_schema.schema": "text.format.schema",
}
"What is called otherwise here than in a chat completion."
_FIELDS: Final = {
    "tool_call_id": "call_id",
    "image_url.url": "image_url",
    "file.file_data": "file_data",
}


class ResponsesRequest(Lenient):
    """A request for a response."""

    model: str = Field(min_length=1, description="Name of the agent.", examples=["assistant"])
    input: str | list[dict[str, object]] = Field(examples=["Good morning!"])
    instructions: str | None = Field(default=None, description="For this response alone.")
    previous_response_id: str | None = Field(
        default=None, description="The response that this one follows: the same session goes on."
    )
    conversation: str | dict[str, object] | None = Field(
        default=None, description="Your own name of the conversation; in place of the id above."
    )
    store: bool | None = Field(
        default=None, description="false: nothing is kept, and the input is all there is."
    )
    stream: bool | None = None
    background: bool | None = Field(default=None, description="The answer is fetched later.")
    tools: list[dict[str, object]] | None = None
    tool_choice: str | dict[str, object] | None = None
    text: dict[str, object] | None = Field(default=None, description="`format`: of the answer.")
    max_output_tokens: Annotated[int, Field(ge=1)] | None = None
    reasoning: dict[str, object] | None = None
    metadata: dict[str, str] | None = None
    user: str | None = None

    def place_of(self, param: str) -> str:
        """Return what a part of the chat completion is in this request.

        >>> request = ResponsesRequest(model="m", instructions="Rhyme.", input=[{"content": "x"}])
        >>> request.place_of("messages.1.content"), request.place_of("max_completion_tokens")
        ('input.0.content', 'max_output_tokens')
        """
        name, _, rest = param.partition(".")
        if name == "tools":
            return param.replace(".function", "", 1)
        if name != "messages":
            return _NAMES.get(param, param)
        number, _, field = rest.partition(".")
        if not number.isdecimal():
            return "input"
        index = int(number) - len(_instructions(self.instructions))
        items = [] if isinstance(self.input, str) else [item for item, _ in _messages(self.input)]
        if index < 0:
            return "instructions"
        where = f"input.{items[index]}" if index < len(items) else "input"
        for there, here in _FIELDS.items():
            if field.endswith(there):
                field = field.removesuffix(there) + here
        return f"{where}.{field}" if field else where

    @property
    def conversation_name(self) -> str:
        """The name of the conversation; empty where there is none."""
        given = self.conversation
        name = given.get("id") if isinstance(given, dict) else given
        if not given:
            return named_by(self.metadata)
        if not isinstance(name, str):
            refuse("conversation", "it is a name, or an object with an 'id'")
        return checked_name(name, "conversation")

    @property
    def is_named(self) -> bool:
        """Whether it says which session it goes on in."""
        return bool(self.previous_response_id or self.conversation_name)

    def as_chat(self) -> ChatRequest:
        """Return the chat completion that asks for the same.

        Raises:
            ProblemError: There is none (400).
        """
        given = self.model_extra or {}
        if given.get("prompt"):
            refuse("prompt", "what is stored at OpenAI is not there: send instructions and input")
        said = self.input
        messages = [m for _, m in _messages(said)] if not isinstance(said, str) else _said(said)
        chat: dict[str, object] = {
            **{name: value for name, value in given.items() if name not in _READ},
            **{name: given[name] for name in _SAME if name in given},
            "model": self.model,
            "messages": [*_instructions(self.instructions), *messages],
            "tools": _tools(self.tools),
            "tool_choice": _choice(self.tool_choice),
            "response_format": _form(self.text),
            "max_completion_tokens": self.max_output_tokens,
            "reasoning_effort": (self.reasoning or {}).get("effort"),
            # Of no effect, and told so by their names.
            "reasoning.summary": (self.reasoning or {}).get("summary"),
            "text.verbosity": (self.text or {}).get("verbosity"),
            "include": given.get("include") or None,
        }
        try:
            return ChatRequest.model_validate(chat)
        except ValidationError as error:
            first = error.errors()[0]
            return refuse(self.place_of(".".join(map(str, first["loc"]))), first["msg"])


def _instructions(text: str | None) -> list[dict[str, object]]:
    return [{"role": "developer", "content": text}] if text else []


def _said(text: str) -> list[dict[str, object]]:
    return [{"role": "user", "content": text}]


def _messages(given: list[dict[str, object]]) -> list[tuple[int, dict[str, object]]]:
    """Return the messages of an input, each with the number of the item that begins it.

    Calls that follow each other are of one reply.
    """
    messages: list[tuple[int, dict[str, Any]]] = []
    for index, item in enumerate(given):
        where = f"input.{index}"
        match item.get("type", "message"):
            case "message":
                content = _content(item.get("content"), f"{where}.content")
                messages.append((index, {"role": item.get("role"), "content": content}))
            case "function_call":
                identity, name, arguments = (
                    _text(item.get(field), f"{where}.{field}")
                    for field in ("call_id", "name", "arguments")
                )
                call = {"id": identity, "function": {"name": name, "arguments": arguments}}
                if not messages or messages[-1][1]["role"] != "assistant":
                    messages.append((index, {"role": "assistant", "content": None}))
                messages[-1][1].setdefault("tool_calls", []).append(call)
            case "function_call_output":
                text = _content(item.get("output"), f"{where}.output")
                message = {"role": "tool", "tool_call_id": item.get("call_id"), "content": text}
                messages.append((index, message))
            case "reasoning":
                pass  # the agent's own model keeps its thoughts here
            case kind:
                refuse(f"{where}.type", f"items of the type {kind!r} are not supported here")
    return messages


def _content(given: object, where: str) -> str | list[dict[str, object]]:
    if isinstance(given, str):
        return given
    if not is_list(given):
        refuse(where, "it is a text, or a list of parts")
    parts: list[dict[str, object]] = []
    for index, part in enumerate(given):
        found = as_object(part)
        kind = str(found.get("type"))
        if kind in _PARTS:
            name = _PARTS[kind]
            text = _text(found.get(name), f"{where}.{index}.{name}")
            parts.append({"type": name, name: text})
        elif kind == "input_image":
            url = _text(found.get("image_url"), f"{where}.{index}.image_url", "a data: URL")
            parts.append({"type": "image_url", "image_url": {"url": url}})
        elif kind == "input_file":
            _text(found.get("file_data"), f"{where}.{index}.file_data", "a data: URL, or base64")
            parts.append({"type": "file", "file": found})
        elif kind == "input_audio":
            parts.append({"type": "input_audio", "input_audio": found.get("input_audio")})
        else:
            refuse(f"{where}.{index}", f"parts of the type {kind!r} are not supported here")
    return parts


def _text(given: object, where: str, kind: str = "a text") -> str:
    return given if isinstance(given, str) else refuse(where, f"{kind} is expected here")


def _tools(given: list[dict[str, object]] | None) -> list[dict[str, object]] | None:
    for index, tool in enumerate(given or ()):
        if tool.get("type") != "function":
            kind = tool.get("type")
            refuse(f"tools.{index}.type", f"{kind!r} is not supported here, only 'function'")
    return [{"type": "function", "function": tool} for tool in given or ()] or None


def _choice(choice: str | dict[str, object] | None) -> str | dict[str, object] | None:
    if isinstance(choice, dict) and choice.get("type") == "function":
        return {"type": "function", "function": {"name": choice.get("name")}}
    return choice


def _form(text: dict[str, object] | None) -> dict[str, object] | None:
    form = (text or {}).get("format")
    if form is None:
        return None
    if not is_object(form):
        refuse("text.format", "it is an object with a 'type'")
    kind: Literal["json_schema"] = "json_schema"
    return {"type": kind, kind: form} if form.get("type") == kind else form
