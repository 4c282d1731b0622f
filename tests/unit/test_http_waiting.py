"""What is done for a client, and only as long as there is one."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from starlette.requests import Request
from starlette.types import Message
from support.patience import WAIT_S
from support.tables import table

from everturn_actors.errors import CoreError, UnknownSessionError
from everturn_gateway.http.waiting import DEPARTURE, ClientLeftError, Departure, while_connected


class Client:
    """A client that leaves when it is told to."""

    def __init__(self, *, is_announced: bool) -> None:
        self._gone, self._departure = anyio.Event(), Departure()
        self.request = Request(
            {"type": "http", **({DEPARTURE: self._departure} if is_announced else {})},
            self._receive,
        )

    async def _receive(self) -> Message:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    def leave(self) -> None:
        self._gone.set()
        self._departure.left()


# The server knows when a client leaves, or its connection has to be read.
EITHER = table("is_announced", [True, False])


@EITHER
async def test_work_ends_with_its_client(*, is_announced: bool) -> None:
    """Nobody reads what comes of it."""
    client = Client(is_announced=is_announced)
    begun = anyio.Event()
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
        client.leave()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(leave)
        with anyio.fail_after(WAIT_S), pytest.raises(ClientLeftError):
            await while_connected(client.request, work)

    assert was_ended


@EITHER
async def test_nothing_is_waited_for_where_the_client_has_left_before(
    *, is_announced: bool
) -> None:
    """It may leave while its message is written down."""
    client = Client(is_announced=is_announced)
    client.leave()
    with anyio.fail_after(WAIT_S), pytest.raises(ClientLeftError):
        await while_connected(client.request, anyio.sleep_forever)


@EITHER
async def test_a_client_that_stays_gets_what_came_of_it(*, is_announced: bool) -> None:
    """Also where that is an error: as itself, whatever it was watched by."""
    client = Client(is_announced=is_announced)

    async def work() -> int:
        await anyio.lowlevel.checkpoint()
        return 7

    async def failing() -> int:
        session_id = "s1"
        raise UnknownSessionError(session_id)

    request = client.request
    with anyio.fail_after(WAIT_S):
        assert await while_connected(request, work) == 7
        with pytest.raises(CoreError, match="s1"):
            await while_connected(request, failing)
