"""A busy gateway keeps its secrets to itself, and its files to its user. The installed command."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from textwrap import dedent

import anyio
import anyio.abc
import httpx2
import psutil
from anyio.streams.text import TextReceiveStream
from support.answers import Answer
from support.command import environment
from support.gateway import server_events
from support.model_api import ModelApi, Received, open_model_api
from support.patience import WAIT_S
from support.plugins import PRELUDE
from support.process import EVERTURN

from everturn_actors.model import ToolCall

DEADLINE_S = WAIT_S
OK = 200
CANARY = "c4n4ry"
SECRETS = {
    name: f"{name.lower().replace('_', '-')}-{CANARY}-7Q2x9Lm4"
    for name in ("API_TOKEN", "ADMIN_TOKEN", "OPENAI_API_KEY", "PLUGIN_TOKEN", "UNNAMED_SECRET")
}
AGENT = """\
apiVersion: duragent/v1alpha1
kind: Agent
metadata: {{name: helper}}
spec:
  model: {{provider: openai, name: fake-1, base_url: "{url}"}}
  system_prompt: You help.
  memory: {{backend: filesystem}}
  session: {{on_disconnect: continue, context: {{max_tool_result_tokens: 1000}}}}
  tools:
    - {{type: builtin, name: files}}
    - {{type: builtin, name: bash}}
    - {{type: builtin, name: background_process}}
    - {{type: builtin, name: schedule}}
"""
CONFIG = """\
server: {{port: 0, api_token: "${{API_TOKEN}}", admin_token: "${{ADMIN_TOKEN}}"}}
channels:
  external:
    - name: talk
      command: {python}
      args: [plugin.py]
      env: {{TALK_TOKEN: "${{PLUGIN_TOKEN}}"}}
"""
PLUGIN = """
connect()
print("it holds", os.environ["TALK_TOKEN"], file=sys.stderr, flush=True)
say(type="message", id=1, message_id="m1", chat={"id": "c"}, sender={"id": "u"}, text="hi")
while True:
    asked = hear()
    if asked.get("request") is not None:
        done(asked, message_id="p1")
"""
CALLS: tuple[tuple[str, Mapping[str, object]], ...] = (
    ("bash", {"command": "env; cat /proc/self/environ; umask; echo x > made; mkdir deep"}),
    ("write_file", {"path": "notes/a.md", "content": "a"}),
    ("remember", {"content": "the cat is called Mia"}),
    ("reflect", {"content": "cats matter"}),
    ("update_world", {"topic": "cats", "content": "Mia"}),
    ("bash", {"command": "seq 20000"}),
    ("background_process", {"action": "spawn", "command": "echo up; sleep 600", "label": "x"}),
    ("schedule", {"action": "create", "at": "2999-01-01T00:00:00Z", "message": "later"}),
)


def answering(request: Received) -> Answer:
    """Make the calls one after the other; what is asked last is refused, with the key said back."""
    messages = request.json()["messages"]
    if messages[-1]["role"] == "user" and "break" in str(messages[-1]["content"]):
        told = json.dumps({"error": {"message": f"bad key {SECRETS['OPENAI_API_KEY']} of yours"}})
        return Answer(status=401, body=told.encode())
    made = sum(message["role"] == "tool" for message in messages)
    if made == len(CALLS):
        return Answer(text="Done.")
    name, arguments = CALLS[made]
    call = ToolCall(call_id=f"c{made}", name=name, arguments=json.dumps(arguments))
    return Answer(calls=(call,))


@asynccontextmanager
async def busy_gateway(folder: Path, api: ModelApi) -> AsyncGenerator[tuple[str, int]]:
    """Run the gateway with no umask at all, and its log at DEBUG; yield its address and pid."""
    agent = folder / "agents" / "helper"
    agent.mkdir(parents=True)
    (agent / "agent.yaml").write_text(AGENT.format(url=api.url))
    (agent / "policy.yaml").write_text("mode: dangerous\nnotify: {deliveries: [{type: log}]}\n")
    (folder / "everturn.yaml").write_text(CONFIG.format(python=sys.executable))
    (folder / "plugin.py").write_text(PRELUDE + dedent(PLUGIN))
    (folder / ".everturn").mkdir(mode=0o755)
    command = ["sh", "-c", f"umask 000; exec '{EVERTURN}' --debug serve"]
    with (folder / "serve.log").open("wb") as log:
        process = await anyio.open_process(
            command, cwd=folder, env=environment(SECRETS), stdout=subprocess.PIPE, stderr=log
        )
    async with process:
        try:
            yield await _address(process), process.pid
        finally:
            process.kill()
            await process.wait()
            for supervisor in _supervisors(folder):
                with suppress(psutil.NoSuchProcess):  # it has ended with its command
                    supervisor.kill()


async def _address(process: anyio.abc.Process) -> str:
    assert process.stdout is not None
    said = ""
    async for text in TextReceiveStream(process.stdout):
        said += text
        if found := re.search(r"listens on (http://\S+)", said):
            return found[1]
    raise AssertionError(said)


def _supervisors(folder: Path) -> list[psutil.Process]:
    """Return what runs on without the gateway."""
    here = str(folder)
    found = [each for each in psutil.process_iter() if here in " ".join(_argv(each))]
    return [child for each in found for child in (*each.children(recursive=True), each)]


def _argv(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []


def titles_and_environments(pid: int, folder: Path) -> Iterator[str]:
    """Yield what other users see of the processes, and what the gateway's children were given."""
    gateway = psutil.Process(pid)
    yield " ".join(_argv(gateway))
    for child in {*gateway.children(recursive=True), *_supervisors(folder)}:
        yield " ".join(_argv(child))
        if "plugin.py" not in " ".join(_argv(child)):
            yield json.dumps(child.environ())


