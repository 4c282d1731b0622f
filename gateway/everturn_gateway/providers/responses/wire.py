"""A request as the bytes of a body of OpenAI's Responses API. Pure: no IO.

What we call a message becomes one item or several. Nothing is kept at the provider (`store`): each
request has the whole conversation, and what the model thought before its calls goes back encrypted,
as it came. So does what stands for a conversation that the provider compacted.

Sources, read 2026-11-26: https://developers.openai.com/api/reference/resources/responses,
https://developers.openai.com/api/docs/guides/compaction and /reasoning, and the types of the
package `openai` 3.54 (an item `compaction_trigger` comes last, and asks for compaction).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias, assert_never

import orjson

from everturn_actors.json_values import Json
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
from everturn_gateway.providers.transport.asked import (
    form_in_words,
    responses_options,
    responses_tool_choice,
)
from everturn_gateway.providers.transport.attached import (
    Parts,
    images_apart,
    pictures,
    text_with_files,
    with_pictures,
)
from everturn_gateway.providers.transport.encoding import compact, dumps
from everturn_gateway.providers.transport.opaque import unpack
from everturn_gateway.providers.transport.wire import SentBytes

_PARTS: Final = Parts(
    text_type="input_text",
    picture=b'{"type":"input_image","detail":"auto","image_url":"data:%b;base64,%b"}',
)
_FORM: Final = "responses"
_LEAST_OUTPUT_TOKENS: Final = 16  # a lower limit is refused
_TRIGGER: Final = b'{"type":"compaction_trigger"}'
_MAKES_IMAGES: Final = b'{"type":"image_generation"}]'

_Items: TypeAlias = Json | orjson.Fragment
"""An item, or several as bytes with commas between."""


class BodyWriter:
    """Writes request bodies for one model of one agent.

    What a model wants back goes to the address it came from alone, `origin`.
    """

    def __init__(self, *, origin: str = "", sent: SentBytes | None = None) -> None:
        """Begin without anything kept.

        Args:
            origin: The address that gets back what it gave with a reply.
            sent: What requests began with, of all models; None = of this one alone.
        """
        self._origin, self._sent = origin, sent or SentBytes()
        self._system: tuple[str, bytes] = ("", b"")
        self._tools: tuple[tuple[ToolDefinition, ...], bytes] = ((), b"")

    def body(
        self,
        request: ModelRequest,
        *,
        leave_out: Collection[str] = (),
        replays: bool = True,
        counts: bool = False,
    ) -> bytes:
        """Return the JSON body of a request.

        Args:
            request: What to send.
            leave_out: Parameters that this model was found to refuse.
            replays: Whether what it gave encrypted goes back.
            counts: Whether it is to be counted alone; else a reply is asked for, piece by piece.
        """
        options: dict[str, object] = {"model": request.model}
        if counts:  # a schema that the answer has to follow stands in the prompt
            asked = responses_options(request.options, leave_out)
            options |= {name: each for name, each in asked.items() if name == "text"}
        else:
            options |= {"stream": True, "store": False}
            if not request.compacts:
                options |= _of_reply(request, leave_out)
        if request.reasoning_effort is not None and "reasoning_effort" not in leave_out:
            options["reasoning"] = {"effort": request.reasoning_effort}
        tools = self._tools_bytes(request.tools)
        if request.makes_images and not request.compacts:  # the provider's own tool
            tools = tools[:-1] + b"," + _MAKES_IMAGES if tools else b',"tools":[' + _MAKES_IMAGES
        if request.tools and not request.compacts:
            choice = responses_tool_choice(request.options)
            options |= {name: each for name, each in choice.items() if name not in leave_out}
        parts = self._input(request, replays=replays)
        if "response_format" in leave_out and (words := form_in_words(request.options)):
            parts.append(dumps({"role": "system", "content": words}))
        if request.compacts:
            parts.append(_TRIGGER)
        system = self._system_bytes(request.system)
        head = b"".join((dumps(options)[:-1], system, tools, b',"input":['))
        return b"".join((head, b",".join(parts), b"]}"))

    def block(self, request: ModelRequest) -> tuple[Json, ...]:
        """Return the items that stand for what its provider compacted; none = there are none."""
        first = request.messages[0] if request.messages else None
        if not isinstance(first, Notice):
            return ()
        return _kept(first.opaque, self._origin, request.model)

    def _input(self, request: ModelRequest, *, replays: bool) -> list[bytes]:
        """Return parts of the elements of `input`; a comma belongs between two."""
        block = self.block(request) if replays else ()
        messages = images_apart(request)[bool(block) :]
        parts = [dumps(each) for each in block]
        write = partial(self._written, request=request, replays=replays)
        if request.media:  # which of them is shown may change from one request to the next
            parts.append(write(messages))
        elif messages:
            form = f"{_FORM} {request.model} {replays} {self._origin}"
            parts += self._sent.parts(tuple(messages), form, write)
        return parts

    def _written(
        self, messages: Sequence[AnyMessage], request: ModelRequest, *, replays: bool
    ) -> bytes:
        """Return the items of messages, with commas between; each message has one at least."""
        found = [self._items(message, request, replays=replays) for message in messages]
        return dumps(found)[1:-1]

    def _items(self, message: AnyMessage, request: ModelRequest, *, replays: bool) -> _Items:
        match message:
            case UserMessage():
                shown = pictures(message, request.media) if message.attachments else ()
                if shown:
                    return orjson.Fragment(with_pictures(message, shown, request.media, _PARTS))
                return {"role": "user", "content": text_with_files(message)}
            case Notice(text=text):
                return {"role": "system", "content": text}
            case ToolResult(call_id=call_id):
                text = text_with_files(message, pictures(message, request.media))
                return {"type": "function_call_output", "call_id": call_id, "output": text}
            case Reply(text=text, calls=(), opaque=""):
                return {"role": "assistant", "content": text}
            case Reply(opaque=opaque):
                form, origin = f"{_FORM} bare", ""
                if opaque and replays:  # to another model, nothing is given back
                    form, origin = f"{_FORM} {self._origin} {request.model}", self._origin
                made = partial(_reply, message, origin, request.model)
                return orjson.Fragment(remember(message, form, lambda: _joined(made())))
            case _:
                assert_never(message)

    def _system_bytes(self, system: str) -> bytes:
        kept = self._system  # another thread may keep another one meanwhile
        if kept[0] != system:
            kept = self._system = (system, b',"instructions":' + compact(system))
        return kept[1] if system else b""

    def _tools_bytes(self, tools: tuple[ToolDefinition, ...]) -> bytes:
        kept = self._tools
        if kept[0] != tools:
            kept = self._tools = (tools, b',"tools":' + dumps([_tool(each) for each in tools]))
        return kept[1] if tools else b""


def _of_reply(request: ModelRequest, leave_out: Collection[str]) -> dict[str, object]:
    """Return what a reply is asked for with, and a count is not."""
    options: dict[str, object] = {}
    if request.max_output_tokens is not None:
        options["max_output_tokens"] = max(request.max_output_tokens, _LEAST_OUTPUT_TOKENS)
    if request.temperature is not None and "temperature" not in leave_out:
        options["temperature"] = request.temperature
    return options | {
        name: value
        for name, value in responses_options(request.options, leave_out).items()
        if name not in leave_out
    }


def _kept(opaque: str, origin: str, model: str) -> tuple[Json, ...]:
    """Return the items that were packed; none where another model gave them."""
    kept = unpack(opaque, origin, model, dict[str, list[Json]]) or {}
    return tuple(kept.get("items") or ())


def _reply(reply: Reply, origin: str, model: str) -> Iterator[Json]:
    """Yield the items of a reply, in the order in which they came."""
    kept = _kept(reply.opaque, origin, model) if origin else ()
    if not _tells_all(kept, reply):
        if reply.text or not reply.calls:
            yield {"role": "assistant", "content": reply.text}
        kept = tuple[Json, ...]({"type": "call", "at": n} for n in range(len(reply.calls)))
    for item in kept:
        match item:
            case {"type": "call", "at": int(at)}:
                call = reply.calls[at]
                yield {
                    "type": "function_call",
                    "call_id": call.call_id,
                    "name": call.name,
                    "arguments": call.arguments,
                }
            case {"type": "text", "begin": int(begin), "end": int(end)}:
                text: Json = {"role": "assistant", "content": reply.text[begin:end]}
                if item.get("phase"):
                    text["phase"] = item["phase"]
                yield text
            case _:
                yield item


def _tells_all(kept: Sequence[Json], reply: Reply) -> bool:
    """Whether items are of a reply as it is shown: it may have been shortened since."""
    ends = [end for item in kept if isinstance(end := item.get("end"), int)]
    calls = sum(1 for item in kept if item.get("type") == "call")
    return bool(kept) and (max(ends, default=0), calls) == (len(reply.text), len(reply.calls))


def _joined(items: Iterator[Json]) -> bytes:
    return b",".join(compact(each) for each in items)


def _tool(tool: ToolDefinition) -> dict[str, object]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
        "strict": False,
    }
