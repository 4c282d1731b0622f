"""HTTP within a process: what a command reads through it is what a socket would bring."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from support.patience import WAIT_S
from support.tables import table

from everturn_gateway.client.in_process import InProcessTransport

DEADLINE_S = WAIT_S
HEAD = {"type": "http.response.start", "status": 200, "headers": [(b"x-kind", b"test")]}


def piece(data: bytes, *, more: bool = True) -> dict[str, object]:
    """Return a part of an answer."""
    return {"type": "http.response.body", "body": data, "more_body": more}


@asynccontextmanager
async def open_http(app: ASGIApp) -> AsyncGenerator[httpx2.AsyncClient]:
    """Open a client of an application in this process."""
    with anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as tasks:
            transport = InProcessTransport(app, tasks)
            async with httpx2.AsyncClient(transport=transport, base_url="http://here") as http:
                yield http


async def test_a_piece_is_read_before_the_next_one_is_written() -> None:
    """Who follows a conversation must not wait for its end."""
    go_on = anyio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await send(HEAD)
        await send(piece(b"one"))
        await go_on.wait()
        await send(piece(b"two", more=False))

    read: list[bytes] = []
    async with open_http(app) as http, http.stream("GET", "/") as answer:
        async for data in answer.aiter_raw():
            read.append(data)
            go_on.set()

    assert read == [b"one", b"two"]
    assert (answer.status_code, answer.headers["x-kind"]) == (200, "test")


async def test_the_application_gets_the_request_as_it_was_sent() -> None:
    """Names in a path may hold slashes, and queries and bodies matter."""
    seen: dict[str, object] = {}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.update({name: scope[name] for name in ("method", "path", "raw_path", "query_string")})
        seen["body"] = (await receive())["body"]
        await send(HEAD)
        await send(piece(b"", more=False))

    async with open_http(app) as http:
        await http.post("/a%2Fb/c", params={"after": 3}, content=b"body")

    assert seen == {
        "method": "POST",
        "path": "/a/b/c",
        "raw_path": b"/a%2Fb/c",
        "query_string": b"after=3",
        "body": b"body",
    }


async def test_the_application_sees_its_client_leave() -> None:
    """A turn of an agent that pauses when its client goes has to be paused here too."""
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        await receive()
        await send(HEAD)
        await send(piece(b"one"))
        seen.append((await receive())["type"])
        await send(piece(b"to nobody", more=False))
        seen.append("done")

    async with open_http(app) as http:
        async with http.stream("GET", "/") as answer:
            assert await anext(answer.aiter_raw()) == b"one"

        assert seen == ["http.disconnect", "done"]


async def test_a_client_that_is_cancelled_before_the_answer_leaves() -> None:
    """Ctrl-C must not wait for an application that does not answer."""
    left = anyio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, send
        await receive()
        await receive()
        left.set()

    async with open_http(app) as http:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(http.get, "/")
            await anyio.wait_all_tasks_blocked()
            assert not left.is_set()
            tasks.cancel_scope.cancel()

        assert left.is_set()


@table("begins", [False, True])
async def test_what_the_application_raises_is_raised_here(*, begins: bool) -> None:
    """Its traceback belongs into the log of the command; a person is told of a fault.

    One that ends without an answer is a lost connection: nobody waits for what does not come.
    """

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        if begins:
            await send(HEAD)
            await send(piece(b"half"))
        msg = "a fault"
        raise ValueError(msg)

    async def silent(scope: Scope, receive: Receive, send: Send) -> None:
        """Answer nothing."""

    async with open_http(app) as http:
        with pytest.raises(ValueError, match="a fault"):
            await http.get("/")
    async with open_http(silent) as http:
        with pytest.raises(httpx2.RemoteProtocolError):
            await http.get("/")
