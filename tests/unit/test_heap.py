"""Memory goes back to the system when conversations have left."""

import subprocess
import sys
from collections.abc import Sequence

import anyio.lowlevel
import pytest
from support.tables import table

from everturn_gateway.heap import SESSIONS_MIN, trim_heap_after_work

MANY = SESSIONS_MIN * 10


class _OverError(Exception):
    """There are no more looks."""


async def _trims(active: Sequence[int]) -> list[int]:
    """Return after which of the looks at the number of active sessions the heap was trimmed."""
    looks, trims = iter(enumerate(active)), list[int]()
    now = 0

    async def count() -> int:
        nonlocal now
        now, found = next(looks, (-1, -1))
        if found < 0:
            raise _OverError
        return found

    async def sleep(seconds: float) -> None:
        assert seconds > 0
        await anyio.lowlevel.checkpoint()

    with pytest.raises(_OverError):
        await trim_heap_after_work(count, sleep, lambda: trims.append(now))
    return trims


@table(
    ("active", "trims"),
    [
        ((0, 0, 0), []),  # at rest from the beginning, and for as long as that lasts
        ((MANY, MANY, MANY - 1), []),  # at work
        ((MANY, 0, 0, 0), [1]),  # once
        ((MANY, MANY // 2, MANY // 4, 0), [1, 2, 3]),  # as more and more leave
        ((MANY, 0, MANY, 0), [1, 3]),  # each time
        ((SESSIONS_MIN - 1, 0), []),  # so few are not worth it
    ],
)
async def test_the_heap_is_trimmed_when_half_of_the_sessions_have_gone(
    active: Sequence[int], trims: list[int]
) -> None:
    """Neither while they work, nor again and again while nothing happens."""
    assert await _trims(active) == trims


BODIES = """
import resource
from everturn_gateway.heap import keep_heap_whole

if keep_heap_whole():
    text = bytes(400_000)
    b"".join((text, b".", text[1:]))  # the heap grows to what one request takes
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        b"".join((text, b".", text[1:]))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_requests_of_a_long_conversation_take_the_same_memory_again() -> None:
    """Pages that go back after each are taken anew by the next, which costs more than to write it.

    One such request has three hundred.
    """
    told = subprocess.run(
        [sys.executable, "-c", BODIES], capture_output=True, text=True, check=True
    ).stdout
    if not told:
        pytest.skip("this C library has no such setting")
    assert int(told) < 1_000
