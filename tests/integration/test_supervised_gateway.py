"""A fault in one part of a gateway: that part alone stops, and whoever asks is told."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Never

import anyio
import anyio.to_thread
import pytest
from support.agents import write_folder
from support.delivering import Dictated, delivering
from support.gateway import open_http_gateway
from support.in_process import running_here
from support.patience import WAIT_S
from support.scripted_adapter import ScriptedAdapter, capabilities
from support.tables import table
from support.ticking import World, at

from everturn_actors.documents import WriteBehind
from everturn_actors.events import Event, ModelReplied
from everturn_actors.model import ConversationKey, IncomingMessage
from everturn_actors.session.quarantine import FAILURES_MAX
from everturn_actors.supervisor import Backoff, RestartPolicy
from everturn_actors.testing import ManualClock
from everturn_channels.settings import ChannelSettings
from everturn_gateway.app import Gateway, open_gateway
from everturn_gateway.channels.running import LaterDeliveryPort
from everturn_gateway.commands.shared.running import Running, noted
from everturn_gateway.config.settings import Config
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.principals import TokenRegistry
from everturn_gateway.providers import Providers
from everturn_gateway.scheduler import scheduler
from everturn_gateway.scheduler.scheduler import Scheduler
from everturn_gateway.specs import AgentLibrary
from everturn_gateway.telemetry import Telemetry
from everturn_gateway.usage import UsageLedger

KEY = ConversationKey(channel="api", chat="one", agent="helper")
AGENT = """\
apiVersion: duragent/v1alpha1
kind: Agent
metadata: {name: helper}
spec:
  model: {provider: builtin, name: builtin}
"""
DAILY = {"cron": "0 9 * * *", "timezone": "UTC"}


async def fails(*_args: Any, **_kwargs: Any) -> Never:
    """Fail as a bug does."""
    msg = "a bug"
    raise RuntimeError(msg)


async def is_cancelled(*_args: Any, **_kwargs: Any) -> Never:
    """Fail as what waits for something does that somebody else cancelled."""
    raise anyio.get_cancelled_exc_class()


@asynccontextmanager
async def opened(folder: Path) -> AsyncGenerator[Gateway]:
    """Open a gateway that serves for long, with one agent."""
    write_folder(folder / "agents" / "helper", AGENT)
    config = Config(workspace=folder / "workspace", agents_dir=folder / "agents")
    async with open_gateway(config, environ={}, secrets=SecretRegistry()) as gateway:
        yield gateway


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    with anyio.fail_after(WAIT_S):
        while not holds():
            await anyio.wait_all_tasks_blocked()


@table("fault", [fails, is_cancelled])
@table(
    ("owner", "method", "part"),
    [
        pytest.param(UsageLedger, "run", "usage", id="usage"),
        pytest.param(WriteBehind, "run", "model memory", id="model-memory"),
        pytest.param(AgentLibrary, "watch", "agents", id="agents"),
        pytest.param(TokenRegistry, "watch", "tokens", id="tokens"),
        pytest.param(Telemetry, "watch_loop", "loop lag", id="loop-lag"),
        pytest.param(Providers, "warm", "local models", id="windows"),
        pytest.param(Scheduler, "serve", "schedules", id="schedules"),
        pytest.param(scheduler, "tidy", "schedules:tidy", id="tidy"),
    ],
)
async def test_a_part_that_fails_stops_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    method: str,
    part: str,
    fault: Callable[..., Any],
) -> None:
    """Messages are taken and answered, and the part is named, whatever it was."""
    monkeypatch.setattr(owner, method, fault)

    async with opened(tmp_path) as gateway:
        await until(lambda: part in [each.name for each in gateway.supervisor.down()])
        with anyio.fail_after(WAIT_S):
            answer = await gateway.service.submit(IncomingMessage(text="2+3", key=KEY))
            result = await answer.result()
        page = (await gateway.telemetry.exposition("")).body.decode()

    assert f'everturn_task_up{{task="{part.partition(":")[0]}"}} 0.0' in page
    assert 'everturn_task_up{task="journal writer"} 1.0' in page
    assert result.text.startswith("You said: “2+3”.")


async def test_what_is_down_is_told_and_only_what_messages_need_makes_it_unready(
    tmp_path: Path,
) -> None:
    """A load balancer takes no gateway away because its usage is not saved."""
    async with (
        open_http_gateway(tmp_path) as gateway,
        gateway.client() as client,
        anyio.create_task_group() as tasks,
    ):
        tired = RestartPolicy(restart="temporary")
        gateway.supervisor.start(tasks, "usage", fails, policy=tired)
        await until(lambda: len(gateway.supervisor.down()) == 1)
        limping = await client.get("/readyz")
        gateway.supervisor.start(tasks, "journal writer", fails, policy=tired, is_needed=True)
        await until(lambda: len(gateway.supervisor.down()) == 2)
        stuck = await client.get("/readyz")

        (task,) = limping.json()["tasks"]
        assert limping.status_code == 200
        assert (task["name"], task["state"], task["error"]) == (
            "usage",
            "failed",
            "RuntimeError: a bug",
        )
        assert stuck.status_code == 503
        assert stuck.json()["type"] == "urn:everturn:problem:tasks-down"
        assert "journal writer" in stuck.json()["detail"]
        assert "Retry-After" in stuck.headers


async def test_doctor_says_which_part_is_down_and_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever wonders why usage stands still finds the reason where they look first."""
    write_folder(tmp_path / "agents" / "helper", AGENT)
    async with (
        open_http_gateway(tmp_path / "served") as gateway,
        anyio.create_task_group() as tasks,
    ):
        gateway.supervisor.start(tasks, "usage", fails, policy=RestartPolicy(failures_max=1))
        (tmp_path / ".everturn").mkdir(mode=0o700)
        async with noted(tmp_path / ".everturn", Running(pid=os.getpid(), url=gateway.base_url)):
            with running_here(tmp_path, capsys, monkeypatch) as run:
                done = await anyio.to_thread.run_sync(partial(run, "doctor"))

        line = next(line for line in done.out.splitlines() if "usage failed" in line)
        assert line.startswith("problem")
        assert "RuntimeError: a bug" in line
        assert "start the gateway anew" in line


