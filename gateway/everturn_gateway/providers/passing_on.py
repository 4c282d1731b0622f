"""Passes requests that no agent answers on to a provider: embeddings, speech, transcriptions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

from anyio.to_thread import run_sync

from everturn_actors.errors import ModelError
from everturn_actors.spec import ModelSpec
from everturn_gateway.providers.errors import ProviderConfigError
from everturn_gateway.providers.transport.endpoints import Endpoint, endpoint_for
from everturn_gateway.providers.transport.http_clients import HttpClients
from everturn_gateway.providers.transport.http_port import Answer, HttpError

_OLLAMA = "http://127.0.0.1:11434/v1"  # where it speaks OpenAI's format


class PassingOnError(Exception):
    """Nobody answered; the text says why, and holds no secret."""


class PassingOn:
    """Sends requests to a provider that speaks OpenAI's format, with the gateway's own key."""

    def __init__(self, keys: Mapping[str, str], mask: Callable[[str], str]) -> None:
        """Prepare; nothing is connected yet.

        Args:
            keys: The environment, with the keys of providers.
            mask: Takes secrets out of a text.
        """
        self._keys, self._mask = keys, mask
        self._clients = HttpClients()

    @asynccontextmanager
    async def answer(
        self, provider: str, base_url: str, route: str, *, headers: Mapping[str, str], body: bytes
    ) -> AsyncGenerator[Answer]:
        """Send a request and give its answer, of whatever status, while it is being read.

        Args:
            provider: One of those with an API of their own address.
            base_url: In place of its own address; empty = that one.
            route: Behind the address: `embeddings`, `audio/speech`.
            headers: What the body is, and what is wanted; the key is added.
            body: As it is sent.

        Raises:
            PassingOnError: There is no key, or nobody answers; also where the answer breaks off.
        """
        where = provider
        try:
            to = await run_sync(partial(self._endpoint, provider, base_url))
            where = f"{provider} at {to.address}"
            client = await self._clients.client(to.address)
            async with client.request(
                "POST",
                _path(to, route),
                headers={**headers, **to.headers},
                body=body,
                silence_s=to.stall_timeout_s,
            ) as answer:
                yield answer
        except (HttpError, ModelError, ProviderConfigError) as error:
            msg = self._mask(f"{where}: {error}")
            raise PassingOnError(msg) from error

    def _endpoint(self, provider: str, base_url: str) -> Endpoint:
        """Return where requests go. Reads the file of a key: not for the event loop."""
        if provider == "ollama":
            base_url = base_url or _OLLAMA
        model = ModelSpec(provider=provider, name="-", base_url=base_url)
        return endpoint_for(model, self._keys)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._clients.aclose()


def _path(to: Endpoint, route: str) -> str:
    _, mark, query = to.path.partition("?")
    return f"{to.base}/{route}{mark}{query}"
