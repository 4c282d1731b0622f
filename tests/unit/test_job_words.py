"""Scheduled jobs in words."""

from __future__ import annotations

from datetime import UTC, datetime, time
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from support.tables import table

from everturn_actors.model import ConversationKey
from everturn_gateway.commands.jobs.texts import (
    coming_text,
    details,
    last_text,
    moment_text,
    run_text,
    span_text,
    to_text,
    took_text,
    wall_text,
    when_text,
)
from everturn_gateway.errors import Fault
from everturn_gateway.scheduler.jobs import (
    At,
    Cron,
    Every,
    Job,
    JobState,
    JobView,
    Made,
    QuietHours,
    Run,
    RunTask,
    SendMessage,
    ToChat,
    ToSession,
    ToWebhook,
)
from everturn_gateway.scheduler.places import Places
from everturn_gateway.scheduler.schemas import JobBody, JobDetail, JobFaultBody, RunBody

BERLIN = ZoneInfo("Europe/Berlin")
AT = datetime(2026, 12, 1, 7, 30, tzinfo=UTC)
PLACES = Places(workspace=Path("/home/ann/.everturn"), agents_dir=Path("/home/ann/agents"))


def job(**values: Any) -> Job:
    """Return a job with some fields of its own."""
    given = {"when": Every(interval_s=900), "payload": SendMessage(text="x"), **values}
    return Job(job_id="standup", agent="helper", **given)


def body(state: str = "scheduled", **values: Any) -> JobDetail:
    """Return how such a job is shown."""
    job_state = values.pop("job_state", JobState())
    why, next_at = values.pop("why", ""), values.pop("next_at", None)
    view = JobView(
        job=job(**values),
        state=state,  # type: ignore[arg-type]  # any of them
        why=why,
        next_at=next_at,
        job_state=job_state,
    )
    return JobDetail.whole(view, PLACES)


@table(
    ("when", "text"),
    [
        (Every(interval_s=900), "every 15 minutes"),
        (Every(interval_s=60), "every minute"),
        (Every(interval_s=1), "every second"),
        (Every(interval_s=90), "every 90 seconds"),
        (Every(interval_s=3600), "every hour"),
        (Every(interval_s=86_400), "every 24 hours"),
        (Every(interval_s=172_800), "every 2 days"),
        (At(scheduled_at=AT), "at 2026-12-01 08:30 Europe/Berlin"),
        (At(scheduled_at=AT.replace(second=5)), "at 2026-12-01 08:30:05 Europe/Berlin"),
        (Cron(expression="30 8 * * mon-fri", timezone="Europe/Berlin"), "30 8 * * mon-fri, "),
    ],
)
def test_when_a_job_runs_is_told_in_words(when: At | Every | Cron, text: str) -> None:
    """Seconds and UTC are for programs; a span is never called a day, which has 23 to 25 hours."""
    shown = when_text(body(when=when, timezone="Europe/Berlin"))

    assert shown.startswith(text)
    assert shown.endswith("Europe/Berlin") == (not isinstance(when, Every))


@table(
    ("seconds", "text"),
    [
        (0, "0 seconds"),
        (1, "1 second"),
        (3600, "1 hour"),
        (604_800, "7 days"),
        (0.5, "0.5 seconds"),
    ],
)
def test_spans_are_told_in_their_largest_unit(seconds: float, text: str) -> None:
    """Nobody reads 604800 as a week."""
    assert span_text(seconds) == text


@table(("seconds", "text"), [(None, ""), (0.04, "0.0 s"), (59.94, "59.9 s"), (125, "2 min 5 s")])
def test_how_long_a_run_took_is_short(seconds: float | None, text: str) -> None:
    """It stands in a column."""
    assert took_text(seconds) == text


def test_instants_are_told_by_the_clock_that_is_asked_for() -> None:
    """An instant by the wrong clock is off by hours, and looks right."""
    berlin = "Europe/Berlin"
    assert moment_text("2026-12-01T07:30:00.000000Z", berlin) == "2026-12-01 08:30 Europe/Berlin"
    assert moment_text("2026-10-25T00:30:00Z", berlin) == "2026-10-25 02:30 +0200 Europe/Berlin"
    assert moment_text("2026-10-25T01:30:00Z", berlin) == "2026-10-25 02:30 +0100 Europe/Berlin"
    assert wall_text("2026-07-01T08:30:00+02:00") == "2026-07-01 08:30:00 +0200"
    assert wall_text("2026-07-01T06:30:00.000000Z") == "2026-07-01 06:30:00"


