"""A distribution of somebody else's plug-ins works without a change of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest
import yaml
from jsonschema import Draft202012Validator
from support import plugin_dist
from support.command import everturn
from support.patience import WAIT_S
from support.plugin_packages import put_package
from support.process import gateway_process

AGENT = """\
apiVersion: duragent/v1alpha1
kind: Agent
metadata: {name: helper}
spec:
  model: {provider: echo, name: echo-1}
  access: {dm: {policy: open}}
  session: {context: {policy: newest, window_turns: 5}}
  tools: [{type: plugin, name: dice, sides: 20}]
"""
CONFIG = """\
server: {port: 0}
channels: {mailbox: {folder: post, seal: swordfish}}
providers: {echo: {greeting: Heard, seal: swordfish-2}}
"""
DEADLINE_S = WAIT_S
PACKAGE = "everturn-example-plugins 1.0"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which the distribution is installed."""
    folder = tmp_path_factory.mktemp("dist") / "site"
    plugin_dist.install(folder)
    return folder


@pytest.fixture
def workspace(tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with an agent and a channel, for commands that find the distribution."""
    monkeypatch.setenv("PYTHONPATH", str(site))
    home = tmp_path / "agents" / "helper"
    home.mkdir(parents=True)
    (home / "agent.yaml").write_text(AGENT)
    (tmp_path / "everturn.yaml").write_text(CONFIG)
    (tmp_path / "everturn.yaml").chmod(0o600)
    return tmp_path


async def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `everturn` to its end."""
    env = {"NO_COLOR": "1", "COLUMNS": "300"}
    done = await everturn(*arguments, cwd=folder, env=env)
    return subprocess.CompletedProcess(arguments, done.code, done.out, done.err)


def run_python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python to its end."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


async def until(seen: Callable[[], Awaitable[bool]]) -> None:
    """Wait for what another process does."""
    with anyio.fail_after(DEADLINE_S):
        while True:
            if await seen():
                return
            await anyio.sleep(0.05)


async def answered(folder: Path, letter: str, text: str) -> str:
    """Put a letter into the mailbox of a running gateway; return the answer."""
    box, chat = anyio.Path(folder / "post"), letter.partition(".")[0]
    said: list[str] = []

    async def has_answer() -> bool:
        said[:] = [await path.read_text() async for path in (box / "out").glob(f"{chat}.*")]
        return any(said)

    await until((box / "in").exists)
    draft = box / "draft"
    await draft.write_text(text)
    await draft.rename(box / "in" / letter)
    await until(has_answer)
    return said[0]


async def test_people_are_answered_on_the_channel(workspace: Path) -> None:
    """The gateway serves, and says the status of the channel."""
    async with gateway_process(workspace, imported=None) as gateway, gateway.client() as client:
        said = await answered(workspace, "ann.1.txt", "Hello!")
        (channel,) = (await client.get("/api/v1/channels")).json()["channels"]
        queues = (await client.get("/metrics")).text
        shown = await run(workspace, "agent", "show", "helper")
        code = await gateway.stop()

    assert said == "Heard: Hello!"
    assert 'queue="echo"' in queues
    assert "throw_die" in shown.stdout
    assert (channel["platform"], channel["state"]) == ("mailbox", "connected")
    assert code == 0
    assert not list((workspace / "post" / "in").iterdir())


async def test_doctor_names_the_package_and_what_the_plug_in_says(workspace: Path) -> None:
    """And `channel check` asks it whether it would work."""
    told = await run(workspace, "doctor")
    checked = await run(workspace, "channel", "check")

    assert (
        "everturn.channels: mailbox of everturn-example-plugins 1.0: a folder with" in told.stdout
    )
    assert "mailbox of everturn-example-plugins 1.0: the post is open" in told.stdout
    assert "mailbox  0 letters wait" in checked.stdout
    assert (told.returncode, checked.returncode) == (0, 0), told.stdout + told.stderr


async def test_its_settings_are_checked_like_ours(workspace: Path) -> None:
    """A mistake is named with its place, and a secret is not shown."""
    config = workspace / "everturn.yaml"
    config.write_text("channels: {mailbox: {foldr: post, seal: swordfish}}\n")
    told = await run(workspace, "doctor")

    assert "everturn.yaml:1: channels.mailbox.folder: is required" in told.stdout
    assert "channels.mailbox.foldr: is not a known field; did you mean folder?" in told.stdout
    assert "swordfish" not in told.stdout + told.stderr
    config.write_text("channels: {mailbx: {folder: post}}\n")
    assert "is not a known field; did you mean mailbox?" in (await run(workspace, "doctor")).stdout


async def test_what_the_provider_says_of_its_models_holds(workspace: Path) -> None:
    """Its window counts, its prices are charged, and its settings are checked."""
    shown = (await run(workspace, "agent", "show", "helper")).stdout
    asked = await run(workspace, "run", "Hi")
    usage = (await run(workspace, "usage")).stdout
    valid = await run(workspace, "agent", "validate", "helper")

    assert "64,000 tokens" in shown
    assert asked.stdout.strip() == "Heard: Hi"
    assert "3.00" in usage, usage
    assert valid.returncode == 0, valid.stderr
    (workspace / "everturn.yaml").write_text("providers: {echo: {greting: Hm}}\n")
    assert "providers.echo.greting: is not a known field" in (await run(workspace, "doctor")).stdout


async def test_an_agent_has_its_tools_and_its_policy(workspace: Path) -> None:
    """What is wrong with their settings is named with its place, and the schema knows them."""
    listed = (await run(workspace, "agent", "show", "helper")).stdout
    asked = await run(workspace, "run", "Hi")
    file = workspace / "agents" / "helper" / "agent.yaml"
    made = run_python(workspace, "-m", "everturn_gateway.specs", "made.json")
    document = yaml.safe_load(file.read_text())
    schema = json.loads((workspace / "made.json").read_text())
    good = list(Draft202012Validator(schema).iter_errors(document))
    file.write_text(file.read_text().replace("20", "one").replace("5}", "0, cut_too: 1}"))
    told = (await run(workspace, "agent", "validate", "helper")).stderr
    document["spec"]["tools"][0]["sides"] = 1
    bad = [error.json_path for error in Draft202012Validator(schema).iter_errors(document)]
    file.write_text(AGENT.replace("name: dice", "name: cards"))
    unknown = (await run(workspace, "agent", "validate", "helper")).stderr

    assert "plugin:dice" in listed, listed
    assert "newest" in listed
    assert asked.stdout.strip() == "Heard: Hi"
    assert made.returncode == 0, made.stderr
    assert good == []
    assert bad
    assert "spec.tools[0].sides: must be a whole number" in told
    assert "spec.session.context.window_turns: must be at least 1" in told
    assert "cut_too: is no number of policy newest, which has: window_turns" in told
    assert "'cards' is not installed; there are: dice" in unknown


async def test_sessions_are_kept_by_the_store(workspace: Path) -> None:
    """Nothing of a conversation is a file; a second gateway is kept out all the same."""
    with (workspace / "everturn.yaml").open("a") as config:
        config.write("store: {type: vault, name: one, seal: swordfish-3}\n")
    async with gateway_process(workspace) as gateway, gateway.client() as client:
        said = await answered(workspace, "ann.1.txt", "Hello!")
        sessions = (await client.get("/api/v1/sessions")).json()["sessions"]
        second = await run(workspace, "serve")

    assert said == "Heard: Hello!"
    assert len(sessions) == 1
    assert not list((workspace / ".everturn").rglob("events.jsonl"))
    assert second.returncode != 0
    assert "is in use by process" in second.stderr
    told = (await run(workspace, "doctor")).stdout
    assert "not looked at: sessions are kept by the store vault" in told
    assert "swordfish" not in told
    (workspace / "everturn.yaml").write_text("store: {type: cloud}\n")
    told = (await run(workspace, "doctor")).stdout
    assert "store.type: 'cloud' is not available; there are: file, memory, postgres, vault" in told


async def test_the_gateway_serves_without_what_cannot_be_used(
    workspace: Path, tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that is broken costs its own plug-ins, also where the configuration names them."""
    others = tmp_path / "others"
    others.mkdir()
    points = {
        "everturn.channels": {
            "semaphore": "broken_pack:SEMAPHORE",
            "mailbox": "broken_pack:MAILBOX",
        },
        "everturn.stores": {"cloud": "broken_pack:CLOUD"},
    }
    put_package(others, "broken-pack", points=points, module="raise RuntimeError('no such luck')")
    monkeypatch.setenv("PYTHONPATH", f"{others}{os.pathsep}{site}")
    config = {
        "server": {"port": 0},
        "channels": {
            "semaphore": {"token": "${NOT_SET}"},
            "external": [{"name": "own", "command": "true", "restart": "never"}],
        },
    }
    (workspace / "everturn.yaml").write_text(json.dumps(config))

    told = await run(workspace, "doctor")
    async with gateway_process(workspace) as gateway, gateway.client() as client:
        channels = (await client.get("/api/v1/channels")).json()["channels"]
        log = anyio.Path(workspace / "serve.log")

        async def is_said() -> bool:
            return (await log.read_text()).count("a plug-in is left out") > len(points)

        await until(is_said)

    reason = "of broken-pack 1.0 is left out: RuntimeError: no such luck"
    assert f"problem   plug-in      everturn.channels: semaphore {reason}" in told.stdout
    assert f"problem   plug-in      everturn.stores: cloud {reason}" in told.stdout
    assert (
        "everturn.channels: mailbox of everturn-example-plugins 1.0 is left out:"
        " broken-pack 1.0 has a plug-in of that name too; keep one of them"
    ) in told.stdout
    assert (
        f"channels.semaphore: is not opened: everturn.channels: semaphore {reason}" in told.stdout
    )
    assert [channel["name"] for channel in channels] == ["own"]
    assert reason in await log.read_text()
