"""What is done for a client, and only as long as there is one."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from starlette.requests import Request
from starlette.types import Message

from everturn_actors.errors import CoreError, UnknownSessionError
from everturn_gateway.http.waiting import ClientLeftError, while_connected


def request_until(gone: anyio.Event) -> Request:
    """Return a request whose client leaves when `gone` is set."""

    async def receive() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    return Request({"type": "http"}, receive)


async def test_work_ends_with_its_client() -> None:
    """Nobody reads what comes of it."""
    gone, begun = anyio.Event(), anyio.Event()
    was_ended = False

    async def work() -> None:
        nonlocal was_ended
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            was_ended = True

    async def leave() -> None:
        await begun.wait()
        gone.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(leave)
        with anyio.fail_after(10), pytest.raises(ClientLeftError):
            await while_connected(request_until(gone), work)

    assert was_ended


async def test_a_client_that_stays_gets_what_came_of_it() -> None:
    """Also where that is an error: as itself, whatever it was watched by."""

    async def work() -> int:
        await anyio.lowlevel.checkpoint()
        return 7

    async def failing() -> int:
        session_id = "s1"
        raise UnknownSessionError(session_id)

    request = request_until(anyio.Event())
    with anyio.fail_after(10):
        assert await while_connected(request, work) == 7
        with pytest.raises(CoreError, match="s1"):
            await while_connected(request, failing)
