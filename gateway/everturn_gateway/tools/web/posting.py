"""Posts results of scheduled jobs to addresses that their owners named; implements `Poster`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import anyio
import anyio.to_thread
import httpx2
import orjson

from everturn_gateway.scheduler.job_runner import WebhookError
from everturn_gateway.tools.web.fetching import certificates, read_address
from everturn_gateway.tools.web.reaching import Reaching, UnreachableError
from everturn_gateway.tools.web.values import FetchError

POST_S: Final = 20.0  # deadline of one try, looking the name up included
_TEXT_CHARACTERS = 200_000  # of what is sent; an answer of a model is far shorter
_OK: Final = range(200, 300)
_TRY_LATER: Final = frozenset((408, 425, 429))
_SERVER_ERROR = 500


class WebPoster:
    """Posts JSON to addresses that `reaching` lets anybody reach. Follows no redirect."""

    def __init__(self, reaching: Reaching) -> None:
        self._reaching = reaching

    async def post(self, url: str, data: Mapping[str, object], *, key: str) -> None:
        """Send `data` once, with `key` as its `Idempotency-Key`.

        Raises:
            WebhookError: It was not taken; the text names no more than the host.
        """
        host = ""
        try:
            with anyio.fail_after(POST_S):
                address = read_address(url)
                host = address.host
                status = await self._send(address, _body(data), key)
        except FetchError as error:
            msg = "the webhook's address is not valid"
            raise WebhookError(msg, is_final=True) from error
        except UnreachableError as error:
            msg = f"there is no host {host}, or it cannot be looked up now"
            if error.is_forbidden:
                msg = (
                    f"the webhook's host {host} is not one that may be reached;"
                    " schedules.allow_private in everturn.yaml can allow it"
                )
            raise WebhookError(msg, is_final=error.is_forbidden) from error
        except TimeoutError as error:
            msg = f"the webhook at {host} did not answer within {POST_S:g} s"
            raise WebhookError(msg) from error
        except httpx2.HTTPError as error:
            # The text of the error may name the address, and that is a secret.
            msg = f"the webhook at {host} cannot be reached: {type(error).__name__}"
            raise WebhookError(msg) from error
        if status not in _OK:
            may_help = status in _TRY_LATER or status >= _SERVER_ERROR
            msg = f"the webhook at {host} answered with status {status}"
            raise WebhookError(msg, is_final=not may_help)

    async def _send(self, url: httpx2.URL, body: bytes, key: str) -> int:
        """Return the status of the answer of the first address that takes a connection."""
        port = url.port if url.port is not None else 443 if url.scheme == "https" else 80
        addresses = await self._reaching.addresses(url.host, port)
        verify = await anyio.to_thread.run_sync(certificates)
        unreached: httpx2.TransportError = httpx2.ConnectError("it has no address")
        for ip in addresses:
            transport = httpx2.AsyncHTTPTransport(
                verify=verify, trust_env=False, limits=httpx2.Limits(max_keepalive_connections=0)
            )
            async with transport:
                try:
                    return await _ask(transport, url, ip, body, key)
                except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                    unreached = error
        raise unreached


async def _ask(
    transport: httpx2.AsyncHTTPTransport, url: httpx2.URL, ip: str, body: bytes, key: str
) -> int:
    """Post to the server at `ip`, under the name that stands in `url`."""
    request = httpx2.Request(
        "POST",
        url.copy_with(host=ip),
        content=body,
        headers={
            "host": url.netloc.decode("ascii"),
            "content-type": "application/json",
            "user-agent": "everturn",
            "idempotency-key": key,
        },
        extensions={
            "sni_hostname": url.raw_host.decode("ascii"),
            "timeout": httpx2.Timeout(POST_S).as_dict(),
        },
    )
    response = await transport.handle_async_request(request)
    await response.aclose()
    return response.status_code


def _body(data: Mapping[str, object]) -> bytes:
    """Return the JSON of `data`; half characters, which JSON cannot hold, are replaced."""
    plain = {
        name: value.encode("utf-8", "replace").decode()[:_TEXT_CHARACTERS]
        if isinstance(value, str)
        else value
        for name, value in data.items()
    }
    return orjson.dumps(plain)
