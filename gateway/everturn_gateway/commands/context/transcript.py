"""Reads a transcript of OpenAI-style messages, and writes what a policy made of it. Pure.

What an API takes in another form is repaired, and each repair is told; anything else is refused
with the message's index. The messages that were given are never changed.

Source: https://platform.openai.com/docs/api-reference/chat/create (read 2026-11).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

from msgspec import Struct

from everturn_actors.context.policy import Applied
from everturn_actors.context.projection.grouping import Grouping, Misplaced, make_projection
from everturn_actors.context.projection.projection import Projection
from everturn_actors.context.projection.turns import Block
from everturn_actors.json_values import as_list, as_object, is_list, is_object
from everturn_actors.model import (
    AnyMessage,
    Notice,
    Reply,
    ToolCall,
    ToolDefinition,
    ToolResult,
    UserMessage,
)
from everturn_gateway.errors import GatewayError

Json: TypeAlias = dict[str, Any]

_SYSTEM = ("system", "developer")
_ROLES = (*_SYSTEM, "user", "assistant", "tool")
_SHOWN_CHARACTERS = 60  # of a value that is not understood
_DEEPEST = 100  # levels of a message; deeper ones could be read, but not written again


class TranscriptError(GatewayError):
    """The transcript cannot be read."""


_PARTS = ("text", "refusal", "image_url", "input_audio", "file", "video_url")
"Kinds of the parts that a message may have."


class Repair(Struct, frozen=True, kw_only=True):
    """What was set right in one message."""

    index: int
    problem: str
    repair: str


class Transcript(Struct, frozen=True, kw_only=True):
    """A transcript that any API takes. A message's seq is its index + 1."""

    messages: tuple[Json, ...]
    "As they were given, but for repairs."
    system_count: int
    "So many of them, at the beginning, are the system prompt."
    blocks: tuple[Block, ...]
    media: Mapping[int, int]
    dropped: tuple[int, ...]
    "Indexes of the messages that are in no block."
    repairs: tuple[Repair, ...]

    @property
    def system(self) -> str:
        """The text of its system prompt."""
        return "\n\n".join(message_text(message) for message in self.messages[: self.system_count])

    def view(self, turn_start: int | None) -> Projection:
        """Return what a policy works on."""
        return make_projection(
            self.blocks, turn_start=turn_start, media=dict(self.media), dropped=self.dropped
        )


def _parsed(text: str) -> object:
    """Return the value of a JSON text; NaN and its like are none, whatever Python takes."""
    return json.loads(text, parse_constant=_no_constant)


def _no_constant(name: str) -> NoReturn:
    msg = f"{name} is no JSON"
    raise ValueError(msg)


