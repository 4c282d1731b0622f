"""`everturn schedule`: with and without a gateway that runs, and what `doctor` says of jobs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from anyio import to_thread
from support.command import Done, write_agent
from support.gateway import HttpGateway, open_http_gateway
from support.in_process import Run, running_here
from support.tables import table

from everturn_actors.errors import ModelAuthError
from everturn_actors.journal.keyed import FileKeyedStore
from everturn_actors.testing import ScriptedProvider
from everturn_gateway.commands import clients
from everturn_gateway.commands.shared.running import Running, noted
from everturn_gateway.config.settings import ServerConfig
from everturn_gateway.scheduler.definitions.job_store import JobStore
from everturn_gateway.scheduler.rules.records import Armed
from everturn_gateway.scheduler.rules.rules import schedule_name
from everturn_gateway.scheduler.run_logs.files import RunLogs

SAY = ("--message", "Stand-up!", "--to", "http:team")
MORNINGS = (
    *("schedule", "add", "--id", "mornings", "--agent", "test", "--label", "Stand-up"),
    *("--cron", "30 8 * * mon-fri", "--timezone", "Europe/Berlin", "--start", "2030-03-28T00:00"),
)


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Generator[Run]:
    """Run commands in this process."""
    # A command's own loop may wait for its log: it serves nobody.
    monkeypatch.setattr(clients, "log_to_file", lambda *_: nullcontext())
    monkeypatch.setenv("TZ", "UTC")
    with running_here(tmp_path, capsys, monkeypatch) as run:
        yield run


@asynccontextmanager
async def found_gateway(
    folder: Path,
    *,
    server: ServerConfig | None = None,
    provider: ScriptedProvider | None = None,
) -> AsyncGenerator[HttpGateway]:
    """Serve a gateway in this process that commands find by its note in the workspace."""
    async with open_http_gateway(folder, server=server, provider=provider) as gateway:
        here = Running(pid=os.getpid(), url=gateway.base_url)
        async with noted(gateway.config.workspace, here):
            yield gateway


def configure(folder: Path, **sections: object) -> None:
    """Write a configuration for the folders of `open_http_gateway`."""
    document = {"workspace": "workspace", "agents_dir": "agents", **sections}
    (folder / "everturn.yaml").write_text(json.dumps(document))
    write_agent(folder, "test")


MORNING = "30 8 * * mon-fri, Europe/Berlin"

# What people do with a job, from its making to its end.
LIFE = (
    (*MORNINGS, *SAY),
    ("schedule", "add", "--id", "once", "-a", "test", "--at", "2030-12-01T08:30Z", *SAY),
    ("schedule", "list"),
    ("schedule", "show", "mornings"),
    ("schedule", "next", "mornings", "--count", "3"),
    ("schedule", "pause", "mornings"),
    ("schedule", "show", "mornings"),
    ("schedule", "resume", "mornings"),
    ("schedule", "cancel", "once"),
    ("schedule", "list", "--json"),
    ("schedule", "next", "once"),
    ("schedule", "cancel", "nosuch"),
)


def same(done: Done) -> Done:
    """Return what a command said, without what says how it got there."""
    out = re.sub(r"by (the command line|HTTP)(, .*)?", "by ...", done.out)
    out = re.sub(r'"by": "cli",\n +"at": .*', '"by": ...', out)
    return Done(code=done.code, out=out, err=done.err)


async def test_a_command_says_the_same_with_and_without_a_gateway(tmp_path: Path, run: Run) -> None:
    """Whether a gateway runs is nothing that a person who looks after jobs has to think of."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        await to_thread.run_sync(partial(configure, tmp_path / name))

    def live(name: str) -> list[Done]:
        config = ("--config", str(tmp_path / name / "everturn.yaml"))
        return [run(*arguments, *config) for arguments in LIFE]

    here = await to_thread.run_sync(live, "here")
    async with found_gateway(tmp_path / "there"):
        there = await to_thread.run_sync(live, "there")
    added, once, listed, shown, coming, paused, asleep, resumed, cancelled, data, gone, wrong = here

    assert [each.code for each in here] == [0] * 10 + [2, 2]
    assert added.out == "added mornings of test: next 2030-03-28 08:30 Europe/Berlin\n"
    assert once.out == "added once of test: next 2030-12-01 08:30 UTC\n"
    assert [re.split("  +", line.strip()) for line in listed.out.splitlines()[2:]] == [
        ["mornings", "test", MORNING, "2030-03-28 08:30 Europe/Berlin", "scheduled"],
        ["once", "test", "at 2030-12-01 08:30 UTC", "2030-12-01 08:30 UTC", "scheduled"],
    ]
    assert "job       mornings (Stand-up)\n" in shown.out
    assert "message   Stand-up!\n" in shown.out
    assert "to        http, chat team\n" in shown.out
    assert "file      workspace/schedules/mornings.yaml:1\n" in shown.out
    assert "2030-04-01 08:30:00 +0200   2030-04-01 06:30:00\n" in coming.out
    assert paused.out == "paused mornings; `everturn schedule resume mornings` goes on\n"
    assert "state     paused\n" in asleep.out
    assert "next, " not in asleep.out
    assert resumed.out == "resumed mornings: next 2030-03-28 08:30 Europe/Berlin\n"
    assert cancelled.out == "cancelled once; its file is kept in schedules/cancelled\n"
    assert [job["id"] for job in json.loads(data.out)["schedules"]] == ["mornings"]
    assert gone.err == wrong.err.replace("nosuch", "once")
    assert wrong.err == "everturn: there is no scheduled job 'nosuch'; there are: mornings\n"
    assert [same(each) for each in there] == [same(each) for each in here]


