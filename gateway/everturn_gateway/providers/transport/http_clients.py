"""The HTTP connections to model APIs: for each address one client and its pool of connections."""

from __future__ import annotations

import ssl
from urllib.request import getproxies

import anyio
import anyio.to_thread
import httpx2

from everturn_actors.errors import ModelRefusedError
from everturn_gateway.providers.transport.connections import ModelTransport
from everturn_gateway.providers.transport.endpoints import is_loopback

CONNECT_TIMEOUT_S = 10.0
KEPT_CONNECTIONS = 64
KEPT_S = 60.0  # as long as the load balancers in front of the large providers keep theirs
CLOSE_TIMEOUT_S = 2.0


class HttpClients:
    """Makes clients when they are first needed and keeps them.

    Proxies of the environment are used as httpx2 does, but for this machine's own addresses,
    which no proxy can reach. Redirects are not followed: a request carries a key and a
    conversation, and goes where the operator said or nowhere.
    """

    def __init__(self) -> None:
        self._clients: dict[str, httpx2.AsyncClient] = {}
        self._making = anyio.Lock()
        self._closed = False

    async def client(self, address: str) -> httpx2.AsyncClient:
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
                # In a thread: certificates are read from disk, and that takes its time.
                try:
                    made = await anyio.to_thread.run_sync(self._make, address)
                except (ImportError, OSError, ValueError, httpx2.InvalidURL) as error:
                    msg = f"{address}: proxy or certificates of the environment: {error}"
                    raise ModelRefusedError(msg) from error
                self._clients[address] = made
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

    def _make(self, address: str) -> httpx2.AsyncClient:
        own = is_loopback(httpx2.URL(address).host)
        # Plain HTTP to this machine needs no certificates; reading them takes 20 ms.
        certificates = (
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            if own and address.startswith("http://")
            else httpx2.create_ssl_context(trust_env=not own)
        )
        limits = httpx2.Limits(
            max_connections=None,  # calls wait in the queues of `limits`, where none is lost
            max_keepalive_connections=KEPT_CONNECTIONS,
            keepalive_expiry=KEPT_S,
        )
        is_proxied = not own and bool(getproxies())
        return httpx2.AsyncClient(
            transport=None if is_proxied else ModelTransport(certificates, limits),
            verify=certificates,
            trust_env=not own,
            follow_redirects=False,
            headers={"user-agent": "everturn", "accept-encoding": "identity"},
            limits=limits,
        )
