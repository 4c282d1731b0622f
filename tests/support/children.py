"""The processes that a test has begun."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import anyio
import psutil
from support.patience import WAIT_S

Children: TypeAlias = Callable[[], list[psutil.Process]]
"Returns the processes that this one has begun since the test began, and that are still there."


def children_from_now() -> Children:
    """Return what lists them. Those of tests before this one may take their time to end."""
    before = set(psutil.Process().children())
    return lambda: [each for each in psutil.Process().children() if each not in before]


async def until_gone(children: Children) -> None:
    """Wait for all to end: a cancelled wait kills its process, and does not stay to see it die.

    Raises:
        TimeoutError: One stays.
    """
    with anyio.fail_after(WAIT_S):
        while children():  # noqa: ASYNC110 - nobody tells
            await anyio.sleep(0.01)
