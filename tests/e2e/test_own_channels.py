"""A channel of one's own: begun by a command, tried by another, on a real server of IRC."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import Process, TaskStatus
from support.command import everturn
from support.ports import free_port
from support.process import gateway_process
from support.talking import until_state

IRC = Path(__file__).parents[2] / "examples" / "irc_channel.py"
SERVER = shutil.which("ngircd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
SERVER_SETTINGS = """\
[Global]
Name = irc.everturn.test
Info = test
Listen = 127.0.0.1
Ports = {port}
ServerUID = {uid}
ServerGID = {gid}
MotdPhrase = hello
[Options]
PAM = no
DNS = no
Ident = no
"""
ANN = """\
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as ann:
    ann.sendall(b"NICK ann\\r\\nUSER ann 0 * :Ann\\r\\n")
    heard = ann.makefile("rb")
    while b" 001 " not in heard.readline():
        pass
    for text in ("hello", "are you there?"):
        ann.sendall(f"PRIVMSG everturn :{text}\\r\\n".encode())
    while heard.readline():  # and stays
        pass
"""
TRIES = 5


def write_config(folder: Path, *channels: Mapping[str, object]) -> None:
    """Write a configuration with these programs as channels."""
    (folder / "agents").mkdir()
    config = {
        "server": {"port": 0},
        "workspace": "workspace",
        "channels": {"external": list(channels)},
    }
    (folder / "everturn.yaml").write_text(json.dumps(config), encoding="utf-8")


@asynccontextmanager
async def irc_server(folder: Path) -> AsyncGenerator[int]:
    """Run ngircd; yield its port."""
    assert SERVER is not None
    settings = anyio.Path(folder / "ngircd.conf")
    for _ in range(TRIES):  # a port that is free now may be taken before it listens
        port = free_port()
        text = SERVER_SETTINGS.format(port=port, uid=os.getuid(), gid=os.getgid())
        await settings.write_text(text)
        async with (
            await anyio.open_process(
                [SERVER, "-n", "-f", str(settings)], stderr=subprocess.STDOUT
            ) as server,
            anyio.create_task_group() as tasks,
        ):
            is_listening = await tasks.start(read_log, server)
            if is_listening:
                yield port
            server.terminate()
        if is_listening:
            return
    msg = f"no free port after {TRIES} tries"
    raise AssertionError(msg)


async def read_log(server: Process, *, task_status: TaskStatus[bool]) -> None:
    """Read all that a server says; started when it listens, or has ended without."""
    assert server.stdout is not None
    said, is_told = b"", False
    async for chunk in server.stdout:
        said = said[-100:] + chunk
        if not is_told and b"Now listening" in said:
            task_status.started(True)  # noqa: FBT003 - the only word there is for it
            is_told = True
    if not is_told:
        task_status.started(False)  # noqa: FBT003 - see above


async def test_the_example_of_irc_keeps_the_protocol_on_a_real_server(tmp_path: Path) -> None:
    """On the kit: what was not taken comes again and in order, and a person can be answered."""
    if SERVER is None and "CI" not in os.environ:
        pytest.skip("no IRC server: apt-get install ngircd")
    assert SERVER is not None
    await anyio.Path(tmp_path / "ann.py").write_text(ANN)
    async with irc_server(tmp_path) as port:
        env = {"IRC_PORT": str(port)}
        program = {"name": "irc", "command": sys.executable, "args": [str(IRC)], "env": env}
        write_config(tmp_path, program)
        say = f"{sys.executable} {tmp_path / 'ann.py'} {port}"
        done = await everturn(
            "channel", "test", "irc", "--say", say, "--wait", "3", "--json", cwd=tmp_path
        )

    trials = {each["rule"]: each["outcome"] for each in json.loads(done.out)}
    assert done.code == 0, done
    lost = "what was not confirmed comes again after a restart"  # IRC keeps nothing
    assert trials.pop(lost) == "warning"
    assert set(trials.values()) == {"ok"}
    assert {
        "what was not taken comes again",
        "the next message of that chat comes after it",
        "it ends when its standard input does",
        "a message is sent",
    } <= set(trials)


LOGIN = """\
import json, pathlib, sys, time
def say(**line): print(json.dumps(line), flush=True)
sys.stdin.readline()
say(type="hello", protocol="everturn-channel/1", name="phone", capabilities={"chunk_units": 500})
for code in ("2@old", "2@new"):
    say(type="login", text="scan this with the app", qr=code)
