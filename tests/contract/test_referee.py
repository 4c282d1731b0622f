"""Every referee grants leases as the others do: once, with growing numbers, by its own clock."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

import anyio
from support.database import Server, needs_database
from support.referee import MemoryReferee
from support.stores import postgres_setup
from support.suites import hold_to_suite

from everturn_actors.cluster.leases import TTL_S, Answer, Beat, Epochs, Member, Referee
from everturn_actors.ports import Node
from everturn_gateway.builtin.postgres.plugin import POSTGRES


class Process:
    """One run of a node, as the referee meets it."""

    def __init__(self, referee: Referee, name: str, run: str = "1") -> None:
        self._referee = referee
        self.me = Member(node=Node(name=name, version="1"), instance=f"{name}-{run}", seats=("x",))

    async def asks(
        self,
        *claim: str,
        keep: Epochs | None = None,
        give: Epochs | None = None,
        leaves: bool = False,
    ) -> Answer:
        """Ask once."""
        beat = Beat(member=self.me, claim=claim, keep=keep or {}, give=give or {}, leaves=leaves)
        return await self._referee.beat(beat)


class RefereeContract(ABC):
    """What `Referee` promises."""

    @abstractmethod
    def open(self, *nodes: str) -> AbstractAsyncContextManager[tuple[Referee, ...]]:
        """Open the referee for nodes."""

    @abstractmethod
    async def run_out(self, lease: str) -> None:
        """Let a lease run out now."""

    @asynccontextmanager
    async def pair(self) -> AsyncGenerator[tuple[Process, Process]]:
        """Two processes."""
        async with self.open("a", "b") as (first, second):
            yield Process(first, "a"), Process(second, "b")

    async def test_a_lease_is_one_process_s(self) -> None:
        """Until it is given back; its number grows with each owner."""
        async with self.pair() as (a, b):
            assert (await a.asks("p", "q")).granted == {"p": 1, "q": 1}
            answer = await b.asks("p", "r")
            assert (answer.granted, answer.others) == ({"r": 1}, {"p": "a", "q": "a"})
            answer = await a.asks(keep={"q": 1}, give={"p": 1})
            assert (answer.granted, answer.found, answer.others) == ({"q": 1}, {}, {"r": "b"})
            assert (await b.asks("p", keep={"r": 1})).granted == {"p": 2, "r": 1}
            answer = await a.asks("p", keep={"p": 1, "q": 1}, give={"p": 1})
            assert (answer.granted, answer.others) == ({"q": 1}, {"p": "b", "r": "b"})

    async def test_what_ran_out_is_not_kept(self) -> None:
        """It is taken anew, by whoever is first."""
        async with self.pair() as (a, b):
            await a.asks("p", "q")
            await self.run_out("p")
            await self.run_out("q")
            answer = await a.asks(keep={"p": 1, "q": 1})
            assert (answer.granted, answer.found, answer.others) == ({}, {}, {})
            assert (await b.asks("p")).granted == {"p": 2}
            assert (await a.asks("p", "q")).granted == {"q": 2}

    async def test_a_lost_answer_is_found_again(self) -> None:
        """Who did not hear that a lease was granted is told so the next time."""
        async with self.pair() as (a, _):
            await a.asks("p", "q")
            answer = await a.asks(keep={"q": 1})
            assert (answer.granted, answer.found) == ({"q": 1}, {"p": 1})
            assert (await a.asks(keep={"p": 1, "q": 1})).granted == {"p": 1, "q": 1}

    async def test_who_lives_is_told(self) -> None:
        """With all that the others have to know; who leaves is gone at once."""
        async with self.pair() as (a, b):
            assert (await a.asks()).members == (a.me,)
            assert (await b.asks("p")).members == (a.me, b.me)
            assert (await b.asks(give={"p": 1}, leaves=True)).members == (a.me,)
            answer = await a.asks("p")
            assert (answer.members, answer.granted) == ((a.me,), {"p": 2})

    async def test_a_process_started_anew_has_nothing(self) -> None:
        """Its name is the same, its leases are those of the run before until they run out."""
        async with self.pair() as (a, b):
            await a.asks("p")
            again = Process(a._referee, "a", run="2")
            answer = await again.asks("p", keep={"p": 1})
            assert (answer.granted, answer.found, answer.others) == ({}, {}, {"p": "a"})
            assert (await b.asks()).members == (again.me, b.me)

    async def test_of_two_that_ask_at_once_one_has_each(self) -> None:
        """Whatever the order in which they name the leases."""
        async with self.pair() as (a, b):
            names = [f"partition:{number}" for number in range(64)]
            granted: dict[str, Epochs] = {}

            async def ask(process: Process, order: list[str]) -> None:
                granted[process.me.instance] = (await process.asks(*order)).granted

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask, a, names)
                tasks.start_soon(ask, b, names[::-1])
            first, second = granted.values()
            assert not first.keys() & second.keys()
            assert first.keys() | second.keys() == set(names)


class OfMemory(RefereeContract):
    """The one that the state machine of ownership runs against."""

    @asynccontextmanager
    async def open(self, *nodes: str) -> AsyncGenerator[tuple[Referee, ...]]:
        """Open it."""
        self.referee = MemoryReferee(lambda: 100.0)
        yield tuple(self.referee for _ in nodes)

    async def run_out(self, lease: str) -> None:
        """Set it back."""
        self.referee.rows[lease].until_s -= TTL_S


def test_the_referee_of_the_state_machine_keeps_the_contract(tmp_path: Path) -> None:
    """What was shown of ownership with it holds where the real one does the same."""
    hold_to_suite(OfMemory, tmp_path)


class OfPostgres(RefereeContract):
    """On a real server."""

    folder: Path

    def __init__(self, server: Server) -> None:
        self.server = server
        self.section = server.section(f"t{uuid4().hex}")

    @asynccontextmanager
    async def open(self, *nodes: str) -> AsyncGenerator[tuple[Referee, ...]]:
        """Open the schema once for each node, as that many gateways would."""
        async with AsyncExitStack() as stack:
            found: list[Referee] = []
            for node in nodes:
                setup = postgres_setup(self.section, self.folder, node=node)
                opened = await stack.enter_async_context(POSTGRES.open(setup))
                assert opened.referee is not None
                found.append(opened.referee)
            yield tuple(found)

    async def run_out(self, lease: str) -> None:
        """Set it back."""
        schema = self.section.table_schema
        self.server.psql(
            f"UPDATE {schema}.lease SET until = now() - interval '1 s'"  # noqa: S608 - its own
            f" WHERE name = '{lease}'"
        )

    async def test_a_beat_that_is_late_shortens_nothing(self) -> None:
        """Where all waited for a standby, one that was given up is done behind a later one."""
        schema = self.section.table_schema
        async with self.pair() as (a, _):
            await a.asks("p")
            lease = f"{schema}.lease"
            later = f"UPDATE {lease} SET until = now() + interval '60 s'"  # noqa: S608 - its own
            self.server.psql(later)
            assert (await a.asks(keep={"p": 1})).granted == {"p": 1}
            left = f"SELECT until > now() + interval '50 s' FROM {lease}"  # noqa: S608 - its own
            assert self.server.psql(left) == "t"


@needs_database
def test_the_referee_in_a_database_keeps_the_contract(
    database_server: Server, tmp_path: Path
) -> None:
    """On a real server, by the clock of that."""
    hold_to_suite(partial(OfPostgres, database_server), tmp_path)
