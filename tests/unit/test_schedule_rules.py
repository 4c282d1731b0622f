"""The rules of time: to the instant, over both changes of the clock, and after a standstill."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta

import pytest
from msgspec import structs
from support.job_runs import a_cron, a_job, armed, coming, done, settle, utc
from support.tables import table

from everturn_gateway.scheduler.jobs import (
    At,
    Cron,
    Every,
    Job,
    JobState,
    Misfire,
    QuietHours,
    Retries,
    RunTask,
)
from everturn_gateway.scheduler.rules import rules
from everturn_gateway.scheduler.rules.records import Rebased, fold

BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"
SPRING, AUTUMN = "2026-03-29", "2026-10-25"  # when Berlin's clock changes, at 01:00 UTC
NIGHT = QuietHours(begins=time(22), ends=time(7), timezone=BERLIN)


def stamps(job: Job, after: str, until: str) -> list[str]:
    """Return the instants of a job in `(after, until]`, as text."""
    return [f"{each:%d %H:%M}" for each in coming(job, utc(after), utc(until))]


# --- where the clock changes ----------------------------------------------------------------------


@table(
    ("zone", "expression", "after", "until", "expected"),
    [
        # 02:00 to 03:00 is left out; 02:30 is when the clock goes on, at 03:00.
        (BERLIN, "30 2 * * *", "2026-03-28", "2026-03-31", "28 01:30, 29 01:00, 30 00:30"),
        (NEW_YORK, "30 2 * * *", "2026-03-07", "2026-03-10", "07 07:30, 08 07:00, 09 06:30"),
        (LORD_HOWE, "15 2 * * *", "2026-10-02", "2026-10-05", "02 15:45, 03 15:30, 04 15:15"),
        ("Asia/Shanghai", "30 2 * * *", "2026-03-28", "2026-03-30", "28 18:30, 29 18:30"),
        # What comes twice counts once, the first time.
        (BERLIN, "30 2 * * *", "2026-10-24", "2026-10-27", "24 00:30, 25 00:30, 26 01:30"),
        (NEW_YORK, "30 1 * * *", "2026-10-31", "2026-11-03", "31 05:30, 01 05:30, 02 06:30"),
        (LORD_HOWE, "45 1 * * *", "2026-04-03", "2026-04-06", "03 14:45, 04 14:45, 05 15:15"),
        ("Asia/Shanghai", "30 2 * * *", "2026-10-24", "2026-10-26", "24 18:30, 25 18:30"),
        # A day that begins at 01:00; a change from 23:00 to midnight.
        ("Africa/Cairo", "0 0 * * *", "2026-04-22", "2026-04-25", "22 22:00, 23 22:00, 24 21:00"),
        ("America/Nuuk", "30 23 * * *", "2026-03-28", "2026-03-31", "28 01:30, 29 01:00, 30 00:30"),
    ],
)
def test_a_daily_job_runs_once_on_each_day(
    zone: str, expression: str, after: str, until: str, expected: str
) -> None:
    """A report that comes twice, or not at all, in the night that the clock changes is a bug."""
    assert ", ".join(stamps(a_cron(expression, zone), after, until)) == expected


@table(
    ("zone", "after", "until", "expected"),
    [
        (BERLIN, f"{SPRING}T00:00", f"{SPRING}T03:00", "29 01:00, 29 02:00, 29 03:00"),
        (BERLIN, f"{AUTUMN}T00:00", f"{AUTUMN}T03:00", "25 01:00, 25 02:00, 25 03:00"),
        (NEW_YORK, "2026-03-08T06:00", "2026-03-08T08:00", "08 07:00, 08 08:00"),
        (NEW_YORK, "2026-11-01T04:30", "2026-11-01T07:00", "01 05:00, 01 06:00, 01 07:00"),
        # Half an hour is left out, or comes twice: the clock shows a full hour when it does.
        (LORD_HOWE, "2026-10-03T13:00", "2026-10-03T16:00", "03 13:30, 03 14:30, 03 16:00"),
        (
            LORD_HOWE,
            "2026-04-04T12:30",
            "2026-04-04T16:30",
            "04 13:00, 04 14:00, 04 15:30, 04 16:30",
        ),
        ("Asia/Shanghai", f"{SPRING}T00:30", f"{SPRING}T02:00", "29 01:00, 29 02:00"),
    ],
)
def test_an_hourly_job_runs_in_real_time(zone: str, after: str, until: str, expected: str) -> None:
    """No hour passes without it, however the clock is turned."""
    assert ", ".join(stamps(a_cron("0 * * * *", zone), after, until)) == expected


@table(
    ("zone", "after"),
    [
        (BERLIN, f"{SPRING}T00:00"),
        (BERLIN, f"{AUTUMN}T00:00"),
        (NEW_YORK, "2026-03-08T05:00"),
        (NEW_YORK, "2026-11-01T05:00"),
        (LORD_HOWE, "2026-04-04T13:00"),
        (LORD_HOWE, "2026-10-03T13:00"),
        ("Asia/Shanghai", f"{AUTUMN}T00:00"),
    ],
)
@table("expression", ["*/15 * * * *", "0,15,30,45 * * * *", "0,15,30,45 0-23 * * *"])
def test_a_job_of_each_quarter_of_an_hour_knows_no_hole(
    zone: str, after: str, expression: str
) -> None:
    """An hour without a run when the clock goes back is what others get wrong; all hours is `*`."""
    begins = utc(after)

    found = list(coming(a_cron(expression, zone), begins, begins + timedelta(hours=4)))

    assert found == [begins + timedelta(minutes=15 * n) for n in range(1, 17)]


@table(
    ("expression", "zone", "after", "until", "expected"),
    [
        # `*` in front of the minute is real time, as in Debian's cron: the docs say so.
        ("*/30 2 * * *", BERLIN, f"{SPRING}T00:00", f"{SPRING}T12:00", ""),
        (
            *("*/30 2 * * *", BERLIN, "2026-10-24T23:00", f"{AUTUMN}T12:00"),
            "25 00:00, 25 00:30, 25 01:00, 25 01:30",
        ),
        ("0,30 2 * * *", BERLIN, f"{SPRING}T00:00", f"{SPRING}T12:00", "29 01:00"),
        ("0,30 2 * * *", BERLIN, "2026-10-24T23:00", f"{AUTUMN}T12:00", "25 00:00, 25 00:30"),
        # `*/2` begins with `*`: it names no hours, so that one which comes twice counts twice.
        ("30 */2 * * *", BERLIN, f"{SPRING}T00:00", f"{SPRING}T04:00", "29 02:30"),
        (
            *("30 */2 * * *", BERLIN, f"{AUTUMN}T00:00", f"{AUTUMN}T04:00"),
            "25 00:30, 25 01:30, 25 03:30",
        ),
        # A search that jumps whole hours passes over a half hour, or not, by where it begins.
        (
            *("45 * * * *", LORD_HOWE, "2026-04-04T14:00", "2026-04-04T17:00"),
            "04 14:45, 04 15:15, 04 16:15",
        ),
        ("45 * * * *", LORD_HOWE, "2026-04-04T14:45", "2026-04-04T17:00", "04 15:15, 04 16:15"),
        ("45 * * * *", LORD_HOWE, "2026-04-04T15:10", "2026-04-04T17:00", "04 15:15, 04 16:15"),
        # Started in the second pass of an hour, one by the wall finds an instant in the past.
        ("30 2 * * *", BERLIN, f"{AUTUMN}T01:10", "2026-10-26T01:30", "26 01:30"),
    ],
)
def test_an_hour_that_is_named_decides_with_its_minutes_what_a_change_does(
    expression: str, zone: str, after: str, until: str, expected: str
) -> None:
    """Times of the wall come once, and never in an hour that is left out; `*` is real time."""
    assert ", ".join(stamps(a_cron(expression, zone), after, until)) == expected


# --- the instants of a job ------------------------------------------------------------------------


def test_intervals_are_counted_from_the_anchor() -> None:
    """Late runs must not make a job drift."""
    job = a_job(Every(interval_s=900))
    anchor = utc("2026-05-05T10:07:03.000004")

    first = rules.next_scheduled_time(job, after=anchor, anchor=anchor)
    later = rules.next_scheduled_time(job, after=utc("2026-05-05T11:00"), anchor=anchor)

    assert first == utc("2026-05-05T10:22:03.000004")
    assert later == utc("2026-05-05T11:07:03.000004")


def test_a_start_and_an_end_are_instants_of_the_job() -> None:
    """Every six hours from Monday at eight begins on Monday at eight."""
    job = a_job(Every(interval_s=21_600), begins_at=utc("2026-05-04T08:00"))

    assert stamps(job, "2026-01-01", "2026-05-04T20:00") == ["04 08:00", "04 14:00", "04 20:00"]

    # Who says until 09:00 means the run at 09:00 too.
    job = a_cron("0 * * * *", begins_at=utc("2026-05-04T08:00"), ends_at=utc("2026-05-04T09:00"))

    assert stamps(job, "2026-01-01", "2027-01-01") == ["04 08:00", "04 09:00"]


@table(
    "when",
    [At(scheduled_at=utc("2026-05-04T08:30")), Cron(expression="30 8 4 5 *", timezone="UTC")],
)
def test_no_instant_is_the_one_that_was_asked_from(when: At | Cron) -> None:
    """`After` is strict: an instant that is handled is never found again."""
    job, scheduled_at = a_job(when), utc("2026-05-04T08:30")
    before = scheduled_at - timedelta(microseconds=1)

    assert rules.next_scheduled_time(job, after=before, anchor=before) == scheduled_at
    assert rules.next_scheduled_time(job, after=scheduled_at, anchor=before) != scheduled_at


_HOURLY = a_cron("0 * * * *", BERLIN, quiet=NIGHT)
_NOON = QuietHours(begins=time(12), ends=time(14, 30), timezone=BERLIN)
_LEFT_OUT = structs.replace(NIGHT, begins=time(2), ends=time(2, 30))
_EARLY = structs.replace(NIGHT, ends=time(6))
_NO_TIME = structs.replace(NIGHT, begins=time(7))


@table(
    ("job", "after", "until", "expected"),
    [
        # Their end is not quiet any more.
        (_HOURLY, "2026-05-04T18:00", "2026-05-05T06:00", "04 19:00, 05 05:00, 05 06:00"),
        (
            a_job(Every(interval_s=1), quiet=NIGHT),
            *("2026-05-04T20:00", "2026-05-05T05:00", "05 05:00"),
        ),
        # They may begin and end on one day as well.
        (
            a_cron("0 9-17 * * *", BERLIN, quiet=_NOON),
            *("2026-05-04", "2026-05-05"),
            "04 07:00, 04 08:00, 04 09:00, 04 13:00, 04 14:00, 04 15:00",
        ),
        # They end when the clock shows their end, however long the night was.
        (_HOURLY, "2026-10-24T00:00", "2026-10-24T06:00", "24 05:00, 24 06:00"),
        (_HOURLY, "2026-10-24T20:00", f"{AUTUMN}T07:00", "25 06:00, 25 07:00"),
        (_HOURLY, f"{SPRING}T00:00", f"{SPRING}T06:00", "29 05:00, 29 06:00"),
        # On this day nobody sleeps from two to half past two: the clock leaves it out.
        (
            a_job(Every(interval_s=1800), quiet=_LEFT_OUT),
            *(f"{SPRING}T00:00", f"{SPRING}T01:30"),
            "29 00:30, 29 01:00, 29 01:30",
        ),
        # A job that is quiet for a winter is not one that is quiet for ever.
        (
            a_job(Every(interval_s=86_400), quiet=_EARLY, begins_at=utc("2026-10-26T04:30")),
            *("2026-10-26T04:30", "2027-03-29", "28 04:30"),
        ),
        # One that is: it is said when it is made; a search without end would hang the gateway.
        (a_cron("30 23 * * *", BERLIN, quiet=NIGHT), "2026-05-04", "9999-12-31", ""),
        # From 07:00 to 07:00 is no time, and must not silence a job for ever.
        (
            a_cron("0 * * * *", quiet=_NO_TIME),
            *("2026-05-04T00:00", "2026-05-04T02:00", "04 01:00, 04 02:00"),
        ),
    ],
)
def test_quiet_hours_are_passed_over(job: Job, after: str, until: str, expected: str) -> None:
    """A check-in at night wakes people."""
    assert ", ".join(stamps(job, after, until)) == expected


@table(
    "when",
    [
        Cron(expression="0 0 * * *", timezone=NEW_YORK),
        Cron(expression="0 0 29 2 *", timezone="UTC"),
        Every(interval_s=31_536_000),
        At(scheduled_at=utc("2026-01-01")),
    ],
)
def test_time_has_an_end(when: At | Every | Cron) -> None:
    """A date that Python cannot hold must not stop the scheduler."""
    last = datetime.max.replace(tzinfo=UTC)

    assert (
        rules.next_scheduled_time(a_job(when), after=last - timedelta(hours=1), anchor=last) is None
    )
    assert (
        rules.next_scheduled_time(a_job(when, jitter_s=60), after=last, anchor=utc("2026-01-01"))
        is None
    )


def test_a_jitter_past_the_end_of_time_is_no_error() -> None:
    """It is due when time ends, and nobody will mind."""
    job = a_job(At(scheduled_at=utc("9999-12-31T23:59:59")), jitter_s=86_400)

    assert rules.jitter_s(job, utc("9999-12-31T23:59:59")) > 1
    assert rules.plan(job, armed(), now=utc("2026-05-04")) == rules.Plan(
        next_at=datetime.max.replace(tzinfo=UTC)
    )


def test_rare_days_are_found() -> None:
    """A fifth Monday in February comes again after up to forty years."""
    job = a_cron("0 0 * 2 mon#5", BERLIN)
    found = [each.date().isoformat() for each in coming(job, utc("2026-01-01"), utc("2141-01-01"))]

    assert found == ["2044-02-28", "2072-02-28", "2112-02-28", "2140-02-28"]


# --- names and shares -----------------------------------------------------------------------------


def test_the_name_of_a_schedule_is_that_of_its_times_alone_and_outlives_the_process() -> None:
    """Who corrects a text must not arm the job anew; who moves it must."""
    job = a_cron("30 8 * * mon-fri", BERLIN)
    same = [
        replace(job, payload=RunTask(text="Other"), label="Other", misfire="skip", grace_s=5),
        replace(job, jitter_s=60, max_runs=4, retries=Retries(most=0), paused=True),
        replace(job, when=Cron(expression=" 30  8 * * MON-FRI", timezone=BERLIN)),
        replace(job, quiet=structs.replace(NIGHT, begins=time(7))),
    ]
    other = [
        replace(job, when=Cron(expression="31 8 * * mon-fri", timezone=BERLIN)),
        replace(job, when=Cron(expression="30 8 * * mon-fri", timezone=NEW_YORK)),
        replace(job, when=Every(interval_s=60)),
        replace(job, begins_at=utc("2026-05-04")),
        replace(job, ends_at=utc("2026-05-04")),
        replace(job, quiet=NIGHT),
    ]

    assert {rules.schedule_name(each) for each in same} == {rules.schedule_name(job)}
    assert len({rules.schedule_name(each) for each in [job, *other]}) == 1 + len(other)

    # Were it another one after an update, each job would be armed anew and its past forgotten.
    at = a_job(At(scheduled_at=utc("2026-12-01T07:30")))
    every = a_job(
        Every(interval_s=900), begins_at=utc("2026-12-01"), ends_at=utc("2027-12-01"), quiet=NIGHT
    )

    assert rules.schedule_name(a_cron("30 8 * * mon-fri", BERLIN)) == "6d763f32c23944de"
    assert rules.schedule_name(at) == "e46f0640aa9e5c12"
    assert rules.schedule_name(every) == "fe7129f8c46c839b"


def test_jitter_is_drawn_from_job_and_instant() -> None:
    """After a restart a run is due when it was due before; two jobs are not together."""
    job, scheduled_at = a_cron("0 8 * * *", jitter_s=600), utc("2026-05-04T08:00")
    drawn = [rules.jitter_s(job, scheduled_at + timedelta(days=n)) for n in range(200)]

    assert drawn[0] == rules.jitter_s(replace(job, label="Other"), scheduled_at) == 279.464031
    assert drawn[0] != rules.jitter_s(replace(job, job_id="other"), scheduled_at)
    assert min(drawn) < 60
    assert 540 < max(drawn) < 600
    assert rules.jitter_s(replace(job, jitter_s=0), scheduled_at) == 0


def test_back_off_doubles_up_to_an_hour() -> None:
    """What is down is left alone longer and longer, and is still looked after."""
    retries = Retries(backoff_s=30)
    waits = [rules.backoff_s(retries, attempt, "job at 08:00") for attempt in (1, 2, 3, 8, 5000)]

    for wait, middle in zip(waits, (30, 60, 120, 3600, 3600), strict=True):
        assert 0.8 * middle <= wait <= 1.2 * middle
    assert waits == pytest.approx([31.8277, 52.0371, 127.9003, 3360.5457, 3853.2316], abs=1e-4)
    assert rules.backoff_s(retries, 1, "job at 09:00") != waits[0]


@table(
    ("when", "expected"),
    [
        (Cron(expression="* * * * *", timezone="UTC"), 60),
        (Cron(expression="0,59 * * * *", timezone="UTC"), 60),
        (Cron(expression="0 23,0 * * *", timezone="UTC"), 3600),
        (Cron(expression="0 23,0 * * mon", timezone="UTC"), 82_800),
        (Cron(expression="30 8 * * mon-fri", timezone="UTC"), 86_400),
        (Cron(expression="0 0 1 1 *", timezone="UTC"), 365 * 86_400),
        (Cron(expression="0 0 31 2 *", timezone="UTC"), None),
        (Every(interval_s=90), 90),
        (At(scheduled_at=utc("2026-05-04")), None),
    ],
)
def test_the_least_distance_of_two_instants(
    when: At | Every | Cron, expected: float | None
) -> None:
    """An agent's limit is in seconds; a cron expression does not say them."""
    if expected is None and isinstance(when, Cron):
        with pytest.raises(ValueError, match="never fires"):
            rules.minimum_interval_s(when)
    else:
        assert rules.minimum_interval_s(when) == expected


