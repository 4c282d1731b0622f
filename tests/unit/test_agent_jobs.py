"""`spec.schedules` and `spec.heartbeat`: an agent's own jobs."""

from __future__ import annotations

import os
from datetime import UTC, datetime, time
from pathlib import Path

import pytest
from support.agents import write_agent
from support.tables import table

from everturn_gateway.errors import ConfigError
from everturn_gateway.scheduler.jobs import (
    Cron,
    Every,
    Job,
    Made,
    QuietHours,
    Retries,
    RunTask,
    SendMessage,
    ToChat,
    ToWebhook,
)
from everturn_gateway.specs import AgentFile, load_agent

SCHEDULES = """\
  schedules:
    - id: morning
      cron: "30 6 * * mon-fri"
      task: ${WHAT:-What is new?}
      to: {channel: telegram, chat: -1001}
    - id: gauges
      label: Gauges
      every: 6h
      timezone: Asia/Tokyo
      message: Read the gauges.
      to: {webhook: https://hooks.example/s3cret}
"""
HEARTBEAT = """\
  heartbeat:
    every: 10m
    to: {channel: telegram, chat: "1"}
    quiet_hours: {from: "22:00", to: 7:00, timezone: Europe/Berlin}
"""
SENTENCE = "If there is nothing to say, answer exactly HEARTBEAT_OK and nothing else."


def load(
    tmp_path: Path, yaml: str, *, name: str = "Desk", timezone: str = "", **files: str
) -> AgentFile:
    """Load an agent with this at the end of its `spec`."""
    folder = write_agent(tmp_path, name, yaml, **files)
    return load_agent(folder, environ={}, timezone=timezone)


def faults(tmp_path: Path, yaml: str, *, timezone: str = "", **files: str) -> list[str]:
    """Return what is wrong with an agent, from the line on."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, yaml, timezone=timezone, **files)
    return [
        str(fault).removeprefix(f"{tmp_path}/Desk/agent.yaml:") for fault in caught.value.faults
    ]


def heartbeat(tmp_path: Path, yaml: str = "  heartbeat: {}\n", **files: str) -> Job:
    """Return the only job of an agent."""
    (job,) = load(tmp_path, yaml, **files).jobs
    return job


# --- schedules ---


def test_jobs_of_an_agent_are_jobs_like_others(tmp_path: Path) -> None:
    """They come with its folder, and what they hold is as secret."""
    # They come with its folder, and are told apart from those of other agents.
    folder = write_agent(tmp_path, "Desk", SCHEDULES)
    written = datetime(2026, 12, 1, 8, 30, tzinfo=UTC)
    os.utime(folder / "agent.yaml", (0, written.timestamp()))

    file = load_agent(folder, environ={}, timezone="Europe/Berlin")
    morning, gauges = file.jobs

    assert morning == Job(
        job_id="desk.morning",
        agent="Desk",
        when=Cron(expression="30 6 * * mon-fri", timezone="Europe/Berlin"),
        payload=RunTask(text="What is new?"),
        to=ToChat(channel="telegram", chat="-1001"),
        made=Made(by="agent"),
    )
    assert gauges == Job(
        job_id="desk.gauges",
        agent="Desk",
        when=Every(interval_s=21_600),
        payload=SendMessage(text="Read the gauges."),
        to=ToWebhook(url="https://hooks.example/s3cret"),
        where="isolated",
        label="Gauges",
        made=Made(by="agent"),
    )
    assert (gauges.timezone, gauges.file, gauges.line) == (
        "Asia/Tokyo",
        folder / "agent.yaml",
        14,
    )
    assert morning.written_at == written
    assert (file.inactive, file.warnings) == ((), ())

    # A key in an address is not shown. An agent's description is logged and printed.
    assert "s3cret" not in repr(load(tmp_path, SCHEDULES, timezone="UTC"))


def test_what_is_wrong_with_a_job_is_said_with_its_line(tmp_path: Path) -> None:
    """As for every other field of the file."""
    text = """\
  schedules:
    - {id: a, cron: "30 6 * * *", message: x, to: {channel: c, chat: 1}}
    - id: b
      at: 2027-03-28T02:30
      timezone: Europe/Berlin
      message: x
    - {id: b, every: 5m, task: x}
    - {id: heartbeat, every: 5m, task: x}
    - {id: %s, every: 5m, task: x}
  heartbeat: {prompt: Look around.}