async def one_turn(client: httpx2.AsyncClient, text: str) -> str:
    """Say something in a session of its own, and follow it to the end; return all that was told."""
    made = await client.post("/api/v1/sessions", json={"agent": "helper"})
    session = made.raise_for_status().json()["id"]
    path = f"/api/v1/sessions/{session}"
    file = {"media_type": "text/plain", "data": "SGVsbG8=", "file_name": "a.txt"}
    body = {"content": text, "attachments": [file]}
    sent = await client.post(f"{path}/messages", json=body)
    told = [sent.text]
    async with client.stream("GET", f"{path}/events") as response:
        async for event in server_events(response):
            told.append(json.dumps(event.data))
            if event.event == "turn_finished":
                break
    asked = [await client.get(f"{path}{more}") for more in ("", "/messages", "/context")]
    return "\n".join([*told, *(answer.text for answer in asked)])


async def everything_asked(url: str) -> dict[tuple[str, str], tuple[int, str]]:
    """Return what the routes that tell something answer to the right tokens and to wrong ones."""
    paths = (
        *("/openapi.json", "/docs", "/readyz", "/version", "/metrics", "/v1/models"),
        *("/api/v1/agents", "/api/v1/agents/helper", "/api/v1/agents/helper/spec"),
        *("/api/v1/sessions", "/api/v1/usage", "/api/v1/channels", "/api/v1/schedules"),
        *("/api/v1/admin/agents", "/nothing"),
    )
    answers: dict[tuple[str, str], tuple[int, str]] = {}
    api, admin = SECRETS["API_TOKEN"], SECRETS["ADMIN_TOKEN"]
    for who, token in (("", ""), ("api", api), ("admin", admin), ("wrong", f"x{api}")):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=30) as client:
            for path in paths:
                answer = await client.get(path)
                answers[who, path] = (answer.status_code, f"{answer.text}\n{answer.headers}")
    return answers


def open_to_others(root: Path) -> list[str]:
    """Return what another user could read or change below `root`, whatever its own mode is."""
    found: list[str] = []

    def look(folder: Path) -> None:
        for path in folder.iterdir():
            info = path.lstat()
            if not stat.S_IMODE(info.st_mode) & 0o077:
                continue
            shown = f"{path.relative_to(root)} {stat.S_IMODE(info.st_mode):04o}"
            if stat.S_ISDIR(info.st_mode):
                found.extend([shown] if info.st_mode & 0o022 else ())
                look(path)
            elif not stat.S_ISLNK(info.st_mode):
                found.append(shown)

    look(root)
    return found


def places_of(secrets: Mapping[str, str], root: Path) -> list[str]:
    """Return the files below `root` in which a secret stands, but for those of the operator."""
    return [
        f"{path.relative_to(root)}: {name}"
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink()
        for name, secret in secrets.items()
        if secret.encode() in path.read_bytes()
    ]


async def test_a_busy_run_shows_no_secret_and_leaves_no_file_to_others(tmp_path: Path) -> None:
    """Whoever reads a log, a file, an answer or `ps` must not find a key there."""
    async with open_model_api() as api:
        api.default = answering
        with anyio.fail_after(DEADLINE_S):
            async with busy_gateway(tmp_path, api) as (url, pid):
                bearer = {"Authorization": f"Bearer {SECRETS['API_TOKEN']}"}
                async with httpx2.AsyncClient(base_url=url, headers=bearer, timeout=30) as client:
                    told = await one_turn(client, "go")
                    broken = await one_turn(client, "break it")
                answers = await everything_asked(url)
                seen = list(titles_and_environments(pid, tmp_path))
                state = tmp_path / ".everturn"
                opened = open_to_others(state)
                opened += [
                    each
                    for each in open_to_others(tmp_path / "agents")
                    if each.startswith("helper/memory")
                ]
                kept = {path.name for path in state.rglob("*") if path.is_file()}
                places = places_of(SECRETS, tmp_path)

    # it was busy: each of these was written by another part of the gateway
    assert {"events.jsonl", "gateway.json", "record.json", "pids", "cats.md", "made"} <= kept
    assert "pending.json" in kept
    assert "c6" in told
    assert "bad key *** of yours" in broken
    assert len(seen) > 3
    assert CANARY not in told + broken
    assert [path for path, (_, answer) in answers.items() if CANARY in answer] == []
    assert {
        (who, path)
        for (who, path), (status, _) in answers.items()
        if status == OK and who not in {"api", "admin"}
    } == {(who, "/docs") for who in ("", "wrong")}
    assert [path for (who, path), (status, _) in answers.items() if (who, status) == ("admin", OK)]
    assert [each for each in seen if CANARY in each] == []
    assert opened == []
    assert places == []
