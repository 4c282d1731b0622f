"""A connection that is called off stays until what is being sent has arrived, and no longer."""

from __future__ import annotations

import anyio
import pytest
from support.patience import WAIT_S

from everturn_channels.connection_drain import ConnectionDrain
from everturn_channels.errors import ConnectionLostError, NotSentError


async def test_what_is_being_sent_arrives_before_its_connection_is_closed() -> None:
    """Cut off, it would be sent once more as what may be a repeat; what comes later waits."""
    drain, done = ConnectionDrain(WAIT_S), list[str]()
    begun, arrives = anyio.Event(), anyio.Event()

    async def connection() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            done.append("closed")

    async def send() -> None:
        with drain:
            begun.set()
            await arrives.wait()
            done.append("sent")

    with anyio.fail_after(WAIT_S):
        async with anyio.create_task_group() as others, anyio.create_task_group() as tasks:
            tasks.start_soon(drain.serve, connection)
            others.start_soon(send)
            await begun.wait()
            tasks.cancel_scope.cancel()
            others.start_soon(_later, drain, arrives)
    assert done == ["sent", "closed"]
    with drain:  # the next connection is used
        pass


async def _later(drain: ConnectionDrain, event: anyio.Event) -> None:
    await anyio.wait_all_tasks_blocked()
    with pytest.raises(NotSentError), drain:
        pass
    event.set()


async def test_what_hangs_is_not_waited_for_and_nothing_else_is() -> None:
    """A gateway that stops, or gives a channel to another one, has to come to an end."""
    drain = ConnectionDrain(0.01)
    with anyio.fail_after(WAIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drain.serve, anyio.sleep_forever)
            await anyio.wait_all_tasks_blocked()
            with drain:
                tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await anyio.wait_all_tasks_blocked()

    lost = ConnectionLostError("it is away")

    async def connection() -> None:
        await anyio.lowlevel.checkpoint()
        raise lost

    with drain, pytest.raises(ConnectionLostError) as raised:
        await drain.serve(connection)
    assert raised.value is lost, "and not in a group"
