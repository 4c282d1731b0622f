"""Gives memory back to the system when conversations have left it."""

from __future__ import annotations

import ctypes
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from anyio import to_thread

CHECK_EVERY_S: Final = 10.0
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_LARGE_BYTES: Final = 1024 * 1024
_SPARE_BYTES: Final = 4 * _LARGE_BYTES  # a request, as text, as a body and behind its head
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


def keep_heap_whole() -> bool:
    """Let large blocks go back to the system at once, and no others; whether this C library can.

    What is read and put together to wake a long conversation takes a few megabytes for a moment.
    glibc gives the first of such blocks back, and from then on keeps them in its heap, with what
    lives on between them: a conversation of 2,700,000 bytes grew the process by 4.6 MB, and grows
    it by 3.0 since. A limit that somebody set keeps it from doing that; one beyond what a request
    takes costs nothing.

    With that limit set, glibc gives back whatever is free at the end of the heap, from 128 KB on:
    each request of a long conversation took its pages from the system anew, and that took three
    times as long as to write the request. So a few megabytes stay.

    Source: mallopt(3), `M_MMAP_THRESHOLD` and `M_TRIM_THRESHOLD`; glibc alone has them (read
    2026-11-23).
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is None:
        return False
    is_set = bool(set_option(_M_MMAP_THRESHOLD, _LARGE_BYTES))
    return bool(set_option(_M_TRIM_THRESHOLD, _SPARE_BYTES)) and is_set


def trim_heap() -> bool:
    """Return free memory of the C heap to the system; return whether this C library can.

    Takes a few milliseconds for each 100 MB, and lets other threads run meanwhile.

    Source: malloc_trim(3); glibc alone has it (read 2026-11-22).
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim is not None and bool(trim(0))
