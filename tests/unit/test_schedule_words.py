"""Times in words: what they mean, in which zone, on the nights when clocks change, and in files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from support.tables import table

from everturn_gateway.scheduler.definitions.making import dated, job_of
from everturn_gateway.scheduler.definitions.settings import JobSettings
from everturn_gateway.scheduler.definitions.words import EXAMPLES, from_now, recurring
from everturn_gateway.scheduler.errors import JobRefusedError
from everturn_gateway.scheduler.jobs import At, Cron, Every, When

TUESDAY = datetime(2026, 11, 24, 8, 0, 0, 500, tzinfo=UTC)  # 09:00 in Berlin


def section(**fields: object) -> JobSettings:
    """Return a job of these fields."""
    to = {"channel": "http", "chat": "team"}
    return JobSettings.model_validate({"agent": "a", "message": "Hello.", "to": to, **fields})


def when(now: datetime = TUESDAY, zone: str = "Europe/Berlin", **fields: object) -> When:
    """Return the times of a job that is made at `now`."""
    return job_of(dated(section(**fields), now=now, timezone=zone), job_id="j", timezone=zone).when


@table(
    ("words", "wall"),
    [
        ("tomorrow 9:00", "2026-11-25T09:00"),
        ("Tomorrow at 9am", "2026-11-25T09:00"),
        ("tomorrow, 9:30 pm", "2026-11-25T21:30"),
        ("today 18:00", "2026-11-24T18:00"),
        ("today noon", "2026-11-24T12:00"),
        ("18:00", "2026-11-24T18:00"),
        ("at 8:59", "2026-11-25T08:59"),
        ("9:00", "2026-11-25T09:00"),
        ("midnight", "2026-11-25T00:00"),
        ("12am", "2026-11-25T00:00"),
        ("12pm", "2026-11-24T12:00"),
        ("friday 18:00", "2026-11-27T18:00"),
        ("on mon 7:15", "2026-11-30T07:15"),
        ("tuesday 10:00", "2026-11-24T10:00"),
        ("tue 8:00", "2026-12-01T08:00"),
        ("2026-12-01T08:30", "2026-12-01T08:30"),
    ],
)
def test_a_day_and_a_time_are_those_of_the_jobs_zone(words: str, wall: str) -> None:
    """Nine in the morning is when the people of the job have it."""
    assert from_now(words, now=TUESDAY, zone="Europe/Berlin") == wall
    assert when(at=words) == when(at=wall)


@table(
    ("words", "later_s"),
    [
        ("in 10 minutes", 600),
        ("in 90m", 5400),
        ("in an hour", 3600),
        ("In 1 hour 30 minutes", 5400),
        ("in 2 days", 172_800),
        ("in 1d 2h", 93_600),
    ],
)
def test_what_is_counted_from_now_needs_no_zone_and_is_never_early(
    words: str, later_s: int
) -> None:
    """The part of a second that it takes to say so is no reason to come before."""
    due = At(scheduled_at=TUESDAY.replace(microsecond=0) + timedelta(seconds=later_s + 1))

    assert when(at=words) == when(at=words, zone="") == due


@table(
    ("words", "times"),
    [
        ("every 90 minutes", Every(interval_s=5400)),
        ("every 15m", Every(interval_s=900)),
        ("every hour", Every(interval_s=3600)),
        ("@daily", Cron(expression="0 0 * * *", timezone="Europe/Berlin")),
        ("every day at 9:00", Cron(expression="0 9 * * *", timezone="Europe/Berlin")),
        ("every weekday 8:30", Cron(expression="30 8 * * 1-5", timezone="Europe/Berlin")),
        ("every monday at 6pm", Cron(expression="0 18 * * mon", timezone="Europe/Berlin")),
    ],
)
def test_what_recurs_is_an_interval_or_a_cron_expression(words: str, times: When) -> None:
    """The one parser is behind every field, and files may hold what recurs."""
    assert when(at=words) == times
    assert job_of(section(at=words), job_id="j", timezone="Europe/Berlin").when == times
    if isinstance(times, Every):
        assert when(every=words) == times


@table(
    ("now", "words", "scheduled_at"),
    [
        # 25 October 2026: 02:30 comes twice, at 00:30 and 01:30 UTC; the first counts
        ("2026-10-24T08:00", "tomorrow 2:30", "2026-10-25T00:30"),
        ("2026-10-25T00:29", "2:30", "2026-10-25T00:30"),
        # a day with 25 hours, and 24 hours on it
        ("2026-10-24T08:00", "tomorrow 10:00", "2026-10-25T09:00"),
        ("2026-10-24T08:00", "in 1 day", "2026-10-25T08:00"),
    ],
)
def test_the_night_on_which_the_clock_is_put_back(now: str, words: str, scheduled_at: str) -> None:
    """Words come out as the same date would, written by hand."""
    at = datetime.fromisoformat(f"{now}+00:00")

    assert when(at, at=words) == At(scheduled_at=datetime.fromisoformat(f"{scheduled_at}+00:00"))


def test_words_that_mean_no_one_instant_are_refused_by_field() -> None:
    """As for a date that somebody wrote: 29 March 2026 has no 02:30 in Berlin."""
    with pytest.raises(JobRefusedError, match=r"no 02:30 on 2026-03-29.*03:00"):
        when(datetime(2026, 3, 28, 8, tzinfo=UTC), at="tomorrow 2:30")

    # Nine o'clock is at another moment in each zone.
    with pytest.raises(JobRefusedError) as caught:
        when(at="tomorrow 9:00", end="friday 9:00", zone="")
    assert [fault.field for fault in caught.value.faults] == ["at", "end"]
    assert "needs a time zone" in caught.value.faults[0].message

    # In a file, what is counted from now would mean another day with each look at it.
    with pytest.raises(JobRefusedError, match="a file needs a date: 2026-12-01T08:30"):
        job_of(section(at="tomorrow 9:00"), job_id="j", timezone="UTC")


@table(
    ("words", "why"),
    [
        ("tomorrow", EXAMPLES),
        ("soon", EXAMPLES),
        ("next week", EXAMPLES),
        ("in a while", "must be whole seconds"),
        ("in 2 months", "must be whole seconds"),
        ("in 0 minutes", "at least a second"),
        ("tomorrow 9", "write it like 9:00"),
        ("tomorrow 25:00", "no time of day '25:00'"),
        ("13pm", "no time of day '13pm'"),
        ("every blue moon", "must be whole seconds"),
        ("every day at 25:00", "no time of day"),
        ("@fortnightly", "there are: @yearly"),
        ("@reboot", "there are: @yearly"),
    ],
)
def test_what_is_not_understood_is_never_guessed(words: str, why: str) -> None:
    """A guess runs at the wrong hour, and nobody is told."""
    with pytest.raises(ValidationError, match=why):
        section(at=words)


def test_start_and_end_take_words_too() -> None:
    """`--start "monday 0:00"` is what people say."""
    made = dated(
        section(every="1h", start="tomorrow 9:00", end="in 2 weeks"), now=TUESDAY, timezone="UTC"
    )

    assert (made.start, made.end) == ("2026-11-25T09:00", "2026-12-08T08:00:01+00:00")


@given(st.text(max_size=40), st.datetimes(timezones=st.just(UTC), min_value=datetime(2000, 1, 1)))  # noqa: DTZ001
def test_any_text_is_read_or_refused(text: str, now: datetime) -> None:
    """Models write whatever they like."""
    try:
        recurring(text)
        from_now(text, now=now, zone="Europe/Berlin")
    except ValueError:
        pass