async def test_what_failed_and_runs_again_is_counted_wherever_one_looks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part that fails now and then is up whenever somebody looks, and something is wrong."""
    write_folder(tmp_path / "agents" / "helper", AGENT)
    runs: list[None] = []

    async def fails_first() -> None:
        runs.append(None)
        if len(runs) == 1:
            raise RuntimeError
        await anyio.sleep_forever()

    async with (
        open_http_gateway(tmp_path / "served") as gateway,
        gateway.client() as client,
        anyio.create_task_group() as tasks,
    ):
        policy = RestartPolicy(backoff=Backoff(first_s=0.001))
        gateway.supervisor.start(tasks, "usage", fails_first, policy=policy)
        await until(lambda: len(runs) == 2)
        ready = await client.get("/readyz")
        (tmp_path / ".everturn").mkdir(mode=0o700)
        async with noted(tmp_path / ".everturn", Running(pid=os.getpid(), url=gateway.base_url)):
            with running_here(tmp_path, capsys, monkeypatch) as run:
                done = await anyio.to_thread.run_sync(partial(run, "doctor"))
        tasks.cancel_scope.cancel()

    assert (ready.json()["tasks"], ready.json()["restarts"]) == ([], {"usage": 1})
    line = next(line for line in done.out.splitlines() if "started again" in line)
    assert line.startswith("note")
    assert "usage 1" in line


async def test_a_session_that_is_left_alone_is_told_wherever_one_looks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message to it says what to do; doing that over HTTP lets it go on."""
    write_folder(tmp_path / "agents" / "helper", AGENT)
    async with (
        open_http_gateway(tmp_path / "served") as gateway,
        gateway.client() as client,
    ):
        session = f"/api/v1/sessions/{await gateway.session()}"
        store = gateway.service._store
        with monkeypatch.context() as broken:
            broken.setattr(store, "append", _unless_replied(store.append))
            failed = [
                await client.post(f"{session}/messages", json={"content": "hello"})
                for _ in range(FAILURES_MAX)
            ]
            refused = await client.post(f"{session}/messages", json={"content": "hello"})
            ready = await client.get("/readyz")
            (tmp_path / ".everturn").mkdir(mode=0o700)
            async with noted(
                tmp_path / ".everturn", Running(pid=os.getpid(), url=gateway.base_url)
            ):
                with running_here(tmp_path, capsys, monkeypatch) as run:
                    done = await anyio.to_thread.run_sync(partial(run, "doctor"))
        cancelled = await client.post(f"{session}/cancel")
        answered = await client.post(f"{session}/messages", json={"content": "hello"})
        better = await client.get("/readyz")

    assert {each.status_code for each in failed} == {503}
    assert refused.status_code == 409
    assert refused.json()["type"] == "urn:everturn:problem:session-quarantined"
    assert "cancel its turn, reset it, or delete it" in refused.json()["detail"]
    assert (ready.status_code, ready.json()["quarantined_sessions"]) == (200, 1)
    (line,) = [line for line in done.out.splitlines() if "failed again and again" in line]
    assert line.startswith("problem")
    assert cancelled.json() == {"cancelled": True}
    assert answered.status_code == 200
    assert better.json()["quarantined_sessions"] == 0


