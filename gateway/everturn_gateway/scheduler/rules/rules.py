"""When jobs are due, and what becomes of the instants that passed. Pure: no clock, no IO.

All instants are aware and UTC. What happens where a zone changes its clock is said in `cron`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Final, assert_never

from msgspec import Struct

from everturn_gateway.scheduler.jobs import (
    At,
    Cron,
    Every,
    Job,
    JobState,
    QuietHours,
    Retries,
    Span,
    When,
)
from everturn_gateway.scheduler.rules.cron import (
    SECOND,
    TICK,
    check_cron,
    cron_after,
    cron_between,
    cron_minimum_s,
    local_time,
    loud,
    quiet_until,
)
from everturn_gateway.scheduler.rules.records import Rebased
from everturn_gateway.scheduler.rules.spans import span_of, without

__all__ = [
    "Misfire",
    "Plan",
    "backoff_s",
    "check_cron",
    "is_over",
    "jitter_s",
    "local_time",
    "minimum_interval_s",
    "next_scheduled_time",
    "next_unresolved",
    "plan",
    "rebased",
    "schedule_name",
]

_BACKOFF_MOST_S: Final = 3600.0
_QUIET_STEPS: Final = 400  # quiet periods that are passed in search of an instant: a year's
_COUNTED: Final = timedelta(days=750)  # so far back all that is missed is counted: two years
_OLDER_MOST: Final = 100  # before that, so many instants are


class Misfire(Struct, frozen=True, kw_only=True):
    """Runs that run no more."""

    first: datetime
    last: datetime
    count: int
    "How many of those from `first` to `last`."
    is_more: bool = False
    "`count` is a lower bound."


class Plan(Struct, frozen=True, kw_only=True):
    """What to do about a job now, and when to look again."""

    run: tuple[datetime, ...] = ()
    "The runs to run, oldest first; all of them newer than what is missed."
    misfired: Misfire | None = None
    "What to record as missed."
    next_at: datetime | None = None
    """When the first run that is not settled here is due, its jitter included; later than
    now. None: there is none."""


# --- the instants of a job ------------------------------------------------------------------------


def schedule_name(job: Job) -> str:
    """Return a name of all that decides a job's instants; the same in every process and version.

    What it says or does, how late it may run and how often have no part in it.
    """
    match job.when:
        case At(scheduled_at=scheduled_at):
            when = f"at {_text(scheduled_at)}"
        case Every(interval_s=interval_s):
            when = f"every {interval_s}"
        case Cron(expression=expression, timezone=timezone):
            when = f"cron {' '.join(expression.upper().split())} {timezone}"
        case _:
            assert_never(job.when)
    limits = [_text(each) if each is not None else "-" for each in (job.begins_at, job.ends_at)]
    quiet = _quiet(job)
    hours = f"{quiet.begins} {quiet.ends} {quiet.timezone}" if quiet else "-"
    return _hash("schedule", when, *limits, hours).hex()


def _text(scheduled_at: datetime) -> str:
    return scheduled_at.astimezone(UTC).isoformat(timespec="microseconds")


def _hash(*parts: str) -> bytes:
    return blake2b("\n".join(parts).encode(), digest_size=8).digest()


def _quiet(job: Job) -> QuietHours | None:
    """Return a job's quiet hours; none where they end as they begin."""
    return None if job.quiet is None or job.quiet.begins == job.quiet.ends else job.quiet


def _base(job: Job, anchor: datetime) -> tuple[datetime, int]:
    """Return what Every counts its intervals from, and the first number that it counts."""
    return (anchor, 1) if job.begins_at is None else (job.begins_at, 0)