"""
    missing = faults(tmp_path, "  schedules: [{every: 5m, task: x, agent: other, made: {}}]\n")
    found = faults(tmp_path, text % ("x" * 76))

    assert [each.split(" ", 2)[:2] for each in found] == [
        ["10:", "spec.schedules[0].timezone:"],
        ["11:", "spec.schedules[1].to:"],
        ["12:", "spec.schedules[1].at:"],
        ["15:", "spec.schedules[2].id:"],
        ["16:", "spec.schedules[3].id:"],
        ["17:", "spec.schedules[4].id:"],
    ]
    assert found[3].endswith("is also the id of the job in line 11")
    assert found[4].endswith("heartbeat is the id of spec.heartbeat; choose another one")
    assert [each.split(":", 2)[1].strip() for each in missing] == [
        "spec.schedules[0].id",
        "spec.schedules[0].agent",
        "spec.schedules[0].made",
    ]


# --- the heartbeat ---


def test_a_heartbeat_is_a_quiet_cheap_task(tmp_path: Path) -> None:
    """It comes again by itself: what is missed or fails is not made up for."""
    file = load(tmp_path, HEARTBEAT, HEARTBEAT__md="# Look\n\nAny storm, {{agent.name}}?\n")

    assert file.jobs == (
        Job(
            job_id="desk.heartbeat",
            agent="Desk",
            when=Every(interval_s=600),
            payload=RunTask(
                text=f"# Look\n\nAny storm, Desk?\n\n{SENTENCE}", silent_answer="HEARTBEAT_OK"
            ),
            to=ToChat(channel="telegram", chat="1"),
            where="isolated",
            misfire="skip",
            grace_s=10,
            retries=Retries(most=0),
            quiet=QuietHours(begins=time(22), ends=time(7), timezone="Europe/Berlin"),
            made=Made(by="heartbeat"),
        ),
    )
    assert (file.jobs[0].line, file.inactive) == (9, ())


def test_a_heartbeat_takes_what_its_agent_and_its_workspace_say(tmp_path: Path) -> None:
    """As the other texts and times do."""
    # A prompt is a text or another file and the answer another word. As the other texts of an agent
    # are.
    yaml = "  heartbeat: {prompt: %s, silent_answer: NOTHING}\n"
    inline = heartbeat(tmp_path, yaml % "Look around.")
    named = heartbeat(tmp_path, yaml % "./look.md", look__md="Look elsewhere.")

    assert inline.payload == RunTask(
        text=f"Look around.\n\n{SENTENCE.replace('HEARTBEAT_OK', 'NOTHING')}",
        silent_answer="NOTHING",
    )
    assert isinstance(named.payload, RunTask)
    assert named.payload.text.startswith("Look elsewhere.\n\n")
    assert (named.when, named.to, named.quiet) == (Every(interval_s=1800), None, None)

    # Quiet hours are in the workspace s zone unless they name one. One office, one night.
    yaml = '  heartbeat: {prompt: x, quiet_hours: {from: "22:00", to: "07:00"}}\n'

    (job,) = load(tmp_path, yaml, timezone="Asia/Tokyo").jobs

    assert job.quiet == QuietHours(begins=time(22), ends=time(7), timezone="Asia/Tokyo")
    assert faults(tmp_path, yaml)[0].startswith(
        "9: spec.heartbeat.quiet_hours: needs a timezone, like Europe/Berlin"
    )


@table(
    "prompt",
    [
        "",
        "\n \n",
        "# Heartbeat\n\n## Tasks\n",
        "<!-- write\ntasks here -->\n# A\n\n---\n",
        "<!-- x",
    ],
    ids=repr,
)
def test_a_prompt_that_says_nothing_spends_nothing(tmp_path: Path, prompt: str) -> None:
    """A new agent has such a file; each beat would be a model call that finds nothing to do."""
    file = load(tmp_path, "  heartbeat: {}\n", HEARTBEAT__md=prompt)

    assert file.jobs == ()
    assert [str(each).removeprefix(f"{file.folder}/") for each in file.warnings] == [
        "agent.yaml:9: spec.heartbeat.prompt: holds nothing to do, so there is no heartbeat"
    ]


@table("prompt", ["x", "#hashtag", "# A\n- b", "<!-- a -->b<!-- c -->"])
def test_a_prompt_that_says_anything_is_one(tmp_path: Path, prompt: str) -> None:
    """The check must not switch off what somebody relies on."""
    assert heartbeat(tmp_path, HEARTBEAT__md=prompt).payload.text.startswith(prompt)


@table(
    ("yaml", "fault"),
    [
        ("{}", "9: spec.heartbeat.prompt: there is no file HEARTBEAT.md in the agent's folder"),
        ("{prompt: ./x.md}", "9: spec.heartbeat.prompt: there is no file x.md in the agent's"),
        ("{prompt: ../x.md}", "9: spec.heartbeat.prompt: ../x.md leads out of the agent's folder"),
        ("{prompt: x, every: 59s}", "9: spec.heartbeat.every: must be at least a minute"),
        ("{prompt: x, to: {channel: a}}", "9: spec.heartbeat.to: needs a chat"),
        ("{prompt: x, silent_answer: ' '}", "9: spec.heartbeat.silent_answer: must not be empty"),
        (
            "{prompt: x, quiet_hours: {from: 22:00, to: 25:00, timezone: UTC}}",
            "9: spec.heartbeat.quiet_hours.to: '25:00' is no time of day",
        ),
        (
            "{prompt: x, quiet_hours: {from: 22:00, to: 22:00, timezone: UTC}}",
            "9: spec.heartbeat.quiet_hours.to: is the same as from",
        ),
        (
            "{prompt: x, quiet_hours: {from: 22:00, timezone: UTC}}",
            "9: spec.heartbeat.quiet_hours.to: is required",
        ),
        (
            "{prompt: x, quiet_hours: {from: 22:00, to: 7:00, timezone: Mars}}",
            "9: spec.heartbeat.quiet_hours.timezone: 'Mars' is no time zone",
        ),
    ],
)
def test_what_is_wrong_with_a_heartbeat_is_said_with_its_line(
    tmp_path: Path, yaml: str, fault: str
) -> None:
    """A heartbeat that silently does not beat is missed only when it is needed."""
    (found,) = faults(tmp_path, f"  heartbeat: {yaml}\n")

    assert found.startswith(fault)


def test_a_prompt_is_as_long_as_a_task_may_be(tmp_path: Path) -> None:
    """It goes to the model with every beat."""
    (found,) = faults(tmp_path, "  heartbeat: {}\n", HEARTBEAT__md="x" * 65_537)

    assert found.startswith("9: spec.heartbeat.prompt: has more than 65,536 bytes")
