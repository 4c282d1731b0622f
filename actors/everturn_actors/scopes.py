"""Cancel scopes and times for what every turn does several times.

anyio asks each time which library runs the event loop: a scope takes 3.7 us that way and 2.1 so,
and the time 1.0 and 0.1. The event loop is asyncio's here, as the futures of the core are. And it
looks through all scopes around one that ends: `open_near_group` keeps them few.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from math import inf

import anyio
from anyio.abc import TaskGroup, TaskStatus


def new_scope(deadline: float = inf) -> anyio.CancelScope:
    """Return what `anyio.CancelScope` gives; `deadline` is a time of `loop_time`."""
    return _kind()(deadline=deadline)


def loop_time() -> float:
    """Return what `anyio.current_time` gives."""
    return asyncio.get_running_loop().time()


@cache
def _kind() -> type[anyio.CancelScope]:
    """Return the class of the scopes of asyncio's event loop, which is another than its name."""
    return type(anyio.CancelScope())


@asynccontextmanager
async def open_near_group() -> AsyncGenerator[TaskGroup]:
    """Open a group whose tasks are cancelled with the scopes around it, and look no further up.

    A gateway opens some fifteen scopes one in the other around what its sessions do, and a shield
    that ends looks through all of them. This group has a shield itself, where such a look ends; a
    task beside it hears of a cancellation from outside and passes it on.
    """
    async with anyio.create_task_group() as around:
        group: TaskGroup = await around.start(_hold)
        around.start_soon(_cancel_with, group)
        try:
            yield group
        finally:
            group.cancel_scope.cancel()
            around.cancel_scope.cancel()


async def _hold(*, task_status: TaskStatus[TaskGroup]) -> None:
    async with anyio.create_task_group() as group:
        group.cancel_scope.shield = True
        task_status.started(group)
        await anyio.sleep_forever()  # until the group is cancelled


async def _cancel_with(group: TaskGroup) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        group.cancel_scope.cancel()
