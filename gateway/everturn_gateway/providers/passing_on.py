"""Passes requests that no agent answers on to a provider: embeddings, speech, transcriptions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Final

from anyio.to_thread import run_sync

from everturn_actors.errors import ModelAuthError, ModelError, RateLimitedError
from everturn_actors.spec import ModelSpec
from everturn_gateway.providers.errors import ProviderConfigError
from everturn_gateway.providers.key_rings import KeyRings
from everturn_gateway.providers.transport.endpoints import PROVIDERS, Endpoint, endpoints_for
from everturn_gateway.providers.transport.http_clients import HttpClients
from everturn_gateway.providers.transport.http_port import Answer, HttpError
from everturn_gateway.providers.transport.model_errors import retry_after_s

_KEY_REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_OLLAMA = "http://127.0.0.1:11434/v1"  # where it speaks OpenAI's format


class PassingOnError(Exception):
    """Nobody answered; the text says why, and holds no secret."""


class PassingOn:
    """Sends requests to a provider that speaks OpenAI's format, with the gateway's own key."""

    def __init__(
        self,
        keys: Mapping[str, str],
        mask: Callable[[str], str],
        key_rings: KeyRings | None = None,
    ) -> None:
        """Prepare; nothing is connected yet.

        Args:
            keys: The environment, with the keys of providers.
            mask: Takes secrets out of a text.
            key_rings: Which of several keys are used, as models have it; None = nobody else does.
        """
        self._keys, self._mask = keys, mask
        self._key_rings = key_rings or KeyRings()
        self._clients = HttpClients()

    @asynccontextmanager
    async def answer(
        self,
        provider: str,
        base_url: str,
        route: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        key: str = "",
    ) -> AsyncGenerator[Answer]:
        """Send a request and give its answer, of whatever status, while it is being read.

        Args:
            provider: One of those with an API of their own address.
            base_url: In place of its own address; empty = that one.
            route: Behind the address: `embeddings`, `audio/speech`.
            headers: What the body is, and what is wanted; the key is added.
            body: As it is sent.
            key: In place of the provider's own; empty = that one.

        Raises:
            PassingOnError: There is no key, or nobody answers; also where the answer breaks off.
        """
        where = provider
        try:
            endpoints = await run_sync(partial(self._endpoints, provider, base_url, key))
            where = f"{provider} at {endpoints[0].address}"
            client = await self._clients.client(endpoints[0].address)
            keys = tuple(each.key for each in endpoints)
            ring = self._key_rings.of(provider, endpoints[0].address, keys)
            *_, last = order = ring.order()
            for position in order:
                to, begun = endpoints[position], ring.begin(position)
                async with client.request(
                    "POST",
                    _path(to, route),
                    headers={**headers, **to.headers},
                    body=body,
                    silence_s=to.stall_timeout_s,
                ) as answer:
                    refused = _refused(answer)
                    if refused is None:
                        ring.took(position, begun)
                    else:
                        ring.failed(position, refused)
                        if position != last:
                            continue
                    yield answer
                    return
        except (HttpError, ModelError, ProviderConfigError) as error:
            msg = self._mask(f"{where}: {error}")
            raise PassingOnError(msg) from error

    def _endpoints(self, provider: str, base_url: str, key: str) -> tuple[Endpoint, ...]:
        """Return where requests go, with each key. Reads files: not for the event loop."""
        if provider == "ollama":
            base_url = base_url or _OLLAMA
        model = ModelSpec(provider=provider, name="-", base_url=base_url)
        own = {PROVIDERS[provider].key_variable: key} if key else {}
        return endpoints_for(model, {**self._keys, **own} if own else self._keys)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._clients.aclose()


def _path(to: Endpoint, route: str) -> str:
    _, mark, query = to.path.partition("?")
    return f"{to.base}/{route}{mark}{query}"


def _refused(answer: Answer) -> ModelError | None:
    """Return what is wrong with the key that an answer was asked for with; None = nothing is."""
    if answer.status in _KEY_REFUSED:
        return ModelAuthError()
    if answer.status == HTTPStatus.TOO_MANY_REQUESTS:
        return RateLimitedError(retry_after_s=retry_after_s(answer.headers))
    return None
