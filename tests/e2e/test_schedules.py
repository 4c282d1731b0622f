"""Scheduled jobs by the installed command: on time, and once, whatever becomes of the gateway."""

from __future__ import annotations

import json
import os
import shutil
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from support.answers import Answer
from support.command import Done, everturn, write_agent
from support.model_api import open_model_api, refused
from support.planned import (
    announced,
    done,
    is_told,
    missed,
    outcomes,
    run_log,
    soon,
    write_armed,
    write_job,
    write_planner,
)
from support.process import TELEGRAM, GatewayProcess, gateway_process
from support.real_weights import real_weights
from support.talking import ANN, Brain, calling, log_of, read, sends, until, until_listening, write
from support.telegram_api import TOKEN, Json, TelegramApi, open_telegram_api
from support.web_server import in_turn, open_web_server, page, stall

from everturn_gateway.clock import SystemClock
from everturn_gateway.providers.local.weights import SMOLLM2
from everturn_gateway.scheduler.jobs import Every, Job, SendMessage

AGENTS = Path(__file__).parents[2] / "agents"
REPEAT = "(This may be a repeat.)\n"
DIGEST, TEAM = 3001, -3002
WEIGHTS = real_weights()


def to(chat: int | str, channel: str = "telegram") -> Json:
    """Return a chat as the destination of a job."""
    return {"channel": channel, "chat": str(chat)}


# --- a day ---------------------------------------------------------------------------------------


