"""All that was written down of a scheduled job, held against the definitions that were in force."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from everturn_actors.state.serialization import utc_text
from everturn_gateway.scheduler.jobs import Job
from everturn_gateway.scheduler.rules import rules
from everturn_gateway.scheduler.rules.records import (
    Armed,
    Began,
    Cancelled,
    Finished,
    Misfire,
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

    def after(self, scheduled_at: datetime) -> datetime | None:
        """Return the first run after an instant."""
        return rules.next_scheduled_time(self.job, after=scheduled_at, anchor=self.anchor)

    def has(self, scheduled_at: datetime) -> bool:
        """Whether this is one of its runs."""
        return self.after(scheduled_at - TICK) == scheduled_at

    def between(self, begins: datetime, ends: datetime) -> Iterator[datetime]:
        """Yield the runs in `(begins, ends]`."""
        scheduled_at = self.after(begins)
        while scheduled_at is not None and scheduled_at <= ends:
            yield scheduled_at
            scheduled_at = self.after(scheduled_at)


@dataclass(slots=True)
class Account:
    """All that is known of one job."""

    forces: list[Force] = field(default_factory=list[Force])
    began: dict[tuple[datetime, int], Began] = field(
        default_factory=dict[tuple[datetime, int], Began]
    )
    "By instant and try."
    ended: dict[datetime, Finished] = field(default_factory=dict[datetime, Finished])
    misfired: list[Misfire] = field(default_factory=list[Misfire])
    is_called_off: bool = False
    ran: int = 0
    "Since it was armed."
    resolved: datetime | None = None
    "Runs up to here need not be accounted for any more."

    def has_begun(self, scheduled_at: datetime) -> bool:
        """Whether a run was begun at its time."""
        began = self.began.get((scheduled_at, 1))
        return began is not None and not began.by_hand

    def is_accounted_for(self, scheduled_at: datetime) -> bool:
        """Whether a run was begun, or passed over."""
        passed = any(each.first <= scheduled_at <= each.scheduled_at for each in self.misfired)
        return passed or self.has_begun(scheduled_at)

    def take(self, record: Record) -> None:
        """Take what was written down, and check that it may be."""
        match record:
            case Began():
                self._begin(record)
            case Finished(scheduled_at=scheduled_at):
                assert scheduled_at not in self.ended, "a run ended twice"
                assert (scheduled_at, 1) in self.began, "it ended and never began"
                if record.outcome == "cancelled":
                    assert self.is_called_off, "what is only set aside is called off"
                self.ended[scheduled_at] = record
            case Misfire():
                self._miss(record)
            case Cancelled():
                self.is_called_off = True
            case Armed(at=at, since=since):
                assert since == at or self.forces[-1].job.is_once, "it counts what was before it"
                self.resolved, self.ran = since, 0
                self.is_called_off = False
            case Resumed(at=at):
                self.resolved = max(self.resolved or at, at)
            case Rebased(cursor=cursor):
                self.resolved = min(self.resolved or cursor, cursor)
                self.misfired = [each for each in self.misfired if each.scheduled_at <= cursor]
            case _:
                pass

    def _begin(self, record: Began) -> None:
        name = (record.scheduled_at, record.attempt)
        assert name not in self.began, "a run began twice"
        self.began[name] = record
        if record.attempt > 1:
            before = self.began[record.scheduled_at, record.attempt - 1]
            assert record.by_hand == before.by_hand
        if record.by_hand or record.attempt > 1:
            return
        self.ran += 1
        force = self._force_of(record.scheduled_at)
        late = record.at - record.scheduled_at
        jitter = timedelta(seconds=rules.jitter_s(force.job, record.scheduled_at))
        assert late >= jitter, "a run began early"
        most_s = force.job.grace_s + force.job.jitter_s
        assert late <= timedelta(seconds=most_s), "a run began too late"

    def _miss(self, record: Misfire) -> None:
        force = self._force_of(record.first, record.scheduled_at)
        passed = [
            scheduled_at
            for scheduled_at in force.between(record.first - TICK, record.scheduled_at)
            if not self.has_begun(scheduled_at)
        ]
        assert len(passed) == record.count, "it says that another number was missed"
        late_s = (record.at - record.scheduled_at).total_seconds()
        newer = force.between(record.scheduled_at, record.at)
        if force.job.misfire == "run_all" or not any(newer):
            assert late_s > force.job.grace_s, "a run is passed over that was in time"
        self.misfired.append(record)

    def _force_of(self, *scheduled_times: datetime) -> Force:
        """Return the newest definition that has these runs."""
        found = [force for force in self.forces if all(map(force.has, scheduled_times))]
        assert found, f"no definition has {[utc_text(each) for each in scheduled_times]}"
        return found[-1]