@table(
    ("words", "shown"),
    [
        (("--at", "in 10 minutes"), r"at [0-9]{4}-\d\d-\d\d \d\d:\d\d(:\d\d)? Asia/Tokyo"),
        (("--at", "tomorrow 9:00"), r"at [0-9]{4}-\d\d-\d\d 09:00 Asia/Tokyo"),
        (("--at", "@daily"), r"0 0 \* \* \*, Asia/Tokyo"),
        (("--at", "every 90 minutes"), "every 90 minutes"),
        (("--every", "90 minutes"), "every 90 minutes"),
    ],
)
def test_a_job_is_made_with_the_words_of_people(
    tmp_path: Path, run: Run, words: tuple[str, ...], shown: str
) -> None:
    """They hold in the job's zone, and what is printed names it."""
    configure(tmp_path)
    config = ("--config", str(tmp_path / "everturn.yaml"))
    zone = ("--timezone", "Asia/Tokyo")
    added = run("schedule", "add", "--id", "x", "-a", "test", *words, *zone, *SAY, *config)
    told = run("schedule", "show", "x", *config)

    assert added.code == 0, added.err
    assert added.out.endswith(" Asia/Tokyo\n")
    assert re.search(rf"^when +{shown}$", told.out, re.MULTILINE), told.out


# --- what cannot be ---

WRONG: tuple[tuple[tuple[str, ...], str], ...] = (
    ((), "needs one of at, every and cron: when is it to run?"),
    (("--every", "often", *SAY), "--every: must be whole seconds, or a text like 15m, 6h or 1d"),
    (("--cron", "61 * * * *", "--timezone", "UTC", *SAY), "--cron: "),
    (("--cron", "0 8 * * *", *SAY), "--timezone: is required with cron"),
    (("--every", "60", "--timezone", "Mars/Olympus", *SAY), "--timezone: 'Mars/Olympus' is no "),
    (("--at", "2001-01-01T00:00Z", *SAY), "--at: is in the past"),
    (("--at", "2030-01-01T00:00Z", "--misfire", "never", *SAY), "--misfire: must be run_once, "),
    (("--every", "60", "--message", "x"), "--to: is required for a message"),
    (("--every", "60", "--message", "x", "--to", "team"), "--to: must be CHANNEL:CHAT or "),
    (("--every", "60", "--message", "x", "--to", "mail:team"), "there is no channel 'mail'"),
    (("--every", "60", *SAY, "--to-session", "x"), "--to-session: is given beside --to; keep one"),
    (("--every", "60", "--task", "x", "--to-session", "x"), "--to-session: is not the id of a "),
    (("--every", "60", "--task", "x", "--to-webhook", "ftp://s3cret"), "--to-webhook: must be an "),
    (("--every", "60", "--max-runs", "0", *SAY), "--max-runs: must be at least 1"),
    (("--every", "60", "--id", "No Blanks", *SAY), "--id: must be lower-case letters"),
    (("--every", "60", "--agent", "nobody", *SAY), "'nobody'"),
)


async def test_what_cannot_be_is_one_line_that_names_the_option(tmp_path: Path, run: Run) -> None:
    """Whoever types a command wants to know which word of it was wrong, on either way."""
    await to_thread.run_sync(partial(configure, tmp_path))

    def all_of_them() -> list[Done]:
        return [run("schedule", "add", *arguments) for arguments, _ in WRONG]

    here = await to_thread.run_sync(all_of_them)
    async with found_gateway(tmp_path) as gateway:
        there = await to_thread.run_sync(all_of_them)
        jobs = gateway.schedules.jobs()

    for done, (arguments, expected) in zip([*here, *there], [*WRONG, *WRONG], strict=True):
        assert done.code == 2, (arguments, done)
        assert expected in done.err, arguments
        assert done.err.startswith("everturn: ")
        assert "s3cret" not in done.err
    assert jobs == ()