# --- what to do -----------------------------------------------------------------------------------


@table(("misfire", "grace_s", "runs"), [("run_once", 86_400, 1), ("skip", 10, 0)])
def test_a_job_that_was_due_while_the_gateway_was_down(
    misfire: Misfire, grace_s: int, runs: int
) -> None:
    """Daily at 08:30 in New York, down from 08:29:47 to 08:31:05: run at the start, or recorded."""
    job = a_cron("30 8 * * *", NEW_YORK, misfire=misfire, grace_s=grace_s)
    due = utc("2026-05-04T12:30")
    job_state = armed(cursor=due - timedelta(days=1))

    assert rules.plan(job, job_state, now=utc("2026-05-04T12:29:47")).run == ()
    planned = rules.plan(job, job_state, now=utc("2026-05-04T12:31:05"))

    missed = rules.Misfire(first=due, last=due, count=1)
    assert planned.run == (due,) * runs
    assert planned.misfired == (None if runs else missed)
    assert planned.next_at == due + timedelta(days=1)
    assert rules.plan(job, settle(job_state, planned), now=utc("2026-05-04T12:31:06")).run == ()


def test_a_restart_in_the_night_waits_for_the_morning() -> None:
    """Nine in Shanghai is not nine in UTC, and a restart at 01:24 is none of its times."""
    job = a_cron("0 9 * * *", "Asia/Shanghai")
    planned = rules.plan(job, armed(cursor=utc("2026-05-03T01:00")), now=utc("2026-05-03T17:24"))

    assert planned == rules.Plan(next_at=utc("2026-05-04T01:00"))


