"""Several nodes over one store, in one process; a test says who owns what, which links break."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import cast

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field
from support.owning import IdsAlone

from everturn_actors.cluster.frames import (
    Ask,
    Delete,
    Follow,
    Pushed,
    Text,
    error_of,
    failure_of,
    pack,
    pack_answer,
    unpack,
    unpack_answer,
)
from everturn_actors.cluster.hub import Host
from everturn_actors.cluster.link import Asked, Following, Given
from everturn_actors.cluster.partitions import PARTITIONS, partition_of
from everturn_actors.cluster.routing import RoutedActors
from everturn_actors.errors import CoreError, LinkBrokenError, MovedError
from everturn_actors.events import Event
from everturn_actors.journal.memory import MemoryDisk, open_memory_store
from everturn_actors.model import ConversationKey
from everturn_actors.ports import Agent, Node, SessionStore
from everturn_actors.protocol.feed import TextDelta
from everturn_actors.service import ServicePorts, ServiceSettings, TurnService, open_service
from everturn_actors.session.registry import Registry
from everturn_actors.testing import (
    AgentParts,
    ManualClock,
    ScriptedProvider,
    StaticAgents,
    make_spec,
)


class Board(Struct, kw_only=True):
    """Who holds which partition, as all nodes know it at once; and which links are cut."""

    names: tuple[str, ...]
    holders: dict[int, str] = field(default_factory=dict[int, str])
    leaving: set[int] = field(default_factory=set[int])
    news: anyio.Event = field(default_factory=anyio.Event)
    hosts: dict[str, Host] = field(default_factory=dict[str, Host])
    cut: set[str] = field(default_factory=set[str])
    "Nodes that nobody reaches."
    fault: str = ""
    "Why no node can find out who holds what; empty = all can."
    deaf: int = 0
    "So many of the next answers are lost on their way."
    asks: list[Asked] = field(default_factory=list[Asked])
    "That went over a link."

    def notify(self) -> None:
        """Let all nodes see that something has changed."""
        news, self.news = self.news, anyio.Event()
        news.set()


class BoardOwnership(IdsAlone):
    """`Ownership` as a board has it."""

    def __init__(self, board: Board, name: str) -> None:
        self._board, self.me = board, Node(name=name)

    @property
    def fault(self) -> str:
        """See `Ownership.fault`."""
        return self._board.fault

    def partition(self, session_id: str, key: ConversationKey | None = None) -> int:
        """See `Ownership.partition`."""
        return partition_of(session_id)

    def holder(self, partition: int) -> Node | None:
        """See `Ownership.holder`."""
        name = self._board.holders.get(partition)
        return (
            Node(name=name) if name is not None and partition not in self._board.leaving else None
        )

    def epoch(self, partition: int) -> int | None:
        """See `Ownership.epoch`."""
        return 1 if self.holder(partition) == self.me else None

    def nodes(self) -> tuple[Node, ...]:
        """See `Ownership.nodes`."""
        return tuple(Node(name=name) for name in self._board.names)

    async def changed(self) -> None:
        """See `Ownership.changed`."""
        await self._board.news.wait()


class BoardLink:
    """`Link` between nodes of one board: what passes is packed and read as on a stream."""

    def __init__(self, board: Board) -> None:
        self._board = board

    async def ask(self, node: Node, asked: Asked, *, deadline_s: float) -> Given:
        """See `Link.ask`."""
        board = self._board
        board.asks.append(asked)
        host = self._host(node)
        arrived = Asked(session_id=asked.session_id, command=None)
        if asked.command is not None:
            ask = Ask(
                number=1,
                session_id=asked.session_id,
                command=asked.command,
                begin_with=asked.begin_with,
            )
            read = unpack(pack(ask)[4:])
            assert isinstance(read, Ask)
            arrived = Asked(
                session_id=read.session_id, command=read.command, begin_with=read.begin_with
            )
        else:
            assert isinstance(
                unpack(pack(Delete(number=1, session_id=asked.session_id))[4:]), Delete
            )
        try:
            with anyio.fail_after(deadline_s):
                given = await host.answer(arrived)
        except MovedError:
            raise
        except CoreError as error:
            raise error_of(failure_of(error)) from error
        if board.deaf:
            board.deaf -= 1
            msg = "the answer was lost"
            raise LinkBrokenError(msg)
        if asked.command is None:
            return Given(answer=None)
        answer = unpack_answer(asked.command, pack_answer(given.answer))
        return Given(answer=answer, events=given.events)

    async def follow(self, node: Node, following: Following) -> None:
        """See `Link.follow`."""
        subscriber = _Subscriber(
            session_id=following.session_id,
            after=following.after,
            waits=following.waits,
            is_final=following.is_final,
            following=following,
        )
        host = self._host(node)

        def notify() -> None:
            subscriber.waits, subscriber.is_final = following.waits, following.is_final
            host.followers_changed(subscriber)

        following.notify = notify
        failure: CoreError | None = None
        async with anyio.create_task_group() as tasks:

            async def end_when_cut() -> None:
                while node.name not in self._board.cut:
                    await self._board.news.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(end_when_cut)
            try:
                await host.serve(subscriber)
            except CoreError as error:
                is_moved = isinstance(error, MovedError)
                failure = error if is_moved else error_of(failure_of(error))
            finally:
                following.notify = None
            tasks.cancel_scope.cancel()
        self._host(node)
        if failure is not None:
            raise failure

    def _host(self, node: Node) -> Host:
        if node.name in self._board.cut:
            msg = f"node {node.name!r} is cut off"
            raise LinkBrokenError(msg)
        return self._board.hosts[node.name]


class _Subscriber(Struct, kw_only=True, eq=False):
    """Implements `Subscriber`."""

    session_id: str
    after: int
    waits: bool
    is_final: bool
    following: Following

    def offer(self, delta: TextDelta) -> bool:
        """See `Subscriber.offer`."""
        self.following.take(
            Text(number=1, turn=delta.turn, step=delta.step, offset=delta.offset, text=delta.text)
        )
        return True

    async def push(self, update: Event | TextDelta) -> None:
        """See `Subscriber.push`."""
        if isinstance(update, TextDelta):
            self.offer(update)
        else:
            follow = Follow(number=1, session_id=self.session_id, after=self.after)
            assert unpack(pack(follow)[4:]) == follow
            pushed = unpack(pack(Pushed(number=1, last_seq=update.seq, events=(update,)))[4:])
            assert isinstance(pushed, Pushed)
            self.following.take(pushed)


class Cluster(Struct, kw_only=True):
    """Nodes that share a store."""

    board: Board
    store: SessionStore
    services: Mapping[str, TurnService]
    providers: Mapping[str, ScriptedProvider]
    clock: ManualClock

    def owner(self, session_id: str) -> str:
        """Return who has a session."""
        return self.board.holders[partition_of(session_id)]

    def other(self, session_id: str) -> str:
        """Return the first node that has not."""
        return next(name for name in self.board.names if name != self.owner(session_id))

    async def move(self, session_id: str, to: str, *, drain_s: float = 60.0) -> None:
        """Let another node have the partition of a session."""
        board, partition = self.board, partition_of(session_id)
        before = board.holders[partition]
        board.leaving.add(partition)
        board.notify()
        await self.services[before].handover.lose(frozenset((partition,)), drain_s)
        board.holders[partition] = to
        board.leaving.discard(partition)
        board.notify()
        await self.services[to].handover.take(frozenset((partition,)))

    async def lose(self, session_id: str, to: str) -> None:
        """Let the owner of a session be gone, without a word; another one takes over."""
        board, partitions = self.board, frozenset((partition_of(session_id),))
        before = self.owner(session_id)
        board.cut.add(before)
        board.holders[partition_of(session_id)] = to
        board.notify()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.services[before].handover.lose, partitions, 0.0)
            tasks.start_soon(self.services[to].handover.take, partitions)


@asynccontextmanager
async def open_cluster(
    *names: str,
    store: SessionStore | None = None,
    settings: ServiceSettings | None = None,
    patience_s: float = 5.0,
    **parts: object,
) -> AsyncGenerator[Cluster]:
    """Open nodes that share the partitions in turn.

    Args:
        names: Of the nodes.
        store: What they share; by default one in memory.
        settings: Times.
        patience_s: How long an owner is looked for.
        parts: Of the agent, see `open_test_service`.
    """
    board, clock = Board(names=names), ManualClock()
    board.holders = {number: names[number % len(names)] for number in range(PARTITIONS)}
    services: dict[str, TurnService] = {}
    providers: dict[str, ScriptedProvider] = {}
    given = cast("AgentParts", parts)
    async with AsyncExitStack() as stack:
        shared = store
        if shared is None:
            shared = await stack.enter_async_context(open_memory_store(MemoryDisk()))
        for name in names:
            provider = providers[name] = ScriptedProvider()
            agent = Agent(
                spec=given.get("spec") or make_spec(),
                provider=provider,
                tools=given.get("tools") or {},
                gate=given.get("gate"),
            )
            scratch = await stack.enter_async_context(open_memory_store(MemoryDisk()))
            ownership = BoardOwnership(board, name)
            services[name] = await stack.enter_async_context(
                open_service(
                    store=shared,
                    scratch=scratch,
                    agents=StaticAgents({"test": agent}),
                    clock=clock,
                    settings=settings or ServiceSettings(leave_grace_s=0, drain_s=0),
                    ports=ServicePorts(
                        ownership=ownership,
                        router=partial(_route, board, ownership, patience_s),
                    ),
                )
            )
        yield Cluster(
            board=board, store=shared, services=services, providers=providers, clock=clock
        )


def _route(
    board: Board, ownership: BoardOwnership, patience_s: float, registry: Registry, tasks: TaskGroup
) -> RoutedActors:
    link = BoardLink(board)
    routed = RoutedActors(registry, ownership, link, tasks, patience_s=patience_s)
    board.hosts[ownership.me.name] = routed
    return routed
