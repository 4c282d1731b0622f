"""The HTTP connections to model APIs: for each address one client and its pool of connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from everturn_actors.errors import ModelRefusedError
from everturn_gateway.late_loading import late
from everturn_gateway.providers.transport.http_port import HttpClient

if TYPE_CHECKING:
    from everturn_gateway.providers.transport import http_session
else:
    http_session = late("everturn_gateway.providers.transport.http_session")

CLOSE_TIMEOUT_S = 2.0


class HttpClients:
    """Makes clients when they are first needed and keeps them.

    Proxies of the environment are used, but for this machine's own addresses, which no proxy can
    reach. Redirects are not followed: a request carries a key and a conversation, and goes where
    the operator said or nowhere.
    """

    def __init__(self) -> None:
        self._clients: dict[str, HttpClient] = {}
        self._making = anyio.Lock()
        self._closed = False

    async def client(self, address: str) -> HttpClient:
        """Return the client for `address` (scheme, host and port).

        Raises:
            ModelRefusedError: A proxy or the certificates of the environment cannot be used.
        """
        found = self._clients.get(address)
        if found is not None:
            return found
        async with self._making:
            if self._closed:
                msg = "the providers are closed"
                raise RuntimeError(msg)
            if address not in self._clients:
                self._clients[address] = await _opened(address)
        return self._clients[address]

    async def drop(self, address: str) -> None:
        """Close the client for an address at which nothing listens any more."""
        if client := self._clients.pop(address, None):
            await client.aclose()

    async def aclose(self) -> None:
        """Close every connection, within two seconds even where the caller was cancelled."""
        self._closed = True
        with anyio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
            for client in self._clients.values():
                await client.aclose()
        self._clients.clear()


async def _opened(address: str) -> HttpClient:
    # In a thread: the library takes 100 ms to load, and certificates are read from disk.
    try:
        opened = await anyio.to_thread.run_sync(_prepared, address)
    except (OSError, ValueError) as error:
        msg = f"{address}: proxy or certificates of the environment: {error}"
        raise ModelRefusedError(msg) from error
    return opened()


def _prepared(address: str) -> Callable[[], HttpClient]:
    return http_session.prepared(address)