def test_a_job_that_was_moved_runs_at_its_new_time_only() -> None:
    """From 08:45 to 23:27: the name of its times is another, so it is armed anew, from now on."""
    old, new = (a_job(At(scheduled_at=utc(f"2026-05-04T{at}"))) for at in ("08:45", "23:27"))
    job_state = armed(utc("2026-05-04T08:00"))

    assert rules.schedule_name(old) != rules.schedule_name(new)
    assert rules.plan(new, job_state, now=utc("2026-05-04T08:45")).run == ()
    planned = rules.plan(new, job_state, now=utc("2026-05-04T23:27"))
    assert planned == rules.Plan(run=(utc("2026-05-04T23:27"),))
    assert rules.plan(new, settle(job_state, planned), now=utc("2026-05-05")) == rules.Plan()


@table(
    ("misfire", "grace_s", "runs", "missed"),
    [
        ("run_once", 86_400, "05", "01 to 04: 4"),
        ("skip", 10, "", "01 to 05: 5"),
        ("run_all", 86_400, "01 02 03 04 05", ""),
        ("run_all", 6_000, "04 05", "01 to 03: 3"),
    ],
)
def test_a_sleep_over_five_instants(misfire: Misfire, grace_s: int, runs: str, missed: str) -> None:
    """One run stands for all that were slept through, unless the job says otherwise."""
    job = a_cron("0 * * * *", misfire=misfire, grace_s=grace_s)
    planned = rules.plan(job, armed(utc("2026-05-04T00:30")), now=utc("2026-05-04T05:20"))

    gone = planned.misfired
    assert " ".join(f"{each:%H}" for each in planned.run) == runs
    assert (f"{gone.first:%H} to {gone.last:%H}: {gone.count}" if gone else "") == missed
    assert planned.next_at == utc("2026-05-04T06:00")