while not pathlib.Path("scanned").exists():
    time.sleep(0.02)
say(type="connected", account="+49 1")
sys.stdin.read()
"""


async def test_the_owner_of_a_channel_logs_it_in(tmp_path: Path) -> None:
    """A look does not wait for a person; a login shows the code, and ends when it is scanned."""
    await anyio.Path(tmp_path / "phone.py").write_text(LOGIN)
    write_config(tmp_path, {"name": "phone", "command": sys.executable, "args": ["phone.py"]})
    checked = await everturn("channel", "check", "phone", cwd=tmp_path)
    await anyio.Path(tmp_path / "scanned").touch()
    done = await everturn("channel", "login", "phone", cwd=tmp_path)
    await anyio.Path(tmp_path / "scanned").unlink()
    async with gateway_process(tmp_path) as gateway, gateway.client() as client:
        await until_state(client, "failed setup")
        (shown,) = (await client.get("/api/v1/channels")).json()["channels"]
        await anyio.Path(tmp_path / "scanned").touch()
        followed = await everturn("channel", "login", "phone", "--json", cwd=tmp_path)
        (after,) = (await client.get("/api/v1/channels")).json()["channels"]

    assert checked.code == 1
    assert "needs a login, by `channel login phone`: scan this with the app" in checked.out
    assert done.code == 0, done
    assert done.out.count("scan this with the app") == 2
    assert "\N{FULL BLOCK}" in done.out or "\N{LOWER HALF BLOCK}" in done.out
    assert "2@new" not in done.out + done.err
    assert "logged in as +49 1" in done.out
    assert shown["login"]["text"] == "scan this with the app"
    assert shown["login"]["image"].startswith("data:image/svg+xml")
    assert shown["error"] == "scan this with the app: `everturn channel login phone`"
    assert json.loads(followed.out)["lines"] == ["logged in as +49 1"]
    assert (after["state"], after["login"], after["error"]) == ("connected", None, "")
    assert "2@new" not in await anyio.Path(tmp_path / "serve.log").read_text()


async def test_a_new_channel_works_at_once_and_faults_are_named(tmp_path: Path) -> None:
    """Its author begins with one that logs in; one that breaks a rule is told which, and fails."""
    begun = await everturn("channel", "new", "signal", "--json", cwd=tmp_path)
    again = await everturn("channel", "new", "signal", cwd=tmp_path)
    bad = await everturn("channel", "new", "Line Chat", cwd=tmp_path)
    deaf = "import json, sys\nsys.stdin.readline()\n" + "".join(
        f"print(json.dumps({line}))\n"
        for line in (
            {"type": "hello", "protocol": "everturn-channel/1", "name": "deaf"}
            | {"capabilities": {"chunk_units": 500}},
            {"type": "connected"},
        )
    )
    await anyio.Path(tmp_path / "deaf.py").write_text(f"{deaf}print('chatter', flush=True)\n")
    write_config(
        tmp_path,
        {
            "name": "signal",  # as a module of the library that the kit needs
            "command": sys.executable,
            "args": ["signal/signal_channel.py"],
            "env": {"CHAT_PORT": "0"},
        },
        {"name": "deaf", "command": sys.executable, "args": ["deaf.py"]},
    )
    checked = await everturn("channel", "check", "signal", cwd=tmp_path)
    tried = await everturn("channel", "test", "deaf", "--wait", "0", cwd=tmp_path)
    unknown = await everturn("channel", "test", "nowhere", cwd=tmp_path)

    assert begun.code == 0
    assert str(tmp_path / "signal" / "signal_channel.py") in json.loads(begun.out)["written"]
    assert (again.code, bad.code, unknown.code) == (2, 2, 2)
    assert "nothing was written" in again.err
    assert checked.out.rstrip().endswith("ok")
    assert tried.code == 1
    assert "fault      it answers a `send` of what is not there" in tried.out
    assert "not tried  what was not taken comes again: nobody wrote" in tried.out
