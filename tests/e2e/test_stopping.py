"""An orderly stop ends within its time, whatever hangs at that moment, and loses nothing."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import anyio
import httpx2
import pytest
import yaml
from support.model_api import Answer, open_model_api
from support.patience import WAIT_S
from support.plugins import PRELUDE
from support.process import GatewayProcess, gateway_process

STOP_S = 8  # short, and still long enough for a machine that runs other things as well
# Neither listens to anybody who asks it to end.
NAP = """\
#!/bin/sh
trap '' TERM INT HUP
echo $$ > "$EVERTURN_FILES/nap.pid"
while :; do sleep 1; done
"""
NAP_PID = Path(".everturn", "files", "sleeper", "nap.pid")
DEAF = (
    PRELUDE
    + """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open("plugin.pid", "w") as file:
    file.write(str(os.getpid()))
connect()
message(1, text="hello from outside")
while True:
    time.sleep(1)
"""
)


def write_agent(folder: Path, name: str, spec: str) -> Path:
    """Write an agent whose turns go on when their clients leave; return its folder."""
    home = folder / "agents" / name
    home.mkdir(parents=True)
    (home / "agent.yaml").write_text(
        f"apiVersion: duragent/v1alpha1\nkind: Agent\nmetadata: {{name: {name}}}\nspec:\n"
        f"  session: {{on_disconnect: continue}}\n{spec}"
    )
    return home


def write_world(folder: Path, model_url: str) -> None:
    """Write a gateway with a model, a tool, a channel and a job that will all hang."""
    write_agent(
        folder,
        "helper",
        f'  model: {{provider: openai, name: fake-1, base_url: "{model_url}"}}\n'
        "  access: {dm: {policy: open}}\n",
    )
    home = write_agent(
        folder,
        "sleeper",
        "  model: {provider: scripted, name: replies.yaml}\n"
        '  tools: [{type: cli, name: nap, command: "./nap.sh", sandbox: plain}]\n',
    )
    (home / "nap.sh").write_text(NAP)
    (home / "nap.sh").chmod(0o755)
    (home / "policy.yaml").write_text("mode: dangerous\n")
    (home / "replies.yaml").write_text("replies: [{calls: [{name: nap, arguments: '{}'}]}]\n")
    (folder / "plugin.py").write_text(DEAF)
    plugin = {"name": "outside", "command": sys.executable, "args": ["-IS", "plugin.py"]}
    config = {
        "server": {"port": 0, "stop_timeout_seconds": STOP_S},
        "channels": {"external": [plugin]},
        "routes": [{"match": {"channel": "outside"}, "agent": "helper"}],
    }
    (folder / "everturn.yaml").write_text(yaml.safe_dump(config))
    jobs = folder / ".everturn" / "schedules"
    jobs.mkdir(parents=True)
    (jobs / "job.yaml").write_text("agent: helper\nevery: 1h\ntask: Do it.\n")


async def until_all_hang(client: httpx2.AsyncClient, nap: Path) -> None:
    """Wait until five turns are worked on, one of them in its tool."""
    with anyio.fail_after(WAIT_S):
        while True:
            running = "everturn_turns_running 5.0" in (await client.get("/metrics")).text
            if running and await anyio.Path(nap).exists():
                return
            await anyio.sleep(0.02)  # a process of its own: there is nothing to wait on


def is_alive(pid: int) -> bool:
    """Say whether there is a process of this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Callers:
    """Clients that wait while the gateway stops, and what became of them."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client
        self.told: dict[str, str] = {}

    async def session(self, agent: str) -> str:
        """Begin a session."""
        answer = await self._client.post("/api/v1/sessions", json={"agent": agent})
        return str(answer.json()["id"])

    async def ask(self, name: str, session_id: str, route: str = "messages") -> None:
        """Send a message and wait for its answer."""
        path = f"/api/v1/sessions/{session_id}/{route}"
        answer = await self._client.post(path, json={"content": "hi"})
        self.told[name] = f"{answer.status_code} {answer.text}"

    async def follow(self, session_id: str) -> None:
        """Read a session's events to their end."""
        path = f"/api/v1/sessions/{session_id}/events"
        async with self._client.stream("GET", path) as response:
            async for _ in response.aiter_raw():
                pass
        self.told["follower"] = "ended"


async def stopped_amid(gateway: GatewayProcess, folder: Path) -> tuple[int, dict[str, str]]:
    """Stop a gateway in which everything hangs; return its exit code, and what clients heard."""
    async with gateway.client() as client, anyio.create_task_group() as tasks:
        callers = Callers(client)
        waiting, streaming, calling = [
            await callers.session(agent) for agent in ("helper", "helper", "sleeper")
        ]
        tasks.start_soon(callers.ask, "waiting", waiting)
        tasks.start_soon(callers.ask, "streaming", streaming, "stream")
        tasks.start_soon(callers.ask, "calling", calling)
        tasks.start_soon(callers.follow, waiting)
        await client.post("/api/v1/schedules/job/run")
        await until_all_hang(client, folder / NAP_PID)
        code = await gateway.stop()
    return code, callers.told


async def test_a_stop_ends_in_time_though_everything_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor kills what does not end; clients that hang with it learn nothing."""
    name = f"everturn-stop-{os.getpid()}"
    monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
    supervisor = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    supervisor.bind(f"\0{name}")
    supervisor.settimeout(0)
    endless = Answer(pieces=("one ", "two"), hold={1: anyio.Event()})
    async with open_model_api(default=endless) as api:
        write_world(tmp_path, api.url)
        async with gateway_process(tmp_path) as gateway:
            code, told = await stopped_amid(gateway, tmp_path)
    with supervisor:
        heard = [supervisor.recv(1000), supervisor.recv(1000)]
    said = (tmp_path / "serve.log").read_text()
    started = [tmp_path / "plugin.pid", tmp_path / NAP_PID]
    left = [int(path.read_text()) for path in started]

    assert code == 0, said
    assert heard[0].startswith(b"READY=1\nSTATUS=listens on http://")
    assert heard[1] == b"STOPPING=1"
    assert "not stopped after" not in said
    assert "Traceback" not in said
    assert "the gateway listens" in said
    assert told.pop("follower") == "ended"
    assert told.keys() == {"waiting", "streaming", "calling"}
    assert all("the message is accepted, and its turn goes on" in each for each in told.values())
    assert len(list((tmp_path / ".everturn" / "active").iterdir())) == 5
    assert [pid for pid in left if is_alive(pid)] == []
    assert not (tmp_path / ".everturn" / "gateway.json").exists()