@table(
    ("job", "since", "now"),
    [
        # quiet from 20:00 to 05:00, looked at when that ends
        (a_cron("0 * * * *", quiet=NIGHT), "2026-05-04T18:00", "2026-05-05T05:00"),
        (a_cron("0 * * * *", quiet=NIGHT), "2026-05-04T18:00", "2026-05-06T12:00"),
        # several times of the wall are one instant, on one date and on two
        (a_cron("0,30 2,3 * * *", BERLIN), "2026-03-27", "2026-03-30"),
        (a_cron("0,30 0,23 * * *", "America/Nuuk"), "2026-03-27", "2026-03-30"),
    ],
)
def test_what_is_made_up_for_is_what_would_have_run(job: Job, since: str, now: str) -> None:
    """After a standstill instants are searched backwards; they must be the same ones."""
    job = replace(job, misfire="run_all", grace_s=1_000_000)
    planned = rules.plan(job, armed(utc(since)), now=utc(now))

    assert planned.run == tuple(coming(job, utc(since), utc(now)))
    assert planned.misfired is None


def test_what_was_begun_stands_for_its_instant() -> None:
    """It is not counted as missed, and does not run again when the clock goes back."""
    # Nor is anything else taken off the count: what ran at the cursor, or by other times.
    job, hour = a_cron("0 * * * *"), timedelta(hours=1)
    cursor = utc("2026-05-04T01:00")
    recent = (done(cursor), done(cursor + hour), done(cursor + 1.5 * hour))

    planned = rules.plan(job, armed(cursor, recent=recent), now=cursor + 4.5 * hour)

    assert planned.misfired == rules.Misfire(
        first=cursor + 2 * hour, last=cursor + 3 * hour, count=2
    )

    # A clock that was an hour ahead is set right: its hours come again, and have been served.
    job = a_cron("0 * * * *", misfire="run_all")
    past = [done(utc("2026-05-04T07:00")), done(utc("2026-05-04T08:00"), outcome="failed")]
    under_way = [done(utc("2026-05-04T09:00"), outcome=None)]
    job_state = armed(
        utc("2026-05-04"), cursor=utc("2026-05-04T06:30"), recent=tuple(past), open=tuple(under_way)
    )

    assert rules.plan(job, job_state, now=utc("2026-05-04T06:40")).next_at == utc(
        "2026-05-04T10:00"
    )
    planned = rules.plan(job, job_state, now=utc("2026-05-04T11:10"))
    assert planned.run == (utc("2026-05-04T10:00"), utc("2026-05-04T11:00"))
    assert planned.misfired is None
    late = rules.plan(replace(job, grace_s=60), job_state, now=utc("2026-05-04T11:10")).misfired
    assert late == rules.Misfire(
        first=utc("2026-05-04T10:00"), last=utc("2026-05-04T11:00"), count=2
    )


