"""The rules of time against plain counting: minute by minute, and run by run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo

from hypothesis import assume, example, given
from hypothesis import strategies as st
from msgspec import structs
from support.examples import examples
from support.job_runs import a_cron, a_job, armed, coming, done, settle, utc

from everturn_gateway.scheduler.jobs import At, Cron, Every, Job, JobState, QuietHours, When
from everturn_gateway.scheduler.rules import rules
from everturn_gateway.scheduler.rules.cron import cron_between, cron_minimum_s

MINUTE: Final = timedelta(minutes=1)
DAY: Final = timedelta(days=1)
ZONES: Final = {
    # A day before the clock changes, for each way in which it does.
    "UTC": ["2026-05-04"],
    "Asia/Kathmandu": ["2026-05-04"],
    "Europe/Berlin": ["2026-03-28", "2026-10-24"],
    "America/New_York": ["2026-03-07", "2026-10-31"],
    "Australia/Lord_Howe": ["2026-04-03", "2026-10-02"],  # by half an hour
    "Antarctica/Troll": ["2026-03-28", "2026-10-24"],  # by two hours
    "America/Santiago": ["2026-04-03", "2026-09-05"],  # at midnight
    "America/Havana": ["2026-03-07", "2026-10-31"],  # midnight comes twice
    "America/Nuuk": ["2026-03-28", "2026-10-24"],  # to midnight
    "Africa/Casablanca": ["2026-02-14", "2026-03-21"],  # not in summer
}


@dataclass(frozen=True)
class Times:
    """A cron expression, and what it says."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    weekdays: frozenset[int]
    is_fixed: bool

    def match(self, wall: datetime) -> bool:
        return (
            wall.minute in self.minutes
            and wall.hour in self.hours
            and wall.isoweekday() % 7 in self.weekdays
        )


