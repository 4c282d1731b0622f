"""A session of requests over one pool of connections, by way of a proxy where one is set.

It tells how far a request got that failed: whether the platform may have acted on it.
"""

from __future__ import annotations

from types import SimpleNamespace

import aiohttp
from msgspec import Struct

from everturn_channels.proxies import http_proxy, open_connector


class Attempt(Struct):
    """How far one request got; give it to the request as its `trace_request_ctx`."""

    is_out: bool = False
    "Whether it had a connection, and may have left."


def open_session(proxy: str, *, where: str) -> aiohttp.ClientSession:
    """Return a session without cookies and deadlines of its own; enter it to have it closed.

    Args:
        proxy: The address; empty = none.
        where: Whose settings name it: `channels.slack`.

    Raises:
        SetupError: The proxy needs a library that is not here.
    """
    trace = aiohttp.TraceConfig()
    # From the moment on which it has a connection: what is written after it is not told exactly.
    trace.on_connection_create_end.append(_left)
    trace.on_connection_reuseconn.append(_left)
    return aiohttp.ClientSession(
        connector=open_connector(proxy, where=where),
        proxy=http_proxy(proxy),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        trace_configs=[trace],
    )


async def _left(_session: aiohttp.ClientSession, context: SimpleNamespace, _: object) -> None:
    if isinstance(context.trace_request_ctx, Attempt):
        context.trace_request_ctx.is_out = True
