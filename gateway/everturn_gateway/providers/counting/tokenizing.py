"""Prompts counted in this process, by the model's own tokenizer, whose file the agent names.

A tokenizer counts texts. What the model's template puts around them, and how it writes tools, is
not in its file: that is taken from the last prompt that the provider reported, as what it had
beyond its texts. So it counts near the edge of the window without a wait, for servers that have no
route for it, too. Nothing is ever downloaded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from everturn_actors.context.estimation.tokens import tool_json
from everturn_actors.model import (
    AnyMessage,
    ModelRequest,
    Notice,
    Reply,
    ToolResult,
    UserMessage,
    remember,
)
from everturn_actors.ports import ModelProvider, WindowSource, counted_by
from everturn_gateway.providers.errors import ProviderConfigError
from everturn_gateway.providers.transport.attached import text_with_files
from everturn_gateway.providers.transport.encoding import dumps

if TYPE_CHECKING:
    import tokenizers

logger = logging.getLogger(__name__)

EXTRA: Final = "everturn[tokenizers]"
_MESSAGE_TOKENS: Final = 4  # what templates put around a message, about; the rest is reported
_PIECE_CHARACTERS: Final = 50_000  # of one text: some tokenizers take the square of its length


class Tokenizer:
    """A `tokenizer.json`, which is loaded when it first counts; that takes a second."""

    def __init__(self, file: Path) -> None:
        """Take a file.

        Raises:
            ProviderConfigError: It is not there, or what reads it is not installed.
        """
        if not file.is_file():
            msg = f"spec.model.tokenizer: there is no file {file}; it is the model's tokenizer.json"
            raise ProviderConfigError(msg)
        if find_spec("tokenizers") is None:
            msg = f"spec.model.tokenizer needs an extra: pip install '{EXTRA}'"
            raise ProviderConfigError(msg)
        self._file = file
        self._form = f"tokens {file}"
        self._loaded: tokenizers.Tokenizer | None = None
        self._lock = Lock()

    def of_request(self, request: ModelRequest) -> int:
        """Return the tokens of all texts of a request, and some for each message. In a thread.

        Raises:
            ValueError: The file is none of a tokenizer.
        """
        tools = sum(self._text(dumps(tool_json(tool)).decode()) for tool in request.tools)
        messages = sum(
            remember(message, self._form, partial(self._message, message))
            for message in request.messages
        )
        return self._text(request.system) + tools + messages

    def _message(self, message: AnyMessage) -> int:
        match message:
            case UserMessage() | ToolResult():
                texts = [text_with_files(message)]
            case Reply(calls=calls):
                texts = [message.text, *(each for c in calls for each in (c.name, c.arguments))]
            case _:
                texts = [message.text]
        return _MESSAGE_TOKENS + sum(map(self._text, texts))

    def _text(self, text: str) -> int:
        tokenizer = self._loaded or self._load()
        starts = range(0, len(text), _PIECE_CHARACTERS)
        pieces = [text[start : start + _PIECE_CHARACTERS] for start in starts]
        return sum(len(tokenizer.encode(each, add_special_tokens=False)) for each in pieces)

    def _load(self) -> tokenizers.Tokenizer:
        import tokenizers  # noqa: PLC0415 - of an extra

        with self._lock:
            if self._loaded is None:
                try:
                    self._loaded = tokenizers.Tokenizer.from_file(str(self._file))
                except Exception as error:  # the library raises nothing narrower
                    msg = f"{self._file} is no tokenizer.json: {error}"
                    raise ValueError(msg) from error
            return self._loaded


class Tokenized:
    """A provider whose prompts are counted here."""

    def __init__(self, provider: ModelProvider, tokenizer: Tokenizer) -> None:
        self._provider, self._tokenizer = provider, tokenizer
        self._is_broken = False
        self._reported: tuple[ModelRequest, int] | None = None
        "The last request that the provider reported, and its tokens."

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Return the complete reply; see `ModelProvider.complete`."""
        reply = await self._provider.complete(request, on_text)
        if reply.usage.input_tokens and _is_text(request):
            self._reported = request, reply.usage.input_tokens
        return reply

    async def window_tokens(self) -> int | None:
        """Return the window; see `WindowSource.window_tokens`."""
        source = self._provider
        return await source.window_tokens() if isinstance(source, WindowSource) else None

    async def count_tokens(self, request: ModelRequest) -> int | None:
        """Return what a request would cost; see `PromptCounter.count_tokens`.

        Before the first report, and of what is not text alone, the provider is asked, where it has
        a route for that.
        """
        reported, is_text = self._reported, _is_text(request)
        if reported is None or not is_text or self._is_broken:
            told_tokens = await counted_by(self._provider, request)
            if told_tokens is not None or not is_text or self._is_broken:
                return told_tokens
        try:
            return await anyio.to_thread.run_sync(self._counted, request, reported)
        except ValueError as error:
            self._is_broken = True
            logger.warning("a tokenizer cannot be used", extra={"reason": str(error)})
            return None

    def _counted(self, request: ModelRequest, reported: tuple[ModelRequest, int] | None) -> int:
        tokens = self._tokenizer.of_request(request)
        if reported is None:
            return tokens
        before, told_tokens = reported
        return max(tokens + told_tokens - self._tokenizer.of_request(before), 1)


def _is_text(request: ModelRequest) -> bool:
    """Whether a request is nothing but text that is known here."""
    return not request.media and not any(
        isinstance(each, Reply | Notice) and each.opaque for each in request.messages
    )
