"""Several services over one store, in one process, and who of them owns what."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.model import ConversationKey
from everturn_actors.ports import Agent, Node, SessionStore
from everturn_actors.service import ServicePorts, ServiceSettings, TurnService, open_service
from everturn_actors.testing import ManualClock, ScriptedProvider, StaticAgents, make_spec

EVERYTHING = frozenset((0,))


class IdsAlone:
    """The part of an `Ownership` in which no session goes with a seat."""

    @property
    def fault(self) -> str:
        """See `Ownership.fault`."""
        return ""

    def is_known(self, session_id: str) -> bool:
        """See `Ownership.is_known`."""
        return True

    def note_key(self, session_id: str, key: ConversationKey) -> None:
        """See `Ownership.note_key`."""

    def works_for(self, agent: str) -> bool:
        """See `Ownership.works_for`."""
        return True

    def why_nobody(self, partition: int) -> str:
        """See `Ownership.why_nobody`."""
        return ""


class SwitchedOwnership(IdsAlone):
    """`Ownership` as a test says: all of it is this process's, or another one's."""

    def __init__(self, name: str, *, owns: bool) -> None:
        self.me, self.other = Node(name=name), Node(name=f"not {name}")
        self._owns = owns
        self._news = anyio.Event()

    def switch(self, *, owns: bool) -> None:
        """Give it all, or take it all away."""
        self._owns = owns
        news, self._news = self._news, anyio.Event()
        news.set()

    def partition(self, session_id: str, key: ConversationKey | None = None) -> int:
        """See `Ownership.partition`."""
        return 0

    def holder(self, partition: int) -> Node:
        """See `Ownership.holder`."""
        return self.me if self._owns else self.other

    def epoch(self, partition: int) -> int | None:
        """See `Ownership.epoch`."""
        return 1 if self._owns else None

    def nodes(self) -> tuple[Node, ...]:
        """See `Ownership.nodes`."""
        return (self.me, self.other)

    async def changed(self) -> None:
        """See `Ownership.changed`."""
        await self._news.wait()


@asynccontextmanager
async def open_owner(
    store: SessionStore,
    ownership: SwitchedOwnership,
    provider: ScriptedProvider,
    clock: ManualClock | None = None,
) -> AsyncGenerator[TurnService]:
    """Open a service that shares a store."""
    agent = Agent(spec=make_spec(), provider=provider)
    async with (
        open_memory_store(MemoryDisk()) as scratch,
        open_service(
            store=store,
            scratch=scratch,
            agents=StaticAgents({"test": agent}),
            clock=clock or ManualClock(),
            settings=ServiceSettings(leave_grace_s=0, drain_s=0),
            ports=ServicePorts(ownership=ownership),
        ) as service,
    ):
        yield service
