"""Gives memory back to the system when conversations have left it."""

from __future__ import annotations

import ctypes
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from anyio import to_thread

CHECK_EVERY_S: Final = 10.0
SESSIONS_MIN: Final = 20  # fewer leave too little behind to be worth a look through the heap


async def trim_heap_after_work(
    count_active: Callable[[], Awaitable[int]],
    sleep: Callable[[float], Awaitable[None]],
    trim: Callable[[], object] | None = None,
) -> NoReturn:
    """Trim the heap whenever half of the active sessions have gone since it was trimmed last.

    Without it a process keeps for good what its busiest hour took: the memory of 300 passivated
    conversations stayed with it to the last megabyte, and went back at once when it was asked for.

    Args:
        count_active: Returns how many sessions are in memory.
        sleep: Waits so many seconds.
        trim: Does it, in a thread; `trim_heap` by default.
    """
    most = 0
    while True:
        await sleep(CHECK_EVERY_S)
        active = await count_active()
        most = max(most, active)
        if most >= SESSIONS_MIN and active <= most // 2:
            await to_thread.run_sync(trim or trim_heap)
            most = active


def trim_heap() -> bool:
    """Return free memory of the C heap to the system; return whether this C library can.

    Takes a few milliseconds for each 100 MB, and lets other threads run meanwhile.

    Source: malloc_trim(3); glibc alone has it (read 2026-11-22).
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim is not None and bool(trim(0))