def read_json(raw: bytes, what: str) -> object:
    """Return the JSON value of `raw`.

    Raises:
        TranscriptError: It is none; the text says where.
    """
    try:
        return _parsed(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        msg = f"{what}: byte {error.start + 1} is not UTF-8"
        raise TranscriptError(msg) from error
    except RecursionError as error:
        msg = f"{what}: it is nested too deeply"
        raise TranscriptError(msg) from error
    except ValueError as error:
        msg = f"{what}: it is not JSON: {error}"
        raise TranscriptError(msg) from error


def read_transcript(value: object) -> Transcript:
    """Return a transcript from a list of messages, or from an object with `messages`.

    Raises:
        TranscriptError: It is neither, or a message is beyond repair; the text has its index.
    """
    if is_object(value):
        value = value.get("messages")
    if not is_list(value) or not value:
        msg = "the transcript has to be a list of messages, or an object with `messages`, not empty"
        raise TranscriptError(msg)
    reader = _Reader()
    for index, item in enumerate(value):
        reader.add(item, index)
    return reader.end()


def read_tools(value: object) -> tuple[ToolDefinition, ...]:
    """Return tool definitions from a list of them.

    Raises:
        TranscriptError: One of them is none; the text has its index.
    """
    if not is_list(value):
        msg = "tools: they have to be a list"
        raise TranscriptError(msg)
    tools: list[ToolDefinition] = []
    for index, item in enumerate(value):
        tool = as_object(as_object(item).get("function", item))
        name, about = tool.get("name"), tool.get("description") or ""
        schema = tool.get("parameters") or Json()
        if not (isinstance(name, str) and isinstance(about, str) and is_object(schema)):
            msg = f"tools: number {index} needs a name, and parameters that are an object"
            raise TranscriptError(msg)
        tools.append(ToolDefinition(name=name, description=about, parameters=schema))
    return tuple(tools)


@dataclass(slots=True)
class _Reader:
    """Reads messages one by one."""

    messages: list[Json] = field(default_factory=list[Json])
    system_count: int = 0
    media: dict[int, int] = field(default_factory=dict[int, int])
    repairs: list[Repair] = field(default_factory=list[Repair])
    grouping: Grouping = field(init=False)

    def __post_init__(self) -> None:
        self.grouping = Grouping(on_fault=self._misplaced)

    def add(self, item: object, index: int) -> None:
        message = self._message(item, index)
        self.messages.append(message)
        if message["role"] in _SYSTEM and self.system_count == index:
            self.system_count += 1
            return
        media = sum(1 for part in _parts(message) if not _is_text(part))
        # Kept by number alone: a policy counts images, and never looks into them.
        if media:
            self.media[index + 1] = media
        self.grouping.add(_read(message, index), index)

    def end(self) -> Transcript:
        blocks = self.grouping.close()
        if not blocks:
            msg = "the transcript has no message but the system's"
            raise TranscriptError(msg)
        return Transcript(
            messages=tuple(self.messages),
            system_count=self.system_count,
            blocks=blocks,
            media=self.media,
            dropped=tuple(self.grouping.dropped),
            repairs=tuple(self.repairs),
        )

    def _message(self, item: object, index: int) -> Json:
        """Return a message with text or parts as its content, and calls that an API takes."""
        if not is_object(item):
            raise _refused(index, "it has to be an object")
        try:
            message = as_object(_whole(item))
        except RecursionError as error:
            raise _refused(index, "it is nested too deeply") from error
        # Half a character in a log of somebody else would break the request of today.
        if message != item:
            self._tell(index, "half characters stand in it", "they became U+FFFD")
        role = message.get("role")
        if role not in _ROLES:
            raise _refused(index, f"the role {_shown(role)} is unknown; use {', '.join(_ROLES)}")
        # The form before tools has no ids: which result belongs to it is not known.
        if message.get("function_call") is not None:
            raise _refused(index, "function_call is not understood; give it as tool_calls")
        message = {**message, "content": self._content(message, index)}
        if role == "assistant":
            calls = self._calls(message.get("tool_calls"), index)
            message.pop("tool_calls", None)
            if calls:
                message["tool_calls"] = calls
        elif role == "tool":
            message["tool_call_id"] = self._id(message.get("tool_call_id"), index)
        return message

    def _content(self, message: Json, index: int) -> str | list[object] | None:
        content = message.get("content")
        if isinstance(content, str):
            return content
        if content is None:
            # Nothing said beside a call is the usual case, and no fault.
            if message["role"] == "assistant" and message.get("tool_calls"):
                return None
            self._tell(index, "it has no content", "it is empty")
            return ""
        if not is_list(content):
            raise _refused(
                index, f"content has to be a text or a list of parts, not {_shown(content)}"
            )
        if not content:
            self._tell(index, "it has no content", "it is empty")
            return ""
        for number, part in enumerate(content):
            kind = as_object(part).get("type")
            if kind not in _PARTS or (kind == "text" and not _is_text(as_object(part))):
                raise _refused(index, f"part {number} of its content is not understood")
        return content

    def _calls(self, calls: object, index: int) -> list[Json]:
        if calls is None:
            return []
        if not is_list(calls):
            raise _refused(index, "tool_calls has to be a list")
        read: list[Json] = []
        for number, item in enumerate(calls):
            call = as_object(item)
            function = as_object(call.get("function"))
            name = function.get("name")
            if not isinstance(name, str) or not name:
                raise _refused(index, f"call {number} names no function")
            call_id = call.get("id")
            # Local servers leave it out; a number of ours keeps call and result together.
            if not isinstance(call_id, str) or not call_id:
                call_id = f"call_{index}_{number}"
                self._tell(index, f"call {number} has no id", f"its id is {call_id}")
            arguments = self._arguments(function.get("arguments"), index, number)
            read.append(
                {
                    **call,
                    "id": call_id,
                    "type": "function",
                    "function": {**function, "arguments": arguments},
                }
            )
        return read

    def _arguments(self, value: object, index: int, number: int) -> str:
        """Return arguments as the text of a JSON object."""
        if isinstance(value, str):
            try:
                if isinstance(_parsed(value), dict):
                    return value
            except (ValueError, RecursionError):
                pass
        problem = f"the arguments of call {number} are not the text of a JSON object"
        # Some clients keep arguments as an object; APIs take them as text.
        if isinstance(value, dict):
            self._tell(index, problem, "the object was written as text")
            return json.dumps(value, ensure_ascii=False)
        if value is None or value == "":
            self._tell(index, problem, "they are {}")
            return "{}"
        self._tell(index, problem, "they stand in one under invalid_arguments")
        return json.dumps({"invalid_arguments": value}, ensure_ascii=False)

    def _id(self, value: object, index: int) -> str:
        """Return the call that a result names, else the first one that waits."""
        if isinstance(value, str) and value:
            return value
        waiting = self.grouping.missing
        # With more than one, a guess would give a call the result of another.
        if len(waiting) == 1:
            self._tell(index, "it names no call", f"it is the result of {waiting[0]}")
            return waiting[0]
        return ""

    def _misplaced(self, fault: Misplaced) -> None:
        self._tell(fault.index, fault.problem, fault.repair)

    def _tell(self, index: int, problem: str, repair: str) -> None:
        self.repairs.append(Repair(index=index, problem=problem, repair=repair))


def _refused(index: int, why: str) -> TranscriptError:
    return TranscriptError(f"messages[{index}]: {why}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def _whole(value: object, depth: int = 0) -> object:
    """Return the value without lone surrogates: no API and no file can carry them.

    Raises:
        RecursionError: It is nested too deeply to be written again.
    """
    # Deeper than any JSON that was read; a value made here may still be.
    if depth > _DEEPEST:
        raise RecursionError
    if isinstance(value, str):
        return _mended(value)
    if is_list(value):
        return [_whole(item, depth + 1) for item in value]
    if is_object(value):
        return {_mended(k): _whole(v, depth + 1) for k, v in value.items()}
    return value


def _mended(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _parts(message: Json) -> list[Json]:
    return [part for part in as_list(message.get("content")) if is_object(part)]


def _is_text(part: Json) -> bool:
    return isinstance(part.get("text"), str)


def message_text(message: Json) -> str:
    """Return the text of a message: that of its text parts, without images and files."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    texts = (part.get("text") for part in _parts(message))
    return "\n".join(text for text in texts if isinstance(text, str))


def _read(message: Json, index: int) -> AnyMessage:
    text, seq = message_text(message), index + 1
    match message["role"]:
        case "user":
            return UserMessage(seq=seq, text=text)
        case "assistant":
            reasoning = message.get("reasoning_content")
            return Reply(
                seq=seq,
                text=text,
                reasoning=reasoning if isinstance(reasoning, str) else "",
                calls=tuple(
                    ToolCall(
                        call_id=call["id"],
                        name=call["function"]["name"],
                        arguments=call["function"]["arguments"],
                    )
                    for call in message.get("tool_calls", ())
                ),
            )
        case "tool":
            return ToolResult(seq=seq, call_id=message["tool_call_id"], name="", text=text)
        case _:
            return Notice(seq=seq, text=text)


def write_messages(transcript: Transcript, applied: Applied, given_system: str) -> list[Json]:
    """Return the request's messages; what no stage touched is as it was given.

    Args:
        transcript: What was read.
        applied: What a policy made of it.
        given_system: The system prompt that was given beside the transcript; "" for none.
    """
    out: list[Json] = []
    preamble = applied.preamble
    before = "\n\n".join(part for part in (given_system, transcript.system) if part)
    # What was not changed is given back as it came, in as many messages as it was.
    if preamble.system != before:
        out.append({"role": "system", "content": preamble.system})
    else:
        if given_system:
            out.append({"role": "system", "content": given_system})
        out += transcript.messages[: transcript.system_count]
    if preamble.notice:
        out.append({"role": "system", "content": preamble.notice})
    if preamble.preface:
        out.append({"role": "user", "content": preamble.preface})
    out += [_write(transcript.messages, message) for message in applied.projection.messages]
    return out


def _write(given: Sequence[Json], message: AnyMessage) -> Json:
    if not message.seq:  # it was put in: a result that was missing, or a word about a gap
        if isinstance(message, ToolResult):
            return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
        return {"role": "user", "content": message.text}
    raw = dict(given[message.seq - 1])
    # Images stay beside a text that was shortened.
    if message.text != message_text(raw):
        media = [part for part in _parts(raw) if not _is_text(part)]
        text = {"type": "text", "text": message.text}
        raw["content"] = [text, *media] if media else message.text
    if isinstance(message, ToolResult):
        raw["tool_call_id"] = message.call_id
    if isinstance(message, Reply) and message.calls:
        raw["tool_calls"] = [
            {
                **call,
                "id": now.call_id,
                "function": {**call["function"], "arguments": now.arguments},
            }
            for call, now in zip(raw["tool_calls"], message.calls, strict=True)
        ]
    return raw