def test_grace_is_counted_to_the_instant_from_where_the_jitter_ends() -> None:
    """Ten seconds late runs; a moment more does not."""
    job = a_cron("0 9 * * *", misfire="skip", grace_s=10)
    job_state, late = armed(utc("2026-05-04")), utc("2026-05-04T09:00:10")

    assert rules.plan(job, job_state, now=late).run == (utc("2026-05-04T09:00"),)
    assert rules.plan(job, job_state, now=late + timedelta(microseconds=1)).run == ()

    # With a grace of ten seconds, one that is drawn five minutes late must still run.
    job = a_cron("0 9 * * *", misfire="skip", grace_s=10, jitter_s=600)
    scheduled_at = utc("2026-05-04T09:00")
    due = scheduled_at + timedelta(seconds=rules.jitter_s(job, scheduled_at))
    job_state = armed(utc("2026-05-04"))

    assert due > scheduled_at + timedelta(seconds=20)
    assert rules.plan(job, job_state, now=due - timedelta(microseconds=1)) == rules.Plan(
        next_at=due
    )
    assert rules.plan(job, job_state, now=due).run == (scheduled_at,)
    assert rules.plan(job, job_state, now=due + timedelta(seconds=11)).run == ()


def test_a_run_whose_jitter_is_not_over_holds_back_those_after_it() -> None:
    """Were a later one settled first, the cursor would pass over the earlier one."""
    job = a_job(Every(interval_s=60), misfire="run_all", grace_s=10, jitter_s=600)
    anchor = utc("2026-05-04")
    scheduled_times = [anchor + timedelta(minutes=n) for n in range(1, 60)]
    due = [each + timedelta(seconds=rules.jitter_s(job, each)) for each in scheduled_times]
    early = next(n for n, at in enumerate(due) if at > due[n + 1] + timedelta(seconds=11))

    held = rules.plan(job, armed(anchor, cursor=scheduled_times[early - 1]), now=due[early + 1])
    both = rules.plan(job, armed(anchor, cursor=scheduled_times[early - 1]), now=due[early])

    assert held == rules.Plan(next_at=due[early])
    assert both.run[:2] == tuple(scheduled_times[early : early + 2])
    assert both.misfired is None


