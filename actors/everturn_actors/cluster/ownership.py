"""What this process holds and knows of the others, by leases; `heartbeat` keeps it up to date."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeAlias

import anyio
from msgspec.structs import replace

from everturn_actors.cluster.leases import Member, View, is_awaited
from everturn_actors.cluster.partitions import partition_in
from everturn_actors.cluster.placement import NOWHERE, Placement, agent_seat
from everturn_actors.model import ConversationKey
from everturn_actors.ports.ownership import Node

OnTake: TypeAlias = Callable[[frozenset[int]], Awaitable[None]]
"Is told of partitions that are this process's from now on."
OnLose: TypeAlias = Callable[[frozenset[int], float], Awaitable[None]]
"""Is told of partitions that go, and how long what runs there may take to finish, in seconds: 0 =
they are gone already. When it returns, nothing of them runs here any more."""


def elapsed_s() -> float:
    """Return seconds of a clock that never jumps, and counts while the machine is suspended.

    Source: clock_gettime(2), CLOCK_BOOTTIME; where there is none, as on macOS, the monotonic clock.
    """
    clock_id = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock_id)


class LeaseOwnership:
    """`Ownership` by leases of a referee. Nothing is held before `begin`."""

    def __init__(self, me: Member, *, elapsed: Callable[[], float] = elapsed_s) -> None:
        """Hold nothing yet.

        Args:
            me: This process.
            elapsed: Seconds of a clock that never jumps.
        """
        self.fault = ""
        "Why the referee could not be asked the last time; empty = it could."
        self.view = View(me=me)
        "What the referee said last, and what became of it since."
        self.elapsed = elapsed
        self.begun = anyio.Event()
        "Set by `begin`: nothing is held before."
        self.on_take: OnTake
        self.on_lose: OnLose
        self.nudged = anyio.Event()
        "Set where the next heartbeat must not wait for its time."
        self.placement = Placement()
        "Which lease a session goes by."
        self.homes: Mapping[str, str] = {}
        "By seat: the name of the process that should have it, see `offer`."
        self.refusals: Callable[[], Mapping[str, str]] = dict[str, str]
        "Returns which nodes do not let this one in, and why."
        self._nodes: dict[str, Node] = {}
        self._news = anyio.Event()
        self.ends: dict[str, anyio.Event] = {}
        "By seat: set where what ran while it was held has ended, see `while_held`."

    # --- Ownership ---

    @property
    def me(self) -> Node:
        """This process."""
        return self.view.me.node

    def partition(self, session_id: str, key: ConversationKey | None = None) -> int:
        """See `Ownership.partition`."""
        return self.placement.partition(session_id, key)

    def is_known(self, session_id: str) -> bool:
        """See `Ownership.is_known`."""
        return self.placement.is_known(session_id)

    def note_key(self, session_id: str, key: ConversationKey) -> None:
        """See `Ownership.note_key`."""
        self.placement.note_key(session_id, key)

    def works_for(self, agent: str) -> bool:
        """See `Ownership.works_for`."""
        if not self.placement.has_home(agent):
            return True
        return self.seat_epoch(agent_seat(agent)) is not None

    def why_nobody(self, partition: int) -> str:
        """See `Ownership.why_nobody`."""
        if self.fault:
            return "the store cannot be asked who works on it"
        if partition == NOWHERE:
            return ""
        seat = self.placement.lease(partition)
        node = self.homes.get(seat, "")
        if not node or node in {each.name for each in self.nodes()}:
            return ""
        return f"the seat {seat} is node {node}'s, which does not live"

    def holder(self, partition: int) -> Node | None:
        """See `Ownership.holder`."""
        return self.seat_holder(self.placement.lease(partition))

    def epoch(self, partition: int) -> int | None:
        """See `Ownership.epoch`."""
        return self.seat_epoch(self.placement.lease(partition))

    def nodes(self) -> tuple[Node, ...]:
        """See `Ownership.nodes`."""
        return tuple(member.node for member in self.view.members)

    async def changed(self) -> None:
        """See `Ownership.changed`."""
        await self._news.wait()

    # --- seats ---

    def seat_holder(self, lease: str) -> Node | None:
        """Return who holds a seat, as far as is known; None = nobody now, or on its way."""
        if self.seat_epoch(lease) is not None:
            return self.me
        return self._nodes.get(self.view.others.get(lease, ""))

    def seat_epoch(self, lease: str) -> int | None:
        """Return the number of this process's lease of a seat; None = it is not its own now."""
        return self.view.epoch(lease, self.elapsed())

    # --- for people ---

    def holders(self) -> dict[str, str]:
        """Return the name of the process that holds each lease that is held, by lease."""
        return {**self.view.others, **dict.fromkeys(self.view.held, self.me.name)}

    def offer(self, seats: Iterable[str], homes: Mapping[str, str]) -> None:
        """Say which seats this process may have from now on.

        Args:
            seats: What it can do for all.
            homes: By seat: the name of the process that should have it before others.
        """
        self.homes = dict(homes)
        seats = tuple(seats)
        preferred = [seat for seat in seats if homes.get(seat) == self.me.name]
        me = replace(self.view.me, seats=seats, prefers=tuple(preferred))
        if me != self.view.me:
            self.view = replace(self.view, me=me)
            self.nudged.set()

    def share_digest(self, digest: str) -> None:
        """Let the others know of which agents this process knows now."""
        self.view = replace(self.view, me=replace(self.view.me, digest=digest))

    # --- life ---

    def begin(self, on_take: OnTake, on_lose: OnLose) -> None:
        """Let leases be held from now on, and tell who works by them."""
        self.on_take, self.on_lose = on_take, on_lose
        self.begun.set()

    async def drain(self) -> None:
        """Let the others have what this process holds; return when it holds nothing.

        The caller sets the deadline. Where there is no other, or none can be told, nothing is given
        back before `Heartbeat.leave`.
        """
        self.view = replace(self.view, me=replace(self.view.me, drains=True))
        if self.fault or not _has_others(self.view):
            return
        self.nudged.set()
        await self._news.wait()  # it drains in the eyes of all
        while is_awaited(self.view):  # what no other one may have stays until the end
            await self._news.wait()

    # --- for its heartbeat ---

    def partitions(self, leases: Iterable[str]) -> frozenset[int]:
        """Return the partitions that leases are of; that of a seat where sessions go with it."""
        found = ((name, partition_in(name)) for name in leases)
        numbers = (self.placement.number(name) if n is None else n for name, n in found)
        return frozenset(number for number in numbers if number is not None)

    def show(self, view: View, *, is_new: bool = False) -> None:
        """Know this from now on.

        Args:
            view: What is held, and who else lives.
            is_new: Whether somebody who waits for a change has to look.
        """
        if view.members is not self.view.members:
            self._nodes = {member.node.name: member.node for member in view.members}
        self.view = view
        if is_new:
            news, self._news = self._news, anyio.Event()
            news.set()


