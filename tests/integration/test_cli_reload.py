"""SIGHUP: the configuration is read again where it can be; a closed terminal kills nobody."""

from __future__ import annotations

import dataclasses
import json
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
from anyio import to_thread
from support.agents import write_agent as write_plain_agent
from support.command import Running, everturn, start, terminal, write_agent
from support.model_api import Answer, open_model_api
from support.patience import WAIT_S
from support.tables import table

from everturn_channels.access.owners import Owner
from everturn_channels.settings import Route
from everturn_gateway.app import open_gateway
from everturn_gateway.config.changes import LIVE, changes, take_over
from everturn_gateway.config.channels import ChannelConfig
from everturn_gateway.config.keep import SessionsKeepSettings
from everturn_gateway.config.settings import (
    Config,
    LoggingConfig,
    OpenAIApiConfig,
    PassedOnConfig,
    SchedulesConfig,
)
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.usage import Price, Rates

READY = "Ctrl-C stops it."
PRICE = Price(rates=Rates(input=1, output=2))


async def until_said(running: Running, *texts: str) -> str:
    """Read what a command logs until all of it has come; return it."""
    assert running.process.stderr is not None
    said = b""
    with anyio.fail_after(WAIT_S):
        while not all(text.encode() in said for text in texts):
            said += await running.process.stderr.receive()
    return said.decode()


async def test_a_hangup_reads_the_configuration_again(tmp_path: Path) -> None:
    """What can hold at once does, and what cannot is named; nothing is cut off for it."""
    write_agent(tmp_path)
    file = tmp_path / "everturn.yaml"
    file.write_text("server: {port: 0}\n")
    async with start("serve", cwd=tmp_path) as running:
        await running.until(READY)
        file.write_text(
            "server: {port: 0, request_timeout_seconds: 7}\n"
            "logging: {format: json}\nprices: {openai/my: {input: 1, output: 2}}\n"
        )
        running.process.send_signal(signal.SIGHUP)
        said = await until_said(running, "from the next start on")
        file.write_text("server:\n  port: many\n")
        running.process.send_signal(signal.SIGHUP)
        broken = await until_said(running, "nothing of it is taken over")
        file.unlink()
        running.process.send_signal(signal.SIGHUP)
        await until_said(running, "the configuration is gone")
        url = json.loads((tmp_path / ".everturn" / "gateway.json").read_text())["url"]
        async with httpx2.AsyncClient(timeout=WAIT_S) as http:
            alive = await http.get(f"{url}/livez")
        running.process.send_signal(signal.SIGTERM)
        done = await running.end()

    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    taken = next(line for line in lines if "taken_over" in line)
    later = next(line for line in lines if "settings" in line)
    assert taken["taken_over"] == ["logging.format", "prices"]
    assert later["settings"] == ["server.request_timeout_seconds"]
    assert "everturn.yaml:2: server.port" in broken
    assert alive.status_code == 200
    assert done.code == 0


def config(folder: Path, **values: Any) -> Config:
    """Return a configuration."""
    return Config(workspace=folder / "workspace", agents_dir=folder / "agents", **values)


def test_every_live_setting_is_taken_over_and_no_other(tmp_path: Path) -> None:
    """What is said to hold holds, and what is said to wait still differs."""
    old = config(tmp_path)
    new = dataclasses.replace(
        old,
        agents_dir=tmp_path / "others",
        server=dataclasses.replace(old.server, stop_timeout_s=9),
        sessions=dataclasses.replace(
            old.sessions,
            ttl_hours=1,
            compaction="discard",
            results_max_bytes=1,
            keep=SessionsKeepSettings.model_validate({"days": 5}).value(),
        ),
        schedules=SchedulesConfig(timezone="Europe/Berlin", allow_private=("hooks.lan",)),
        logging=LoggingConfig(form="json"),
        openai_api=OpenAIApiConfig(
            side_requests=False, approval_wait_s=5, passed_on=PassedOnConfig(provider="openai")
        ),
        prices={"openai/my": PRICE},
        routes=(Route(agent="helper"),),
        channels=tuple[ChannelConfig, ...](),
        owners=(Owner(name="ada", accounts=frozenset({("telegram", "1001")})),),
    )
    found = changes(old, new)

    assert set(found.live) == LIVE
    assert found.restart == (
        "agents_dir",
        "server.stop_timeout_seconds",
        "sessions.results_max_megabytes",
    )
    rest = changes(take_over(old, new), new)
    assert (rest.live, rest.restart) == ((), found.restart)
    assert changes(old, old).live == changes(old, old).restart == ()