def test_no_more_runs_than_the_job_has_left() -> None:
    """Three times means three times, and what comes after them is not missed."""
    job = a_cron("0 * * * *", misfire="run_all", max_runs=3)
    job_state, now = armed(utc("2026-05-04T00:30"), ran=1), utc("2026-05-04T05:20")

    planned = rules.plan(job, job_state, now=now)
    over = settle(job_state, planned)

    assert planned == rules.Plan(run=(utc("2026-05-04T01:00"), utc("2026-05-04T02:00")))
    assert rules.plan(job, over, now=now) == rules.Plan()
    assert rules.is_over(job, over, now)
    assert not rules.is_over(job, job_state, now)


@table("how", [{"by_hand": True}, {"outcome": "misfired"}])
def test_what_was_not_the_jobs_own_run_does_not_stand_for_it(how: dict[str, object]) -> None:
    """Somebody ran it by hand at eight, or the clock had passed over eight: eight is still due."""
    job, scheduled_at = a_cron("0 * * * *"), utc("2026-05-04T08:00")
    job_state = armed(utc("2026-05-04T07:30"), recent=(done(scheduled_at, **how),))

    assert rules.plan(job, job_state, now=scheduled_at).run == (scheduled_at,)


def test_a_clock_that_is_behind_the_cursor_runs_nothing() -> None:
    """It was set back by minutes: what is settled stays so."""
    job, job_state = a_cron("*/5 * * * *"), armed(utc("2026-05-04T08:00"))

    assert rules.plan(job, job_state, now=utc("2026-05-04T07:40")) == rules.Plan(
        next_at=utc("2026-05-04T08:05")
    )
    assert rules.rebased(job, structs.replace(job_state, anchor=utc("2026-05-01")), BEHIND) is None


BEHIND = utc("2026-05-04T06:59:20")


