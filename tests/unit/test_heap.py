"""Memory goes back to the system when conversations have left."""

import subprocess
import sys
from collections.abc import Sequence

import anyio.lowlevel
import pytest
from support.tables import table

from everturn_gateway.heap import SESSIONS_MIN, fold_heap_after_loading, trim_heap_after_work

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


FOLDED = """
import mmap
from everturn_gateway.heap import fold_heap

def told(name):
    with open("/proc/self/smaps_rollup") as rollup:
        return sum(int(line.split()[1]) for line in rollup if line.startswith(f"{name}:"))

kept = [bytes(1000) for _ in range(30_000)]
sparse = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for place in range(0, len(sparse), 1 << 20):
    sparse[place] = 1
before = told("Rss"), told("AnonHugePages")
if fold_heap():
    print(told("Rss") - before[0], told("AnonHugePages") - before[1], len(kept))
"""


def test_what_stays_is_folded_into_large_pages_and_takes_no_more() -> None:
    """What is in use in part is left: of these 64 MB 256 KB are."""
    told = subprocess.run(
        [sys.executable, "-c", FOLDED], capture_output=True, text=True, check=True
    ).stdout
    if not told:
        pytest.skip("this system makes no large pages when it is asked for them")
    grown_kb, folded_kb, _ = map(int, told.split())
    assert grown_kb < 2_000
    assert folded_kb > 20_000


async def test_the_heap_is_folded_when_modules_were_loaded_and_no_more_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the start, and each time that more of them came."""
    loaded, folds = list[int](), list[int]()
    news = iter((0, 0, 0, 1, 1, 0, 0))  # modules that come before each look

    async def sleep(seconds: float) -> None:
        assert seconds > 0
        number = next(news, None)
        if number is None:
            raise _OverError
        loaded.append(number)
        if number:
            monkeypatch.setitem(sys.modules, f"late_{len(loaded)}", sys)
        await anyio.lowlevel.checkpoint()

    with pytest.raises(_OverError):
        await fold_heap_after_loading(sleep, lambda: folds.append(len(loaded)))
    assert folds == [2, 6]
