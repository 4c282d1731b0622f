"""A job as people write it: what is taken, what is refused, and how it goes back to a file."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from support.tables import table

from everturn_actors.model import ConversationKey
from everturn_gateway.errors import ConfigError
from everturn_gateway.scheduler.definitions.making import Source, job_of, made_of
from everturn_gateway.scheduler.definitions.reading import interval_text, read_clock, read_interval
from everturn_gateway.scheduler.definitions.settings import (
    JobSettings,
    check_job_id,
    made_section,
    section_data,
    section_text,
)
from everturn_gateway.scheduler.errors import JobRefusedError
from everturn_gateway.scheduler.jobs import (
    At,
    Cron,
    Every,
    Job,
    Made,
    Retries,
    RunTask,
    SendMessage,
    ToChat,
    ToSession,
    ToWebhook,
)
from everturn_gateway.yaml_files import check, read_document

SESSION = "20261201T073000000-0a1b2c3d"
CHAT = {"channel": "telegram", "chat": "-1001"}
EVERY: dict[str, Any] = {"agent": "a", "every": "15m", "message": "Hello.", "to": CHAT}


def made_job(*, timezone: str = "", **fields: object) -> Job:
    """Return the job of these fields, of those of `EVERY` where they are not given."""
    section = JobSettings.model_validate({**EVERY, **fields})
    return job_of(section, job_id="job", timezone=timezone)


def refused(*, timezone: str = "", **fields: object) -> dict[str, str]:
    """Return why there is no such job, by field."""
    with pytest.raises(JobRefusedError) as caught:
        made_job(timezone=timezone, **fields)
    return {fault.field: fault.message for fault in caught.value.faults}


def invalid(**fields: object) -> str:
    """Return why a single field is not valid."""
    with pytest.raises(ValidationError) as caught:
        JobSettings.model_validate({**EVERY, **fields})
    return str(caught.value.errors()[0]["msg"]).removeprefix("Value error, ")


def read_job(tmp_path: Path, text: str) -> Job:
    """Return the job in a file of this text."""
    file = tmp_path / "standup.yaml"
    file.write_text(text, encoding="utf-8")
    document = read_document(file, None)
    section, faults = check(document, JobSettings)
    if section is None:
        raise ConfigError(faults=faults)
    return job_of(section, job_id="standup", source=Source(document=document))


# --- a whole job ---


def test_every_field_of_a_file_has_its_place_in_the_job(tmp_path: Path) -> None:
    """A field that is read and dropped is a promise that is broken in silence."""
    text = """\
agent: assistant
label: Stand-up
cron: "30 8 * * mon-fri"
timezone: Europe/Berlin
task: "Say who is away; ${HOME} is a text."
to: {channel: telegram, chat: -1001, topic: 7}
session: isolated
misfire: skip
grace_seconds: 60
jitter_seconds: 30
start: 2026-12-01 00:00:00
end: 2026-12-31T23:59+01:00
max_runs: 10
paused: true
retries: {max: 5, backoff_seconds: 7}
process: p1234567890
made:
  by: tool
  at: 2026-11-30T10:00:00+00:00
  untrusted: true
  conversation: {channel: telegram, chat: -1001, agent: assistant}
