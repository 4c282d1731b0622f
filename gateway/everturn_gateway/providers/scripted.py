"""Replays replies from a file, for tests and demos.

Which reply comes is a function of the request alone, so a restart changes nothing: the first entry
whose `match` fits the newest user text, else the entry without `match` whose place is the number of
model replies that the request holds (what the window leaves out is not counted).

    at_end: fail              # after the last entry without match: fail (default), last, cycle
    replies:
      - text: Hello!
      - chunks: ["How ", "are you?"]
        delay_ms: 20          # before each chunk; text without chunks is cut into words
      - match: weather        # a regular expression, searched for in the newest user text
        calls:
          - {name: forecast, arguments: '{"city": "Bonn"}'}
      - text: It works now.
        error: rate_limited   # auth, refused, overflow, rate_limited, transient or truncated
        times: 2              # how often it fails before the text comes; counted by this process
        after_chunks: 1       # chunks that are handed on before it fails
        retry_after_ms: 500
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import anyio
import anyio.lowlevel
import orjson
from pydantic import AfterValidator, Field

from everturn_actors.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelError,
    ModelRefusedError,
    ModelTransientError,
    RateLimitedError,
    TruncatedStreamError,
)
from everturn_actors.model import ModelRequest, Reply, ToolCall, Usage, UserMessage
from everturn_gateway.errors import ConfigError
from everturn_gateway.providers.builtin import words
from everturn_gateway.yaml_files import SettingsModel, check, read_document

_ErrorName: TypeAlias = Literal[
    "auth", "refused", "overflow", "rate_limited", "transient", "truncated"
]

_ERRORS: Final[Mapping[_ErrorName, type[ModelError]]] = {
    "auth": ModelAuthError,
    "refused": ModelRefusedError,
    "overflow": ContextOverflowError,
    "rate_limited": RateLimitedError,
    "transient": ModelTransientError,
    "truncated": TruncatedStreamError,
}


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        msg = f"is not a regular expression: {error}"
        raise ValueError(msg) from None
    return text


def _object(text: str) -> str:
    try:
        parsed = orjson.loads(text)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        msg = 'must be a JSON object in quotes, such as \'{"city": "Bonn"}\''
        raise ValueError(msg)  # noqa: TRY004 - pydantic collects ValueErrors
    return text


class _CallEntry(SettingsModel):
    name: str
    arguments: Annotated[str, AfterValidator(_object)] = "{}"
    id: str = ""


class _UsageEntry(SettingsModel):
    input: int = Field(default=0, ge=0)
    output: int = Field(default=0, ge=0)
    cached: int = Field(default=0, ge=0)


class _ReplyEntry(SettingsModel):
    match: Annotated[str, AfterValidator(_pattern)] | None = None
    text: str = ""
    chunks: tuple[str, ...] = ()
    delay_ms: float = Field(default=0, ge=0)
    reasoning: str = ""
    calls: tuple[_CallEntry, ...] = ()
    usage: _UsageEntry = _UsageEntry()
    stop_reason: str = ""
    error: _ErrorName | None = None
    times: int | None = Field(default=None, ge=1)
    after_chunks: int = Field(default=0, ge=0)
    retry_after_ms: float | None = Field(default=None, ge=0)

    @property
    def pieces(self) -> tuple[str, ...]:
        return self.chunks or tuple(words(self.text))

    @property
    def failures(self) -> int | None:
        """How often it fails; None = always, for an error without a reply behind it."""
        if self.error is None:
            return 0
        says_something = bool(self.pieces or self.calls)
        return self.times or (1 if says_something else None)

    def reply(self, model: str) -> Reply:
        return Reply(
            text="".join(self.pieces),
            reasoning=self.reasoning,
            calls=tuple(
                ToolCall(call_id=call.id or f"call_{n}", name=call.name, arguments=call.arguments)
                for n, call in enumerate(self.calls, start=1)
            ),
            usage=Usage(
                input_tokens=self.usage.input,
                output_tokens=self.usage.output,
                cached_tokens=self.usage.cached,
            ),
            stop_reason=self.stop_reason or ("tool_calls" if self.calls else "stop"),
            model=model,
        )


class _Script(SettingsModel):
    at_end: Literal["fail", "last", "cycle"] = "fail"
    replies: tuple[_ReplyEntry, ...] = Field(min_length=1)


class ScriptedReplies:
    """A `ModelProvider` that replays a file."""

    def __init__(self, script: _Script, file: Path) -> None:
        self._file = file
        self._at_end = script.at_end
        self._matching = [
            (re.compile(entry.match, re.IGNORECASE), entry)
            for entry in script.replies
            if entry.match is not None
        ]
        self._in_order = [entry for entry in script.replies if entry.match is None]
        self._failed: dict[int, int] = {}
        "By identity of the entry: how often it has failed."

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Return the reply that the file has for this request; see `ModelProvider.complete`."""
        entry = self._entry(request)
        failed = self._failed.get(id(entry), 0)
        fails = entry.error is not None and (entry.failures is None or failed < entry.failures)
        for piece in entry.pieces[: entry.after_chunks] if fails else entry.pieces:
            if entry.delay_ms:
                await anyio.sleep(entry.delay_ms / 1000)
            else:
                await anyio.lowlevel.checkpoint()
            on_text(piece)
        if fails and entry.error is not None:
            self._failed[id(entry)] = failed + 1
            wait_s = None if entry.retry_after_ms is None else entry.retry_after_ms / 1000
            msg = f"{self._file.name}: the script says {entry.error}"
            raise _ERRORS[entry.error](msg, retry_after_s=wait_s)
        return entry.reply(request.model)

    def _entry(self, request: ModelRequest) -> _ReplyEntry:
        users = [message for message in request.messages if isinstance(message, UserMessage)]
        newest = users[-1].text if users else ""
        for pattern, entry in self._matching:
            if pattern.search(newest):
                return entry
        place = sum(isinstance(message, Reply) for message in request.messages)
        count = len(self._in_order)
        if place < count:
            return self._in_order[place]
        if count and self._at_end != "fail":
            return self._in_order[-1 if self._at_end == "last" else place % count]
        msg = (
            f"{self._file.name}: no entry fits: {count} come in order, this is reply {place + 1};"
            " add one, or set at_end to last or cycle"
        )
        raise ModelRefusedError(msg)


def load_script(file: Path, environ: Mapping[str, str]) -> ScriptedReplies:
    """Read a script, YAML or JSON. Reads a file: not for the event loop.

    Raises:
        ConfigError: It cannot be read or is not valid; names every place.
    """
    document = read_document(file, environ)
    script, faults = check(document, _Script)
    if script is None:
        raise ConfigError(faults=faults)
    for position, entry in enumerate(script.replies):
        if entry.text and entry.chunks:
            path = ("replies", position, "chunks")
            message = "cannot stand beside text: the chunks are the text"
            raise ConfigError(faults=[document.fault(path, message)])
        if not (entry.pieces or entry.calls or entry.error):
            fault = document.fault(("replies", position), "needs text, chunks, calls or error")
            raise ConfigError(faults=[fault])
    return ScriptedReplies(script, file)
