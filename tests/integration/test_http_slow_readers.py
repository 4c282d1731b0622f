"""Clients that do not read what they asked for: they hold nobody, and miss nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import uvicorn
from anyio.lowlevel import checkpoint
from starlette.types import ASGIApp, Receive, Scope, Send
from support.gateway import DEADLINE_S, open_http_gateway, read_all, server_events, serving
from uvicorn.server import ServerState

from everturn_actors.testing import ScriptedProvider
from everturn_gateway.http.protocol import limited_protocol
from everturn_gateway.http.sse import WRITE_NOW

CHARACTERS = 20_000  # of a word: all words together are more than connections hold
WORDS = " ".join(f"{number}:{'x' * CHARACTERS}" for number in range(150))


async def test_who_reads_nothing_for_a_while_holds_nobody_and_misses_nothing(
    tmp_path: Path,
) -> None:
    """The turn ends without waiting for its client, who then gets every piece in its place."""
    async with (
        open_http_gateway(tmp_path, provider=ScriptedProvider(WORDS)) as gateway,
        serving(gateway),
        gateway.client() as client,
    ):
        session_id = await gateway.session()
        path = f"/api/v1/sessions/{session_id}/stream"
        with anyio.fail_after(DEADLINE_S):
            async with client.stream("POST", path, json={"content": "hi"}) as response:
                while (await gateway.service.view(session_id)).has_work:
                    await checkpoint()
                events = [event async for event in server_events(response)]

    screen = ""
    for event in events:
        if event.event == "token":
            assert event.data["offset"] == len(screen)
            screen += event.data["text"]
    assert screen == WORDS
    assert events[-1].data["content"] == WORDS


BLOCK = b"x" * 64 * 1024


@asynccontextmanager
async def listening(app: ASGIApp) -> AsyncGenerator[int]:
    """Serve an application as the gateway is served; give its port."""
    config = uvicorn.Config(app, lifespan="off", log_config=None)
    config.load()
    protocol = limited_protocol(DEADLINE_S, 10)
    server = await asyncio.get_running_loop().create_server(
        lambda: protocol(config=config, server_state=ServerState(), app_state={}), "127.0.0.1", 0
    )
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def test_a_connection_takes_at_once_what_it_has_room_for_and_no_more() -> None:
    """What is written at once is kept in memory until it is read, so there is an end to it."""
    taken, refused, is_over = 0, anyio.Event(), anyio.Event()
    outside: list[bool] = []

    async def app(scope: Scope, _: Receive, send: Send) -> None:
        nonlocal taken
        write: Callable[[bytes], bool] = scope[WRITE_NOW]
        outside.append(write(b"before the answer"))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while write(BLOCK):
            taken += 1
            await checkpoint()
        refused.set()
        await send({"type": "http.response.body", "body": b"last", "more_body": False})
        outside.append(write(b"behind the answer"))
        is_over.set()

    with anyio.fail_after(DEADLINE_S):
        async with listening(app) as port, await anyio.connect_tcp("127.0.0.1", port) as client:
            await client.send(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            await refused.wait()
            answer = await read_all(client)
            await is_over.wait()

    body = b"%x\r\n%b\r\n" % (len(BLOCK), BLOCK) * taken + b"4\r\nlast\r\n0\r\n\r\n"
    assert taken > 0
    assert answer.partition(b"\r\n\r\n")[2] == body
    assert outside == [False, False]
