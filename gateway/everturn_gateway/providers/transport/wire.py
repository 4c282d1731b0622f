"""A request as the bytes of a chat-completions body. Pure: no IO.

The messages of a request are serialised in one go, which takes a third of the time of joining the
bytes of each. Only what takes work to put together, a reply with calls, is kept as bytes with its
message, and what long conversations began with, in bounded memory.

Sources: https://platform.openai.com/docs/api-reference/chat/create (read 2026-11-21);
https://ai.google.dev/gemini-api/docs/openai and /thought-signatures;
https://openrouter.ai/docs/use-cases/reasoning-tokens and /usage-accounting (read 2026-11-22).
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final, assert_never

import orjson
from msgspec import Struct

from everturn_actors.context.estimation.tokens import tool_json
from everturn_actors.model import (
    DEFAULT_OPTIONS,
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
    openai_options,
    openai_tool_choice,
)
from everturn_gateway.providers.transport.attached import (
    Parts,
    images_apart,
    pictures,
    text_with_files,
    with_pictures,
)
from everturn_gateway.providers.transport.encoding import compact, dumps
from everturn_gateway.providers.transport.endpoints import MaxTokensField, Vendor
from everturn_gateway.providers.transport.opaque import unpack

_PARTS: Final = Parts(
    text_type="text",
    picture=b'{"type":"image_url","image_url":{"url":"data:%b;base64,%b"}}',
)
# What Gemini takes in place of the signature of a call that it did not make. Older models than
# Gemini 3 check none.
_UNSIGNED: Final = {"google": {"thought_signature": "skip_thought_signature_validator"}}
_SIGNS_NONE: Final = re.compile(r"gemini-[12]\b")


LONG_MESSAGES: Final = 64  # of a request; a shorter one is written in some microseconds
NEW_MESSAGES: Final = 16  # since a beginning was kept: then a longer one is
SENT_BYTES: Final = 8 * 1024 * 1024  # of all conversations; some twenty of a thousand messages


class KeptBytes:
    """The bytes of the last system prompt and the last tools of a model of an agent.

    They are the same from one call to the next, but for a new date or a new version of the agent.
    Safe in threads: what is returned is never what another request has put there meanwhile.
    """

    def __init__(self) -> None:
        self._system: tuple[str, bytes] = ("", b"")
        self._tools: tuple[tuple[ToolDefinition, ...], bytes] = ((), b"")

    def system(self, system: str) -> bytes:
        """Return the message of a system prompt."""
        kept = self._system
        if kept[0] != system:
            kept = self._system = (system, compact({"role": "system", "content": system}))
        return kept[1]

    def tools(self, tools: tuple[ToolDefinition, ...]) -> bytes:
        """Return the member `tools` of a request, with the comma before it; empty for none."""
        kept = self._tools
        if kept[0] != tools:
            kept = self._tools = (tools, b',"tools":' + dumps([tool_json(tool) for tool in tools]))
        return kept[1] if tools else b""


class _Begun(Struct, frozen=True):
    """What a request began with."""

    form: str
    messages: tuple[AnyMessage, ...]
    data: bytes


class SentBytes:
    """The bytes with which the newest requests of long conversations began, in bounded memory.

    Such a request is the one before, and a few messages. To write all of it anew takes longer than
    anything else that grows with a conversation. Beyond `most_bytes` the conversation that was not
    asked for longest is written anew.
    """

    def __init__(self, most_bytes: int = SENT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._begun: OrderedDict[int, _Begun] = OrderedDict()
        "By the identity of the first message, which an entry keeps alive."
        self.size_bytes = 0

    def parts(
        self,
        messages: tuple[AnyMessage, ...],
        form: str,
        write: Callable[[Sequence[AnyMessage]], bytes],
    ) -> tuple[bytes, ...]:
        """Return messages as `write` gives them; a comma belongs between two parts.

        Args:
            messages: Of a request; not none.
            form: What the bytes depend on besides.
            write: Returns some of them, with commas between.
        """
        if len(messages) < LONG_MESSAGES:
            return (write(messages),)
        begun = self._begun.get(id(messages[0]))
        known = 0 if begun is None else len(begun.messages)
        # Mostly these are the same objects, and are not looked into.
        if begun is None or begun.form != form or messages[:known] != begun.messages:
            begun, known = None, 0
        # The last may be of this request alone: it tells what was wrong with a reply.
        if len(messages) - 1 - known >= NEW_MESSAGES:
            new = write(messages[known:-1])
            data = b",".join((begun.data, new)) if begun is not None else new
            begun, known = _Begun(form, messages[:-1], data), len(messages) - 1
            self._keep(begun)
        elif begun is not None:
            self._begun.move_to_end(id(messages[0]))
        rest = write(messages[known:])
        return (begun.data, rest) if begun is not None else (rest,)

    def _keep(self, begun: _Begun) -> None:
        place = id(begun.messages[0])
        before = self._begun.pop(place, None)
        self.size_bytes += len(begun.data) - (len(before.data) if before is not None else 0)
        self._begun[place] = begun
        while self.size_bytes > self._most_bytes:
            _, oldest = self._begun.popitem(last=False)
            self.size_bytes -= len(oldest.data)


class BodyWriter:
    """Writes request bodies for one model of one agent."""

    def __init__(
        self, *, origin: str = "", vendor: Vendor = "", sent: SentBytes | None = None
    ) -> None:
        """Begin without anything kept.

        Args:
            origin: The address that gets back what it gave with a reply.
            vendor: Whose API it is.
            sent: What requests began with, of all models; None = of this one alone.
        """
        self._origin = origin
        self._sent = sent or SentBytes()
        self._vendor = vendor
        self._form = "openai gemini" if vendor == "gemini" else "openai"
        self._kept = KeptBytes()

    def body(
        self,
        request: ModelRequest,
        *,
        max_tokens_field: MaxTokensField,
        leave_out: Collection[str] = (),
        echoes: bool = False,
    ) -> bytes:
        """Return the JSON body of a streaming request.

        `leave_out` names parameters that this model was found to refuse; `echoes` says that it was
        found to want its thoughts back with the calls they led to.
        """
        options: dict[str, object] = {"model": request.model, "stream": True}
        if "stream_options" not in leave_out:
            options["stream_options"] = {"include_usage": True}
        if self._vendor == "openrouter":
            options["usage"] = {"include": True}
        if request.temperature is not None and "temperature" not in leave_out:
            options["temperature"] = request.temperature
        if request.max_output_tokens is not None:
            options[max_tokens_field] = request.max_output_tokens
        if request.makes_images:  # OpenRouter's name for it
            options["modalities"] = ["image", "text"]
        if request.reasoning_effort is not None and "reasoning_effort" not in leave_out:
            if self._vendor == "openrouter":
                options["reasoning"] = {"effort": request.reasoning_effort}
            else:
                options["reasoning_effort"] = request.reasoning_effort
        asked = request.options
        if asked is not DEFAULT_OPTIONS:
            given = openai_options(asked)
            options |= {k: v for k, v in given.items() if v is not None and k not in leave_out}
        parts = [self._kept.system(request.system)] if request.system else []
        if request.media:  # which of them is shown may change from one request to the next
            parts.append(self._messages(images_apart(request), request, echoes=echoes))
        elif request.messages:
            write = partial(self._messages, request=request, echoes=echoes)
            form = f"{request.model} {echoes} {self._form} {self._origin}"
            parts += self._sent.parts(request.messages, form, write)
        if "response_format" in leave_out and (told := form_in_words(asked)):
            parts.append(dumps({"role": "system", "content": told}))
        tools = self._kept.tools(request.tools)
        if tools:
            choice = openai_tool_choice(asked)
            options |= {k: v for k, v in choice.items() if k not in leave_out}
        # Joined: `%` copies what is long again and again, twenty times as slowly.
        head, end = dumps(options)[:-1] + b',"messages":[', b"]" + tools + b"}"
        if not request.system or len(parts) == 1:
            return b"".join((head, b",".join(parts), end))
        # What is long is copied once: what stands around it is added to what is short.
        return b",".join((head + parts[0], *parts[1:-1], parts[-1] + end))

    def _messages(
        self, messages: Sequence[AnyMessage], request: ModelRequest, *, echoes: bool
    ) -> bytes:
        """Return elements of `messages`, with commas between."""
        # Most are of these two kinds: a call for each would take twice as long as all the rest.
        found = [
            {"role": "user", "content": message.text}
            if type(message) is UserMessage and not message.attachments
            else {"role": "assistant", "content": message.text}
            if type(message) is Reply and not message.calls
            else self._message(message, request, echoes=echoes)
            for message in messages
        ]
        return dumps(found)[1:-1]

    def _message(self, message: AnyMessage, request: ModelRequest, *, echoes: bool) -> object:
        """Return one element of `messages`."""
        match message:
            case UserMessage():
                shown = pictures(message, request.media)
                if shown:
                    return orjson.Fragment(with_pictures(message, shown, request.media, _PARTS))
                return {"role": "user", "content": text_with_files(message)}
            case Notice(text=text):
                return {"role": "system", "content": text}
            case ToolResult(call_id=call_id, text=text):
                if message.attachments:
                    text = text_with_files(message, pictures(message, request.media))
                return {"role": "tool", "tool_call_id": call_id, "content": text}
            case Reply():
                form = "openai echo" if echoes else self._form
                if message.opaque:
                    # What another model gave is left out, and so the bytes are others.
                    form = f"{form} {self._origin} {request.model}"
                calling = partial(self._calling, message, request.model, echoes=echoes)
                return orjson.Fragment(remember(message, form, lambda: compact(calling())))
            case _:
                assert_never(message)

    def _calling(self, reply: Reply, model: str, *, echoes: bool) -> dict[str, Any]:
        kept: dict[str, Any] = unpack(reply.opaque, self._origin, model, dict[str, Any]) or {}
        extras: list[object] = list(kept.get("calls") or ())
        extras += [None] * (len(reply.calls) - len(extras))
        if self._vendor == "gemini" and not any(extras) and not _SIGNS_NONE.search(model):
            extras[0] = _UNSIGNED
        calls = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
                **({"extra_content": extra} if extra else {}),
            }
            for call, extra in zip(reply.calls, extras, strict=False)
        ]
        message = {"role": "assistant", "content": reply.text or None, "tool_calls": calls}
        if kept.get("extra"):
            message["extra_content"] = kept["extra"]
        if kept.get("details"):
            message["reasoning_details"] = kept["details"]
        if echoes:
            # Reasoning is sent back to who insists on it alone: others refuse it or drop it.
            message["reasoning_content"] = reply.reasoning or " "
        return message
