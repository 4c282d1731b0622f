"""The HTTP API of a gateway, in another process or in this one: requests, answers, errors."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Final

import anyio
import anyio.to_thread
import httpx2
import orjson
from starlette.types import ASGIApp

from everturn_actors.errors import InvalidInputError
from everturn_channels.errors import ClientError, GatewayAwayError
from everturn_gateway.client.answers import Json, TryAgainError, document, refuse
from everturn_gateway.client.in_process import InProcessTransport

CONNECT_S: Final = 5.0
SILENCE_S: Final = 60.0  # the server sends a comment every 15 s; four are missing when this is over
ANSWER_S: Final = 10.0  # to one question
RECONNECT_S: Final = 30.0  # for how long a lost gateway is looked for: a restart takes seconds
_PAUSES_S: Final = (0.1, 0.2, 0.5, 1.0)  # between two tries, the last one repeated
_SHOWN_FIELDS: Final = {"content": "message"}  # what people call them
_EVENT_BYTES: Final = 16 * 1024 * 1024  # the longest message, escaped, is below it
_NOTHING_MORE: Final = 204
_JSON: Final = {"Content-Type": "application/json"}
_HERE: Final = "http://everturn"  # stands in addresses that nobody looks up


@asynccontextmanager
async def open_api(
    url: str, *, token: str, silence_s: float = SILENCE_S, reconnect_s: float = RECONNECT_S
) -> AsyncGenerator[Api]:
    """Connect to the gateway at `url`.

    Args:
        url: Where it listens, `http://127.0.0.1:8080`.
        token: Its API token; empty where it asks for none.
        silence_s: After so long without a byte the connection counts as lost, in seconds.
        reconnect_s: For how long a lost gateway is looked for, in seconds.
    """
    headers = _bearer(token)
    async with open_http(url, headers=headers, silence_s=silence_s) as http:
        yield Api(http, url=url, reconnect_s=reconnect_s)


@asynccontextmanager
async def open_api_here(app: ASGIApp) -> AsyncGenerator[Api]:
    """Speak to a gateway in this process.

    Args:
        app: Its application, which knows who its caller is.
    """
    async with anyio.create_task_group() as tasks:
        transport = InProcessTransport(app, tasks)
        async with httpx2.AsyncClient(transport=transport, base_url=_HERE, trust_env=False) as http:
            yield Api(http, url="", reconnect_s=0.0)
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def open_http(
    url: str, *, headers: Mapping[str, str] | None = None, silence_s: float
) -> AsyncGenerator[httpx2.AsyncClient]:
    """Open a client for a gateway on this machine: plain HTTP, and no proxy between.

    Args:
        url: Where the gateway listens.
        headers: Sent with every request.
        silence_s: After so long without a byte the connection counts as lost, in seconds.
    """

    def make() -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            base_url=url,
            headers=dict(headers or {}),
            timeout=httpx2.Timeout(silence_s, connect=CONNECT_S),
            trust_env=False,
            # Certificates are not needed, and reading them takes 20 ms.
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        )

    # In a thread: the first client of a process loads its modules from disk.
    async with await anyio.to_thread.run_sync(make) as http:
        yield http


class Api:
    """Asks one gateway, and says in one way what came of it.

    Attributes:
        is_shared: Whether others reach the gateway as well, while this is open.
        is_away: Whether it does not answer just now, and is looked for.
    """

    def __init__(self, http: httpx2.AsyncClient, *, url: str, reconnect_s: float) -> None:
        """Take over an open client.

        Args:
            http: Leads to the gateway.
            url: Where that listens; empty = in this process.
            reconnect_s: For how long it is looked for when it is lost, in seconds.
        """
        self._http = http
        self._url = url
        self._reconnect_s = reconnect_s
        self.is_shared = bool(url)
        self.is_away = False

    async def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        body: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        repeat: bool = False,
        silence_s: float | None = None,
        also: Collection[int] = (),
    ) -> dict[str, object]:
        """Make one request and return the JSON object of its answer.

        Args:
            method: In upper case.
            path: Below the address of the gateway.
            params: Of the query; what is empty is left out.
            body: Sent as JSON.
            headers: Beside those of every request.
            repeat: Ask again while the gateway is away: the same request twice is one.
            silence_s: Instead of the connection's own, in seconds.
            also: Status codes beside those of success whose answer is one.

        Raises:
            CoreError, JobRefusedError: What the gateway says is wrong with the request.
            ClientError: It cannot be reached, or its answer is not understood.
        """
        given = {name: value for name, value in (params or {}).items() if value != ""}
        content = None if body is None else _encode(body)
        sent = {**({"Content-Type": "application/json"} if content else {}), **(headers or {})}
        timeout = (
            httpx2.USE_CLIENT_DEFAULT
            if silence_s is None
            else httpx2.Timeout(silence_s, connect=CONNECT_S)
        )
        tries = Tries(self._url, self._reconnect_s)
        while True:
            try:
                response = await self._http.request(
                    method, path, params=given, content=content, headers=sent, timeout=timeout
                )
                if not response.is_success and response.status_code not in also:
                    refuse(response, response.content)
                self.is_away = False
                return document(response.content)
            except (httpx2.TransportError, TryAgainError) as error:
                if not repeat:  # it may have been done: whoever asked has to look
                    raise lost(self._url, error) from error
                self.is_away = True
                await tries.pause(error)

    async def get(self, path: str, **params: str | int) -> Json:
        """Read something, as often as it takes; see `ask`.

        Args:
            path: Below the address of the gateway.
            params: Of the query; what is empty is left out.
        """
        return await self.ask("GET", path, params=params, repeat=True)

    async def events(self, path: str, *, after: int) -> AsyncGenerator[httpx2.ServerSentEvent]:
        """Yield the messages of an event stream, until the connection ends.

        Raises:
            NothingMoreError: There is nothing to follow any more.
            TransportError, TryAgainError: The connection broke, and may be taken up again.
            CoreError, ClientError: As for `ask`.
        """
        async with self._http.sse(
            path, params={"after": after}, max_event_size=_EVENT_BYTES
        ) as source:
            if source.response.status_code == _NOTHING_MORE:
                raise NothingMoreError  # 204 tells EventSource of the standard not to come back
            if not source.response.is_success:
                refuse(source.response, await source.response.aread())
            self.is_away = False
            try:
                async for message in source:
                    yield message
            except httpx2.TransportError:
                self.is_away = True
                raise

    async def download(
        self, path: str, *, params: Mapping[str, str] | None = None
    ) -> AsyncGenerator[bytes]:
        """Yield a file piece by piece.

        Raises:
            CoreError, ClientError: As for `ask`.
        """
        try:
            async with self._http.stream("GET", path, params=dict(params or {})) as response:
                if not response.is_success:
                    refuse(response, await response.aread())
                async for piece in response.aiter_bytes():
                    yield piece
        except (httpx2.TransportError, TryAgainError) as error:
            raise lost(self._url, error) from error

    async def stream(
        self, path: str, body: Mapping[str, object]
    ) -> AsyncGenerator[httpx2.ServerSentEvent]:
        """Have something done; yield what is told of it, until it is done.

        Raises:
            CoreError, ClientError: As for `ask`.
        """
        try:
            async with self._http.sse(
                path, method="POST", content=_encode(body), headers=_JSON
            ) as source:
                if not source.response.is_success:
                    refuse(source.response, await source.response.aread())
                async for message in source:
                    yield message
        except (httpx2.TransportError, TryAgainError) as error:
            raise lost(self._url, error) from error

    def tries(self) -> Tries:
        """Return how often this gateway is looked for when it is lost."""
        return Tries(self._url, self._reconnect_s)


class NothingMoreError(Exception):
    """The session has ended, and all of its events were given."""


class Tries:
    """How long, and how often, a lost gateway is looked for."""

    def __init__(self, url: str, reconnect_s: float) -> None:
        self._url = url
        self._reconnect_s = reconnect_s
        self._deadline = 0.0
        self._count = 0

    def begin_again(self) -> None:
        """The gateway is there."""
        self._deadline, self._count = 0.0, 0

    async def pause(self, error: Exception | None) -> None:
        """Wait before the next try.

        Raises:
            ClientError: It was tried for long enough.
        """
        now = anyio.current_time()
        # Counts from the first failure, not from the start.
        self._deadline = self._deadline or now + self._reconnect_s
        if now >= self._deadline:
            raise lost(self._url, error) from error
        await anyio.sleep(_PAUSES_S[min(self._count, len(_PAUSES_S) - 1)])
        self._count += 1


def lost(url: str, error: Exception | None) -> ClientError:
    """Return the error of a gateway that does not answer, or takes nothing now."""
    told = str(error or "")
    if not url:
        return ClientError(told or "the gateway has closed")
    why = f" ({told})" if told else ""
    return GatewayAwayError(
        f"the gateway at {url} cannot be reached{why}: does `everturn serve` run?"
    )


async def ask_once(
    url: str,
    method: str,
    path: str,
    *,
    token: str,
    params: Mapping[str, str] | None = None,
    also: Collection[int] = (),
) -> dict[str, object]:
    """Ask a gateway that runs one thing, of which it reads nothing from disk; see `Api.ask`.

    Args:
        url: Where it listens.
        method: As for `Api.ask`.
        path: As for `Api.ask`.
        token: Its API token; empty where it asks for none.
        params: As for `Api.ask`.
        also: As for `Api.ask`.
    """
    async with open_api(url, token=token, silence_s=ANSWER_S) as api:
        return await api.ask(method, path, params=params, also=also)


def _encode(body: Mapping[str, object]) -> bytes:
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError:
        # Half a character: refused here, for no server could read it.
        raise InvalidInputError(_not_unicode(body)) from None


def _not_unicode(body: Mapping[str, object]) -> str:
    for name, value in body.items():
        try:
            str(value).encode()
        except UnicodeEncodeError as error:
            what = _SHOWN_FIELDS.get(name, name)
            return f"the {what} is not valid Unicode text at character {error.start}"
    return "what is asked for cannot be sent"


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}
