"""Holds leases: asks the referee once a second, and tells who is concerned what came and went."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from everturn_actors.cluster.leases import (
    SAFE_S,
    Change,
    Member,
    Referee,
    View,
    heard,
    is_moving,
    next_beat,
    passed,
    to_leave,
    wanted,
)
from everturn_actors.cluster.partitions import lease_of, partition_in, partition_of
from everturn_actors.errors import JournalError
from everturn_actors.ports import Clock
from everturn_actors.ports.ownership import Node
from everturn_actors.supervisor import contain

logger = logging.getLogger(__name__)

BEAT_S: Final = 1.0
"How often the referee is asked."
MOVING_S: Final = 0.25
"The same while leases move: others wait for that."
LEAVE_AFTER_S: Final = 1.2
"How long a lease that should move stays: by then all have noticed, and look often."
_SOON_S: Final = 0.05  # where a lease is free for the taking
_PATIENCE_S: Final = 1.5  # for one answer; a late one is worth nothing
_GONE_S: Final = 2.0  # for the last word to the referee


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

    def __init__(
        self,
        referee: Referee,
        me: Member,
        clock: Clock,
        *,
        drain_s: float,
        elapsed: Callable[[], float] = elapsed_s,
    ) -> None:
        """Hold nothing yet.

        Args:
            referee: Whom to ask.
            me: This process.
            clock: Makes the pauses.
            drain_s: How long what runs may take to finish where a partition moves.
            elapsed: Seconds of a clock that never jumps.
        """
        self._on_take: OnTake
        self._on_lose: OnLose
        self._begun = anyio.Event()
        self.fault = ""
        "Why the referee could not be asked the last time; empty = it could."
        self._referee, self._clock, self._elapsed = referee, clock, elapsed
        self._drain_s = drain_s
        self._view = View(me=me)
        self._nodes: dict[str, Node] = {}
        self._news, self._nudged = anyio.Event(), anyio.Event()
        self._seats: dict[str, anyio.Event] = {}
        "Set where what ran while the seat was held has ended."
        self._noticed: dict[str, float] = {}
        "When it was first seen of each lease that it should move."

    # --- Ownership ---

    @property
    def me(self) -> Node:
        """This process."""
        return self._view.me.node

    def partition(self, session_id: str) -> int:
        """See `Ownership.partition`."""
        return partition_of(session_id)

    def holder(self, partition: int) -> Node | None:
        """See `Ownership.holder`."""
        return self.seat_holder(lease_of(partition))

    def epoch(self, partition: int) -> int | None:
        """See `Ownership.epoch`."""
        return self.seat_epoch(lease_of(partition))

    def nodes(self) -> tuple[Node, ...]:
        """See `Ownership.nodes`."""
        return tuple(member.node for member in self._view.members)

    async def changed(self) -> None:
        """See `Ownership.changed`."""
        await self._news.wait()

    # --- seats ---

    def seat_holder(self, lease: str) -> Node | None:
        """Return who holds a seat, as far as is known; None = nobody now, or on its way."""
        if self.seat_epoch(lease) is not None:
            return self.me
        return self._nodes.get(self._view.others.get(lease, ""))

    def seat_epoch(self, lease: str) -> int | None:
        """Return the number of this process's lease of a seat; None = it is not its own now."""
        return self._view.epoch(lease, self._elapsed())

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
            epoch = self.seat_epoch(seat)
            work = otherwise or anyio.sleep_forever if epoch is None else body
            ended, is_over = anyio.Event(), False
            if epoch is not None:
                self._seats[seat] = ended
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
        while self.seat_epoch(seat) == epoch:
            await self._news.wait()
        scope.cancel()

    # --- for people ---

    @property
    def members(self) -> tuple[Member, ...]:
        """Who lives, as far as is known."""
        return self._view.members

    @property
    def seats(self) -> tuple[str, ...]:
        """What it may do for all."""
        return self._view.me.seats

    def holders(self) -> dict[str, str]:
        """Return the name of the process that holds each lease that is held, by lease."""
        return {**self._view.others, **dict.fromkeys(self._view.held, self.me.name)}

    def tell_digest(self, digest: str) -> None:
        """Let the others know of which agents this process knows now."""
        self._view = replace(self._view, me=replace(self._view.me, digest=digest))

    # --- life ---

    def begin(self, on_take: OnTake, on_lose: OnLose) -> None:
        """Let `run` hold leases from now on, and tell who works by them."""
        self._on_take, self._on_lose = on_take, on_lose
        self._begun.set()

    async def run(self) -> None:
        """Hold leases until cancelled; then `leave`."""
        await self._begun.wait()
        async with anyio.create_task_group() as tasks:
            while True:
                await self._beat(tasks)
                await self._pause()

    async def drain(self) -> None:
        """Let the others have what this process holds; return when it holds nothing.

        The caller sets the deadline. Where there is no other, or none can be told, nothing is given
        back before `leave`.
        """
        self._view = replace(self._view, me=replace(self._view.me, drains=True))
        if self.fault or not self._has_others():
            return
        self._nudged.set()
        await self._news.wait()  # it drains in the eyes of all
        while self._view.held and self._has_others():
            await self._news.wait()

    async def leave(self) -> None:
        """Tell the referee that this process is gone; all that it holds is free at once."""
        view = self._view
        give = {name: held.epoch for name, held in view.held.items()} | dict(view.found)
        beat = replace(next_beat(view), keep={}, give=give, claim=(), leaves=True)
        self._view = replace(view, held={}, leaving=frozenset(), left=frozenset(), found={})
        with anyio.move_on_after(_GONE_S, shield=True):
            try:
                await self._referee.beat(beat)
            except JournalError as error:  # its leases run out by themselves
                logger.warning("the others learn later that this one is gone: %s", error)

    def _has_others(self) -> bool:
        me = self._view.me.node.name
        return any(each.node.name != me and not each.drains for each in self._view.members)

    async def _beat(self, tasks: TaskGroup) -> None:
        beat, sent_s = next_beat(self._view), self._elapsed()
        failure = ""
        try:
            with anyio.fail_after(self._patience_s(sent_s)):
                answer = await self._referee.beat(beat)
        except TimeoutError:
            failure = "it did not answer in time"
        except JournalError as error:
            failure = str(error)
        else:
            change = heard(self._view, beat, answer, sent_s=sent_s, now_s=self._elapsed())
            self._take_over(change, tasks)
        self._note(failure)
        self._take_over(passed(self._view, self._elapsed()), tasks)
        self._let_go(tasks)

    def _patience_s(self, now_s: float) -> float:
        """Return how long to wait for an answer: what is held must be let go in time."""
        until_s = min((held.until_s for held in self._view.held.values()), default=now_s + SAFE_S)
        return max(0.05, min(_PATIENCE_S, until_s - now_s))

    def _note(self, failure: str) -> None:
        if failure and not self.fault:
            logger.warning("the store cannot be asked who owns what: %s", failure)
        if self.fault and not failure:
            logger.info("the store can be asked again who owns what")
        self.fault = failure

    def _take_over(self, change: Change, tasks: TaskGroup) -> None:
        before, self._view = self._view, change.view
        self._nodes = {member.node.name: member.node for member in self._view.members}
        if change.lost:
            tasks.start_soon(self._lose, change.lost, 0.0)
        if change.taken:
            tasks.start_soon(self._take, change.taken)
        if change.taken or change.lost or _seen(before) != _seen(self._view):
            self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, anyio.Event()
        news.set()

    def _let_go(self, tasks: TaskGroup) -> None:
        """Begin to let those leases go that should have moved for a while."""
        now_s = self._elapsed()
        wanted = to_leave(self._view)
        self._noticed = {name: self._noticed.get(name, now_s) for name in wanted}
        ripe = frozenset(
            name for name, at_s in self._noticed.items() if now_s - at_s >= LEAVE_AFTER_S
        )
        if ripe:
            self._view = replace(self._view, leaving=self._view.leaving | ripe)
            tasks.start_soon(self._lose, ripe, self._drain_s)
            self._tell()

    async def _take(self, leases: frozenset[str]) -> None:
        partitions = _partitions(leases)
        logger.info("leases taken", extra={"leases": _words(leases)})
        if partitions:
            await contain("wake a partition", lambda: self._on_take(partitions))

    async def _lose(self, leases: frozenset[str], drain_s: float) -> None:
        """Let what runs by leases end; those that go in order are given back then, one by one."""
        logger.info("leases go", extra={"leases": _words(leases), "drain_s": drain_s})
        epochs = {name: self._view.held[name].epoch for name in leases if name in self._view.held}
        async with anyio.create_task_group() as losing:
            for name in leases:
                losing.start_soon(self._lose_one, name, drain_s, epochs.get(name))

    async def _lose_one(self, lease: str, drain_s: float, epoch: int | None) -> None:
        partition = partition_in(lease)
        if partition is not None:
            one = frozenset((partition,))
            await contain(lease, lambda: self._on_lose(one, drain_s))
        elif lease in self._seats:
            await self._seats[lease].wait()
        held = self._view.held.get(lease)
        if epoch is not None and held is not None and held.epoch == epoch and drain_s:
            self._view = replace(self._view, left=self._view.left | {lease})
            self._nudged.set()

    async def _pause(self) -> None:
        pause_s = MOVING_S if is_moving(self._view) else BEAT_S
        if wanted(self._view):
            pause_s = _SOON_S
        async with anyio.create_task_group() as tasks:

            async def sleep() -> None:
                await self._clock.sleep(pause_s)
                tasks.cancel_scope.cancel()

            tasks.start_soon(sleep)
            await self._nudged.wait()
            tasks.cancel_scope.cancel()
        self._nudged = anyio.Event()


def _seen(view: View) -> object:
    return view.others, view.members, view.held.keys()


def _partitions(leases: frozenset[str]) -> frozenset[int]:
    return frozenset(number for name in leases if (number := partition_in(name)) is not None)


def _words(leases: frozenset[str]) -> str:
    """Return leases for the log: seats by name, partitions by their number."""
    seats = sorted(name for name in leases if partition_in(name) is None)
    count = len(leases) - len(seats)
    return ", ".join([*seats, *([f"{count} partitions"] if count else [])])
