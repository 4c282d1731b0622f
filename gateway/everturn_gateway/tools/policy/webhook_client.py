"""Posts notices to webhooks, over HTTP."""

from __future__ import annotations

import ssl

import anyio
import httpx2

TRY_TIMEOUT_S = 10.0
_TOO_MANY_REQUESTS, _SERVER_ERROR = 429, 500


class WebhookClient:
    """One client for all webhooks; redirects are not followed."""

    def __init__(self) -> None:
        """Make it. Blocking: it reads certificates."""
        self._http = httpx2.AsyncClient(
            verify=ssl.create_default_context(),
            follow_redirects=False,
            headers={"user-agent": "everturn", "content-type": "application/json"},
            limits=httpx2.Limits(max_connections=4, max_keepalive_connections=4),
        )

    async def post(self, url: str, body: bytes) -> tuple[str, bool]:
        """Try once; return why it failed, empty where it did not, and whether to try is in vain."""
        try:
            with anyio.fail_after(TRY_TIMEOUT_S):
                async with self._http.stream(
                    "POST", url, content=body, timeout=TRY_TIMEOUT_S
                ) as response:
                    status = response.status_code
        except TimeoutError:
            return f"no answer within {TRY_TIMEOUT_S:g} s", False
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            return f"{type(error).__name__}", True
        except httpx2.HTTPError as error:
            # Its text may name the address, and a webhook's address is a secret.
            return type(error).__name__, False
        if 200 <= status < 300:
            return "", True
        return f"status {status}", not (status == _TOO_MANY_REQUESTS or status >= _SERVER_ERROR)

    async def aclose(self) -> None:
        """Close its connections."""
        await self._http.aclose()
