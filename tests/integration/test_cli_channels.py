"""`everturn channel` and `pair`, and what `serve` and `doctor` say of channels."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from pathlib import Path

import anyio
import pytest
from support.channel_configs import channel
from support.command import DEADLINE_S, Done, everturn, start, write_agent
from support.in_process import Run, running_here
from support.plugins import PRELUDE
from support.tables import table

from everturn_actors.journal.keyed import FileKeyedStore
from everturn_actors.testing import ManualClock
from everturn_channels.access.pairing import Pairing
from everturn_channels.adapter import Person
from everturn_gateway.channels.adapters import check_installed, make_adapter
from everturn_gateway.clock import SystemClock
from everturn_gateway.config.channels import ChannelConfig
from everturn_gateway.errors import GatewayError

# Hands in one message, and tells the test over TCP what it is asked to send.
TALKS = """
import socket
out = socket.create_connection(("127.0.0.1", int(os.environ["PORT"]))).makefile("w")
connect("@talker", idle_s=60, chunk_units=1000)
message(1, text="2+3")
while True:
    said = hear()
    if said["type"] == "send":
        out.write(json.dumps(said) + "\\n")
        out.flush()
    if "request" in said:
        done(said, message_id="m9")
"""
WELL = 'hello()\nsay(type="connected", account="@well")\nstay()\n'
ILL = 'hello()\nsay(type="failed", kind="setup", why="the token s3cr3t is refused")\nstay()\n'


@pytest.fixture
def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Generator[Run]:
    """Run commands in this process."""
    with running_here(tmp_path, capsys, monkeypatch) as run:
        yield run


def write_channels(folder: Path, *, port: int = 0, **bodies: str) -> None:
    """Write a configuration whose channels are small programs, and an agent open to all."""
    agent = write_agent(folder)
    agent.write_text(agent.read_text() + "  access: {dm: {policy: open}}\n")
    external = [
        {
            "name": name,
            "command": sys.executable,
            "args": ["-IS", str(folder / f"{name}.py")],
            "env": {"PORT": str(port), "A_TOKEN": "s3cr3t"},
        }
        for name, body in bodies.items()
        if (folder / f"{name}.py").write_text(PRELUDE + body)
    ]
    config = {"server": {"port": 0}, "channels": {"external": external}}
    file = folder / "everturn.yaml"
    file.write_text(json.dumps(config))
    file.chmod(0o600)  # it holds a secret


async def test_a_channel_is_served_listed_and_found_healthy(tmp_path: Path) -> None:
    """From a person's message over the whole gateway to the answer, and to the owner's screen."""
    sent: list[str] = []
    heard = anyio.Event()

    async def hear(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            while not sent or not sent[-1].endswith("\n"):
                sent.append((await stream.receive()).decode())
        heard.set()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - no Django here
    write_channels(tmp_path, port=port, talker=TALKS)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, hear)
        async with start("serve", cwd=tmp_path) as gateway:
            greeting = await gateway.until("Ctrl-C")
            with anyio.fail_after(DEADLINE_S):
                await heard.wait()
            listed = await everturn("channel", "list", "--json", cwd=tmp_path)
            found = await everturn("doctor", cwd=tmp_path)
            gateway.interrupt()
            stopped = await gateway.end()
        tasks.cancel_scope.cancel()
    (channel,) = json.loads(listed.out)

    assert "  channels   talker\n" in greeting
    assert json.loads("".join(sent))["text"].startswith("You said: “2+3”.")
    assert (channel["name"], channel["account"], channel["healthy"]) == ("talker", "@talker", True)
    assert channel["received"] == 1
    assert "ok        channel      talker: receives as @talker, last heard of " in found.out
    assert (found.code, stopped.code) == (0, 0)


def test_a_check_logs_in_and_says_what_is_wrong(tmp_path: Path, run: Run) -> None:
    """A script that sets up a machine reads the exit code, its owner the line."""
    write_channels(tmp_path, well=WELL, ill=ILL)
    checked = run("channel", "check")
    unknown = run("channel", "check", "telegram")

    assert checked.code == 1
    assert "well  ok\n" in checked.out
    assert "ill  problem: " in checked.out
    assert "s3cr3t" not in checked.out + checked.err
    assert unknown.code == 2
    assert unknown.err == (
        "everturn: there is no channel 'telegram' that is enabled; there are: well, ill\n"
    )


def test_without_a_gateway_the_configuration_is_shown(tmp_path: Path, run: Run) -> None:
    """And routes that lead to nobody are a problem that is found before anybody writes."""
    write_channels(tmp_path, well=WELL)
    write_agent(tmp_path, "second")
    listed = run("channel", "list")
    found = run("doctor")

    assert listed.out.splitlines()[-1].split() == ["well", "well", "not", "running"]
    assert "note      channel      well: set up; `everturn channel check` logs in" in found.out
    assert "problem   channel      no agent answers on well: say which one" in found.out
    assert found.code == 1


@table(
    ("config", "library"),
    [
        (channel("telegram", name="a", bot_token="1:a"), "aiogram"),  # noqa: S106 - made up
        (channel("discord", name="a", bot_token="a"), "discord"),  # noqa: S106 - made up
    ],
)
async def test_a_missing_library_is_named_with_the_way_to_get_it(
    monkeypatch: pytest.MonkeyPatch, config: ChannelConfig, library: str
) -> None:
    """It is an extra, and a traceback tells nobody which."""
    package = f"everturn_channels.{config.platform}"
    for name in [*sys.modules]:
        if name == package or name.startswith(f"{package}."):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)

    with pytest.raises(GatewayError) as when_used:
        await make_adapter(config, ManualClock())
    with pytest.raises(GatewayError) as at_start:
        check_installed([config])

    assert str(at_start.value) == str(when_used.value)
    assert str(at_start.value) == (
        f"channel {config.name} needs {library}, which is not installed:"
        f" pip install 'everturn[{config.platform}]'"
    )


# --- pairing ---


def test_people_are_let_in_by_code_and_sent_away_again(tmp_path: Path, run: Run) -> None:
    """The files are the whole of it: no gateway has to run, and one that runs sees them."""

    async def ask() -> str | None:
        pairing = Pairing(FileKeyedStore(tmp_path / ".everturn"), SystemClock())
        return await pairing.ask("telegram", Person(id="7001", name="Ann"))

    nobody = run("pair", "list")
    asked = anyio.run(ask)
    waiting = run("pair", "list")
    wrong = run("pair", "approve", "NOSUCH22")
    approved = run("pair", "approve", str(asked).lower())
    listed = json.loads(run("pair", "list", "--json").out)
    removed, again = (run("pair", "remove", "telegram", "7001") for _ in range(2))

    assert nobody.out == "nobody waits, and nobody was approved\n"
    assert asked is not None
    assert asked in waiting.out
    assert "Ann" in waiting.out
    assert wrong.code == 2
    assert wrong.err == (
        "everturn: no request has the code 'NOSUCH22'; `everturn pair list` shows those that wait\n"
    )
    assert approved == Done(code=0, out="approved: 7001 (Ann) on telegram\n", err="")
    assert (listed["waiting"], listed["approved"][0]["sender"]) == ([], "7001")
    assert removed == Done(code=0, out="no longer approved: 7001 on telegram\n", err="")
    assert again == Done(code=1, out="7001 was not approved on telegram\n", err="")
