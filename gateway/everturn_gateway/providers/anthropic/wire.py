"""A request as the bytes of a body of Anthropic's Messages API. Pure.

What we call a message becomes blocks; blocks of the same side stand in one message, so that user
and assistant take turns: results of calls first, then what a person said.

Marks for the cache of prompts are set at the end of tools, of the system prompt, of the request,
and of the request before it: the last writes what is new, the one before finds what was written,
however many blocks came in between.

Sources, read 2026-11-22: https://platform.claude.com/docs/en/api/messages,
https://platform.claude.com/docs/en/build-with-claude/prompt-caching and /thinking.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, Final, TypeAlias, assert_never, cast

import orjson
from msgspec.structs import replace

from everturn_actors.model import (
    AnyMessage,
    Attachment,
    ModelRequest,
    Notice,
    Reply,
    ToolCall,
    ToolDefinition,
    ToolResult,
    UserMessage,
    remember,
)
from everturn_gateway.providers.transport.asked import (
    anthropic_options,
    anthropic_tool_choice,
    form_in_words,
)
from everturn_gateway.providers.transport.attached import base64, pictures, text_with_files
from everturn_gateway.providers.transport.encoding import compact, dumps, object_bytes
from everturn_gateway.providers.transport.opaque import unpack

_FORM: Final = "anthropic"
_MARK: Final = b',"cache_control":{"type":"ephemeral"}}'
_MARKED: Final = {"cache_control": {"type": "ephemeral"}}
_NOT_OF_AN_ID: Final = re.compile(r"[^a-zA-Z0-9_-]")
_OPENING: Final = {"type": "text", "text": "[What was said before is left out.]"}
_NOTHING: Final = {"type": "text", "text": "[No text.]"}
_GOING_ON: Final = {"type": "text", "text": "[Go on.]"}

_Blocks: TypeAlias = dict[str, Any] | bytes
"""A block, or one or several as bytes; empty = none.

