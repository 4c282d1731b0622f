"""Streaming replies of models that Ollama runs, by its own API.

Unlike its OpenAI-compatible one, it lets the agent say with what window a model is loaded, and
refuses a request that this window cannot hold.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Final

from everturn_actors.errors import ModelRefusedError
from everturn_actors.model import ModelRequest, Reply
from everturn_actors.spec import ModelSpec
from everturn_gateway.providers.errors import ProviderConfigError
from everturn_gateway.providers.ollama.lines import LineParser
from everturn_gateway.providers.ollama.reading import ReplyReader
from everturn_gateway.providers.ollama.wire import BodyWriter, KeepAlive, Thinking
from everturn_gateway.providers.transport.endpoints import Endpoint
from everturn_gateway.providers.transport.http_clients import HttpClients
from everturn_gateway.providers.transport.sight import Sight
from everturn_gateway.providers.transport.streaming import RefusedRequestError, Transport, written

logger = logging.getLogger(__name__)

KEEP_ALIVE_VARIABLE: Final = "OLLAMA_KEEP_ALIVE"

_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
_DURATION: Final = re.compile(r"-?(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+")
_NO_LEVELS: Final = re.compile(r"think value|invalid think", re.IGNORECASE)
_NO_THINKING: Final = re.compile(r"does not support thinking", re.IGNORECASE)
_NOT_FOUND: Final = re.compile(r"model \S+ not found", re.IGNORECASE)


class Ollama:
    """One model that Ollama runs; a `ModelProvider` and a `WindowSource`."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        clients: HttpClients,
        mask: Callable[[str], str],
        model: ModelSpec,
        keep_alive: KeepAlive = None,
    ) -> None:
        self._model = model.name
        self._num_ctx = window_asked(model)
        self._transport = Transport(
            endpoint,
            clients=clients,
            mask=mask,
            parser=LineParser,
            accept="application/x-ndjson",
        )
        self._writer = BodyWriter(num_ctx=self._num_ctx, keep_alive=keep_alive)
        self._thinking: Thinking = "level"
        self._sight = Sight()
        self._told_of_cuts = False

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Return the complete reply; see `ModelProvider.complete`.

        A way to think that this model does not know is not asked for from then on, and images that
        it cannot see are told in words.
        """
        request = self._sight.shown(request)
        while True:
            thinking = self._thinking
            try:
                reply = await self._once(request, thinking, on_text)
            except RefusedRequestError as refused:
                unseen = self._sight.without(request, refused)
                if unseen is None and not self._adapts(thinking, refused):
                    raise self._explained(refused) from None
                request = unseen or request
            else:
                self._notice_cut(reply)
                return reply

    async def window_tokens(self) -> int | None:
        """Return the window the model is loaded with; see `WindowSource.window_tokens`."""
        return await self._transport.window_tokens(self._model)

    async def _once(
        self, request: ModelRequest, thinking: Thinking, on_text: Callable[[str], None]
    ) -> Reply:
        where = self._transport.where(request.model)
        reader = ReplyReader(where=where, model=request.model, on_text=on_text)
        body = await written(request, lambda asked: self._writer.body(asked, thinking=thinking))
        return await self._transport.call(body, reader, where)

    def _adapts(self, thinking: Thinking, refused: RefusedRequestError) -> bool:
        """Whether a request that asked to think in this way may pass in the way learnt now."""
        said = refused.refusal.message
        if thinking == "level" and _NO_LEVELS.search(said):
            self._thinking = "on" if self._thinking == "level" else self._thinking
            return True
        if thinking != "unasked" and _NO_THINKING.search(said):
            self._thinking = "unasked"
            return True
        return False

    def _explained(self, refused: RefusedRequestError) -> Exception:
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
