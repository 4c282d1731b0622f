"""Holds leases: asks the referee once a second, and tells who is concerned what came and went."""

from __future__ import annotations

import logging
import math
from typing import Final

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from everturn_actors.cluster.leases import (
    Change,
    Referee,
    View,
    heard,
    is_moving,
    next_beat,
    passed,
    to_leave,
    wanted,
)
from everturn_actors.cluster.ownership import LeaseOwnership, until_left
from everturn_actors.cluster.partitions import partition_in
from everturn_actors.errors import JournalError
from everturn_actors.ports import Clock
from everturn_actors.supervisor import contain

logger = logging.getLogger(__name__)

BEAT_S: Final = 1.0
"How often the referee is asked."
MOVING_S: Final = 0.1
"The same while leases move: others wait for that."
LEAVE_AFTER_S: Final = 1.2
"How long a lease that should move stays: by then all have noticed, and look often."
_SOON_S: Final = 0.05  # where a lease is free for the taking
_AWAY_S: Final = 0.5  # where the referee could not be asked: it may refuse at once, for hours
_PATIENCES_S: Final = (1.5, 3.0, 6.0)
"For one answer; for longer after some that were late: a machine may be that busy."
_GONE_S: Final = 2.0  # for the last word to the referee


class Heartbeat:
    """Keeps a `LeaseOwnership` true, and lets what runs by it begin and end in time."""

    def __init__(
        self, referee: Referee, ownership: LeaseOwnership, clock: Clock, *, drain_s: float
    ) -> None:
        """Ask nothing yet.

        Args:
            referee: Whom to ask.
            ownership: What is known; nobody else changes it.
            clock: Makes the pauses.
            drain_s: How long what runs may take to finish where a partition moves.
        """
        self._referee, self._ownership, self._clock = referee, ownership, clock
        self._drain_s = drain_s
        self._noticed: dict[str, float] = {}
        "When it was first seen of each lease that it should move."
        self._late = 0
        "Answers in a row that did not come in time."

    @property
    def _view(self) -> View:
        return self._ownership.view

    async def run(self) -> None:
        """Hold leases until cancelled; then `leave`."""
        await self._ownership.begun.wait()
        async with anyio.create_task_group() as tasks:
            while True:
                await self._beat(tasks)
                await self._pause()

    async def leave(self) -> None:
        """Tell the referee that this process is gone; all that it holds is free at once."""
        view = self._view
        give = {name: held.epoch for name, held in view.held.items()} | dict(view.found)
        beat = replace(next_beat(view), keep={}, give=give, claim=(), leaves=True)
        nothing = replace(view, held={}, leaving=frozenset(), left=frozenset(), found={})
        self._ownership.show(nothing)
        with anyio.move_on_after(_GONE_S, shield=True):
            try:
                await self._referee.beat(beat)
            except JournalError as error:  # its leases run out by themselves
                logger.warning("the others learn later that this one is gone: %s", error)

    async def _beat(self, tasks: TaskGroup) -> None:
        """Ask the referee once, and take over what it says or what its silence means."""
        failure = ""
        try:
            with anyio.fail_after(self._patience_s()):
                await self._referee.prepare()
            beat, sent_s = next_beat(self._view), self._ownership.elapsed()
            with anyio.fail_after(self._patience_s()):
                answer = await self._referee.beat(beat)
        except TimeoutError:
            failure = "it did not answer in time"
            self._late += 1
        except JournalError as error:
            failure = str(error)
        else:
            self._late = 0
            change = heard(self._view, beat, answer, sent_s=sent_s, now_s=self._ownership.elapsed())
            self._take_over(change, tasks)
        self._note(failure)
        self._take_over(passed(self._view, self._ownership.elapsed()), tasks)
        self._let_go(tasks)

    def _patience_s(self) -> float:
        """Return how long to wait for an answer: what is held must be let go in time."""
        longest_s = _PATIENCES_S[min(self._late, len(_PATIENCES_S) - 1)]
        return max(0.05, min(longest_s, self._left_s()))

    def _left_s(self) -> float:
        """Return how long it is to the end of the first lease that it holds, at least 0."""
        until_s = min((held.until_s for held in self._view.held.values()), default=math.inf)
        return max(0.0, until_s - self._ownership.elapsed())

    def _note(self, failure: str) -> None:
        """Log where the referee begins or ceases to answer, once."""
        if failure and not self._ownership.fault:
            logger.warning("the store cannot be asked who owns what: %s", failure)
        if self._ownership.fault and not failure:
            logger.info("the store can be asked again who owns what")
        self._ownership.fault = failure

    def _take_over(self, change: Change, tasks: TaskGroup) -> None:
        """Know what has changed, and let what runs by it begin or end."""
        before = self._view
        is_new = bool(change.taken or change.lost) or _seen(before) != _seen(change.view)
        self._ownership.show(change.view, is_new=is_new)
        if change.lost:
            tasks.start_soon(self._lose, change.lost, 0.0)
        if change.taken:
            tasks.start_soon(self._take, change.taken)

    def _let_go(self, tasks: TaskGroup) -> None:
        """Begin to let those leases go that should have moved for a while."""
        now_s = self._ownership.elapsed()
        wanted = to_leave(self._view)
        self._noticed = {name: self._noticed.get(name, now_s) for name in wanted}
        ripe = frozenset(
            name for name, at_s in self._noticed.items() if now_s - at_s >= LEAVE_AFTER_S
        )
        if ripe:
            going = replace(self._view, leaving=self._view.leaving | ripe)
            self._ownership.show(going, is_new=True)
            tasks.start_soon(self._lose, ripe, self._drain_s)

    async def _take(self, leases: frozenset[str]) -> None:
        partitions = self._ownership.partitions(leases)
        logger.info("leases taken", extra={"leases": _words(leases)})
        if partitions:
            await contain("wake a partition", lambda: self._ownership.on_take(partitions))

    async def _lose(self, leases: frozenset[str], drain_s: float) -> None:
        """Let what runs by leases end; those that go in order are given back then, one by one."""
        logger.info("leases go", extra={"leases": _words(leases), "drain_s": drain_s})
        epochs = {name: self._view.held[name].epoch for name in leases if name in self._view.held}
        async with anyio.create_task_group() as losing:
            for name in leases:
                losing.start_soon(self._lose_one, name, drain_s, epochs.get(name))

    async def _lose_one(self, lease: str, drain_s: float, epoch: int | None) -> None:
        if one := self._ownership.partitions((lease,)):
            await contain(lease, lambda: self._ownership.on_lose(one, drain_s))
        await until_left(self._ownership, lease)
        held = self._view.held.get(lease)
        if epoch is not None and held is not None and held.epoch == epoch and drain_s:
            self._ownership.show(replace(self._view, left=self._view.left | {lease}))
            self._ownership.nudged.set()

    async def _pause(self) -> None:
        """Wait for the time of the next heartbeat, or for a nudge."""
        pause_s = MOVING_S if is_moving(self._view) else BEAT_S
        if wanted(self._view):
            pause_s = _SOON_S
        if self._ownership.fault:
            pause_s = _AWAY_S
        pause_s = min(pause_s, self._left_s())  # what ran out is let go at once
        async with anyio.create_task_group() as tasks:

            async def sleep() -> None:
                await self._clock.sleep(pause_s)
                tasks.cancel_scope.cancel()

            tasks.start_soon(sleep)
            await self._ownership.nudged.wait()
            tasks.cancel_scope.cancel()
        self._ownership.nudged = anyio.Event()


def _seen(view: View) -> object:
    return view.others, view.members, view.held.keys()


def _words(leases: frozenset[str]) -> str:
    """Return leases for the log: seats by name, partitions by their number."""
    seats = sorted(name for name in leases if partition_in(name) is None)
    count = len(leases) - len(seats)
    return ", ".join([*seats, *([f"{count} partitions"] if count else [])])
