"""One request over HTTP and its answer: made once, with a deadline and a bound."""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp
import anyio
from msgspec import Struct
from yarl import URL

from everturn_channels.ingestion.files import read_within
from everturn_channels.proxies import PROXY_LOGIN, failure, refusal
from everturn_channels.proxies.sessions import Attempt


class NoAnswerError(Exception):
    """A request was not answered, or not within its deadline.

    Attributes:
        words: What broke, without addresses: they may hold secrets.
        may_have_acted: Whether it may have arrived.
    """

    def __init__(self, words: str, *, may_have_acted: bool) -> None:
        self.words, self.may_have_acted = words, may_have_acted
        super().__init__(words)


class HttpRequest(Struct, frozen=True, kw_only=True):
    """One request."""

    method: str
    address: str | URL
    "A URL is taken as it is; a text is quoted where it has to be."
    data: bytes | aiohttp.FormData | None = None
    headers: Mapping[str, str] | None = None


class HttpAnswer(Struct, frozen=True, kw_only=True):
    """The answer to one request, whatever its status."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    reason: str = ""
    "What the server says beside the status."


async def request_once(
    session: aiohttp.ClientSession, request: HttpRequest, *, deadline_s: float, limit_bytes: int
) -> HttpAnswer:
    """Ask once; redirects are not followed, since a token would go along.

    Raises:
        NoAnswerError: There was none.
        FileTooLargeError: The answer has more than `limit_bytes`.
    """
    # Notes when the request goes out: from then on what was asked may have been done.
    attempt = Attempt()
    try:
        with anyio.fail_after(deadline_s):
            async with session.request(
                request.method,
                request.address,
                data=request.data,
                headers=request.headers,
                allow_redirects=False,
                trace_request_ctx=attempt,
            ) as response:
                if response.status == PROXY_LOGIN:  # it reads what goes to an `http://` address
                    raise NoAnswerError(refusal(PROXY_LOGIN), may_have_acted=False)
                body = await read_within(response.content.iter_any(), limit_bytes)
                return HttpAnswer(
                    status=response.status,
                    headers=response.headers,
                    body=body,
                    reason=response.reason or "",
                )
    except (OSError, TimeoutError, ValueError, aiohttp.ClientError) as error:
        # The texts of these may hold addresses; their names say what happened.
        raise NoAnswerError(failure(error), may_have_acted=attempt.is_out) from error