"""

    job = read_job(tmp_path, text)

    assert job == Job(
        job_id="standup",
        agent="assistant",
        when=Cron(expression="30 8 * * mon-fri", timezone="Europe/Berlin"),
        payload=RunTask(text="Say who is away; ${HOME} is a text."),
        to=ToChat(channel="telegram", chat="-1001", topic="7"),
        where="isolated",
        misfire="skip",
        grace_s=60,
        jitter_s=30,
        begins_at=datetime(2026, 11, 30, 23, tzinfo=UTC),
        ends_at=datetime(2026, 12, 31, 22, 59, tzinfo=UTC),
        max_runs=10,
        retries=Retries(most=5, backoff_s=7),
        paused=True,
        process="p1234567890",
        label="Stand-up",
        made=Made(
            by="tool",
            at=datetime(2026, 11, 30, 10, tzinfo=UTC),
            key=ConversationKey(channel="telegram", chat="-1001", agent="assistant"),
            untrusted=True,
        ),
    )
    assert (job.timezone, job.file, job.line) == ("Europe/Berlin", tmp_path / "standup.yaml", 1)


def test_what_is_left_out_has_the_values_of_the_page() -> None:
    """Three lines must do for a reminder."""
    job = made_job()

    assert job == Job(
        job_id="job",
        agent="a",
        when=Every(interval_s=900),
        payload=SendMessage(text="Hello."),
        to=ToChat(channel="telegram", chat="-1001"),
        where="conversation",
        misfire="run_once",
        grace_s=86_400,
        retries=Retries(most=3, backoff_s=30),
    )
    assert job.timezone == "UTC"
    assert made_job(misfire="skip").grace_s == 10
    assert made_job(misfire="run_all", grace_seconds=0).grace_s == 0
    assert job_of(JobSettings(**EVERY), job_id="job", agent="b").agent == "b"


# --- times ---


@table(
    ("written", "zone", "scheduled_at"),
    [
        ("2026-12-01T08:30", "Europe/Berlin", datetime(2026, 12, 1, 7, 30, tzinfo=UTC)),
        ("2026-12-01 08:30:15", "Europe/Berlin", datetime(2026, 12, 1, 7, 30, 15, tzinfo=UTC)),
        ("2026-12-01T08:30:00.25Z", "", datetime(2026, 12, 1, 8, 30, 0, 250_000, tzinfo=UTC)),
        ("2026-12-01T08:30+01:00", "Asia/Tokyo", datetime(2026, 12, 1, 7, 30, tzinfo=UTC)),
        ("2026-12-01T08:30 -0330", "", datetime(2026, 12, 1, 12, tzinfo=UTC)),
        ("2026-1-2t8:30 +1", "", datetime(2026, 1, 2, 7, 30, tzinfo=UTC)),
        (datetime(2026, 12, 1, 8, 30), "UTC", datetime(2026, 12, 1, 8, 30, tzinfo=UTC)),  # noqa: DTZ001 - as YAML parsers make it
    ],
)
def test_an_instant_is_a_date_and_a_time_in_a_zone(
    written: object, zone: str, scheduled_at: datetime
) -> None:
    """People write it in several ways, and none of them may mean another hour."""
    assert made_job(every=None, at=written, timezone=zone).when == At(scheduled_at=scheduled_at)


@table(
    ("written", "reason"),
    [
        ("2026-12-01", "is a date; at which time? write 2026-12-01T08:30"),
        (date(2026, 12, 1), "is a date; at which time?"),
        ("2026-02-30T08:30", "there is no date 2026-02-30: day "),
        ("2026-12-01T24:00", "there is no such time of day: hour must be in 0..23"),
        ("1969-12-01T08:30", "the year must be from 1970 to 9998, not 1969"),
        ("2026-12-01T08:30+15:00", "+15:00 is no offset from UTC"),
        ("2026-12-01T08:30+01:60", "+01:60 is no offset from UTC"),
        ("tomorrow", "'tomorrow' is no date with a time; write it like 2026-12-01T08:30"),
        ("", "'' is no date with a time"),
        (f"2026-12-01T08:30 {'x' * 900}", "'2026-12-01T08:30 xx"),
    ],
)
def test_what_is_no_instant_is_refused_with_the_reason(written: object, reason: str) -> None:
    """A guess would fire at the wrong time, or never."""
    for name in ("at", "start", "end"):
        assert reason in invalid(**{name: written})
        assert len(invalid(**{name: written})) < 200


def test_a_time_of_a_zone_needs_the_zone_its_own_or_the_workspace_s() -> None:
    """Half past eight is at another time in each of them."""
    wall = "2026-12-01T08:30"

    found = refused(every=None, at=wall, start=wall, end="2026-12-02T08:30")

    assert set(found) == {"at", "start", "end"}
    assert found["at"].startswith("needs a time zone: set timezone, or write an offset")
    assert made_job(every=None, at=wall, timezone="Europe/Berlin").is_once

    # One office is elsewhere.
    here = made_job(every=None, cron="0 8 * * *", timezone="Asia/Tokyo")
    section = JobSettings(**{**EVERY, "every": None, "cron": "0 8 * * *", "timezone": "UTC"})
    own = job_of(section, job_id="job", timezone="Asia/Tokyo")

    assert (here.when, here.timezone) == (
        Cron(expression="0 8 * * *", timezone="Asia/Tokyo"),
        "Asia/Tokyo",
    )
    assert (own.when, own.timezone) == (Cron(expression="0 8 * * *", timezone="UTC"), "UTC")


def test_times_that_no_clock_shows_are_refused_at_their_field(tmp_path: Path) -> None:
    """Somebody has to say what was meant; the file names the line to change."""
    text = "agent: a\nto: {session: %s}\nmessage: x\n%s\n"

    def problem(lines: str) -> str:
        with pytest.raises(ConfigError) as caught:
            read_job(tmp_path, text % (SESSION, lines))
        (fault,) = caught.value.faults
        return str(fault).removeprefix(f"{tmp_path}/standup.yaml:")

    gap = problem("timezone: Europe/Berlin\nat: 2027-03-28T02:30")
    zone = problem("timezone: Europe/Berln\ncron: 0 8 * * *\nstart: 2027-03-28T02:30")
    never = problem("timezone: Europe/Berlin\ncron: 0 8 30 2 *")
    no_zone = problem("cron: 0 8 * * *")
    four = problem("timezone: Europe/Berlin\ncron: 0 8 * *")

    assert gap.startswith("5: at: ")
    assert "02:30" in gap
    assert zone.startswith(
        "4: timezone: 'Europe/Berln' is no time zone that is known; did you mean"
    )
    assert never.startswith("5: cron: ")
    assert no_zone.startswith("1: timezone: is required with cron")
    assert four.startswith("5: cron: ")


@table(
    ("written", "seconds"),
    [
        (900, 900),
        ("900", 900),
        (900.0, 900),
        ("15m", 900),
        ("1h30m", 5400),
        ("1 h 30 m", 5400),
        ("6H", 21_600),
        (" 1d ", 86_400),
        ("2w", 1_209_600),
        ("90s", 90),
    ],
)
def test_a_span_of_time_is_seconds_or_a_text(written: object, seconds: int) -> None:
    """Nobody counts the seconds of a day."""
    assert read_interval(written) == seconds


@table(
    ("written", "reason"),
    [
        ("", "whole seconds, or a text like 15m"),
        (" ", "whole seconds, or a text like 15m"),
        ("m15", "whole seconds"),
        ("1m1h", "whole seconds"),
        ("1.5h", "whole seconds"),
        ("½h", "whole seconds"),
        ("\u0663", "whole seconds"),
        (True, "whole seconds"),
        (0.5, "whole seconds"),
        (None, "whole seconds"),
        ([900], "whole seconds"),
        (0, "at least a second, and at most a year"),
        ("-5", "at least a second, and at most a year"),
        ("367d", "at least a second, and at most a year"),
        ("9" * 5000, "at least a second, and at most a year"),
    ],
)
def test_what_is_no_span_of_time_is_refused(written: object, reason: str) -> None:
    """A job that runs without a pause, or never, is nobody's intention."""
    with pytest.raises(ValueError, match=reason):
        read_interval(written)


