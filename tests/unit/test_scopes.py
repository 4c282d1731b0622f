"""A group that lies near the root is cancelled, and ends, as any other."""

from __future__ import annotations

import anyio
import pytest
from anyio.lowlevel import checkpoint
from support.patience import WAIT_S

from everturn_actors.errors import ActorStoppedError
from everturn_actors.faults import first_cause
from everturn_actors.scopes import open_near_group


async def test_cancelled_from_outside() -> None:
    """Its tasks hear of it at once, also while the block itself is shielded from it."""
    ended: list[str] = []

    async def work() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("task")

    with anyio.fail_after(WAIT_S), anyio.CancelScope() as outside:
        async with open_near_group() as group:
            group.start_soon(work)
            await anyio.wait_all_tasks_blocked()
            outside.cancel()
            with anyio.move_on_after(WAIT_S, shield=True):  # as the end of a service is
                while not ended:
                    await checkpoint()
            ended.append("block")
    assert ended == ["task", "block"]


async def test_ends() -> None:
    """What still runs at its end is cancelled; what fails before ends the block, and is raised."""

    async def fail() -> None:
        raise ActorStoppedError

    with anyio.fail_after(WAIT_S):
        async with open_near_group() as group:
            group.start_soon(anyio.sleep_forever)
        with pytest.raises(ExceptionGroup) as caught:
            async with open_near_group() as group:
                group.start_soon(fail)
                await anyio.sleep_forever()
    assert isinstance(first_cause(caught.value), ActorStoppedError)
