"""What a Bot API server that is hostile, or was taken over, cannot make the bot do."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
from aiogram.methods import GetMe
from aiohttp import web
from support.patience import WAIT_S

from everturn_actors.testing import ManualClock
from everturn_channels.errors import ConnectionLostError, NotSentError
from everturn_channels.telegram.connection import Line, open_line

TOKEN = "123456:" + "a" * 35
DAY_S = 24 * 3600.0


@asynccontextmanager
async def line_to(
    answer: web.Response, seen: list[str]
) -> AsyncGenerator[tuple[Line, ManualClock]]:
    """Open a line to a server that answers everything so, and notes what it was asked for."""

    async def handle(request: web.Request) -> web.StreamResponse:
        await request.read()
        seen.append(request.path)
        return web.Response(status=answer.status, headers=answer.headers, text=answer.text)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    await web.SockSite(runner, listener).start()
    clock = ManualClock()
    try:
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with open_line(
            token=TOKEN, api_base=base, proxy="", clock=clock, where="here"
        ) as line:
            with anyio.fail_after(WAIT_S):
                yield line, clock
    finally:
        await runner.cleanup()


async def test_no_redirect_is_followed_to_wherever_it_leads() -> None:
    """Else the server could have this machine ask its own neighbours, and read their answers."""
    seen: list[str] = []
    elsewhere = web.Response(status=307, headers={"Location": "/latest/meta-data"}, text="moved")
    async with line_to(elsewhere, seen) as (line, _):
        with pytest.raises(NotSentError, match="HTTP 307"):
            await line.ask(GetMe())
        with pytest.raises(ConnectionLostError, match="HTTP 307"):
            await line.download("documents/a.txt", 1000)

    assert seen == [f"/bot{TOKEN}/getMe", f"/file/bot{TOKEN}/documents/a.txt"]


async def test_a_bot_is_silenced_for_a_day_at_most() -> None:
    """A wait of 30,000 years is a number that no date holds, and nobody's wish."""
    text = (
        '{"ok": false, "error_code": 429, "description": "Too Many Requests: retry after x",'
        f' "parameters": {{"retry_after": {10**12}}}}}'
    )
    answer = web.Response(status=429, headers={"Content-Type": "application/json"}, text=text)
    async with line_to(answer, []) as (line, clock):
        with pytest.raises(NotSentError) as first:
            await line.send(GetMe())
        with pytest.raises(NotSentError) as during:
            await line.send(GetMe())
        clock.advance(DAY_S)
        with pytest.raises(NotSentError) as later:
            await line.send(GetMe())

    assert first.value.retry_after_s == DAY_S
    assert during.value.retry_after_s == DAY_S
    assert "asks to slow down" in str(later.value)