@asynccontextmanager
async def opened(folder: Path) -> AsyncGenerator[Any]:
    """Open a gateway with an agent."""
    write_plain_agent(folder / "agents", "helper")
    with anyio.fail_after(WAIT_S):
        async with open_gateway(config(folder), environ={}, secrets=SecretRegistry()) as gateway:
            yield gateway


async def test_what_is_taken_over_holds(tmp_path: Path) -> None:
    """A job that named no zone runs, agents have the new defaults, calls the new prices."""
    jobs = tmp_path / "workspace" / "schedules"
    jobs.mkdir(parents=True)
    (jobs / "one.yaml").write_text(
        "agent: helper\nmessage: Hello.\ncron: 0 9 * * *\nto: {channel: http, chat: one}\n"
    )
    async with opened(tmp_path) as gateway:
        await gateway.schedules.load()
        assert gateway.schedules.faults()
        old = gateway.config
        new = dataclasses.replace(
            old,
            sessions=dataclasses.replace(old.sessions, ttl_hours=3),
            schedules=SchedulesConfig(timezone="Europe/Berlin"),
            prices={"builtin/builtin": PRICE},
            routes=(Route(agent="helper", channel="tg"),),
        )
        await gateway.reconfigure(new)
        spec = gateway.library.get("helper").spec

        assert gateway.schedules.faults() == ()
        assert gateway.schedules.ids() == ("one",)
        assert spec.session.ttl_hours == 3
        assert gateway.meter.prices.price(spec.model) == PRICE
        assert gateway.config.routes == new.routes


async def test_a_terminal_that_is_closed_stops_it_in_order(tmp_path: Path) -> None:
    """The running turn is answered first, as with Ctrl-C; what is said meanwhile goes nowhere."""
    (tmp_path / "everturn.yaml").write_text("server: {port: 0}\n")
    async with open_model_api() as api:
        write_agent(tmp_path, provider="openai", model="fake-1", base_url=api.url)
        held = anyio.Event()
        api.script(Answer(pieces=("one ", "two"), hold={1: held}))
        key = {"OPENAI_API_KEY": "sk-test"}
        note = tmp_path / ".everturn" / "gateway.json"
        async with (
            terminal("serve", cwd=tmp_path, env=key) as person,
            httpx2.AsyncClient(timeout=WAIT_S) as http,
        ):
            await person.expect(READY)
            url = json.loads(await anyio.Path(note).read_text())["url"]
            made = await http.post(f"{url}/api/v1/sessions", json={"agent": "helper"})
            path = f"{url}/api/v1/sessions/{made.json()['id']}/messages"
            answers: list[httpx2.Response] = []

            async def ask() -> None:
                answers.append(await http.post(path, json={"content": "hi"}))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                await api.received(1)
                await to_thread.run_sync(person.hang_up)
                with anyio.fail_after(WAIT_S):
                    while await is_listening(http, url):
                        await pause()
                held.set()
            with anyio.fail_after(WAIT_S):
                while await anyio.Path(note).exists():
                    await pause()

    assert answers[0].json()["content"] == "one two"


async def pause() -> None:
    """Let another process work: to look at it without a pause takes its time."""
    await anyio.sleep(0.02)


async def is_listening(http: httpx2.AsyncClient, url: str) -> bool:
    """Return whether a gateway takes new messages."""
    try:
        return (await http.get(f"{url}/readyz")).is_success
    except httpx2.HTTPError:
        return False


async def test_in_a_folder_without_a_configuration_it_refuses(tmp_path: Path) -> None:
    """A gateway in the wrong folder answers nobody, and would leave a workspace there."""
    done = await everturn("serve", "--port", "0", cwd=tmp_path)

    assert done.code == 2
    assert "everturn init" in done.err
    assert len(done.err.splitlines()) == 1
    assert not [each async for each in anyio.Path(tmp_path).iterdir()]


@table("option", ["--workspace", "--agents-dir"])
async def test_whoever_names_a_folder_means_it(tmp_path: Path, option: str) -> None:
    """Agents may be put there later."""
    (tmp_path / "there").mkdir()
    async with start("serve", "--port", "0", option, "there", cwd=tmp_path) as running:
        await running.until(READY)
        running.interrupt()
        done = await running.end()

    assert done.code == 0