def test_spans_and_times_of_day_are_read_as_they_are_shown() -> None:
    """What a list shows can be written into a file."""
    assert [interval_text(n) for n in (1, 60, 900, 5400, 86_400, 90_061)] == [
        "1s",
        "1m",
        "15m",
        "1h30m",
        "1d",
        "1d1h1m1s",
    ]
    assert f"{read_clock(' 7:05 '):%H:%M}" == "07:05"
    for wrong in ("24:00", "7", "7:5", "07:60", "", "\u0662\u0662:00"):
        with pytest.raises(ValueError, match="no time of day"):
            read_clock(wrong)


# --- what fields say together ---


@table(
    ("fields", "field", "reason"),
    [
        ({"agent": None}, "agent", "is required"),
        ({"every": None}, "", "needs one of at, every and cron"),
        ({"cron": "* * * * *"}, "cron", "is given beside every"),
        ({"at": "2026-12-01T08:30Z"}, "every", "is given beside at"),
        ({"message": None}, "", "needs a message or a task"),
        ({"task": "x"}, "task", "is given beside message"),
        ({"to": None}, "to", "is required for a message"),
        ({"session": "isolated"}, "session", "is for tasks"),
        ({"to": {"channel": "telegram"}}, "to", "needs a chat"),
        ({"to": {"chat": "1"}}, "to.chat", "needs the channel"),
        ({"to": {"topic": "1"}}, "to.topic", "needs the channel"),
        ({"to": {}}, "to", "must name a channel and a chat, or a session, or a webhook"),
        ({"to": {**CHAT, "session": SESSION}}, "to.session", "is given beside channel"),
        (
            {"to": {"session": SESSION, "webhook": "https://a.example"}},
            "to.webhook",
            "is given beside session",
        ),
        (
            {"message": None, "task": "x", "to": None, "session": "conversation"},
            "session",
            "needs a chat or a session in to",
        ),
        ({"jitter_seconds": 900}, "jitter_seconds", "must be below every (900 seconds), not 900"),
        (
            {"start": "2026-12-01T08:30Z", "end": "2026-12-01T08:30Z"},
            "end",
            "is not after start",
        ),
        (
            {"every": None, "at": "2026-12-01T08:30Z", "start": "2026-12-01T08:31Z"},
            "at",
            "is before start",
        ),
        (
            {"every": None, "at": "2026-12-01T08:30Z", "end": "2026-12-01T08:29Z"},
            "at",
            "is after end",
        ),
        ({"timezone": "Mars/Olympus"}, "timezone", "is no time zone"),
    ],
)
def test_fields_that_do_not_go_together_are_refused(
    fields: dict[str, Any], field: str, reason: str
) -> None:
    """Each of these is a job that would not do what somebody thinks it does."""
    own = {name: value for name, value in fields.items() if name != "timezone"}
    section = JobSettings.model_validate({**EVERY, **own, "timezone": fields.get("timezone")})

    with pytest.raises(JobRefusedError) as caught:
        job_of(section, job_id="job")

    assert [fault.field for fault in caught.value.faults] == [field]
    assert reason in caught.value.faults[0].message
    assert reason in str(caught.value)


