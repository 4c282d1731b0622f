"""Reads a chat completion request of OpenAI's clients. Pure.

What a client may leave to the agent is accepted and named in a header of the answer; what would
change the meaning of the answer and is not done here is refused.

Source: https://platform.openai.com/docs/api-reference/chat/create (read 2026-11).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace
from pydantic import Field

from everturn_actors.context.projection.grouping import Grouping, Misplaced
from everturn_actors.context.projection.turns import Block
from everturn_actors.json_values import as_object
from everturn_actors.model import (
    CallOptions,
    Notice,
    Reply,
    Step,
    ToolCall,
    ToolResult,
    Turn,
    Upload,
    UserMessage,
)
from everturn_actors.service import History
from everturn_actors.state.validation import attachment_of, check_uploads
from everturn_gateway.http.openai.parameters import Lenient, Parameters
from everturn_gateway.http.openai.refusals import refuse
from everturn_gateway.http.uploads import from_base64

CARRY_ON: Final = "Go on exactly where your last message ends; repeat nothing of it."
"What is asked where the words of the assistant stand at the end."


CONVERSATION_ID: Final = "conversation_id"
"The field of `metadata` that names a conversation."
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{0,256}")


def named_by(metadata: Mapping[str, Any] | None) -> str:
    """Return the conversation that metadata name; empty where they name none.

    Raises:
        ProblemError: It cannot be a name (400).
    """
    return checked_name((metadata or {}).get(CONVERSATION_ID) or "", f"metadata.{CONVERSATION_ID}")


def checked_name(name: object, param: str) -> str:
    """Return the name of a conversation that stands in `param`.

    Raises:
        ProblemError: It cannot be one (400).
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        refuse(param, "a name has up to 256 characters, on one line")
    return name


class FunctionBody(Lenient):
    """The function of a call."""

    name: str
    arguments: str


class CallBody(Lenient):
    """A call that an assistant made."""

    id: str = Field(min_length=1)
    function: FunctionBody
    type: Literal["function"] = "function"