async def test_an_id_that_is_taken_is_not_taken_twice(tmp_path: Path, run: Run) -> None:
    """A script that runs again must not overwrite what somebody made by hand."""
    await to_thread.run_sync(partial(configure, tmp_path))
    arguments = ("schedule", "add", "--every", "60", "--id", "a", *SAY)
    first, second = [await to_thread.run_sync(partial(run, *arguments)) for _ in range(2)]
    async with found_gateway(tmp_path):
        third = await to_thread.run_sync(partial(run, *arguments))

    assert first.code == 0
    assert second.code == third.code == 2
    assert "--id: 'a' is taken" in second.err
    assert "--id: 'a' is taken" in third.err


async def test_a_webhook_is_made_with_the_admin_token(tmp_path: Path, run: Run) -> None:
    """The owner's own commands know it from the configuration."""
    tokens = {"api_token": "user-token", "admin_token": "admin-token"}
    await to_thread.run_sync(partial(configure, tmp_path, server=tokens))
    hook = ("--to-webhook", "https://hooks.example.org/s3cret")
    arguments = ("schedule", "add", "--id", "hook", "--every", "60", "--task", "Do it.", *hook)
    server = ServerConfig(api_token="user-token", admin_token="admin-token")  # noqa: S106 - made up
    async with found_gateway(tmp_path, server=server):
        added = await to_thread.run_sync(partial(run, *arguments))
        shown = await to_thread.run_sync(partial(run, "schedule", "show", "hook"))

    assert added.code == 0, added
    assert "to        webhook at https://hooks.example.org\n" in shown.out
    assert "s3cret" not in shown.out


# --- run ---


async def test_a_job_is_run_and_its_answer_is_found(tmp_path: Path, run: Run) -> None:
    """Whoever tries out a job wants to see at once what it does, with and without a gateway."""
    await to_thread.run_sync(partial(configure, tmp_path))

    def live() -> tuple[Done, ...]:
        ran = run("schedule", "run", "sum")
        session = re.findall(r"in session (\S+),", ran.out)
        return (ran, run("sessions", "show", *session), run("schedule", "show", "sum"))

    add = ("schedule", "add", "--id", "sum", "--every", "6h", "--task", "Add up.")
    await to_thread.run_sync(partial(run, *add))
    here = await to_thread.run_sync(live)
    async with found_gateway(tmp_path):
        there = await to_thread.run_sync(live)

    for ran, session, shown in (here, there):
        assert ran.code == 0, ran
        assert re.fullmatch(r"answered in session \S+, turn t1, after \d+\.\d s\n", ran.out)
        assert "Add up." in session.out
        assert re.search(r"\(by hand\) +answered +\d+\.\d s +1 +\S+ +t1", shown.out)


async def test_a_run_that_fails_or_takes_long_is_exit_code_1(tmp_path: Path, run: Run) -> None:
    """A script must not take a failure for a success, nor wait for ever."""
    provider = ScriptedProvider(ModelAuthError("the key was refused"))
    folder = tmp_path / "workspace" / "schedules"
    folder.mkdir(parents=True)
    (folder / "task.yaml").write_text("agent: test\nevery: 6h\ntask: Do it.\nretries: {max: 0}\n")
    await to_thread.run_sync(partial(configure, tmp_path))
    async with found_gateway(tmp_path, provider=provider):
        failed = await to_thread.run_sync(partial(run, "schedule", "run", "task"))
        provider.hold()
        late = await to_thread.run_sync(partial(run, "schedule", "run", "task", "--timeout", "0.1"))
        begun = await to_thread.run_sync(partial(run, "schedule", "run", "task", "--no-wait"))
        provider.release()
    unknown = await to_thread.run_sync(partial(run, "schedule", "run", "nosuch"))

    assert failed.code == 1
    assert re.match(r"failed in session \S+, turn t1, after .*: .*refused", failed.out)
    assert (late.code, late.out) == (1, "")
    assert late.err.startswith("everturn: not done within 0.1 s; it goes on while a gateway runs")
    assert (begun.code, begun.err) == (0, "")
    assert begun.out.startswith("task was begun; it goes on while a gateway runs, and `everturn ")
    assert unknown.code == 2
    assert unknown.err == "everturn: there is no scheduled job 'nosuch'; there are: task\n"


# --- what is wrong in files ---


async def arm(folder: Path, job_id: str, at: datetime) -> None:
    """Write down that a job was armed long ago."""
    (job,) = [job for job in (await JobStore(folder).read()).jobs if job.job_id == job_id]
    logs = RunLogs(FileKeyedStore(folder.parent))
    await logs.load()
    await logs.append(job_id, Armed(at=at, schedule=schedule_name(job), since=at))