def test_all_that_is_wrong_is_said_at_once_from_top_to_bottom(tmp_path: Path) -> None:
    """Whoever writes a job by trial and error stops after the third error."""
    with pytest.raises(JobRefusedError) as caught:
        read_job(tmp_path, "to: {}\nmessage: x\njitter_seconds: 901\nevery: 15m\ntask: x\n")

    assert [(fault.line, fault.field) for fault in caught.value.faults] == [
        (1, "agent"),
        (1, "to"),
        (3, "jitter_seconds"),
        (5, "task"),
    ]


def test_a_job_may_run_at_the_ends_of_its_time() -> None:
    """Both belong to it."""
    noon = "2026-12-01T12:00Z"

    assert made_job(every=None, at=noon, start=noon).is_once
    assert made_job(every=None, at=noon, end=noon).is_once


@table(
    ("fields", "reason"),
    [
        ({"message": " \n"}, "must not be empty"),
        ({"task": ""}, "must not be empty"),
        ({"task": "ä" * 32_769}, "has 65,538 bytes, and 65,536 are the most"),
        ({"task": "a\x07"}, "holds the control character 0x07"),
        ({"task": "a\ud800"}, "holds half a character"),
        ({"label": "a\nb"}, "must be one line"),
        ({"label": "x" * 101}, "has 101 characters"),
        ({"id": "Standup"}, "must be lower-case letters"),
        ({"agent": "../x"}, "must be the name of an agent"),
        ({"process": " "}, "must not be empty"),
        ({"to": {"channel": "schedule", "chat": "1"}}, "nobody is there"),
        ({"to": {"channel": "x", "chat": ""}}, "must not be empty"),
        ({"to": {"session": "../x"}}, "is not the id of a session"),
        ({"to": {"webhook": "ftp://a.example"}}, "must be an address that starts with https://"),
        ({"to": {"webhook": "https://"}}, "must be an address"),
        ({"to": {"webhook": "https://a.example/ b"}}, "must be an address"),
        ({"to": {"webhook": "https://[::1"}}, "must be an address"),
        ({"to": {"webhook": f"https://a.example/{'x' * 2048}"}}, "must be an address"),
        ({"to": {"webhook": "https://me:pw@a.example"}}, "must not hold a user name"),
        ({"to": {"webhook": "https://@a.example"}}, "must not hold a user name"),
        ({"retries": {"max": 11}}, "less than or equal to 10"),
        ({"retries": {"backoff_seconds": 0}}, "greater than or equal to 1"),
        ({"grace_seconds": -1}, "greater than or equal to 0"),
        ({"max_runs": 0}, "greater than or equal to 1"),
        ({"misfire": "never"}, "'run_once', 'skip' or 'run_all'"),
        ({"made": {"by": "file"}}, "'tool', 'cli' or 'http'"),
        ({"when": "x"}, "Extra inputs"),
    ],
)
def test_a_field_that_cannot_be_is_refused(fields: dict[str, Any], reason: str) -> None:
    """Limits keep one job from taking the disk, the path of another file, or a password along."""
    assert reason in invalid(**fields)


