"""Sessions that this process begins to work on, and those that another one works on from now on."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import count
from typing import Final, Protocol

import anyio

from everturn_actors.errors import (
    CoreError,
    CorruptJournalError,
    JournalError,
    OwnerAwayError,
    UnknownFormatError,
)
from everturn_actors.ports import Clock, Ownership
from everturn_actors.protocol.actors import Actors
from everturn_actors.protocol.commands import GetStatus
from everturn_actors.protocol.placing import place
from everturn_actors.session.registry import Registry

logger = logging.getLogger(__name__)

WOKEN_AT_ONCE = 8  # sessions whose next owner is told
AGAIN_S = 1.0  # until what the store or the next owner did not answer is asked again
LOOKS_AGAIN_S: Final = (5.0, 55.0)
"""Pauses before each further look: a write whose node has died is over in milliseconds; one that
waits for a lock or a standby in the store, within a minute."""


class _Resume(Protocol):
    def __call__(
        self, *, is_concerned: Callable[[str], Awaitable[bool]]
    ) -> Awaitable[dict[str, int]]:
        """Wake the sessions of these ids that may have an open turn; return where they end."""
        ...


class Handover:
    """Takes partitions of sessions over, and lets them go."""

    def __init__(
        self,
        registry: Registry,
        actors: Actors,
        ownership: Ownership,
        clock: Clock,
        resume: _Resume,
    ) -> None:
        """Only `open_service` makes one; `actors` leads to those of other processes, too."""
        self._registry, self._ownership, self._resume = registry, ownership, resume
        self._actors, self._store, self._clock = actors, registry.store, clock

    async def take_over(self, partitions: frozenset[int]) -> None:
        """Take partitions, and look again later for what was written behind the first look.

        Who had them tells of that, see `lose`; but not where it died right after it wrote.
        """
        ends = await self.take(partitions)
        for pause_s in LOOKS_AGAIN_S:
            await self._clock.sleep(pause_s)
            await self._look_again(partitions, ends)

    async def take(self, partitions: frozenset[int]) -> dict[str, int]:
        """Let turns go on that are open in partitions that are this process's from now on.

        They go on as after a restart, from where their logs end.

        Returns:
            The sessions that were marked as active, each with its last event; 0 where it has none.
        """

        async def is_concerned(session_id: str) -> bool:
            await self._place(session_id)
            return self._ownership.partition(session_id) in partitions

        return await self._resume(is_concerned=is_concerned)

    async def _look_again(self, partitions: frozenset[int], ends: Mapping[str, int]) -> None:
        """Let go on what stands in the store behind what is known of sessions.

        Args:
            partitions: That were taken.
            ends: What the first look has found. A session that rests has its mark no more, and
                what is written behind that look does not mark it again.
        """
        try:
            marked = await self._store.active()
        except JournalError as error:
            logger.warning(
                "what was written behind a look cannot be looked for", extra={"error": str(error)}
            )
            return
        limiter = anyio.CapacityLimiter(WOKEN_AT_ONCE)
        async with anyio.create_task_group() as tasks:
            for session_id in ends.keys() | marked:
                is_known = self._ownership.is_known(session_id)
                is_ours = self._ownership.partition(session_id) in partitions
                if session_id in ends or is_ours or not is_known:
                    tasks.start_soon(self._look, session_id, partitions, ends, limiter)

    async def _look(
        self,
        session_id: str,
        partitions: frozenset[int],
        ends: Mapping[str, int],
        limiter: anyio.CapacityLimiter,
    ) -> None:
        """Wake a session, whoever has it by now, where its log goes on behind what is known."""
        if session_id not in ends:
            await self._place(session_id)
            if self._ownership.partition(session_id) not in partitions:
                return
        state = self._actors.present(session_id)
        known = state.last_seq if state is not None else ends.get(session_id, 0)

        async def look() -> None:
            async with limiter:
                if events := await self._store.read(session_id, after=known, limit=1):
                    command = GetStatus(at_least=events[-1].seq)
                    await self._actors.ask(session_id, command, passivate_at_once=True)

        await self._until_done(look, session_id, "a session cannot be looked at again")

    async def lose(self, partitions: frozenset[int], drain_s: float) -> None:
        """Let the sessions of partitions go; when this returns none of them is at work here.

        What was on its way to the store when the lease ran out may be written after the next owner
        has looked, and found nothing to do: so that one is told of what is to go on.

        Args:
            partitions: In which nothing is begun here any more.
            drain_s: How long running turns may take to finish; what is cut off then goes on where
                the partition goes. 0 = it is another one's already, perhaps.
        """
        due = await self._registry.let_go(
            lambda each: self._ownership.partition(each) in partitions, drain_s
        )
        if drain_s:
            return  # whoever takes it looks after it was given back
        limiter = anyio.CapacityLimiter(WOKEN_AT_ONCE)
        async with anyio.create_task_group() as tasks:
            for session_id, last_seq in due.items():
                tasks.start_soon(self._wake, session_id, last_seq, limiter)

    async def _wake(self, session_id: str, last_seq: int, limiter: anyio.CapacityLimiter) -> None:
        """Let what is open in a session go on, whoever has it now, as soon as one can be asked."""

        async def ask() -> None:
            async with limiter:
                await self._actors.ask(session_id, GetStatus(at_least=last_seq))

        await self._until_done(ask, session_id, "the next owner of a session cannot be told")

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
                self._ownership.note_key(state.session_id, state.key)
        bind()
        await self._registry.let_go(lambda each: not self._registry.is_here(each), drain_s)

        async def is_concerned(session_id: str) -> bool:
            await self._place(session_id)
            return self._registry.is_here(session_id)

        await self._resume(is_concerned=is_concerned)

    async def _place(self, session_id: str) -> None:
        """Find out whose a session is; again where the store is away."""
        find = partial(place, self._ownership, self._store, session_id)
        await self._until_done(find, session_id, "the store cannot say whose a session is")

    async def _until_done(
        self, work: Callable[[], Awaitable[None]], session_id: str, why: str
    ) -> None:
        """Do something with a session; again while the store or its owner is away."""
        for tries in count():
            try:
                await work()
            except (CorruptJournalError, UnknownFormatError):
                return  # it fails of the same however often it is looked at
            except (JournalError, OwnerAwayError) as error:
                if not tries:
                    fields = {"session_id": session_id, "error": str(error)}
                    logger.warning("%s; trying again", why, extra=fields)
            except CoreError:
                return  # no other process can be asked, it failed there, or was deleted
            else:
                return
            await self._clock.sleep(AGAIN_S)