async def test_what_is_wrong_with_jobs_is_found(tmp_path: Path, run: Run) -> None:
    """A job that does not run is silent: its owner has to hear of it from those who look."""
    folder = tmp_path / "workspace" / "schedules"
    (folder / "runs").mkdir(parents=True)
    for name, lines in {
        "good": "agent: test\nevery: 60\ntask: x\n",
        "bad": "agent: test\nevery: often\ntask: x\n",
        "damaged": "agent: test\nevery: 60\ntask: x\n",
        "lost": "agent: nobody\nevery: 60\ntask: x\n",
        "mute": "agent: test\nevery: 60\nmessage: x\nto: {channel: pigeon, chat: 1}\n",
        "never": "agent: test\nevery: 60\ntask: x\nend: 2001-01-01T00:00Z\n",
        "over": "agent: nobody\nevery: 60\ntask: x\nend: 2001-01-01T00:00Z\n",
    }.items():
        (folder / f"{name}.yaml").write_text(lines)
    (folder / "runs" / "damaged.jsonl").write_text("{}\n{}\n")
    await arm(folder, "over", datetime(2001, 1, 1, tzinfo=UTC))
    await to_thread.run_sync(partial(configure, tmp_path))
    unserved = await to_thread.run_sync(partial(run, "doctor"))
    listed = await to_thread.run_sync(partial(run, "schedule", "list"))
    everything = await to_thread.run_sync(partial(run, "schedule", "list", "--all"))
    async with found_gateway(tmp_path):
        served = await to_thread.run_sync(partial(run, "doctor"))

    place = "workspace/schedules"
    wrong = (
        f"{place}/bad.yaml:2: every: must be whole seconds, or a text like 15m, 6h or 1d",
        f"{place}/runs/damaged.jsonl:1: ",
        f"{place}/lost.yaml:1: lost: there is no agent 'nobody'; there are: test",
        f"{place}/never.yaml:1: never: none of its times is to come",
        f"{place}/mute.yaml:1: mute: there is no channel 'pigeon'; there are: http, terminal",
    )
    assert listed.code == 0
    assert re.search(r"^over +nobody +every minute +done", listed.out, re.MULTILINE) is None
    assert re.search(r"^over +nobody +every minute +done", everything.out, re.MULTILINE)
    for text in wrong:
        assert f"\n{text}" in listed.out
        for found in (unserved, served):
            assert found.code == 1
            assert f"problem   schedules    {text}" in found.out
    assert "good:" not in unserved.out + served.out + listed.out
    assert "over:" not in unserved.out


async def test_jobs_of_which_nothing_is_to_come_are_listed_when_asked_for(
    tmp_path: Path, run: Run
) -> None:
    """What ran last year is in nobody's way, and still there."""
    folder = tmp_path / "workspace" / "schedules"
    folder.mkdir(parents=True)
    (folder / "old.yaml").write_text("agent: test\nevery: 60\ntask: x\nend: 2001-01-01T00:00Z\n")
    await arm(folder, "old", datetime(2001, 1, 1, tzinfo=UTC))
    await to_thread.run_sync(partial(configure, tmp_path))

    def live() -> list[Done]:
        show = [("list",), ("list", "--all"), ("next", "old"), ("show", "old")]
        return [run("schedule", *arguments) for arguments in show]

    listed, everything, coming, shown = await to_thread.run_sync(live)
    found = await to_thread.run_sync(partial(run, "doctor"))

    assert listed.out == "nothing is to come; --all lists 1 done\n"
    assert re.search(r"old +test +every minute +done", everything.out)
    assert coming.out == "nothing of old is to come\n"
    assert "state     done\n" in shown.out
    assert "ok        schedules    one job, in order\n" in found.out


async def test_a_disk_that_takes_nothing_is_one_line(tmp_path: Path, run: Run) -> None:
    """It is nobody's bug, and a traceback would say it is; an empty table would lead nowhere."""
    await to_thread.run_sync(partial(configure, tmp_path))
    empty = await to_thread.run_sync(partial(run, "schedule", "list"))
    add = ("schedule", "add", "--id", "a", "--every", "60", *SAY)
    await to_thread.run_sync(partial(run, *add))
    (tmp_path / "workspace" / "schedules" / "cancelled").write_text("in the way")
    done = await to_thread.run_sync(partial(run, "schedule", "cancel", "a"))

    assert empty.out == "no scheduled jobs; `everturn schedule add --help` says how to make one\n"
    assert done.code == 2
    assert done.err.startswith("everturn: it could not be written to disk: ")
    assert len(done.err.splitlines()) == 1