def test_ids_are_names_of_files_on_every_system() -> None:
    """Letters of one case, and nothing that a path or a shell reads."""
    for job_id in ("a", "a.b", "stand-up_2", "0", "a.-b", "x" * 80):
        assert check_job_id(job_id) == job_id
    # Others would be a file elsewhere, or none.
    for job_id in ("", "A", "-a", ".a", "a.", "a..b", "a/b", "ä", "a b", "x" * 81):
        with pytest.raises(ValueError, match="lower-case letters"):
            check_job_id(job_id)


# --- where it goes ---


def test_a_destination_is_a_chat_or_a_session_or_a_webhook() -> None:
    """And it decides where a task runs, unless that is said."""
    task: dict[str, Any] = {"message": None, "task": "x"}
    chat = made_job(**task, to={"channel": "telegram", "chat": -1001, "topic": 7})
    session = made_job(**task, to={"session": SESSION})
    webhook = made_job(**task, to={"webhook": "https://a.example/hook?key=s3cret"})
    nobody = made_job(**task, to=None)
    apart = made_job(**task, session="isolated")

    assert (chat.to, chat.where) == (
        ToChat(channel="telegram", chat="-1001", topic="7"),
        "conversation",
    )
    assert (session.to, session.where) == (ToSession(session_id=SESSION), "conversation")
    assert (webhook.to, webhook.where) == (
        ToWebhook(url="https://a.example/hook?key=s3cret"),
        "isolated",
    )
    assert (nobody.to, nobody.where) == (None, "isolated")
    assert (apart.to, apart.where) == (ToChat(channel="telegram", chat="-1001"), "isolated")


def test_an_address_is_never_shown() -> None:
    """It may hold a key, and logs and errors are read by others."""
    section = JobSettings(**{**EVERY, "to": {"webhook": "https://a.example/s3cret"}})
    wrong = invalid(to={"webhook": "https://me:s3cret@a.example"})

    assert "s3cret" not in repr(section) + str(section) + wrong
    assert "s3cret" not in repr(job_of(section, job_id="job"))


# --- back to a file ---


def test_a_job_is_written_as_people_would_write_it_with_who_made_it() -> None:
    """Its owner reads and changes the files."""
    section = JobSettings(
        agent="a",
        every=900,  # as a model gives it
        task="First line.\nSecond line: ${HOME}\n",
        to={"channel": "telegram", "chat": -1001},  # type: ignore[arg-type] # as JSON has it
        paused=False,
        made=made_section(
            Made(
                by="tool",
                at=datetime(2026, 11, 30, 10, tzinfo=UTC),
                key=ConversationKey(channel="telegram", chat="1", agent="a"),
            )
        ),
    )

    assert section_text(section) == (
        "agent: a\n"
        "every: 15m\n"
        "task: |\n"
        "  First line.\n"
        "  Second line: ${HOME}\n"
        "to:\n"
        "  channel: telegram\n"
        "  chat: '-1001'\n"
        "paused: false\n"
        "made:\n"
        "  by: tool\n"
        "  at: '2026-11-30T10:00:00+00:00'\n"
        "  conversation:\n"
        "    channel: telegram\n"
        "    chat: '1'\n"
        "    agent: a\n"
    )
    assert section_data(JobSettings(**EVERY)) == {**EVERY}

    # Limits count by it, and the outside text that it stands for is not to be forgotten.
    made = Made(
        by="tool",
        at=datetime(2026, 11, 30, 10, 0, 0, 123_456, tzinfo=UTC),
        key=ConversationKey(channel="c", chat="1", agent="a", topic="t"),
        untrusted=True,
    )

    assert made_of(made_section(made)) == made
    assert made_of(made_section(Made(by="http"))) == Made(by="http")
    assert made_of(None) == Made(by="file")
    with pytest.raises(ValueError, match="no file of their own"):
        made_section(Made(by="agent"))