def _field(size: int) -> st.SearchStrategy[tuple[str, frozenset[int]]]:
    """Draw what stands in a field, and which of the numbers below `size` it means."""

    def stepped(step: int) -> tuple[str, frozenset[int]]:
        return (f"*/{step}" if step > 1 else "*", frozenset(range(0, size, step)))

    def listed(chosen: set[int]) -> tuple[str, frozenset[int]]:
        return ",".join(map(str, sorted(chosen))), frozenset(chosen)

    def ranged(ends: tuple[int, int]) -> tuple[str, frozenset[int]]:
        low, high = sorted(ends)
        return f"{low}-{high}", frozenset(range(low, high + 1))

    number = st.integers(0, size - 1)
    return st.one_of(
        st.sets(number, min_size=1, max_size=4).map(listed),
        st.integers(1, size // 2).map(stepped),
        st.tuples(number, number).map(ranged),
        st.just((f"0-{size - 1}", frozenset(range(size)))),
    )


@st.composite
def expressions(draw: st.DrawFn) -> Times:
    """Draw a cron expression."""
    minute, minutes = draw(_field(60))
    hour, hours = draw(_field(24))
    weekday, weekdays = draw(_field(7))
    return Times(
        text=f"{minute} {hour} * * {weekday}",
        minutes=minutes,
        hours=hours,
        weekdays=weekdays,
        is_fixed="*" not in minute and "*" not in hour and len(hours) < 24,
    )


@cache
def walls(zone: str, begins: datetime) -> tuple[tuple[datetime, datetime], ...]:
    """Return instant and wall for each minute of two days."""
    at = ZoneInfo(zone)
    scheduled_times = [begins + n * MINUTE for n in range(2 * 1440 + 1)]
    return tuple((each, each.astimezone(at).replace(tzinfo=None)) for each in scheduled_times)


def counted(times: Times, zone: str, begins: datetime) -> Iterator[datetime]:
    """Yield the instants of an expression in two days, by looking at the clock each minute."""
    (_, furthest), *shown = walls(zone, begins)
    for scheduled_at, wall in shown:
        if not times.is_fixed:
            reached = [wall]
        else:  # what the clock reaches or passes for the first time
            reached = [furthest + n * MINUTE for n in range(1, (wall - furthest) // MINUTE + 1)]
            furthest = max(furthest, wall)
        if any(times.match(each) for each in reached):
            yield scheduled_at


places = st.sampled_from([(zone, utc(day)) for zone, days in ZONES.items() for day in days])


@examples(15)
@given(expressions(), places, st.integers(0, 2 * 1440))
@example(
    Times("45 * * * *", frozenset({45}), frozenset(range(24)), frozenset(range(7)), is_fixed=False),
    ("Australia/Lord_Howe", utc("2026-04-03")),
    2355,
)
@example(  # what is left out before midnight is due at midnight, as what is due then
    Times(
        "0,30 0,23 * * *",
        frozenset({0, 30}),
        frozenset({0, 23}),
        frozenset(range(7)),
        is_fixed=True,
    ),
    ("America/Nuuk", utc("2026-03-28")),
    0,
)
@example(  # due in the moment in which the clock is put back
    Times("0 * * * *", frozenset({0}), frozenset(range(24)), frozenset(range(7)), is_fixed=False),
    ("Europe/Berlin", utc("2026-10-24")),
    0,
)
@example(
    Times("0 3 * * *", frozenset({0}), frozenset({3}), frozenset(range(7)), is_fixed=True),
    ("Europe/Berlin", utc("2026-10-24")),
    0,
)
def test_a_cron_expression_occurs_when_the_clock_says_so(
    times: Times, place: tuple[str, datetime], minute: int
) -> None:
    """Over a change of the clock, from wherever one begins: this is what a restart does."""
    zone, begins = place
    job, until = a_cron(times.text, zone), begins + 2 * DAY
    cron = Cron(expression=times.text, timezone=zone)
    expected = list(counted(times, zone, begins))

    middle = begins + minute * MINUTE
    assert list(coming(job, begins, until)) == expected
    rest = [each for each in expected if each > middle]
    assert list(coming(job, middle, until)) == rest
    assert cron_between(cron, middle, until, 5) == (rest[::-1][:5], len(rest))


@example(  # over midnight
    Times("0 1,23 * * *", frozenset({0}), frozenset({1, 23}), frozenset(range(7)), is_fixed=True)
)
@given(expressions())
def test_the_least_time_between_two_runs_is_that_of_their_minutes(times: Times) -> None:
    """By it a job is refused that would come too often."""
    of_a_day = sorted(hour * 60 + minute for hour in times.hours for minute in times.minutes)
    days = [day for day in range(15) if day % 7 in times.weekdays]
    found = [day * 1440 + minute for day in days for minute in of_a_day]

    least = min(later - sooner for sooner, later in pairwise(found))
    assert cron_minimum_s(times.text) == least * 60


@examples(12)
@given(
    st.sampled_from(sorted(set(ZONES) - {"America/Nuuk"})),  # there a date ends before it is over
    st.integers(2012, 2100),
    st.times().map(lambda at: at.replace(second=0, microsecond=0)),
)
def test_a_daily_job_runs_once_on_each_date_of_any_year(zone: str, year: int, at: time) -> None:
    """Nobody wants two good mornings, or none."""
    local, first = ZoneInfo(zone), date(year, 1, 1)
    begins = datetime(year, 1, 1, tzinfo=local).astimezone(UTC) - MINUTE
    until = datetime(year, 12, 31, 23, 59, tzinfo=local).astimezone(UTC)
    days = (date(year + 1, 1, 1) - first).days

    found = list(coming(a_cron(f"{at.minute} {at.hour} * * *", zone), begins, until))

    assert [each.astimezone(local).date() for each in found] == [
        first + n * DAY for n in range(days)
    ]


# --- any job --------------------------------------------------------------------------------------

NOW: Final = utc("2026-10-24T12:00")
seconds = st.integers(-400_000, 400_000).map(lambda s: NOW + timedelta(seconds=s))
clock = st.integers(0, 95).map(lambda quarter: time(quarter // 4, quarter % 4 * 15))
whens: st.SearchStrategy[When] = st.one_of(
    seconds.map(lambda scheduled_at: At(scheduled_at=scheduled_at)),
    st.integers(600, 90_000).map(lambda s: Every(interval_s=s)),
    st.builds(
        Cron,
        expression=st.sampled_from(
            ["0 * * * *", "30 2 * * *", "*/20 * * * *", "15 8-17 * * mon-fri", "0 0 1 * *"]
        ),
        timezone=st.sampled_from(["Europe/Berlin", "Asia/Shanghai", "Australia/Lord_Howe"]),
    ),
)
quiets = st.none() | st.builds(
    QuietHours,
    begins=clock,
    ends=clock,
    timezone=st.sampled_from(["Europe/Berlin", "America/New_York"]),
)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """Draw a job."""
    limits = draw(st.tuples(st.none() | seconds, st.none() | seconds))
    return a_job(
        draw(whens),
        begins_at=limits[0],
        ends_at=limits[1],
        quiet=draw(quiets),
        misfire=draw(st.sampled_from(["run_once", "skip", "run_all"])),
        grace_s=draw(st.sampled_from([0, 10, 3600, 86_400, 10_000_000])),
        jitter_s=draw(st.sampled_from([0, 0, 60, 7200])),
        max_runs=draw(st.none() | st.integers(1, 12)),
    )


@given(jobs(), seconds)
def test_the_next_instant_is_strictly_after(job: Job, after: datetime) -> None:
    """A cursor that stands still would run a run for ever."""
    found = rules.next_scheduled_time(job, after=after, anchor=NOW)

    if found is not None:
        assert found > after
        assert found.tzinfo is UTC
        assert job.begins_at is None or found >= job.begins_at
        assert job.ends_at is None or found <= job.ends_at
        assert (
            rules.next_scheduled_time(job, after=found - timedelta(microseconds=1), anchor=NOW)
            == found
        )


@given(jobs(), seconds, st.lists(st.integers(1, 200_000), max_size=6))
def test_wherever_one_begins_the_instants_are_the_same(
    job: Job, after: datetime, steps: list[int]
) -> None:
    """They belong to the job, and not to the process that looks for them."""
    until = after + timedelta(days=5)
    whole = list(coming(job, after, until, NOW))

    for step in steps:
        middle = after + timedelta(seconds=step)
        assert list(coming(job, middle, until, NOW)) == [each for each in whole if each > middle]


@given(jobs(), seconds)
def test_quiet_hours_take_out_what_the_clock_shows_in_them(job: Job, after: datetime) -> None:
    """Compared with all instants and a look at the clock, in a week in which it does not change."""
    assume(job.quiet is not None)
    quiet = job.quiet
    assert quiet is not None
    after, until = after - 30 * DAY, after - 25 * DAY

    def is_quiet(scheduled_at: datetime) -> bool:
        at = scheduled_at.astimezone(ZoneInfo(quiet.timezone)).time()
        if quiet.begins <= quiet.ends:
            return quiet.begins <= at < quiet.ends
        return at >= quiet.begins or at < quiet.ends

    loud = coming(replace(job, quiet=None), after, until, NOW - 60 * DAY)
    assert list(coming(job, after, until, NOW - 60 * DAY)) == [i for i in loud if not is_quiet(i)]


def expected_plan(job: Job, job_state: JobState, now: datetime, most: int) -> rules.Plan:
    """Say what is to be done, by going through all instants one by one."""
    assert job_state.cursor is not None
    assert job_state.anchor is not None
    left = None if job.max_runs is None else job.max_runs - job_state.ran
    if left is not None and left <= 0:
        return rules.Plan()
    begun = {run.scheduled_at for run in (*job_state.recent, *job_state.open)}
    upcoming = coming(job, job_state.cursor, now + timedelta(days=70), job_state.anchor)
    resolved: list[tuple[datetime, datetime]] = []
    next_at: datetime | None = None
    for scheduled_at in upcoming:
        if scheduled_at in begun:
            continue
        at = scheduled_at + timedelta(seconds=rules.jitter_s(job, scheduled_at))
        if at > now:
            next_at = at
            break
        resolved.append((scheduled_at, at))
    ready: list[datetime] = []
    due = datetime.min.replace(tzinfo=UTC)
    for scheduled_at, at in resolved[-most:]:
        due = max(due, at)
        if now - due <= timedelta(seconds=job.grace_s):
            ready.append(scheduled_at)
    run = ready[:left] if job.misfire == "run_all" else ready[-1:]
    missed = [scheduled_at for scheduled_at, _ in resolved if not run or scheduled_at < run[0]]
    return rules.Plan(
        run=tuple(run),
        misfired=rules.Misfire(first=missed[0], last=missed[-1], count=len(missed))
        if missed
        else None,
        next_at=None if left is not None and len(run) == left else next_at,
    )


@example(a_job(Every(interval_s=600), grace_s=3600), 0, 20_000, {1, 3, 5, 7}, 100)  # some began
@example(  # one is due as its quiet hours end
    a_job(
        Every(interval_s=600),
        grace_s=3600,
        quiet=QuietHours(begins=time(10), ends=time(12), timezone="UTC"),
    ),
    *(0, 18_000, set[int](), 100),
)
@example(
    a_job(Every(interval_s=600), grace_s=3600, misfire="run_all"), 0, 20_430, set[int](), 100
)  # one is 30 s older than its grace
@examples(15)
@given(
    jobs(),
    st.integers(0, 100_000),
    st.integers(-1000, 200_000),
    st.sets(st.integers(0, 40), max_size=6),
    st.sampled_from([1, 3, 100]),
)
def test_a_plan_is_what_counting_says(
    job: Job, armed_s: int, passed_s: int, begun: set[int], most: int
) -> None:
    """Arithmetic and shortcuts make it quick; they must not make it wrong."""
    now = NOW + timedelta(days=1)
    anchor = now - timedelta(seconds=max(passed_s, 0) + armed_s)
    job_state = armed(anchor, cursor=now - timedelta(seconds=passed_s))
    scheduled_times = list(coming(job, anchor, now + DAY, anchor))
    past = tuple(done(scheduled_times[n]) for n in sorted(begun) if n < len(scheduled_times))
    job_state = structs.replace(job_state, recent=past[1:], open=past[:1], ran=len(past))

    assert rules.plan(job, job_state, now=now, most=most) == expected_plan(
        job, job_state, now, most
    )


@examples(15)
@given(jobs(), st.lists(st.integers(1, 30_000), max_size=15))
def test_no_run_runs_twice_whenever_one_looks(job: Job, naps: list[int]) -> None:
    """However the process sleeps, each instant is run or missed once, in its order."""
    now = anchor = NOW
    job_state, missed = armed(anchor), 0
    ran: list[datetime] = []
    cursor = anchor
    for nap in naps:
        now += timedelta(seconds=nap)
        planned = rules.plan(job, job_state, now=now)
        job_state = settle(job_state, planned)
        again = rules.plan(job, job_state, now=now)

        assert planned.next_at is None or planned.next_at > now
        assert again == structs.replace(planned, run=(), misfired=None)
        assert all(cursor < scheduled_at <= now for scheduled_at in planned.run)
        assert job_state.cursor is not None
        cursor = job_state.cursor
        ran += planned.run
        missed += planned.misfired.count if planned.misfired else 0
    assert ran == sorted(set(ran))
    assert job.max_runs is None or len(ran) <= job.max_runs
    resolved = list(coming(job, anchor, cursor, anchor))
    assert set(ran) <= set(resolved)
    assert len(ran) + missed == len(resolved)


@examples(15)
@given(jobs(), st.lists(st.integers(1, 30_000), max_size=15))
def test_run_all_loses_nothing_within_its_grace(job: Job, naps: list[int]) -> None:
    """Who wants each of them gets each of them, as late as it may be."""
    job = replace(job, misfire="run_all", grace_s=10_000_000, max_runs=None, jitter_s=0)
    job_state, now = armed(NOW), NOW
    ran: list[datetime] = []
    for nap in naps:
        now += timedelta(seconds=nap)
        planned = rules.plan(job, job_state, now=now)
        job_state = settle(job_state, planned)
        ran += planned.run

    assert ran == list(coming(job, NOW, now, NOW))


@given(jobs(), st.integers(0, 400_000))
def test_a_job_is_over_when_no_plan_can_have_a_run(job: Job, passed_s: int) -> None:
    """What is shown as done must not run, and what is to run must not be shown as done."""
    now = NOW + timedelta(seconds=passed_s)
    job_state = settle(armed(NOW), rules.plan(job, armed(NOW), now=now))
    planned = rules.plan(job, job_state, now=now)

    assert rules.is_over(job, job_state, now) == (planned.next_at is None)


# --- what people write ----------------------------------------------------------------------------

pieces = st.sampled_from(
    [*"0123456789*/,-#LW ", "MON", "sun", "feb", "31", "*/2", "5L", "LW", "@daily"]
)
texts = st.one_of(
    st.text(max_size=30),
    st.lists(pieces, max_size=12).map("".join),
    st.lists(st.lists(pieces, min_size=1, max_size=3).map("".join), min_size=5, max_size=5).map(
        " ".join
    ),
)


@examples(15)
@given(texts)
@example("0 0 1/9/9 * *")
@example("0 0 * * MON#2/2")
@example("²L * * * ²L")
def test_any_text_is_a_cron_expression_or_refused(text: str) -> None:
    """A job's file is written by people and by models: whatever they write must not be a crash."""
    try:
        rules.check_cron(text, "Europe/Berlin")
    except ValueError as error:
        refused = str(error)
    else:
        refused = ""
        found = rules.next_scheduled_time(a_cron(text, "Europe/Berlin"), after=NOW, anchor=NOW)
        assert found is None or found > NOW
        assert rules.minimum_interval_s(Cron(expression=text, timezone="UTC")) != 0
    assert len(refused) < 600


@given(
    st.datetimes(
        min_value=datetime.fromisoformat("1970-01-01"),
        max_value=datetime.fromisoformat("9998-12-31"),
    ),
    st.sampled_from(sorted(ZONES)),
)
def test_a_time_on_the_wall_is_shown_at_its_instant(wall: datetime, zone: str) -> None:
    """And not an hour before: of two, the first is taken."""
    try:
        found = rules.local_time(wall, zone)
    except ValueError:
        shown = wall.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC).astimezone(ZoneInfo(zone))
        assert shown.replace(tzinfo=None) != wall
    else:
        assert found.astimezone(ZoneInfo(zone)).replace(tzinfo=None) == wall
        assert found.astimezone(ZoneInfo(zone)).fold == 0