def next_scheduled_time(job: Job, *, after: datetime, anchor: datetime) -> datetime | None:
    """Return a job's first instant strictly after `after`.

    Its start and its end (both included) and its quiet hours are kept to; jitter, pauses and how
    often it may run are not looked at.

    Args:
        job: The job.
        after: UTC.
        anchor: Where the job has no start, Every counts from here: one interval later comes its
            first instant. UTC.

    Returns:
        UTC. None where there is none, none within 50 years or before the year 10000, or where
        400 in a row are quiet.
    """
    quiet = _quiet(job)
    if job.begins_at is not None:
        after = max(after, job.begins_at - TICK)
    try:
        for _ in range(_QUIET_STEPS):
            scheduled_at = _any_after(job, after, anchor)
            if scheduled_at is None or (job.ends_at is not None and scheduled_at > job.ends_at):
                return None
            until = None if quiet is None else quiet_until(quiet, scheduled_at)
            if until is None:
                return scheduled_at
            after = until - TICK
    except OverflowError:
        pass  # the year 10000
    return None


def _any_after(job: Job, after: datetime, anchor: datetime) -> datetime | None:
    """Return the first instant after `after`, quiet or not."""
    match job.when:
        case At(scheduled_at=scheduled_at):
            return scheduled_at if scheduled_at > after else None
        case Every(interval_s=interval_s):
            base, least = _base(job, anchor)
            interval = interval_s * SECOND
            return base + max((after - base) // interval + 1, least) * interval
        case Cron():
            return cron_after(job.when, after)
        case _:
            assert_never(job.when)


def _any_between(
    job: Job, begins: datetime, ends: datetime, anchor: datetime, most: int
) -> tuple[list[datetime], int]:
    """Return the newest instants in `(begins, ends]`, quiet or not; see `cron_between`."""
    match job.when:
        case At(scheduled_at=scheduled_at):
            found = [scheduled_at] if begins < scheduled_at <= ends else []
            return found[:most], len(found)
        case Every(interval_s=interval_s):
            base, least = _base(job, anchor)
            interval = interval_s * SECOND
            low = max((begins - base) // interval, least - 1)
            high = max((ends - base) // interval, low)
            numbers = range(high, max(low, high - most), -1)
            return [base + number * interval for number in numbers], high - low
        case Cron():
            return cron_between(job.when, begins, ends, most)
        case _:
            assert_never(job.when)


def _between(
    job: Job,
    begins: datetime,
    ends: datetime,
    anchor: datetime,
    most: int,
    resolved: tuple[Span, ...],
) -> tuple[list[datetime], int, bool]:
    """Return a job's newest instants in `(begins, ends]`, those that are settled left out.

    Returns:
        At most `most`, newest first; how many there are; and whether there are more than that.
    """
    if job.begins_at is not None:
        begins = max(begins, job.begins_at - TICK)
    if job.ends_at is not None:
        ends = min(ends, job.ends_at)
    floor = max(begins, ends - _COUNTED)
    found: list[datetime] = []
    count = 0
    for since, until in loud(_quiet(job), floor, ends):
        for span in reversed(without(Span(begins=since, ends=until), resolved)):
            newest, number = _any_between(job, span.begins, span.ends, anchor, most - len(found))
            found += newest
            count += number
    older: list[datetime] = []
    while begins < floor and len(older) <= _OLDER_MOST:
        scheduled_at = next_scheduled_time(job, after=begins, anchor=anchor)
        if scheduled_at is None or scheduled_at > floor:
            break
        passed = span_of(resolved, scheduled_at)
        if passed is None:
            older.append(scheduled_at)
        begins = scheduled_at if passed is None else passed.ends
    return [*found, *reversed(older)][:most], count + len(older), len(older) > _OLDER_MOST


def minimum_interval_s(when: When) -> float | None:
    """Return the least time between two instants, where no clock is changed.

    Returns:
        Seconds; None where there are no two.

    Raises:
        ValueError: It is a cron expression that cannot be read.
    """
    match when:
        case At():
            return None
        case Every(interval_s=interval_s):
            return float(interval_s)
        case Cron(expression=expression):
            return cron_minimum_s(expression)
        case _:
            assert_never(when)


# --- what to do -----------------------------------------------------------------------------------


def jitter_s(job: Job, scheduled_at: datetime) -> float:
    """Return how much later than its instant a run is due: from 0 to below `jitter_s`.

    It depends on the job's id and the instant alone.
    """
    if not job.jitter_s:
        return 0.0
    drawn = int.from_bytes(_hash("jitter", job.job_id, _text(scheduled_at)))
    return drawn % (job.jitter_s * 1_000_000) / 1_000_000


def _due_at(job: Job, scheduled_at: datetime) -> datetime:
    try:
        return scheduled_at + timedelta(seconds=jitter_s(job, scheduled_at))
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def backoff_s(retries: Retries, attempt: int, name: str) -> float:
    """Return how long to wait after try number `attempt` before the next.

    Args:
        retries: The job's. What it says is doubled with each try, up to an hour.
        attempt: Counted from 1.
        name: Of the run. A fifth more or less is drawn from it, always the same.
    """
    wait_s = min(retries.backoff_s * 2.0 ** min(attempt - 1, 60), _BACKOFF_MOST_S)
    drawn = int.from_bytes(_hash("backoff", name, str(attempt))[:4]) / 0xFFFF_FFFF
    return wait_s * (0.8 + 0.4 * drawn)


def rebased(job: Job, job_state: JobState, now: datetime) -> Rebased | None:
    """Return what to write down where the clock was set back; None where nothing changes.

    What was passed over by a clock that was ahead was not missed: it is still to come, or due by
    now. What ran then has run. Where the clock stands before the moment since which there is the
    job, there is the job since now.
    """
    cursor, anchor = job_state.cursor, job_state.anchor
    if cursor is None or anchor is None:
        return None
    passed = (*job_state.skipped, *job_state.left_out)
    if now >= anchor and all(span.ends <= now for span in passed):
        return None
    missed = [
        *(
            (run.first_misfired or run.scheduled_at, run.scheduled_at)
            for run in job_state.recent
            if run.misfired
        ),
        *((span.begins + TICK, span.ends) for span in job_state.skipped),
    ]
    back = now
    for first, last in sorted(missed, reverse=True):
        if first <= back < last:  # it is taken back as a whole, and what is due by now told anew
            back = first - TICK
    if now >= anchor:
        return Rebased(at=now, cursor=max(back, anchor))
    if isinstance(job.when, Every) and job.begins_at is None:  # the runs stay the same ones
        interval = job.when.interval_s * SECOND
        anchor += (now - anchor) // interval * interval
    return Rebased(at=now, cursor=now, anchor=min(anchor, now))


def _resolved(job_state: JobState, now: datetime) -> datetime | None:
    """Return up to where everything is settled, by the present clock."""
    cursor, armed = job_state.cursor, job_state.armed
    if cursor is None or armed is None or now < armed:
        return cursor
    return max(cursor, armed)


def is_over(job: Job, job_state: JobState, now: datetime) -> bool:
    """Return whether nothing of a job is to come, and nothing that came is left to settle."""
    if job.max_runs is not None and job_state.ran >= job.max_runs:
        return True
    after, anchor = _resolved(job_state, now) or now, job_state.anchor or now
    return _next_new(job, after, anchor, _ran(job_state)) is None


class _Ran(Struct, frozen=True):
    """What is settled although it is newer than what is settled as a whole."""

    spans: tuple[Span, ...]
    begun: frozenset[datetime]
    "Those beside the spans that were begun, as far as they are remembered."

    def until(self, scheduled_at: datetime) -> datetime | None:
        """Return up to when all is settled from `scheduled_at` on; None where it is not settled."""
        span = span_of(self.spans, scheduled_at)
        if span is not None:
            return span.ends
        return scheduled_at if scheduled_at in self.begun else None


def _ran(job_state: JobState) -> _Ran:
    runs = (*job_state.recent, *job_state.open)
    spans = job_state.resolved
    begun = (run.scheduled_at for run in runs if not run.by_hand and run.outcome != "misfired")
    return _Ran(spans, frozenset(each for each in begun if not span_of(spans, each)))


def _next_new(job: Job, after: datetime, anchor: datetime, ran: _Ran) -> datetime | None:
    """Return the first instant after `after` that did not run."""
    scheduled_at = next_scheduled_time(job, after=after, anchor=anchor)
    while scheduled_at is not None and (until := ran.until(scheduled_at)) is not None:
        scheduled_at = next_scheduled_time(job, after=until, anchor=anchor)
    return scheduled_at


def next_unresolved(job: Job, job_state: JobState, *, after: datetime) -> datetime | None:
    """Return a job's first instant after `after` that neither ran nor is under way; UTC.

    See `next_scheduled_time` for what is not looked at, and where there is none.
    """
    return _next_new(job, after, job_state.anchor or after, _ran(job_state))


def plan(job: Job, job_state: JobState, *, now: datetime, most: int = 100) -> Plan:
    """Settle what is due: say what runs and what is missed, and when to look again.

    A run is due when its jitter is over, and not before those before it are. Of those that
    are due and not settled yet, the newest `most` are looked at: those that are due for no longer
    than the job's grace may run, all of them where it says `run_all`, else the newest. The others
    are missed. Those that were begun before the clock was set back are neither. Once the job has
    run as often as it may, nothing that comes after is a run of it.

    Args:
        job: The job.
        job_state: How far it is; it was armed.
        now: UTC.
        most: How many may run at most.
    """
    cursor, anchor, ran = _resolved(job_state, now), job_state.anchor, _ran(job_state)
    assert cursor is not None
    assert anchor is not None
    left = most if job.max_runs is None else job.max_runs - job_state.ran
    if left <= 0:
        return Plan()
    next_up = _next_new(job, max(cursor, now - job.jitter_s * SECOND), anchor, ran)
    while next_up is not None and _due_at(job, next_up) <= now:
        next_up = _next_new(job, next_up, anchor, ran)
    ends = now if next_up is None else min(now, next_up - TICK)
    found, count, is_more = _between(
        job, cursor, ends, anchor, most + len(ran.begun) + 1, ran.spans
    )
    new = [scheduled_at for scheduled_at in reversed(found) if scheduled_at not in ran.begun]
    ready = _in_time(job, new[-most:], now)
    run = ready[:left] if job.misfire == "run_all" else ready[-1:]
    older = [scheduled_at for scheduled_at in new if not run or scheduled_at < run[0]]
    missed: Misfire | None = None
    if older:
        first = _next_new(job, cursor, anchor, ran)
        assert first is not None
        before = [
            each
            for each in ran.begun
            if cursor < each <= ends and _is_scheduled_time(job, each, anchor)
        ]
        count -= len(before) + len(new) - len(older)
        missed = Misfire(first=first, last=older[-1], count=count, is_more=is_more)
    is_used_up = job.max_runs is not None and len(run) == left
    return Plan(
        run=tuple(run),
        misfired=missed,
        next_at=None if is_used_up or next_up is None else _due_at(job, next_up),
    )


def _in_time(job: Job, scheduled_times: list[datetime], now: datetime) -> list[datetime]:
    """Return those of some instants, oldest first, that are within the job's grace."""
    due_at = datetime.min.replace(tzinfo=UTC)
    ready: list[datetime] = []
    for scheduled_at in scheduled_times:
        due_at = max(due_at, _due_at(job, scheduled_at))
        if now - due_at <= job.grace_s * SECOND:
            ready.append(scheduled_at)
    return ready


def _is_scheduled_time(job: Job, scheduled_at: datetime, anchor: datetime) -> bool:
    return next_scheduled_time(job, after=scheduled_at - TICK, anchor=anchor) == scheduled_at
