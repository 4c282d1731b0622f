"""Asks a search provider over HTTP."""

from __future__ import annotations

from contextlib import aclosing

import anyio
import anyio.to_thread
import httpx2
import orjson

from everturn_gateway.tools.web.fetching import certificates
from everturn_gateway.tools.web.search_apis import Hit, SearchApi, SearchError

_TIMEOUT_S = 20.0
_CONNECT_S = 10.0
_ANSWER_BYTES = 2 * 1024 * 1024
_LONGEST_WAIT_S = 5.0  # after a 429; who is asked to wait for longer tells the model
_TRIES = 2
_BUSY = 429


async def ask(api: SearchApi, query: str, count: int) -> tuple[Hit, ...]:
    """Return up to `count` pages, the best first.

    A provider that asks for a short pause gets it, and is asked once more.

    Raises:
        SearchError: The provider gives no answer.
    """
    # Proxies of the environment are used, as for models: the address is the owner's choice.
    own = api.is_loopback
    verify = await anyio.to_thread.run_sync(certificates)
    async with httpx2.AsyncClient(
        verify=verify,
        trust_env=not own,
        follow_redirects=False,
        timeout=httpx2.Timeout(_TIMEOUT_S, connect=_CONNECT_S),
        headers={"user-agent": "everturn", "accept": "application/json"},
    ) as client:
        tries = 0
        while True:
            tries += 1
            status, answer, wait_s = await _ask(client, api, query, count)
            if status == 200:
                return api.hits(answer, count)
            patient = wait_s is not None and wait_s <= _LONGEST_WAIT_S and tries < _TRIES
            if status != _BUSY or wait_s is None or not patient:
                raise api.failure(status, answer, wait_s)
            await anyio.sleep(wait_s)


async def _ask(
    client: httpx2.AsyncClient, api: SearchApi, query: str, count: int
) -> tuple[int, object, float | None]:
    """Return status, JSON (None where it is none) and the wait that is asked for."""
    inquiry = api.inquiry(query, count)
    try:
        async with client.stream(
            inquiry.method,
            inquiry.url,
            params=dict(inquiry.parameters) or None,
            headers=dict(inquiry.headers),
            json=inquiry.body,
        ) as response:
            body = bytearray()
            async with aclosing(response.aiter_bytes()) as pieces:
                async for piece in pieces:
                    body += piece
                    if len(body) > _ANSWER_BYTES:
                        msg = f"{api.provider} answered with more than {_ANSWER_BYTES:,} bytes"
                        raise SearchError(msg)
    except httpx2.TimeoutException as error:
        msg = f"{api.provider} did not answer within {_TIMEOUT_S:g} s"
        raise SearchError(msg) from error
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        msg = f"{api.provider} cannot be reached: {str(error) or type(error).__name__}"
        raise SearchError(msg) from error
    try:
        answer: object = orjson.loads(bytes(body))
    except orjson.JSONDecodeError as error:
        if response.is_success:
            msg = f"{api.provider} answered something that is not JSON"
            raise SearchError(msg) from error
        answer = None
    return response.status_code, answer, _wait_s(response.headers)


def _wait_s(headers: httpx2.Headers) -> float | None:
    """Return how long to wait, in seconds: Retry-After, or Brave's header of its own."""
    reset = headers.get("x-ratelimit-reset", "").partition(",")[0]
    for value in (headers.get("retry-after", ""), reset):
        try:
            wait_s = float(value)
        except ValueError:
            continue  # a date, or nothing
        if 0 <= wait_s < float("inf"):
            return wait_s
    return None
