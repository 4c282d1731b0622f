"""Webhooks of scheduled jobs reach what their owners allow, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from support.tables import table
from support.web_server import endless, open_web_server, page, redirect

from everturn_gateway.scheduler.job_runner import WebhookError
from everturn_gateway.tools.web.addresses import read_allowed
from everturn_gateway.tools.web.posting import WebPoster
from everturn_gateway.tools.web.reaching import Reaching

SECRET = "s3cret"


def poster(*allowed: str, names: Mapping[str, Sequence[str]] | None = None) -> WebPoster:
    """Return what posts; `names` are the only ones there are."""

    async def find(host: str, _port: int) -> Sequence[str]:
        if host not in (names or {}):
            raise OSError
        return (names or {})[host]

    return WebPoster(Reaching(read_allowed(allowed), find))


async def refused(by: WebPoster, url: str) -> WebhookError:
    """Return why nothing was taken at an address."""
    with pytest.raises(WebhookError) as caught:
        await by.post(url, {"text": "a"}, key="k")
    return caught.value


@table(
    "host",
    [
        *("127.0.0.1", "localhost", "[::1]", "0.0.0.0", "2130706433", "0x7f.1", "rebound"),  # noqa: S104 - refused
        *("10.0.0.1", "169.254.169.254", "[::ffff:127.0.0.1]", "[fd00:ec2::254]", "half"),
    ],
)
async def test_a_webhook_reaches_no_private_address_however_it_is_written(host: str) -> None:
    """A job may be made over the API: it would read the way into everything beside the gateway."""
    names = {
        "localhost": ("127.0.0.1",),
        "rebound": ("127.0.0.1",),
        "half": ("93.184.215.14", "127.0.0.1"),
    }
    async with open_web_server() as web:
        web.routes["/hook"] = page(b"")
        port = web.url.rsplit(":", 1)[1]
        error = await refused(poster(names=names), f"http://{host}:{port}/hook?{SECRET}")

    assert web.asked == []
    assert error.is_final
    assert SECRET not in str(error)


async def test_a_webhook_is_not_sent_on_to_where_its_receiver_says() -> None:
    """A receiver that is allowed could otherwise send it to whoever is not."""
    async with open_web_server() as web, open_web_server() as other:
        web.routes["/hook"] = redirect(f"{other.url}/{SECRET}", status=307)
        error = await refused(poster("127.0.0.1"), f"{web.url}/hook")

    assert [each.path for each in web.asked] == ["/hook"]
    assert other.asked == []
    assert error.is_final
    assert SECRET not in str(error)


async def test_what_a_receiver_says_is_not_read() -> None:
    """An answer without end would otherwise be kept until it ends."""
    async with open_web_server() as web:
        web.routes["/hook"] = endless
        await poster("127.0.0.1").post(f"{web.url}/hook", {"text": "a"}, key="k")

    assert len(web.asked) == 1
