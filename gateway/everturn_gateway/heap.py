"""Gives memory back to the system when conversations have left it, and folds what stays."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final, NoReturn

from anyio import to_thread

CHECK_EVERY_S: Final = 10.0
_MAPS: Final = Path("/proc/self/maps")
_LARGE_PAGES: Final = Path("/sys/kernel/mm/transparent_hugepage")
_MADV_COLLAPSE: Final = 25
_SETTLES_S: Final = 1.0  # in which a library that is being loaded shows more modules
_FULL_SHARE: Final = 0.9  # of a large page that has to be in use: folding takes all of it
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


async def fold_heap_after_loading(
    sleep: Callable[[float], Awaitable[None]], fold: Callable[[], object] | None = None
) -> NoReturn:
    """Fold the heap whenever modules were loaded, and no more of them come.

    What they leave stays for good, and every turn walks through it. What conversations take comes
    and goes, and is folded only where it is there at that moment.

    Args:
        sleep: Waits so many seconds.
        fold: Does it, in a thread; `fold_heap` by default.
    """
    folded = before = 0
    pause_s = _SETTLES_S
    while True:
        await sleep(pause_s)
        now = len(sys.modules)
        if now == before != folded:
            folded = now
            await to_thread.run_sync(fold or fold_heap)
        before = now
        pause_s = CHECK_EVERY_S if now == folded else _SETTLES_S


def fold_heap() -> int:
    """Have what is in use of the heap lie in large pages, where the system can; return how many.

    A turn touches a few megabytes of code and objects, and with pages of 4 KB a processor knows
    too few of them at once: it looks each up anew, four times as long in a virtual machine. Takes
    some milliseconds for each 10 MB, and lets other threads run meanwhile. What is in use in part
    is left: it would grow the process.

    Source: madvise(2), `MADV_COLLAPSE`, from Linux 6.1 on; mincore(2) (read 2026-11-27).
    """
    try:
        if "[never]" in (_LARGE_PAGES / "enabled").read_text():
            return 0  # as whoever owns the machine wants it
        size = int((_LARGE_PAGES / "hpage_pmd_size").read_text())
        places = list(_heap_places(_MAPS.read_text(), size))
    except (OSError, ValueError):
        return 0  # another system
    library = ctypes.CDLL(None)
    in_use = ctypes.create_string_buffer(size // mmap.PAGESIZE)
    least = len(in_use) * _FULL_SHARE
    folded = 0
    for place in places:
        address, length = ctypes.c_void_p(place), ctypes.c_size_t(size)
        failed = library.mincore(address, length, in_use)
        if not failed and sum(page & 1 for page in in_use.raw) >= least:
            folded += not library.madvise(address, length, _MADV_COLLAPSE)
    return folded


def _heap_places(maps: str, size: int) -> Iterator[int]:
    """Yield where large pages could lie in memory of our own, stacks of threads left out.

    Args:
        maps: What the system says of the process, see proc_pid_maps(5).
        size: Of a large page.
    """
    is_guarded = False
    for line in maps.splitlines():
        addresses, rights, _, _, _, *name = line.split()
        first, end = (int(each, 16) for each in addresses.split("-"))
        if rights == "rw-p" and not is_guarded and name in ([], ["[heap]"]):
            yield from range(-(-first // size) * size, end - size + 1, size)
        # One such page lies before a stack, against its overflow.
        is_guarded = rights == "---p" and end - first == mmap.PAGESIZE
