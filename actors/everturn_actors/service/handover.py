"""Sessions that this process begins to work on, and those that another one works on from now on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from everturn_actors.ports import Ownership
from everturn_actors.session.registry import Registry


class _Resume(Protocol):
    def __call__(self, *, is_concerned: Callable[[str], bool]) -> Awaitable[None]:
        """Wake the sessions of these ids that may have an open turn."""
        ...


class Handover:
    """Takes partitions of sessions over, and lets them go."""

    def __init__(self, registry: Registry, ownership: Ownership, resume: _Resume) -> None:
        """Only `open_service` makes one."""
        self._registry, self._ownership, self._resume = registry, ownership, resume

    async def take(self, partitions: frozenset[int]) -> None:
        """Let turns go on that are open in partitions that are this process's from now on.

        They go on as after a restart, from where their logs end.
        """
        await self._resume(is_concerned=lambda each: self._ownership.partition(each) in partitions)

    async def lose(self, partitions: frozenset[int], drain_s: float) -> None:
        """Let the sessions of partitions go; when this returns none of them is at work here.

        Args:
            partitions: In which nothing is begun here any more.
            drain_s: How long running turns may take to finish; what is cut off then goes on where
                the partition goes.
        """
        await self._registry.let_go(
            lambda each: self._ownership.partition(each) in partitions, drain_s
        )
