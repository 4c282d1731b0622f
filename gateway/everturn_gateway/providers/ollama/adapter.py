"""Streaming replies of models that Ollama runs, by its own API.

Unlike its OpenAI-compatible one, it lets the agent say with what window a model is loaded, and
refuses a request that this window cannot hold.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Final

from everturn_actors.errors import ModelError, ModelRefusedError
from everturn_actors.model import ModelRequest, Reply
from everturn_actors.spec import ModelSpec
from everturn_gateway.providers.adaptive import AdaptiveProvider
from everturn_gateway.providers.errors import ProviderConfigError
from everturn_gateway.providers.ollama.lines import LineParser
from everturn_gateway.providers.ollama.reading import ReplyReader
from everturn_gateway.providers.ollama.wire import BodyWriter, KeepAlive, Thinking
from everturn_gateway.providers.transport.streaming import (
    Connection,
    RefusedRequestError,
    Transport,
)

logger = logging.getLogger(__name__)

KEEP_ALIVE_VARIABLE: Final = "OLLAMA_KEEP_ALIVE"

_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
_DURATION: Final = re.compile(r"-?(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+")
_NO_LEVELS: Final = re.compile(r"think value|invalid think", re.IGNORECASE)
_NO_THINKING: Final = re.compile(r"does not support thinking", re.IGNORECASE)
_NOT_FOUND: Final = re.compile(r"model \S+ not found", re.IGNORECASE)


class Ollama(AdaptiveProvider[Thinking]):
    """One model that Ollama runs; its manner is the way that it is asked to think."""

    def __init__(
        self,
        connection: Connection,
        *,
        model: ModelSpec,
        keep_alive: KeepAlive = None,
    ) -> None:
        transport = Transport(connection, parser=LineParser, accept="application/x-ndjson")
        super().__init__(transport, model=model.name, manner="level")
        self._num_ctx = window_asked(model)
        self._writer = BodyWriter(num_ctx=self._num_ctx, keep_alive=keep_alive)
        self._told_of_cuts = False

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Return the complete reply; see `ModelProvider.complete`."""
        reply = await super().complete(request, on_text)
        self._notice_cut(reply)
        return reply

    def _reader(self, request: ModelRequest, on_text: Callable[[str], None]) -> ReplyReader:
        where = self._transport.where(request.model)
        return ReplyReader(where=where, model=request.model, on_text=on_text)

    def _body(self, manner: Thinking, request: ModelRequest) -> bytes:
        return self._writer.body(request, thinking=manner)

    def _observed(
        self,
        request: ModelRequest,
        manner: Thinking,
        refused: RefusedRequestError,
    ) -> Thinking | None:
        said = refused.refusal.message
        if manner == "level" and _NO_LEVELS.search(said):
            return "on"
        return "unasked" if manner != "unasked" and _NO_THINKING.search(said) else None

    def _explained(self, refused: RefusedRequestError) -> ModelError:
        error = refused.error
        if type(error) is ModelRefusedError and _NOT_FOUND.search(refused.refusal.message):
            return error.with_text(f"{error}; fetch it: `ollama pull {self._model}`")
        return error

    def _notice_cut(self, reply: Reply) -> None:
        """Warn where an old version cut the request in spite of being told not to.

        The reply counts: what it does not know is the oldest part of the conversation.
        """
        tokens, window = reply.usage.input_tokens, self._num_ctx
        if window is not None and tokens >= window and not self._told_of_cuts:
            self._told_of_cuts = True
            logger.warning(
                "model was sent more than its window; its server left out the beginning",
                extra={"model": self._model, "window_tokens": window},
            )


def window_asked(model: ModelSpec) -> int | None:
    """Return the window that an agent gives its model; None = as Ollama loads it."""
    window, cap = model.context_window, model.max_input_tokens
    if window is not None and cap is not None:
        return min(window, cap)
    return window if window is not None else cap


def keep_alive_of(environ: Mapping[str, str]) -> KeepAlive:
    """Return how long models stay loaded, as the environment says; None = as the server does.

    Source: https://docs.ollama.com/faq#how-do-i-keep-a-model-loaded-in-memory-or-make-it-unload
    (read 2026-11-22): a duration such as `24h`, or seconds, less than 0 for ever.

    Raises:
        ProviderConfigError: It is neither.
    """
    given = environ.get(KEEP_ALIVE_VARIABLE, "").strip()
    if not given:
        return None
    if _NUMBER.fullmatch(given):
        return float(given) if "." in given else int(given)
    if _DURATION.fullmatch(given):
        return given
    msg = f"{KEEP_ALIVE_VARIABLE} is {given!r}; write a duration such as 24h, or seconds"
    raise ProviderConfigError(msg)
