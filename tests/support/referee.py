"""A referee in memory, with a clock of its own."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from everturn_actors.cluster.leases import TTL_S, Answer, Beat, Member
from everturn_actors.errors import JournalError


class _Row(Struct):
    node: str
    instance: str
    epoch: int
    until_s: float


class MemoryReferee:
    """`Referee` for processes of one test."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self.rows: dict[str, _Row] = {}
        self._members: dict[str, tuple[Member, float]] = {}
        self.fault = ""
        "Why it cannot be asked; empty = it can."
        self.beats = 0

    async def prepare(self) -> None:
        """See `Referee.prepare`."""

    async def beat(self, beat: Beat) -> Answer:
        """See `Referee.beat`."""
        if self.fault:
            raise JournalError(self.fault)
        return self.decide(beat)

    def decide(self, beat: Beat) -> Answer:
        """Do what a beat asks for."""
        self.beats += 1
        now_s, me = self._now_s(), beat.member
        granted: dict[str, int] = {}
        if beat.leaves:
            self._members.pop(me.node.name, None)
        else:
            self._members[me.node.name] = (me, now_s + TTL_S)
        for name, epoch in beat.give.items():
            if self._is_own(name, epoch, me):
                self.rows[name].until_s = now_s
        for name, epoch in beat.keep.items():
            if self._is_own(name, epoch, me):
                self.rows[name].until_s = now_s + TTL_S
                granted[name] = epoch
        for name in beat.claim:
            row = self.rows.get(name)
            if row is None or row.until_s <= now_s:
                epoch = row.epoch + 1 if row else 1
                self.rows[name] = _Row(me.node.name, me.instance, epoch, now_s + TTL_S)
                granted[name] = epoch
        live = {name: row for name, row in self.rows.items() if row.until_s > now_s}
        return Answer(
            granted=granted,
            found={
                name: row.epoch
                for name, row in live.items()
                if row.instance == me.instance and name not in granted
            },
            others={name: row.node for name, row in live.items() if row.instance != me.instance},
            members=tuple(
                member for _, (member, until_s) in sorted(self._members.items()) if until_s > now_s
            ),
        )

    def owner(self, lease: str) -> tuple[str, int] | None:
        """Return the run that has a lease now, and its epoch."""
        row = self.rows.get(lease)
        return (row.instance, row.epoch) if row and row.until_s > self._now_s() else None

    def _is_own(self, lease: str, epoch: int, me: Member) -> bool:
        row = self.rows.get(lease)
        return (
            row is not None
            and (row.instance, row.epoch) == (me.instance, epoch)
            and row.until_s > self._now_s()
        )