def test_neither_secrets_nor_folders_of_the_machine_are_shown() -> None:
    """Clients learn whom and where, and no more."""
    # Who is told is named and an address only by its host. The rest of an address may be a secret,
    # and this is printed on screens and into logs.
    hook = "https://ann:pw@hooks.example.org:8443/s3cret?key=s3cret"
    places = (
        None,
        ToChat(channel="telegram", chat="-1001"),
        ToChat(channel="telegram", chat="-1001", topic="7"),
        ToSession(session_id="20261201T083000000-aa4b5a63"),
        ToWebhook(url=hook),
    )

    assert [to_text(body(to=to).to) for to in places] == [
        "nobody",
        "telegram, chat -1001",
        "telegram, chat -1001, topic 7",
        "session 20261201T083000000-aa4b5a63",
        "webhook at https://hooks.example.org:8443",
    ]

    # Files are named without the folders of the machine. Clients of the API learn where a fault is,
    # and not who runs the gateway where.
    fault = Fault(
        file=PLACES.workspace / "schedules" / "a.yaml",
        line=2,
        message=f"is also the id of the job in {PLACES.agents_dir}/helper/agent.yaml",
    )

    assert JobFaultBody.of(fault, PLACES) == JobFaultBody(
        file=".everturn/schedules/a.yaml",
        line=2,
        field="",
        message="is also the id of the job in agents/helper/agent.yaml",
    )
    assert PLACES.name(Path("/etc/passwd")) == "passwd"


def test_all_that_a_job_says_is_shown() -> None:
    """What is left out here looks as if it were not set."""
    shown = dict(
        details(
            body(
                payload=RunTask(text="Look\naround."),
                label="Stand-up",
                where="isolated",
                misfire="skip",
                grace_s=10,
                jitter_s=120,
                begins_at=AT,
                ends_at=AT,
                max_runs=5,
                quiet=QuietHours(begins=time(22), ends=time(7), timezone="Europe/Berlin"),
                process="p12",
                file=Path("/home/ann/agents/helper/agent.yaml"),
                line=12,
                made=Made(
                    by="tool",
                    key=ConversationKey(channel="telegram", chat="1", agent="helper"),
                    untrusted=True,
                ),
                job_state=JobState(ran=2),
                state="waiting",
                why="there is no channel",
            )
        )
    )

    assert shown["job"] == "standup (Stand-up)"
    assert shown["state"] == "waiting: there is no channel"
    assert shown["task"] == "Look\naround."
    assert shown["session"] == "isolated"
    assert shown["misfire"] == "skip, within 10 seconds"
    assert shown["jitter"] == "up to 2 minutes"
    assert shown.keys() >= {"start", "end"}
    assert shown["quiet"] == "22:00 to 07:00 Europe/Berlin"
    assert shown["runs"] == "2 of 5"
    assert shown["process"] == "p12"
    assert shown["made"] == "by its agent, in telegram, chat 1, after it had read text from outside"
    assert shown["file"] == "agents/helper/agent.yaml:12"


def test_what_became_of_runs_and_what_is_to_come_is_told() -> None:
    """An empty place leaves people waiting."""
    # A run is told with the place of its answer. The outcome alone leads nowhere.
    run = Run(
        scheduled_at=AT,
        started_at=AT,
        finished_at=AT.replace(second=2),
        session_id="20261201T083000000-aa4b5a63",
        turn=3,
        outcome="failed",
        error="the model is gone",
    )
    begun = RunBody.of(Run(scheduled_at=AT, started_at=AT))

    assert run_text("standup", RunBody.of(run)) == (
        "failed in session 20261201T083000000-aa4b5a63, turn t3, after 2.0 s: the model is gone"
    )
    assert run_text("standup", begun).startswith("standup was begun; it goes on while a gateway ")

    # What was missed is counted. One line may stand for a night of them.
    missed = Run(scheduled_at=AT, started_at=AT, finished_at=AT, outcome="misfired", misfired=1200)
    shown: JobBody = body(job_state=JobState(recent=(missed,)))

    assert last_text(shown).startswith("missed 1,200 2026-12-01 ")
    assert last_text(body()) == ""

    # Why nothing is to come is told. An empty place for the next time leaves people waiting.
    assert coming_text(body("done")) == "done"
    assert coming_text(body("waiting", why="no agent")) == "no agent"
    assert coming_text(body(next_at=AT)).startswith("next 2026-12-01 ")