async def test_a_day_of_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What people come for: a digest by YAML, a reminder they asked for, a file that is dropped."""
    monkeypatch.setenv("DIGEST_CHANNEL", "telegram")
    monkeypatch.setenv("DIGEST_CHAT", str(DIGEST))
    brain = Brain()
    async with open_model_api(default=brain) as model, open_telegram_api() as telegram:
        for chat in (DIGEST, TEAM):
            telegram.chat(chat)
        bot = {"telegram": {"bot_token": TOKEN, "api_base": telegram.url}}
        routes = [{"match": {}, "agent": "helper"}]
        write_planner(tmp_path, model.url, channels=bot, routes=routes)
        copy_digest(tmp_path)
        async with gateway_process(tmp_path, imported=TELEGRAM) as gateway:
            await until_listening(telegram)
            async with anyio.create_task_group() as people:
                people.start_soon(a_digest_is_posted, telegram, tmp_path)
                people.start_soon(a_reminder_is_asked_for, brain, telegram)
                people.start_soon(files_are_dropped, telegram, gateway, tmp_path)
            code = await gateway.stop()
        log = (tmp_path / "serve.log").read_text()

    assert code == 0
    assert len(read(telegram, DIGEST)) == 2
    assert read(telegram, TEAM) == ["Tick.", "Tick.", "Now.", "At last."]
    assert " ERROR " not in log
    assert "bad.yaml:1: cron: needs five fields" in log


async def a_digest_is_posted(telegram: TelegramApi, folder: Path) -> None:
    """From YAML: by hand, and at its own time, once it is near; each is one message."""
    by_hand = await everturn("schedule", "run", "digest.weekdays", cwd=folder)
    await until(lambda: read(telegram, DIGEST))
    file = folder / "agents" / "digest" / "agent.yaml"
    text = file.read_text()
    moved = text.replace('cron: "0 8 * * mon-fri"', f"at: {soon(1)}")
    file.write_text(moved)
    await until(lambda: len(read(telegram, DIGEST)) == 2)

    assert moved != text
    assert by_hand.code == 0
    assert by_hand.out.startswith("answered in session ")
    for posted in read(telegram, DIGEST):
        assert "What did I ask you to remember?" in posted


async def a_reminder_is_asked_for(brain: Brain, telegram: TelegramApi) -> None:
    """An agent schedules what a person allows by a button; it comes to the same chat."""
    call = calling("schedule", action="create", in_minutes="0.01", message="Tea is ready.")
    brain.plan("remind me", call, Answer(text="I will."))
    write(telegram, "remind me of the tea")
    asks = telegram.hold(sends(ANN, "Tea is ready."), carried_out=True)
    await asks.wait()
    asks.released.set()
    question = next(each for each in telegram.calls if sends(ANN, "Tea is ready.")(each)).result
    before = read(telegram, ANN)
    data = str(question["reply_markup"]["inline_keyboard"][0][0]["callback_data"])
    telegram.click(question, data)
    await until(lambda: {"I will.", "Tea is ready."} <= {*read(telegram, ANN)})
    write(telegram, "which tea?")
    await until(lambda: read(telegram, ANN)[-1].startswith("re: "))
    (asked,) = brain.about("which tea?")

    assert len(before) == 1
    assert sorted(read(telegram, ANN)[1:3]) == ["I will.", "Tea is ready."]
    assert len(read(telegram, ANN)) == 4
    assert "Tea is ready." in str(asked[-1]["content"]), "the model knows what was said"


async def files_are_dropped(telegram: TelegramApi, gateway: GatewayProcess, folder: Path) -> None:
    """Hot reload: what recurs, what is due once, what is faulty, and what is then put right."""
    async with gateway.client() as client:
        await anyio.to_thread.run_sync(
            lambda: write_job(folder, "ticks", every=1, max_runs=2, message="Tick.", to=to(TEAM))
        )
        await until(done(folder, "ticks", times=2))
        await until(lambda: len(read(telegram, TEAM)) == 2)
        file = write_job(folder, "bad", cron="0 8 * *", timezone="UTC", message="x", to=to(TEAM))
        write_job(folder, "once", at=soon(), message="Now.", to=to(TEAM))
        await until(lambda: len(read(telegram, TEAM)) == 3)
        listed = (await client.get("/api/v1/schedules")).json()
        write_job(folder, "bad", at=soon(), message="At last.", to=to(TEAM))
        await until(done(folder, "bad"))
        await until(lambda: len(read(telegram, TEAM)) == 4)

    (fault,) = listed["faults"]
    assert (Path(fault["file"]).name, fault["line"], fault["field"]) == (file.name, 1, "cron")
    assert "five fields" in fault["message"]
    assert "once" in {job["id"] for job in listed["schedules"]}
    assert outcomes(folder, "ticks") == ["sent", "sent"]


@pytest.mark.skipif(find_spec("xllamacpp") is None, reason="the extra `local` is not installed")
@pytest.mark.skipif(WEIGHTS is None, reason="no weights: run `everturn local pull`")
async def test_the_digest_is_written_by_the_embedded_model(tmp_path: Path) -> None:
    """As `make run` has it: no key, no network, no tools, and an answer all the same."""
    assert WEIGHTS is not None
    chosen = {"EVERTURN_PROVIDER": "local", "EVERTURN_MODEL": SMOLLM2.name}
    await anyio.to_thread.run_sync(copy_digest, tmp_path)
    models = tmp_path / ".everturn" / "models"
    models.mkdir(parents=True)
    (models / WEIGHTS.name).symlink_to(WEIGHTS.resolve())
    file = tmp_path / "agents" / "digest" / "agent.yaml"
    file.write_text(file.read_text().replace("max_output_tokens: 256", "max_output_tokens: 16"))
    ran = await everturn("schedule", "run", "digest.weekdays", cwd=tmp_path, env=chosen)
    replies = [each for each in log_of(tmp_path, "digest") if each["type"] == "model_replied"]

    assert ran.code == 0, ran.err
    (reply,) = replies
    assert reply["text"]
    assert 0 < reply["usage"]["output_tokens"] <= 16  # it may have said all before
    assert outcomes(tmp_path, "digest.weekdays") == ["answered"]


def copy_digest(folder: Path) -> None:
    """Copy the agent of the checkout, and nothing that it has made."""
    made = shutil.ignore_patterns("memory", "policy.local.yaml")
    shutil.copytree(AGENTS / "digest", folder / "agents" / "digest", ignore=made)


# --- kills ---------------------------------------------------------------------------------------

ASKED, APART, SAID, ANSWERED, RETRIED, OVER = range(4001, 4007)
"""Chats, by what the gateway was about when it was killed: the model was asked, in the conversation
or apart; a message was on its way, or an answer; a try had failed; all was done."""


async def test_a_kill_at_every_step_of_a_run_does_it_once(tmp_path: Path) -> None:
    """CR-02: the promise, with seven jobs at different steps, and one that recurs."""
    brain = Brain()
    async with (
        open_model_api(default=brain) as model,
        open_telegram_api() as telegram,
        open_web_server() as web,
    ):
        for chat in (ASKED, APART, SAID, ANSWERED, RETRIED, OVER):
            telegram.chat(chat)
        web.routes["/hook"] = in_turn(stall, page(b"", status=503), page(b""))
        write_planner(
            tmp_path,
            model.url,
            channels={"telegram": {"bot_token": TOKEN, "api_base": telegram.url}},
            schedules={"allow_private": ["127.0.0.1"]},
        )
        async with gateway_process(tmp_path, imported=TELEGRAM) as gateway:
            await until_listening(telegram)
            await everything_is_under_way(brain, telegram, tmp_path, f"{web.url}/hook")
            await web.until_asked()
            await gateway.kill()
        async with gateway_process(tmp_path, imported=TELEGRAM) as gateway:
            await until(done(tmp_path, "ticks", times=3))
            await until(done(tmp_path, *JOBS))
            await until(lambda: all(is_told(tmp_path, chat) for chat in CHATS))
            assert await gateway.stop() == 0
        hooks = [json.loads(each.body) for each in web.asked]

    tasks = {"asked", "apart", "answered", "retried"}
    assert {job_id: outcomes(tmp_path, job_id) for job_id in JOBS} == {
        job_id: ["answered" if job_id in tasks else "sent"] for job_id in JOBS
    }
    assert outcomes(tmp_path, "ticks") == ["sent"] * 3
    assert announced(tmp_path, "ticks") == ["Tick."] * 3
    assert read(telegram, ASKED) == ["Asked again."]
    assert read(telegram, APART) == ["Asked again, apart."]
    assert read(telegram, SAID) == [f"{REPEAT}I am said."], "it left, and who knows whether it came"
    assert read(telegram, ANSWERED) == [f"{REPEAT}I am the answer."]
    # Its second try may have been on its way to the chat when the process died.
    first, *repeats = read(telegram, RETRIED)
    assert first == "At the second try."
    assert repeats in ([], [f"{REPEAT}{first}"])
    assert read(telegram, OVER) == ["It is over."]
    assert len(brain.about("I am due")) == 1, "what was answered is not asked again"
    assert [each["text"] for each in hooks] == ["For a program."] * 3
    (key,) = {each.headers["idempotency-key"] for each in web.asked}
    assert key == f"schedule:hook:{hooks[0]['scheduled_at']}:said"
    assert "/hook" not in (tmp_path / "serve.log").read_text(), "an address may hold a secret"


JOBS = ("asked", "apart", "said", "answered", "retried", "hook", "over")
CHATS = (ASKED, APART, SAID, ANSWERED, RETRIED, OVER)


async def everything_is_under_way(
    brain: Brain, telegram: TelegramApi, folder: Path, hook: str
) -> None:
    """Return when each job is where its name says."""
    never = anyio.Event()
    lost = Answer(text="Lost.", hold={0: never})
    brain.plan("asked", lost, Answer(text="Asked again."))
    brain.plan("apart", lost, Answer(text="Asked again, apart."))
    brain.plan("I am due", Answer(text="I am the answer."))
    brain.plan("retry", refused(400, "not today"), Answer(text="At the second try."))
    said, answer = telegram.hold(sends(SAID)), telegram.hold(sends(ANSWERED))
    quick = {"retries": {"backoff_seconds": 1}}
    write_job(folder, "ticks", every=1, max_runs=3, message="Tick.", to=to("ticks", "http"))
    write_job(folder, "over", at=soon(), message="It is over.", to=to(OVER))
    write_job(folder, "asked", at=soon(), task="It is asked.", to=to(ASKED))
    write_job(folder, "apart", at=soon(), task="apart", session="isolated", to=to(APART))
    write_job(folder, "said", at=soon(), message="I am said.", to=to(SAID))
    write_job(folder, "answered", at=soon(), task="I am due.", to=to(ANSWERED))
    write_job(folder, "hook", at=soon(), message="For a program.", to={"webhook": hook}, **quick)
    write_job(folder, "retried", at=soon(), task="retry", to=to(RETRIED), **quick)
    await said.wait()
    await answer.wait()
    await until(lambda: brain.about("asked") and brain.about("apart") and brain.about("retry"))
    await until(lambda: is_told(folder, OVER) and done(folder, "over")())
    await until(lambda: any(each["kind"] == "began" for each in run_log(folder, "ticks")))


# --- downtime ------------------------------------------------------------------------------------


async def test_what_came_due_while_nothing_ran_is_made_up_for_as_each_job_says(
    tmp_path: Path,
) -> None:
    """CR-01, CR-06: what still matters comes once, also when two more starts are cut short."""
    brain = Brain()
    lost = Answer(text="Lost.", hold={0: anyio.Event()})
    brain.plan("Twice", lost, lost, Answer(text="Asked three times."))
    async with open_model_api(default=brain) as model:
        write_planner(tmp_path, model.url)
        now = SystemClock().now()
        for name in ("run_once", "skip", "run_all"):
            hourly(tmp_path, name, now - timedelta(hours=3, minutes=30))
        past = (now - timedelta(minutes=1)).isoformat()
        before = (now - timedelta(minutes=2)).timestamp()
        for name, misfire in (("once", "run_once"), ("never", "skip")):
            file = write_job(
                tmp_path, name, at=past, message="Once.", misfire=misfire, to=to(name, "http")
            )
            os.utime(file, (before, before))
        twice = write_job(tmp_path, "twice", at=past, task="Twice.", to=to("twice", "http"))
        os.utime(twice, (before, before))
        late = write_job(tmp_path, "late", at=past, message="Too late.", to=to("late", "http"))
        async with gateway_process(tmp_path) as gateway:
            await until(done(tmp_path, "run_once", "once"))
            await until(done(tmp_path, "run_all", times=3))
            await until(lambda: missed(tmp_path, "skip") and announced(tmp_path, "never"))
            await until(lambda: len(brain.about("Twice")) == 1)
            async with gateway.client() as client:
                listed = (await client.get("/api/v1/schedules")).json()
            await gateway.kill()
        async with gateway_process(tmp_path) as gateway:
            await until(lambda: len(brain.about("Twice")) == 2)
            await gateway.kill()
        async with gateway_process(tmp_path) as gateway:
            await until(done(tmp_path, "twice"))
            write_job(tmp_path, "sentinel", at=soon(), message="Now.", to=to("end", "http"))
            await until(done(tmp_path, "sentinel"))

    said = {name: announced(tmp_path, name) for name in ("run_once", "skip", "run_all")}
    assert said == {"run_once": ["Hourly."], "skip": [], "run_all": ["Hourly."] * 3}
    assert {name: missed(tmp_path, name) for name in said} == {
        "run_once": 2,
        "skip": 3,
        "run_all": 0,
    }
    assert (announced(tmp_path, "once"), missed(tmp_path, "once")) == (["Once."], 0)
    assert missed(tmp_path, "never") == 1
    assert len(announced(tmp_path, "never")) == 1
    assert "it was not run" in announced(tmp_path, "never")[0], "whoever it was for is told"
    assert outcomes(tmp_path, "twice") == ["answered"]
    replies = [each for each in log_of(tmp_path, "twice") if each["type"] == "model_replied"]
    assert [each["text"] for each in replies] == ["Asked three times."]
    assert announced(tmp_path, "late") == []
    (fault,) = listed["faults"]
    assert Path(fault["file"]).name == late.name
    assert "was past when it was defined" in fault["message"]


def hourly(folder: Path, misfire: str, since: datetime) -> None:
    """Write an hourly job, of the name of its misfire, as a gateway left it that ran it never."""
    write_job(
        folder, misfire, every="1h", message="Hourly.", misfire=misfire, to=to(misfire, "http")
    )
    text = SendMessage(text="Hourly.")
    job = Job(job_id=misfire, agent="helper", when=Every(interval_s=3600), payload=text)
    write_armed(folder, job, since)


# --- the command line ----------------------------------------------------------------------------


async def test_jobs_are_looked_after_with_and_without_a_gateway(tmp_path: Path) -> None:
    """What a person types works the same either way, and what cannot be is one line."""
    said: dict[str, Done] = {}

    async def type_(name: str, *arguments: str) -> None:
        said[name] = await everturn("schedule", *arguments, cwd=tmp_path)

    up = ("--message", "Up!", "--to", "http:team")
    nonsense = ("--at", "2026-02-30T08:00", "--timezone", "UTC")
    write_agent(tmp_path)
    (tmp_path / "everturn.yaml").write_text("server: {port: 0}\n")
    await type_("added", "add", "--id", "daily", "--every", "1d", *up)
    await type_("refused here", "add", "--cron", "0 8 * * *", *up)
    async with gateway_process(tmp_path):
        async with anyio.create_task_group() as people:
            people.start_soon(type_, "refused there", "add", *nonsense, *up)
            people.start_soon(type_, "paused", "pause", "daily")
            await type_("due", "add", "--id", "due", "--every", "1", "--max-runs", "1", *up)
        await until(done(tmp_path, "due"))
        await type_("listed", "list", "--json")
    await type_("resumed", "resume", "daily")
    await type_("cancelled", "cancel", "daily")
    wrong = {name: said.pop(name) for name in ("refused here", "refused there")}
    (listed,) = json.loads(said["listed"].out)["schedules"]

    assert {name: each.code for name, each in said.items()} == dict.fromkeys(said, 0)
    assert said["added"].out.startswith("added daily of helper: next 20")
    assert (listed["id"], listed["state"], listed["next_at"]) == ("daily", "paused", None)
    assert said["resumed"].out.startswith("resumed daily: next 20")
    assert announced(tmp_path, "team") == ["Up!"]
    assert (tmp_path / ".everturn" / "schedules" / "cancelled" / "daily.yaml").exists()
    for each in wrong.values():
        assert (each.code, each.out, each.err.count("\n")) == (2, "", 1)
    assert ": --timezone: is required with cron" in wrong["refused here"].err
    assert ": --at: there is no date 2026-02-30" in wrong["refused there"].err
