"""What run logs say after a clock that jumped: the truth by the clock that is right in the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

from hypothesis import example, given
from hypothesis import strategies as st
from support.examples import examples
from support.job_runs import a_cron

from everturn_gateway.scheduler.jobs import Job, JobState
from everturn_gateway.scheduler.rules import rules
from everturn_gateway.scheduler.rules.records import (
    Armed,
    Began,
    Finished,
    Kept,
    Misfire,
    Rebased,
    Record,
)
from everturn_gateway.scheduler.rules.records import fold as fold_line
from everturn_gateway.scheduler.run_logs.lines import encode, read_log

MADE = datetime(2026, 5, 4, 8, 0, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

Span = tuple[int, int, bool]
"For so many seconds the clock is off by so many, and then the gateway starts anew."


@dataclass(slots=True)
class Life:
    """One job, and a scheduler that does at each moment what there is to do."""

    job: Job
    job_state: JobState
    began: list[datetime] = field(default_factory=list[datetime])
    told: list[Misfire] = field(default_factory=list[Misfire])
    "What is said to have been missed, as far as it was not taken back."

    def write(self, record: Record) -> None:
        """Write a line down."""
        self.job_state = fold_line(self.job_state, record)
        match record:
            case Began(scheduled_at=scheduled_at):
                assert self.job_state.anchor is not None
                assert self.job_state.anchor < scheduled_at <= record.at, "it is older than its job"
                self.began.append(scheduled_at)
            case Misfire():
                self.told.append(record)
            case Rebased(cursor=cursor):
                self.told = [each for each in self.told if each.scheduled_at <= cursor]
            case _:
                pass

    def look(self, now: datetime) -> None:
        """Do what is due by a clock."""
        rebased = rules.rebased(self.job, self.job_state, now)
        if rebased is not None:
            self.write(rebased)
            assert rules.rebased(self.job, self.job_state, now) is None
        while (planned := rules.plan(self.job, self.job_state, now=now)).misfired or planned.run:
            missed = planned.misfired
            if missed is not None:
                self.write(
                    Misfire(
                        at=now, first=missed.first, scheduled_at=missed.last, count=missed.count
                    )
                )
            else:
                self.write(Began(at=now, scheduled_at=planned.run[0]))
                self.write(Finished(at=now, scheduled_at=planned.run[0], outcome="sent"))

    def start_anew(self, now: datetime) -> None:
        """Read what is known from a log that was shortened."""
        self.job_state = read_log(encode([Kept(at=now, job_state=self.job_state)])).job_state


def lived(
    spans: list[Span], misfire: Literal["run_once", "run_all"], made_off_s: int = 0
) -> tuple[Life, datetime]:
    """Return a job made at `MADE`, and when all that happened to it was over."""
    job = a_cron("* * * * *", misfire=misfire)
    life = Life(job=job, job_state=JobState())
    made = MADE + timedelta(seconds=made_off_s)
    life.write(Armed(at=made, schedule=rules.schedule_name(job), since=made))
    right = MADE
    for length_s, off_s, restarts in (*spans, (120, 0, False)):
        for _ in range(0, max(length_s, 1), 30):
            right += timedelta(seconds=30)
            life.look(right + timedelta(seconds=off_s))
        if restarts:
            life.start_anew(right)
    return life, right


def each_minute(after: datetime, until: datetime) -> list[datetime]:
    """Return the runs in `(after, until]`."""
    first = after.replace(second=0, microsecond=0) + MINUTE
    return [first + n * MINUTE for n in range(max((until - first) // MINUTE + 1, 0))]


_OFF = st.one_of(
    st.just(0),
    st.integers(-900, 900),
    st.integers(-7200, 7200),
    st.sampled_from([-86_400, 86_400, -31_536_000, 31_536_000, -86_400 * 400, 86_400 * 400]),
)
_SPANS = st.lists(st.tuples(st.integers(30, 3600), _OFF, st.booleans()), max_size=6)
_MISFIRE = st.sampled_from(["run_once", "run_all"])


@examples(15)
@given(spans=_SPANS, misfire=_MISFIRE)
@example(spans=[(600, 0, False), (60, 86_400, False)], misfire="run_once")
@example(spans=[(600, 0, False), (60, -86_400, False)], misfire="run_once")
@example(spans=[(600, 0, True), (60, -86_400, True), (300, 0, True)], misfire="run_all")
@example(spans=[(600, 0, True), (3600, 31_536_000, True), (3600, 7200, True)], misfire="run_all")
@example(
    spans=[(691, -3781, False), (30, -86_400, False), (2281, 0, True), (31, -6841, False)],
    misfire="run_once",
)
def test_a_clock_that_comes_right_again_leaves_no_untruth(
    spans: list[Span], misfire: Literal["run_once", "run_all"]
) -> None:
    """Each run since the job was made ran once or was missed, and none before its time."""
    life, now = lived(spans, misfire)
    told = [each for each in life.told if each.scheduled_at > MADE]
    missed = {
        scheduled_at
        for each in told
        for scheduled_at in each_minute(each.first - MINUTE, each.scheduled_at)
        if scheduled_at not in life.began
    }

    assert len(set(life.began)) == len(life.began)
    assert all(MADE < each.first <= each.scheduled_at <= now for each in told)
    assert set(each_minute(MADE, now)) <= {*life.began, *missed}
    assert sum(each.count for each in told) == len(missed)


@examples(15)
@given(spans=_SPANS, misfire=_MISFIRE, made_off_s=_OFF)
@example(spans=[], misfire="run_once", made_off_s=31_536_000)
@example(spans=[], misfire="run_once", made_off_s=90)
@example(spans=[(3600, 31_536_000, True)], misfire="run_once", made_off_s=31_536_000)
def test_no_clock_silences_a_job_that_was_made_by_a_wrong_one(
    spans: list[Span], misfire: Literal["run_once", "run_all"], made_off_s: int
) -> None:
    """What comes due when the clock is right has run or runs, once, whenever the job was made."""
    life, now = lived(spans, misfire, made_off_s)
    made = MADE + timedelta(seconds=made_off_s)
    due = set(each_minute(now - timedelta(seconds=90), now))

    assert len(set(life.began)) == len(life.began)
    # What is due just when the clock comes to its arming may be left out with what is older.
    assert {each for each in due if not made - MINUTE / 2 <= each <= made} <= set(life.began)