Texts are serialised with the request, in one go, and not held twice. What takes work to put
together, the blocks of a reply with calls or thoughts, is kept as bytes with its message.
"""


class BodyWriter:
    """Writes request bodies for one model of one agent.

    Keeps the bytes of the last system prompt and the last tools it saw. What a model wants back
    with a reply goes to the address it came from alone, `origin`.
    """

    def __init__(self, *, origin: str = "") -> None:
        self._origin = origin
        self._system: tuple[str, bytes] = ("", b"")
        self._tools: tuple[tuple[ToolDefinition, ...], bytes] = ((), b"")

    def body(
        self,
        request: ModelRequest,
        options: Mapping[str, object],
        *,
        replays: bool = True,
        marks: bool = True,
        streams: bool = True,
    ) -> bytes:
        """Return the JSON body of a request.

        Args:
            request: What to send.
            options: What stands in the body beside model, system, tools and messages.
            streams: Whether a reply is asked for, piece by piece; False = it is to be counted.
            replays: Whether thoughts are sent back with the calls that followed them.
            marks: Whether marks for the cache are set.
        """
        mark = _MARK if marks else b"}"
        block = self.block(request) if replays else None
        asked = request.options
        head: dict[str, object] = {"model": request.model}
        if streams:
            head["stream"] = True
        head |= options
        if request.compacts:
            head["compaction"] = {"type": "summarize"}
        if streams:
            head |= anthropic_options(asked)
        tools = request.tools or _called(request.messages)
        if request.tools:
            head |= anthropic_tool_choice(asked)
        elif tools:  # calls without tools are refused; none may be called
            head["tool_choice"] = {"type": "none"}
        parts = [dumps(head)[:-1]]
        if tools:
            parts.append(b'"tools":[%b%b]' % (self._tools_bytes(tools)[:-1], mark))
        if request.system.strip():
            told = form_in_words(asked)  # behind the mark: the rest is the same in every request
            form = b"," + dumps(_text(told)) if told else b""
            parts.append(
                b'"system":[%b%b%b]' % (self._system_bytes(request.system)[:-1], mark, form)
            )
        elif told := form_in_words(asked):
            parts.append(b'"system":[%b]' % dumps(_text(told)))
        if block is not None:
            request = dataclasses.replace(request, messages=request.messages[1:])
        runs = self._runs(request, replays=replays)
        last = len(runs) - 1
        ends = {last, last - 2} if marks else frozenset[int]()
        messages = [
            _turn(is_reply=number % 2 == 1, blocks=run, is_marked=number in ends)
            for number, run in enumerate(runs)
        ]
        if block is not None:  # the summary stands first, as its provider gave it
            messages.insert(0, {"role": "assistant", "content": [block]})
        parts.append(b'"messages":%b}' % dumps(messages))
        return b",".join(parts)

    def block(self, request: ModelRequest) -> dict[str, object] | None:
        """Return the summary that its provider gets back in its own form; None = it has none."""
        first = request.messages[0] if request.messages else None
        if not isinstance(first, Notice):
            return None
        kept = unpack(first.opaque, self._origin, request.model, dict[str, object])
        return kept if kept and kept.get("type") == "compaction" else None

    def _runs(self, request: ModelRequest, *, replays: bool) -> list[list[_Blocks]]:
        """Return the blocks of each message of the body, the user's and the model's in turn."""
        runs: list[list[_Blocks]] = [[]]
        names = _Ids()
        for message in request.messages:
            is_reply = isinstance(message, Reply)
            named = names.renamed(message) if names.clash(message) else message
            blocks = self._blocks(named, request, replays=replays)
            if not blocks:
                continue
            if is_reply == (len(runs) % 2 == 1):  # the other side's turn
                runs.append([])
            runs[-1].append(blocks)
        if not runs[0]:
            runs[0].append(_OPENING if len(runs) > 1 else _NOTHING)
        if len(runs) % 2 == 0 and not request.compacts:  # newer models do not go on with a reply
            runs.append([_GOING_ON])
        return runs

    def _blocks(self, message: AnyMessage, request: ModelRequest, *, replays: bool) -> _Blocks:
        """Return the blocks of a message; empty = it has none."""
        match message:
            case UserMessage(text=text, attachments=()) | Notice(text=text):
                is_notice = isinstance(message, Notice)
                return _text(
                    f"[Note of the gateway: {text}]" if is_notice and text.strip() else text
                )
            case UserMessage():
                shown = pictures(message, request.media)
                if shown:
                    return _with_pictures(message, shown, request.media)
                return _text(text_with_files(message))
            case ToolResult():
                return _result(message, request.media)
            case Reply(text=text, calls=(), opaque=""):
                return _text(text)
            case Reply(opaque=opaque):
                form, thoughts = f"{_FORM} bare", None
                if opaque and replays:  # to another model, nothing is given back
                    form = f"{_FORM} {self._origin} {request.model}"
                    thoughts = partial(unpack, opaque, self._origin, request.model, list[object])
                return remember(
                    message, form, lambda: _reply(message, thoughts() if thoughts else None)
                )
            case _:
                assert_never(message)

    def _system_bytes(self, system: str) -> bytes:
        kept = self._system  # another thread may keep another one meanwhile
        if kept[0] != system:
            kept = self._system = (system, compact(_text(system)))
        return kept[1]

    def _tools_bytes(self, tools: tuple[ToolDefinition, ...]) -> bytes:
        kept = self._tools
        if kept[0] != tools:
            kept = self._tools = (tools, b",".join(dumps(_tool(tool)) for tool in tools))
        return kept[1]


def may_think(request: ModelRequest, origin: str) -> bool:
    """Whether the API takes a budget for thoughts in this request.

    Where the results of calls are sent, it wants the thought that led to the calls; another
    model's reply, or one from before it was told to think, has none.
    """
    has_results = False
    for message in reversed(request.messages):
        if isinstance(message, Reply):
            return not has_results or bool(
                unpack(message.opaque, origin, request.model, list[object])
            )
        has_results = has_results or isinstance(message, ToolResult)
    return True


class _Ids:
    """Finds ids of calls that stand twice in one request, which the API refuses.

    Another provider's replies may have them.
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._new: dict[str, str] = {}
        "New ids of the calls of the last reply, by their old ones."

    def clash(self, message: AnyMessage) -> bool:
        """Whether `message` has to be `renamed`."""
        if isinstance(message, ToolResult):
            return message.call_id in self._new
        if not isinstance(message, Reply) or not message.calls:
            return False
        self._new = {}
        for call in message.calls:
            number, call_id = 1, _id(call.call_id)
            while call_id in self._taken:
                number += 1
                call_id = _id(f"{call.call_id}_{number}")
            if number > 1:
                self._new[call.call_id] = call_id
            self._taken.add(call_id)
        return bool(self._new)

    def renamed(self, message: AnyMessage) -> AnyMessage:
        """Return `message` with ids of its own."""
        match message:
            case Reply(calls=calls):
                own = tuple(
                    ToolCall(
                        call_id=self._new.get(call.call_id, call.call_id),
                        name=call.name,
                        arguments=call.arguments,
                    )
                    for call in calls
                )
                return replace(message, calls=own)
            case ToolResult(call_id=call_id):
                return replace(message, call_id=self._new[call_id])
            case _:
                return message


