"""A limit on how many do something at a time."""

from __future__ import annotations

import asyncio
from collections import deque


class Places:
    """So many at a time; others wait, the longest first.

    Whoever finds `free` above 0 takes a place by counting it down, which is how nearly everybody
    gets one: to ask a semaphore for that, twice in each turn, costs more than to append.
    """

    __slots__ = ("_line", "free")

    def __init__(self, free: int) -> None:
        """Begin with so many that are free."""
        self.free = free
        "Above 0 only while nobody waits."
        self._line: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Wait for a place, where none is free; it has to be given back."""
        given = asyncio.get_running_loop().create_future()
        self._line.append(given)
        try:
            await given
        except BaseException:
            if given.done() and not given.cancelled():  # in the same moment: who is next gets it
                self.give_back()
            raise

    def give_back(self) -> None:
        """Let the next one have the place."""
        while self._line:
            given = self._line.popleft()
            if not given.done():
                given.set_result(None)
                return
        self.free += 1