@table(
    ("when", "anchor"),
    [
        (Cron(expression="*/5 * * * *", timezone="UTC"), BEHIND),
        (Every(interval_s=3600), utc("2026-05-04T06:00")),
    ],
)
def test_a_clock_that_is_behind_the_arming_of_a_job_lets_it_begin_now(
    when: Cron | Every, anchor: datetime
) -> None:
    """It is made by a clock that is ahead: it runs from now on, and is not told of what was."""
    job, job_state = a_job(when), armed(utc("2026-05-04T08:00"))
    rebased = rules.rebased(job, job_state, BEHIND)

    assert rebased == Rebased(at=BEHIND, cursor=BEHIND, anchor=anchor)
    job_state = fold(job_state, rebased)
    planned = rules.plan(job, job_state, now=BEHIND)
    assert (planned.run, planned.misfired, planned.next_at) == ((), None, utc("2026-05-04T07:00"))
    assert rules.rebased(job, job_state, BEHIND) is None
    assert rules.rebased(job, JobState(), BEHIND) is None


@table(
    ("when", "count", "first"),
    [
        (Cron(expression="* * * * *", timezone=BERLIN), 730 * 1440, "00:01"),
        (Cron(expression="30 2 * * *", timezone=BERLIN), 730, "00:30"),
        (Every(interval_s=1), 730 * 86_400, "00:00"),
    ],
)
def test_two_years_of_standstill_are_one_run(when: Cron | Every, count: int, first: str) -> None:
    """All that was missed is counted, none of it one by one."""
    begins = utc("2024-10-02")
    planned = rules.plan(a_job(when), armed(begins), now=begins + timedelta(days=730))

    assert len(planned.run) == 1
    assert planned.misfired is not None
    assert planned.misfired.count == count - 1
    assert f"{planned.misfired.first:%H:%M}" == first
    assert not planned.misfired.is_more


@table("quiet", [None, NIGHT])
def test_ten_years_of_standstill_are_counted_in_part(quiet: QuietHours | None) -> None:
    """A count that would take seconds is cut short, and says so."""
    begins, now = utc("2016-10-02"), utc("2026-10-02T12:10")
    planned = rules.plan(a_cron("*/20 * * * *", quiet=quiet), armed(begins), now=now)

    assert planned.run == (utc("2026-10-02T12:00"),)
    assert planned.misfired is not None
    assert planned.misfired.last == utc("2026-10-02T11:40")
    assert planned.misfired.is_more
    assert planned.misfired.first < begins + timedelta(days=1)
    assert planned.misfired.count > 750 * 24


@table(
    ("job", "since", "now", "ran", "missed", "next_at"),
    [
        # A leap day lies further back than what is counted day by day.
        (
            a_cron("0 12 29 2 *", grace_s=60),
            *("2001-01-01", "2027-12-31", None),
            *(("2004-02-29T12:00", "2024-02-29T12:00", 6), "2028-02-29T12:00"),
        ),
        # A run exactly 750 days ago stands between what is counted by day and by one.
        (
            a_job(Every(interval_s=250 * 86_400)),
            *("2022-01-01", "2024-09-27", ("2024-09-27", "2024-09-27")),
            *(("2022-09-08", "2024-01-21", 3), "2025-06-04"),
        ),
        # Who says `run_all` for a job of each minute does not mean a day's worth at once.
        (
            a_cron("* * * * *", misfire="run_all"),
            *("2026-05-04", "2026-05-04T10:00", ("2026-05-04T08:21", "2026-05-04T10:00")),
            *(("2026-05-04T00:01", "2026-05-04T08:20", 500), "2026-05-04T10:01"),
        ),
    ],
    ids=["rare", "where counting changes its way", "the newest hundred"],
)
def test_each_instant_is_run_or_counted_once_however_long_ago(
    job: Job,
    since: str,
    now: str,
    ran: tuple[str, str] | None,
    missed: tuple[str, str, int],
    next_at: str,
) -> None:
    """Nothing is lost or counted twice where many are missed; a hundred run at most."""
    planned = rules.plan(job, armed(utc(since)), now=utc(now))
    first, last, count = missed

    assert planned.misfired == rules.Misfire(first=utc(first), last=utc(last), count=count)
    found = (planned.run[0], planned.run[-1]) if planned.run else None
    assert found == (ran and tuple(map(utc, ran)))
    assert planned.next_at == utc(next_at)


def test_a_job_is_over_when_nothing_is_left_to_settle() -> None:
    """What it missed is still to be recorded, and counts as to come."""
    now = utc("2026-05-04T12:00")
    once, ended = a_job(At(scheduled_at=utc("2026-05-04T08:30"))), a_cron("0 * * * *", ends_at=now)

    assert not rules.is_over(once, armed(utc("2026-05-04")), utc("2026-05-05"))
    assert rules.is_over(once, armed(utc("2026-05-04T08:30")), now)
    again = armed(utc("2026-05-04T08:00"), recent=(done(utc("2026-05-04T08:30")),))
    assert rules.is_over(once, again, utc("2026-05-04T08:00"))
    assert not rules.is_over(ended, armed(utc("2026-05-04T11:00")), utc("2026-05-05"))
    assert rules.is_over(ended, armed(now), utc("2026-05-05"))
    assert rules.is_over(once, JobState(), now)
    assert not rules.is_over(a_cron("0 0 29 2 *"), armed(now), now)


