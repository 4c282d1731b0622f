"""Reads a chat completion request of OpenAI's clients. Pure.

What a client may leave to the agent is accepted and named in a header of the answer; what would
change the meaning of the answer and is not done here is refused.

Source: https://platform.openai.com/docs/api-reference/chat/create (read 2026-11).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NoReturn, cast

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field

from everturn_actors.context.projection.grouping import Grouping, Misplaced
from everturn_actors.model import (
    Notice,
    Reply,
    Step,
    ToolCall,
    ToolResult,
    Turn,
    Upload,
    UserMessage,
)
from everturn_actors.state.validation import attachment_of, check_uploads
from everturn_gateway.http.problems import ProblemError, problem
from everturn_gateway.http.uploads import from_base64

# Parameter -> the values of it that ask for nothing special.
_REFUSED: Final[Mapping[str, tuple[object, ...]]] = {
    "audio": (),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "logprobs": (False,),
    "modalities": (["text"], []),
    "n": (1,),
    "response_format": ({"type": "text"},),
    "stop": ([], ""),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
    "web_search_options": (),
}


class _Lenient(BaseModel):
    """A body whose further fields are looked at by name."""

    model_config = ConfigDict(extra="allow", frozen=True)


class FunctionBody(_Lenient):
    """The function of a call."""

    name: str
    arguments: str


class CallBody(_Lenient):
    """A call that an assistant made."""

    id: str = Field(min_length=1)
    function: FunctionBody
    type: Literal["function"] = "function"


class ChatMessage(_Lenient):
    """One message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[dict[str, Any]] | None = Field(
        default=None,
        description='Text, or parts of the type "text"; of a user also "image_url" with a data: URL'
        " in base64.",
    )
    tool_calls: list[CallBody] | None = None
    tool_call_id: str | None = None


class StreamOptions(_Lenient):
    """How to stream."""

    include_usage: bool | None = None


class ChatRequest(_Lenient):
    """A request for a chat completion."""

    model: str = Field(min_length=1, description="Name of the agent.", examples=["assistant"])
    messages: list[ChatMessage] = Field(
        min_length=1, examples=[[{"role": "user", "content": "Good morning!"}]]
    )
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: str | None = Field(
        default=None,
        max_length=256,
        pattern=r"^[^\x00-\x1f\x7f]*$",
        description="Makes the call stateful: the conversation.",
    )


class Asked(Struct, frozen=True, kw_only=True):
    """What a request asks for, as a stateless turn."""

    instructions: str
    history: tuple[Turn, ...]
    text: str
    attachments: tuple[Upload, ...] = ()
    "The images that come with it."
    shown_before: tuple[Upload, ...] = ()
    "Those of the history."


def ignored(request: ChatRequest) -> tuple[str, ...]:
    """Return the parameters of `request` that have no effect, sorted.

    Raises:
        ProblemError: One of them may not be ignored (400).
    """
    given = {
        name: value for name, value in (request.model_extra or {}).items() if value is not None
    }
    for name, value in given.items():
        if name in _REFUSED and value not in _REFUSED[name]:
            refuse(name, f"{name!r} is not supported here: the agent decides it")
    names = {name for name in given if name not in _REFUSED}
    names.update(
        f"messages.{name}"
        for message in request.messages
        for name, value in (message.model_extra or {}).items()
        if value
    )
    return tuple(sorted(names))


def has_parts(request: ChatRequest) -> bool:
    """Whether a message has parts, which may be large."""
    return any(isinstance(message.content, list) for message in request.messages)


def newest(request: ChatRequest) -> tuple[str, tuple[Upload, ...]]:
    """Return the text of the last user message, and the images that come with it.

    Raises:
        ProblemError: There is none, or it holds something else (400).
    """
    found = [index for index, message in enumerate(request.messages) if message.role == "user"]
    if not found:
        refuse("messages", "there is no message with the role 'user'")
    return _parts(request.messages[found[-1]], found[-1])


