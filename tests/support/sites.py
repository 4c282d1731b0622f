"""A small site on loopback, for a browser: pages, a form, a frame, a redirect, a web socket."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import pytest
from aiohttp import WSMsgType, web

from everturn_gateway.tools.browser.launching import find_bwrap, find_chromium, needs_sandbox

HEADLESS: Final = find_chromium(os.environ, "chromium-headless-shell")
"Chromium without its own windows, which takes a third less CPU; empty where there is none."
_THERE: Final = bool(find_chromium(os.environ)) and (
    not needs_sandbox() or bool(find_bwrap(os.environ))
)
needs_chromium = pytest.mark.skipif(
    not _THERE and "CI" not in os.environ,  # which must not pass without them
    reason="no Chromium here: apt-get install chromium bubblewrap",
)


@dataclass
class Site:
    """What was asked of it."""

    port: int = 0
    pages: dict[str, str] = field(default_factory=dict[str, str])
    "HTML by path."
    redirects: dict[str, str] = field(default_factory=dict[str, str])
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    "Host and path of each request, the oldest first."

    def url(self, host: str, path: str = "/") -> str:
        """Return an address of it under a name."""
        return f"http://{host}:{self.port}{path}"

    def hosts(self) -> set[str]:
        """Return under which names it was asked."""
        return {host.partition(":")[0] for host, _ in self.asked}


@asynccontextmanager
async def open_site() -> AsyncGenerator[Site]:
    """Serve on loopback."""
    site = Site()

    async def answer(request: web.Request) -> web.StreamResponse:
        site.asked.append((request.host, request.path_qs))
        if request.headers.get("upgrade", "").lower() == "websocket":
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    await socket.send_str(f"echo {message.data}")
            return socket
        if request.path in site.redirects:
            return web.Response(status=302, headers={"location": site.redirects[request.path]})
        html = site.pages.get(request.path)
        if html is None:
            return web.Response(status=404, text="nothing here")
        return web.Response(text=html, content_type="text/html")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        tcp = web.TCPSite(runner, "127.0.0.1", 0)
        await tcp.start()
        site.port = runner.addresses[0][1]
        yield site
    finally:
        await runner.cleanup()