# --- what people write ----------------------------------------------------------------------------


@table(
    ("expression", "expected", "zone"),
    [
        # Whoever guesses a time zone is wrong by hours.
        *(
            ("30 8 * * *", "zone", zone)
            for zone in ("", "Europe/Berln", "../UTC", "/etc/localtime", "localtime", "Europe")
        ),
        ("", "^needs five fields", "UTC"),
        ("30 8 * *", "needs five fields .* has 4$", "UTC"),
        ("0 30 8 * * *", "has 6; it has no field for seconds", "UTC"),
        ("0 30 8 ? * MON-FRI 2026", "has 7$", "UTC"),
        ("@reboot", "needs five fields", "UTC"),
        ("60 8 * * *", "^minute: '60' is wrong; it may be 0 to 59", "UTC"),
        ("* 24 * * *", "^hour: '24'", "UTC"),
        ("*/0 * * * *", "^minute: '\\*/0'", "UTC"),
        ("0 0 0 * *", "^day of the month: '0'", "UTC"),
        ("0 0 * feber *", "^month: 'feber'", "UTC"),
        ("0 9 * * fri-mon", "^day of the week: 'fri-mon' .* upward ranges", "UTC"),
        ("0 9 * * mon#6", "^day of the week", "UTC"),
        ("0 9 * * L", "^day of the week", "UTC"),
        ("0 0 30 2 *", "^'0 0 30 2 \\*' never fires", "UTC"),
        ("0 0 31 4,6,9,11 *", "never fires", "UTC"),
        ("* * */20 * 1L", "never fires", "UTC"),
        ("٣ * * * *", "^minute", "UTC"),
        (f"{'1,' * 300}1 * * * *", "longer than 500 characters$", "UTC"),
    ],
)
def test_a_cron_expression_that_cannot_be_is_refused(
    expression: str, expected: str, zone: str
) -> None:
    """The text names the field and what stands there: it is all that its author gets to see."""
    with pytest.raises(ValueError, match=expected) as refused:
        rules.check_cron(expression, zone)

    assert len(str(refused.value)) < 400


@table(
    "expression",
    [
        "* * * * *",
        "*/5 8-17 1,15 jan-mar MON-fri",
        "0 0 L * *",
        "0 0 LW * *",
        "0 9 * * MON#2",
        "0 9 * * 5L",
        "0 0 29 2 *",
        "0 0 29 2 */7",
        "  0   0 * *  7 ",
        f"{','.join(map(str, range(60)))} * * * *",
    ],
)
def test_a_cron_expression_that_can_be_is_taken(expression: str) -> None:
    """Names, ranges, lists, steps and the last of a month are what people know."""
    rules.check_cron(expression, BERLIN)

    assert rules.next_scheduled_time(
        a_cron(expression, BERLIN), after=utc("2026-05-04"), anchor=utc("2026-05-04")
    )


@table(
    ("zone", "wall", "expected"),
    [
        (BERLIN, "2026-12-01T08:30", "2026-12-01T07:30"),
        (BERLIN, f"{AUTUMN}T02:30", f"{AUTUMN}T00:30"),
        (NEW_YORK, "2026-11-01T01:59:59.5", "2026-11-01T05:59:59.5"),
        (LORD_HOWE, "2026-10-04T02:30", "2026-10-03T15:30"),
        ("UTC", "2026-12-01T08:30", "2026-12-01T08:30"),
    ],
)
def test_a_time_on_the_wall_is_an_instant(zone: str, wall: str, expected: str) -> None:
    """The first of two, where the clock shows it twice."""
    found = rules.local_time(datetime.fromisoformat(wall), zone)

    assert found == utc(expected)
    assert found.tzinfo is UTC


@table(
    ("zone", "wall", "expected"),
    [
        (
            BERLIN,
            f"{SPRING}T02:30",
            (
                "Europe/Berlin has no 02:30 on 2026-03-29: its clock goes from 02:00 to 03:00;"
                " the times nearest to it are 2026-03-29T01:59 and 2026-03-29T03:00"
            ),
        ),
        (LORD_HOWE, "2026-10-04T02:15:01", "from 02:00 to 02:30; the times nearest"),
        ("Africa/Cairo", "2026-04-24T00:00", "2026-04-23T23:59 and 2026-04-24T01:00"),
        (BERLIN, "0001-01-01T00:00", "too early or too late a date"),
        (NEW_YORK, "9999-12-31T23:00", "too early or too late a date"),
        ("Mars/Base", f"{SPRING}T02:30", "Mars/Base"),
    ],
)
def test_a_time_that_the_clock_leaves_out_is_refused(zone: str, wall: str, expected: str) -> None:
    """Who asks for it learns what was wrong with it, and what would do."""
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the text is compared below
        rules.local_time(datetime.fromisoformat(wall), zone)

    assert expected in str(refused.value)