def stateless(request: ChatRequest) -> Asked:
    """Return the conversation of `request`: what came before, and what is asked now.

    Several user messages at the end are one message of several paragraphs. Takes time in
    proportion to the images.

    Raises:
        ProblemError: The messages do not make a conversation that ends with a user (400).
        InvalidInputError: An image is refused.
    """
    grouping = Grouping(on_fault=_refuse_fault)
    uploads: dict[str, Upload] = {}
    asked = False
    for index, message in enumerate(request.messages):
        asked |= message.role == "user"
        if message.role == "assistant" and not asked:
            refuse(f"messages.{index}", "a user message has to come before the assistant's")
        _add(grouping, message, index, uploads)
    turns: list[Turn] = []
    users: list[UserMessage] = []
    steps: list[Step] = []
    for block in grouping.blocks:
        if isinstance(block, UserMessage):
            if steps:
                turns.append(Turn(number=len(turns) + 1, users=tuple(users), steps=tuple(steps)))
                users, steps = [], []
            users.append(block)
        elif isinstance(block, Step):
            steps.append(block)
    if not users or steps or grouping.missing:
        last = len(request.messages) - 1
        refuse(f"messages.{last}.role", "the last message has to be the user's")
    return Asked(
        instructions="\n\n".join(b.text for b in grouping.blocks if isinstance(b, Notice)),
        history=tuple(turns),
        text="\n\n".join(user.text for user in users if user.text or len(users) == 1),
        attachments=tuple(uploads[each.name] for user in users for each in user.attachments),
        shown_before=tuple(
            {
                each.name: uploads[each.name]
                for turn in turns
                for user in turn.heard
                for each in user.attachments
            }.values()
        ),
    )


def refuse(param: str, detail: str) -> NoReturn:
    """Refuse a request because of `param`.

    Raises:
        ProblemError: Always (400).
    """
    raise ProblemError(problem("invalid-request", detail, extra={"param": param}))


def _add(grouping: Grouping, message: ChatMessage, index: int, uploads: dict[str, Upload]) -> None:
    text, images = _parts(message, index)
    match message.role:
        case "system" | "developer":
            grouping.add(Notice(text=text), index)
        case "user":
            check_uploads(images)
            attached = tuple(map(attachment_of, images))
            uploads.update((a.name, u) for a, u in zip(attached, images, strict=True))
            grouping.add(UserMessage(text=text, attachments=attached), index)
        case "assistant":
            calls = tuple(
                ToolCall(
                    call_id=call.id, name=call.function.name, arguments=call.function.arguments
                )
                for call in message.tool_calls or ()
            )
            grouping.add(Reply(text=text, calls=calls), index)
        case "tool":
            grouping.add(ToolResult(call_id=message.tool_call_id or "", name="", text=text), index)


def _refuse_fault(fault: Misplaced) -> None:
    field = f".{fault.field}" if fault.field else ""
    refuse(f"messages.{fault.index}{field}", fault.problem)


def _parts(message: ChatMessage, index: int) -> tuple[str, tuple[Upload, ...]]:
    """Return the text of a message, and its images."""
    if message.content is None:
        return "", ()
    if isinstance(message.content, str):
        return message.content, ()
    texts: list[str] = []
    images: list[Upload] = []
    for number, part in enumerate(message.content):
        where = f"messages.{index}.content.{number}"
        match part.get("type"), part.get("text"):
            case "text", str() as text:
                texts.append(text)
            case "image_url", _ if message.role == "user":
                images.append(_image(part.get("image_url"), where))
            case kind, _:
                also = ", and 'image_url' with a data: URL," if message.role == "user" else ""
                refuse(where, f"only parts of the type 'text'{also} are supported, not {kind!r}")
    return "\n".join(texts), tuple(images)


def _image(value: object, where: str) -> Upload:
    """Return the image of a part. Source: RFC 2397 for data: URLs."""
    given = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    url = given.get("url")
    if not isinstance(url, str):
        refuse(f"{where}.image_url", "an object with the field 'url' is expected")
    head, comma, data = url.partition(",")
    scheme, _, kind = head.partition(":")
    if scheme.lower() != "data":
        refuse(
            f"{where}.image_url.url",
            "the gateway fetches no images: send the bytes, as data:image/png;base64,...",
        )
    media_type, _, encoding = kind.partition(";")
    if not comma or not encoding.lower().endswith("base64"):
        refuse(f"{where}.image_url.url", "the data: URL has to be in base64")
    try:
        return Upload(data=from_base64(data), media_type=media_type)
    except ValueError as error:
        refuse(f"{where}.image_url.url", f"what follows the comma is not base64: {error}")
