"""Sessions that this process begins to work on, and those that another one works on from now on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from everturn_actors.errors import CoreError
from everturn_actors.ports import Ownership, SessionStore
from everturn_actors.protocol.placing import place
from everturn_actors.session.registry import Registry


class _Resume(Protocol):
    def __call__(self, *, is_concerned: Callable[[str], Awaitable[bool]]) -> Awaitable[None]:
        """Wake the sessions of these ids that may have an open turn."""
        ...


class Handover:
    """Takes partitions of sessions over, and lets them go."""

    def __init__(
        self, registry: Registry, ownership: Ownership, store: SessionStore, resume: _Resume
    ) -> None:
        """Only `open_service` makes one."""
        self._registry, self._ownership, self._resume = registry, ownership, resume
        self._store = store

    async def take(self, partitions: frozenset[int]) -> None:
        """Let turns go on that are open in partitions that are this process's from now on.

        They go on as after a restart, from where their logs end.
        """

        async def is_concerned(session_id: str) -> bool:
            await self._place(session_id)
            return self._ownership.partition(session_id) in partitions

        await self._resume(is_concerned=is_concerned)

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

    async def rebind(self, bind: Callable[[], None], drain_s: float) -> None:
        """Let other agents' or channels' sessions go with a seat than before.

        Those that are not this process's any more are let go, as where a partition goes; what is
        open in those that are its own now goes on.

        Args:
            bind: Says which, to `Ownership`.
            drain_s: How long running turns may take to finish.
        """
        async for state, _ in self._registry.each_active():
            if state is not None:
                self._ownership.learn(state.session_id, state.key)
        bind()
        await self._registry.let_go(lambda each: not self._registry.is_here(each), drain_s)

        async def is_concerned(session_id: str) -> bool:
            await self._place(session_id)
            return self._registry.is_here(session_id)

        await self._resume(is_concerned=is_concerned)

    async def _place(self, session_id: str) -> None:
        try:
            await place(self._ownership, self._store, session_id)
        except CoreError:  # nobody's: one that is damaged, or was deleted in this moment
            return
