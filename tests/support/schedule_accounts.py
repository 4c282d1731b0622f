"""All that was written down of a scheduled job, held against the definitions that were in force."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from everturn_actors.records import utc_text
from everturn_gateway.scheduler import rules
from everturn_gateway.scheduler.jobs import Job
from everturn_gateway.scheduler.records import (
    Armed,
    Began,
    Cancelled,
    Finished,
    Missed,
    Rebased,
    Record,
    Resumed,
)

TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Force:
    """A definition as it was in force."""

    job: Job
    anchor: datetime

    def after(self, instant: datetime) -> datetime | None:
        """Return the first occurrence after an instant."""
        return rules.next_instant(self.job, after=instant, anchor=self.anchor)

    def has(self, instant: datetime) -> bool:
        """Whether this is one of its occurrences."""
        return self.after(instant - TICK) == instant

    def between(self, begins: datetime, ends: datetime) -> Iterator[datetime]:
        """Yield the occurrences in `(begins, ends]`."""
        instant = self.after(begins)
        while instant is not None and instant <= ends:
            yield instant
            instant = self.after(instant)


@dataclass(slots=True)
class Account:
    """All that is known of one job."""

    forces: list[Force] = field(default_factory=list[Force])
    began: dict[tuple[datetime, int], Began] = field(
        default_factory=dict[tuple[datetime, int], Began]
    )
    "By instant and try."
    ended: dict[datetime, Finished] = field(default_factory=dict[datetime, Finished])
    missed: list[Missed] = field(default_factory=list[Missed])
    is_called_off: bool = False
    ran: int = 0
    "Since it was armed."
    settled: datetime | None = None
    "Occurrences up to here need not be accounted for any more."

    def has_begun(self, instant: datetime) -> bool:
        """Whether an occurrence was begun at its time."""
        began = self.began.get((instant, 1))
        return began is not None and not began.by_hand

    def is_accounted_for(self, instant: datetime) -> bool:
        """Whether an occurrence was begun, or passed over."""
        passed = any(each.first <= instant <= each.instant for each in self.missed)
        return passed or self.has_begun(instant)

    def take(self, record: Record) -> None:
        """Take what was written down, and check that it may be."""
        match record:
            case Began():
                self._begin(record)
            case Finished(instant=instant):
                assert instant not in self.ended, "an occurrence ended twice"
                assert (instant, 1) in self.began, "it ended and never began"
                if record.outcome == "cancelled":
                    assert self.is_called_off, "what is only set aside is called off"
                self.ended[instant] = record
            case Missed():
                self._miss(record)
            case Cancelled():
                self.is_called_off = True
            case Armed(at=at, since=since):
                assert since == at or self.forces[-1].job.is_once, "it counts what was before it"
                self.settled, self.ran = since, 0
                self.is_called_off = False
            case Resumed(at=at):
                self.settled = max(self.settled or at, at)
            case Rebased(cursor=cursor):
                self.settled = min(self.settled or cursor, cursor)
                self.missed = [each for each in self.missed if each.instant <= cursor]
            case _:
                pass

    def _begin(self, record: Began) -> None:
        name = (record.instant, record.attempt)
        assert name not in self.began, "an occurrence began twice"
        self.began[name] = record
        if record.attempt > 1:
            before = self.began[record.instant, record.attempt - 1]
            assert record.by_hand == before.by_hand
        if record.by_hand or record.attempt > 1:
            return
        self.ran += 1
        force = self._force_of(record.instant)
        late = record.at - record.instant
        jitter = timedelta(seconds=rules.jitter_s(force.job, record.instant))
        assert late >= jitter, "an occurrence began early"
        most_s = force.job.grace_s + force.job.jitter_s
        assert late <= timedelta(seconds=most_s), "an occurrence began too late"

    def _miss(self, record: Missed) -> None:
        force = self._force_of(record.first, record.instant)
        passed = [
            instant
            for instant in force.between(record.first - TICK, record.instant)
            if not self.has_begun(instant)
        ]
        assert len(passed) == record.count, "it says that another number was missed"
        late_s = (record.at - record.instant).total_seconds()
        newer = force.between(record.instant, record.at)
        if force.job.misfire == "run_all" or not any(newer):
            assert late_s > force.job.grace_s, "an occurrence is passed over that was in time"
        self.missed.append(record)

    def _force_of(self, *instants: datetime) -> Force:
        """Return the newest definition that has these occurrences."""
        found = [force for force in self.forces if all(map(force.has, instants))]
        assert found, f"no definition has {[utc_text(each) for each in instants]}"
        return found[-1]