def _turn(*, is_reply: bool, blocks: list[_Blocks], is_marked: bool) -> dict[str, object]:
    if is_marked:
        last = blocks[-1]
        # Bytes of a block end with its brace: there the mark goes in.
        blocks[-1] = last[:-1] + _MARK if isinstance(last, bytes) else {**last, **_MARKED}
    content = [orjson.Fragment(each) if isinstance(each, bytes) else each for each in blocks]
    return {"role": "assistant" if is_reply else "user", "content": content}


def _text(text: str) -> dict[str, object]:
    """Return a block of text; blank ones are refused and left out."""
    return {"type": "text", "text": text} if text.strip() else {}


def _with_pictures(
    message: UserMessage | ToolResult, shown: Collection[Attachment], media: Mapping[str, bytes]
) -> bytes:
    blocks = [
        b'{"type":"image","source":{"type":"base64","media_type":"%b","data":"%b"}}'
        % (each.media_type.encode(), base64(media[each.name]))
        for each in shown
    ]
    text = _text(text_with_files(message, shown))
    return b",".join([*blocks, dumps(text)] if text else blocks)


def _result(result: ToolResult, media: Mapping[str, bytes]) -> dict[str, object]:
    content: object = result.text
    if result.attachments:
        shown = pictures(result, media)
        content = text_with_files(result, shown)
        if shown:
            content = orjson.Fragment(b"[%b]" % _with_pictures(result, shown, media))
    return {
        "type": "tool_result",
        "tool_use_id": _id(result.call_id),
        **({"content": content} if not isinstance(content, str) or content.strip() else {}),
        **({"is_error": True} if result.is_error else {}),
    }


def _reply(reply: Reply, kept: object) -> bytes:
    """Return the blocks of a reply, the thoughts among them where they are to be sent back."""
    calls = [_call(call) for call in reply.calls]
    blocks = _in_their_order(reply, calls, cast("list[dict[str, object]]", kept)) if kept else None
    if blocks is None:
        blocks = [_text(reply.text), *calls]
    return compact([block for block in blocks if block])[1:-1]


def _in_their_order(
    reply: Reply, calls: list[dict[str, Any]], kept: list[dict[str, Any]]
) -> list[dict[str, object]]:
    """Return thoughts, texts and calls as they came.

    Where text or calls were changed since, thoughts come first, then the rest.
    """
    texts = [each for each in kept if each["type"] == "text"]
    places = [each["at"] for each in kept if each["type"] == "call"]
    thoughts = [each for each in kept if each["type"] not in {"text", "call"}]
    end = texts[-1]["end"] if texts else 0
    if end != len(reply.text) or places != list(range(len(calls))):
        return [*thoughts, _text(reply.text), *calls]
    return [
        _text(reply.text[each["begin"] : each["end"]])
        if each["type"] == "text"
        else calls[each["at"]]
        if each["type"] == "call"
        else each
        for each in kept
    ]


def _call(call: ToolCall) -> dict[str, object]:
    # As the model wrote it; only what is no object, and so was never run, is wrapped in one.
    given = object_bytes(call.arguments)
    return {
        "type": "tool_use",
        "id": _id(call.call_id),
        "name": call.name,
        "input": orjson.Fragment(given) if given else {"arguments": call.arguments},
    }


def _id(call_id: str) -> str:
    """Return an id as the API takes it; those it gave itself stay as they are."""
    return _NOT_OF_AN_ID.sub("_", call_id)


def _tool(tool: ToolDefinition) -> dict[str, object]:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": {"type": "object", **tool.parameters},
    }


def _called(messages: Collection[AnyMessage]) -> tuple[ToolDefinition, ...]:
    """Return stand-ins for the tools that were called."""
    names = {c.name for m in messages if isinstance(m, Reply) for c in m.calls}
    return tuple(
        ToolDefinition(name=name, description="Not available now.", parameters={})
        for name in sorted(names)
    )
