"""Memory goes back to the system when conversations have left."""

from collections.abc import Sequence

import anyio.lowlevel
import pytest

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


@pytest.mark.parametrize(
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