class ChatMessage(Lenient):
    """One message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[dict[str, Any]] | None = Field(
        default=None,
        description='Text, or parts of the type "text"; of a user also "image_url" with a data: URL'
        " in base64.",
    )
    tool_calls: list[CallBody] | None = None
    tool_call_id: str | None = None


class StreamOptions(Lenient):
    """How to stream."""

    include_usage: bool | None = None


class ChatRequest(Parameters):
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
    metadata: dict[str, Any] | None = Field(
        default=None,
        description=f"With {CONVERSATION_ID!r} it names the conversation, and wins over `user`.",
    )

    @property
    def conversation_name(self) -> str:
        """The name of the conversation; empty where there is none.

        Raises:
            ProblemError: It cannot be a name (400).
        """
        return named_by(self.metadata) or self.user or ""


class Asked(Struct, frozen=True, kw_only=True):
    """What a request asks for, as a stateless turn."""

    history: History
    "What came before; where calls have their results and nothing was said since, all of it."
    text: str = ""
    attachments: tuple[Upload, ...] = ()
    "The files that come with it."
    goes_on: bool = False
    "Whether the last turn of the history goes on, and there is no new message."


def unread(request: ChatRequest) -> tuple[str, ...]:
    """Return the fields of messages that have no effect, sorted."""
    names = {
        f"messages.{name}"
        for message in request.messages
        for name, value in (message.model_extra or {}).items()
        if value
    }
    if request.metadata and not named_by(request.metadata):
        names.add("metadata")
    return tuple(sorted(names))


def results(request: ChatRequest) -> dict[str, str]:
    """Return what the client's tools gave, by the ids of the calls: the messages at the end.

    Raises:
        ProblemError: One of them names no call, or holds something else than text (400).
    """
    found: dict[str, str] = {}
    # From the end: results of earlier calls are answered already.
    for index in range(len(request.messages) - 1, -1, -1):
        message = request.messages[index]
        if message.role != "tool":
            break
        if not message.tool_call_id:
            refuse(f"messages.{index}.tool_call_id", "a tool message names its call")
        found[message.tool_call_id] = _parts(message, index)[0]
    return dict(reversed(found.items()))


def has_parts(request: ChatRequest) -> bool:
    """Whether a message has parts, which may be large."""
    return any(isinstance(message.content, list) for message in request.messages)


def newest(request: ChatRequest) -> tuple[str, tuple[Upload, ...]]:
    """Return the text of the last user message, and the files that come with it.

    Raises:
        ProblemError: There is none, or it holds something else (400).
    """
    found = [index for index, message in enumerate(request.messages) if message.role == "user"]
    if not found:
        refuse("messages", "there is no message with the role 'user'")
    return _parts(request.messages[found[-1]], found[-1])


def stateless(request: ChatRequest, options: CallOptions | None) -> Asked:
    """Return the conversation of `request`: what came before, and what is asked now.

    Several user messages at the end are one message of several paragraphs. A conversation that
    ends with the results of calls goes on. One that ends with words of the assistant has them
    carried on. Takes time in proportion to the files.

    Raises:
        ProblemError: The messages do not make a conversation that can go on (400).
        InvalidInputError: A file is refused.
    """
    grouping = Grouping(on_fault=_refuse_fault)
    uploads: dict[str, Upload] = {}
    asked = False
    for index, message in enumerate(request.messages):
        asked |= message.role == "user"
        # Without a message before it nobody knows what it answers.
        if message.role == "assistant" and not asked:
            refuse(f"messages.{index}", "a user message has to come before the assistant's")
        _add(grouping, message, index, uploads)
    last = len(request.messages) - 1
    # Providers refuse a call without its result, and not in words that help.
    if grouping.missing:
        refuse(f"messages.{last}.role", "a tool message is missing for a call before it")
    turns, users, steps = _turns(grouping.blocks)
    if not users:
        refuse(f"messages.{last}.role", "there is no message with the role 'user'")
    instructions = "\n\n".join(b.text for b in grouping.blocks if isinstance(b, Notice))
    if steps:
        open_turn = Turn(number=len(turns) + 1, users=tuple(users), steps=tuple(steps))
        # It ends with results: the model is to go on with them, and nothing new was said.
        if steps[-1].reply.calls:
            turns.append(_with_options(open_turn, options))
            history = _history(turns, instructions, uploads)
            return Asked(history=history, goes_on=True)
        history = _history([*turns, open_turn], instructions, uploads)
        return Asked(history=history, text=CARRY_ON)
    return Asked(
        history=_history(turns, instructions, uploads),
        text="\n\n".join(user.text for user in users if user.text or len(users) == 1),
        attachments=tuple(uploads[each.name] for user in users for each in user.attachments),
    )


def _turns(blocks: Iterable[Block]) -> tuple[list[Turn], list[UserMessage], list[Step]]:
    """Return finished turns, and the messages and the steps of the last one."""
    turns: list[Turn] = []
    users: list[UserMessage] = []
    steps: list[Step] = []
    for block in blocks:
        # A message after steps begins the next turn; several in a row are one.
        if isinstance(block, UserMessage):
            if steps:
                turns.append(Turn(number=len(turns) + 1, users=tuple(users), steps=tuple(steps)))
                users, steps = [], []
            users.append(block)
        elif isinstance(block, Step):
            steps.append(block)
    return turns, users, steps


def _history(turns: Sequence[Turn], instructions: str, uploads: Mapping[str, Upload]) -> History:
    turns = tuple(map(_from_outside, turns))
    shown = {
        each.name: uploads[each.name]
        for turn in turns
        for user in turn.heard
        for each in user.attachments
    }
    return History(turns=turns, instructions=instructions, uploads=tuple(shown.values()))


def _with_options(turn: Turn, options: CallOptions | None) -> Turn:
    """Return a turn that goes on, with what its caller asks for."""
    *earlier, newest = turn.users
    return replace(turn, users=(*earlier, replace(newest, options=options)))


def _from_outside(turn: Turn) -> Turn:
    """Return a turn whose results are known for what they are: a client brought them."""
    steps = tuple(
        replace(
            step,
            results=tuple(
                replace(result, untrusted=True, source=f"the caller's tool {result.name}")
                for result in step.results
            ),
        )
        for step in turn.steps
    )
    return replace(turn, steps=steps)


def _add(grouping: Grouping, message: ChatMessage, index: int, uploads: dict[str, Upload]) -> None:
    """Add one message of the request to the conversation that is being made."""
    text, files = _parts(message, index)
    match message.role:
        case "system" | "developer":
            grouping.add(Notice(text=text), index)
        case "user":
            # Here, where the index of the message is known for the refusal.
            check_uploads(files)
            attached = tuple(map(attachment_of, files))
            uploads.update((a.name, u) for a, u in zip(attached, files, strict=True))
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
    """Return the text of a message, and its files."""
    if message.content is None:
        return "", ()
    if isinstance(message.content, str):
        return message.content, ()
    texts: list[str] = []
    files: list[Upload] = []
    for number, part in enumerate(message.content):
        where = f"messages.{index}.content.{number}"
        match part.get("type"), part.get("text"):
            case "text", str() as text:
                texts.append(text)
            case "text", _:
                refuse(f"{where}.text", "the text of a part is a string")
            case "refusal", _ if message.role == "assistant":
                texts.append(str(part.get("refusal") or ""))
            case ("image_url" | "input_audio" | "file") as kind, _ if message.role == "user":
                files.append(_FILES[kind](part.get(kind), f"{where}.{kind}"))
            case kind, _:
                known = ", ".join(map(repr, _FILES)) if message.role == "user" else ""
                also = f", {known}" if known else ""
                refuse(where, f"only parts of the type 'text'{also} are supported, not {kind!r}")
    return "\n".join(texts), tuple(files)


def _object(value: object, where: str, *names: str) -> list[str]:
    """Return the texts of some fields of a part; the first has to be there."""
    given = as_object(value)
    texts = [found if isinstance(found := given.get(name), str) else "" for name in names]
    if not texts[0]:
        refuse(where, f"an object with the field {names[0]!r} is expected")
    return texts


def _image(value: object, where: str) -> Upload:
    (url,) = _object(value, where, "url")
    if not url.lower().startswith("data:"):
        refuse(
            f"{where}.url",
            "the gateway fetches no images: send the bytes, as data:image/png;base64,...",
        )
    return _from_url(url, f"{where}.url")


def _audio(value: object, where: str) -> Upload:
    data, form = _object(value, where, "data", "format")
    kind = f"audio/{form.lower() or 'wav'}"
    return _upload(data, kind, f"audio.{form.lower() or 'wav'}", f"{where}.data")


def _file(value: object, where: str) -> Upload:
    data, name = _object(value, where, "file_data", "filename")
    if data.lower().startswith("data:"):
        return _from_url(data, f"{where}.file_data", name)
    return _upload(data, "", name, f"{where}.file_data")


_FILES: Final = {"image_url": _image, "input_audio": _audio, "file": _file}


def _from_url(url: str, where: str, name: str = "") -> Upload:
    """Return what a data: URL holds. Source: RFC 2397."""
    head, comma, data = url.partition(",")
    media_type, _, encoding = head.partition(":")[2].partition(";")
    if not comma or not encoding.lower().endswith("base64"):
        refuse(where, "the data: URL has to be in base64")
    return _upload(data, media_type, name, where)


def _upload(data: str, media_type: str, name: str, where: str) -> Upload:
    try:
        return Upload(data=from_base64(data), media_type=media_type, file_name=name)
    except ValueError as error:
        refuse(where, f"it is not base64: {error}")