def _has_others(view: View) -> bool:
    return any(each.node.name != view.me.node.name and not each.drains for each in view.members)


class LeasedSeats:
    """What one process may do for all, while it holds the seat for that."""

    def __init__(self, ownership: LeaseOwnership) -> None:
        """Go by the leases of this process."""
        self._ownership = ownership

    async def while_held(
        self,
        seat: str,
        body: Callable[[], Awaitable[object]],
        otherwise: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """Run `body` whenever this process holds a seat; return when one run ends by itself.

        It is cancelled as soon as the seat moves or the lease may run out, and the seat is given
        back when it has ended. What it raises passes.

        Args:
            seat: One of those of this process.
            body: What the one that has it does.
            otherwise: What the others do, in the same way; None = nothing.
        """
        while True:
            epoch = self._ownership.seat_epoch(seat)
            work = otherwise or anyio.sleep_forever if epoch is None else body
            ended, is_over = anyio.Event(), False
            if epoch is not None:
                self._ownership.ends[seat] = ended
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._cancel_later, seat, epoch, tasks.cancel_scope)
                    await work()
                    is_over = True
                    tasks.cancel_scope.cancel()
            finally:
                ended.set()
            if is_over:
                return

    async def _cancel_later(self, seat: str, epoch: int | None, scope: anyio.CancelScope) -> None:
        while self._ownership.seat_epoch(seat) == epoch:
            await self._ownership.changed()
        scope.cancel()


async def until_left(ownership: LeaseOwnership, seat: str) -> None:
    """Wait until what ran here while a seat was held has ended."""
    if seat in ownership.ends:
        await ownership.ends[seat].wait()