def _unless_replied(append: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """Return what appends, and fails as a bug does where it is the reply of a model."""

    async def appended(session_id: str, events: Sequence[Event], *, expected_seq: int) -> None:
        if any(isinstance(event.body, ModelReplied) for event in events):
            await fails()
        await append(session_id, events, expected_seq=expected_seq)

    return appended


async def test_a_job_that_fails_unexpectedly_fails_alone_and_once(tmp_path: Path) -> None:
    """It is not begun again at each start, and the next time is tried as usual."""
    world = World(
        folder=tmp_path / "schedules",
        clock=ManualClock(at("2026-11-23T08:59:59+00:00")),
        delivery_ports={"test": LaterDeliveryPort()},
    )
    world.postbox.failures.append(RuntimeError("a bug"))
    to = {"webhook": "https://hooks.example/secret"}
    world.write("bad", task="Sum up.", to=to, **DAILY)
    world.write("good", message="Hello.", **DAILY)

    async with world.opened() as live:
        await live.clock.until_sleeping(30)
        live.clock.advance(1)
        (bad,) = await live.runs("bad", 1)
        (good,) = await live.runs("good", 1)
    async with world.opened() as live:
        await live.clock.until_sleeping(30)
        again = live.scheduler.job("bad")
        live.clock.advance(86_400)
        (_, next_day) = await live.runs("bad", 2)

    assert (bad.outcome, good.outcome) == ("failed", "sent")
    assert bad.error == "an unexpected fault (RuntimeError); the gateway's log says more"
    assert (again.state, len(again.job_state.recent)) == ("scheduled", 1)
    assert next_day.outcome == "answered"


@table("fault", [fails, is_cancelled])
@table("method", ["type", "show_draft"])
async def test_what_accompanies_a_reply_keeps_it_from_nobody(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    method: str,
    fault: Callable[..., Any],
) -> None:
    """A platform's library that fails over its typing indicator is no reason to say nothing."""
    monkeypatch.setattr(ScriptedAdapter, method, fault)
    able = capabilities(typing_s=5, drafts=("group",))
    adapter, model = ScriptedAdapter(able=able), Dictated()
    settings = ChannelSettings(streaming=True)
    text = "This is long enough to be shown as it comes, word by word."
    async with delivering(adapter=adapter, provider=model, settings=settings) as test:
        said = await test.say()
        model.speak(text)
        await anyio.wait_all_tasks_blocked()
        model.end()
        await test.until_delivered(said.session_id)

        assert test.adapter.world.texts == [text]
    assert "a delivery goes on without" in caplog.messages


async def test_a_job_that_could_not_be_read_for_a_moment_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file stays as it is: nobody would change it to have it read again."""
    world = World(
        folder=tmp_path / "schedules",
        clock=ManualClock(at("2026-11-23T08:00:00+00:00")),
        delivery_ports={"test": LaterDeliveryPort()},
    )
    world.write("one", message="Hello.", **DAILY)
    opens, is_short = Path.open, True

    def short_of_files(path: Path, mode: str = "r", buffering: int = -1) -> IO[Any]:
        if is_short and path.suffix == ".yaml":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return opens(path, mode, buffering)

    monkeypatch.setattr(Path, "open", short_of_files)
    async with world.opened() as live:
        with anyio.fail_after(WAIT_S):
            await live.clock.until_sleeping(30)
            (fault,) = live.scheduler.faults()
            is_short = False
            while not live.scheduler.ids():
                live.clock.advance(30)
                await anyio.wait_all_tasks_blocked()

        assert "Too many open files" in str(fault)
        assert live.scheduler.faults() == ()
