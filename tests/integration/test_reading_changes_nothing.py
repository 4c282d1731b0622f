"""No GET, and no command that only shows something, changes a byte or wakes a session."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import yaml
from support.command import everturn
from support.gateway import HttpGateway, open_http_gateway, write_agent
from support.patience import WAIT_S
from support.pictures import picture
from support.stores import tree_marks
from support.tables import table

from everturn_actors.events import ApprovalAsked, Event, StatusChanged
from everturn_actors.model import Reply, ToolCall
from everturn_actors.service import ServiceSettings
from everturn_actors.testing import ScriptedProvider
from everturn_gateway.http.asgi import create_app
from everturn_gateway.http.ports import Gateway

DAY_S = 86_400
NOBODY = "20260101T000000000-00000000"


class LaterClock:
    """The machine's clock, some time ahead."""

    def __init__(self, ahead_s: float) -> None:
        self._ahead = timedelta(seconds=ahead_s)

    def now(self) -> datetime:
        """Return the instant."""
        return datetime.now(UTC) + self._ahead  # noqa: TID251 - this is the clock

    async def sleep(self, delay_s: float) -> None:
        """Wait."""
        await anyio.sleep(delay_s)


def write_agents(folder: Path) -> None:
    """Write the agents: one whose turns pause, one with a shell that asks first."""
    write_agent(folder / "agents")
    file = write_agent(folder / "agents", name="second")
    document = yaml.safe_load(file.read_text())
    document["spec"]["tools"] = [{"type": "builtin", "name": "bash"}]
    file.write_text(yaml.safe_dump(document))


async def until(gateway: HttpGateway, session_id: str, kind: type[object]) -> None:
    """Wait until an event of a kind is in the log."""
    with anyio.fail_after(WAIT_S):
        async with aclosing(gateway.service.watch(session_id, after=0)) as updates:
            async for update in updates:
                if isinstance(update, Event) and isinstance(update.body, kind):
                    return


async def leave_mid_turn(gateway: HttpGateway, session_id: str) -> None:
    """Send a message and go away while the model talks."""
    calls = len(gateway.provider.requests)
    async with gateway.client() as client, anyio.create_task_group() as tasks:

        async def send() -> None:
            await client.post(f"/api/v1/sessions/{session_id}/messages", json={"content": "hi"})

        tasks.start_soon(send)
        await gateway.provider.until_called(calls + 1)
        tasks.cancel_scope.cancel()


async def make_sessions(gateway: HttpGateway) -> dict[str, str]:
    """Make a session in each state that a running gateway can leave behind; by name of state."""
    made: dict[str, str] = {}
    async with gateway.client() as client:

        async def say(session_id: str, content: str, **more: Any) -> httpx2.Response:
            path = f"/api/v1/sessions/{session_id}/messages"
            return await client.post(path, json={"content": content, **more})

        for name in ("idle", "ended", "torn", "corrupt", "misread"):
            made[name] = await gateway.session()
            data = base64.b64encode(picture(1).data).decode()
            assert (
                await say(
                    made[name], "one", attachments=[{"media_type": "image/png", "data": data}]
                )
            ).status_code == 200
            assert (await say(made[name], "two")).status_code == 200
        await client.post(f"/api/v1/sessions/{made['ended']}/reset")
        made["empty"] = await gateway.session()

        made["asking"] = await gateway.session("second")
        call = ToolCall(call_id="c1", name="bash", arguments=json.dumps({"command": "whoami"}))
        gateway.provider.script.append(Reply(calls=(call,), stop_reason="tool_calls"))
        await client.post(
            f"/api/v1/sessions/{made['asking']}/messages",
            json={"content": "who?"},
            headers={"Prefer": "respond-async"},
        )
        await until(gateway, made["asking"], ApprovalAsked)

        job: dict[str, Any] = {
            "id": "standup",
            "agent": "test",
            "message": "Stand up",
            "every": "1d",
        }
        job["to"] = {"session": made["idle"]}
        assert (await client.post("/api/v1/schedules", json=job)).status_code == 201
    gateway.provider.hold()
    made["paused"] = await gateway.session()
    await leave_mid_turn(gateway, made["paused"])
    await until(gateway, made["paused"], StatusChanged)
    made["open"] = await gateway.session()
    async with gateway.client() as client:
        await client.post(
            f"/api/v1/sessions/{made['open']}/messages",
            json={"content": "hi"},
            headers={"Prefer": "respond-async"},
        )
    return made


def damage(workspace: Path, made: dict[str, str]) -> None:
    """Do to files what a crash, a bad disk or a person may do to them."""
    sessions = workspace / "sessions"
    with (sessions / made["torn"] / "events.jsonl").open("ab") as log:
        log.write(b'{"v":2,"seq":99,"at":"2026-')
    (sessions / made["corrupt"] / "events.jsonl").write_bytes(b"{}\n{}\n")
    (sessions / made["misread"] / "state.yaml").write_bytes(b"nothing: [good\n")


@asynccontextmanager
async def passive_gateway(
    folder: Path, *, ahead_s: float
) -> AsyncGenerator[tuple[HttpGateway, dict[str, str]]]:
    """Open a gateway on sessions of every state, none of which is awake."""
    await anyio.to_thread.run_sync(write_agents, folder)
    async with open_http_gateway(folder) as gateway:
        made = await make_sessions(gateway)
    await anyio.to_thread.run_sync(damage, folder / "workspace", made)
    settings = ServiceSettings(leave_grace_s=0, drain_s=0, resume=False)
    async with open_http_gateway(
        folder,
        settings=settings,
        clock=LaterClock(ahead_s),
        provider=ScriptedProvider(),
    ) as gateway:
        yield gateway, made


async def gets(gateway: Gateway, made: dict[str, str], media: str) -> list[list[str]]:
    """Return the requests for each GET of the document: one, or one for each session."""
    fill = {"name": "test", "model": "test", "schedule_id": "standup", "seq": "4", "number": "1"}
    fill |= {"path": "agent.yaml"}
    fill["response_id"] = f"resp_{NOBODY}"
    found: list[list[str]] = []
    app = await anyio.to_thread.run_sync(create_app(gateway).api)
    document = await anyio.to_thread.run_sync(app.openapi)
    for path, methods in document["paths"].items():
        if "get" not in methods:
            continue
        where = path.replace("/media/{name}", f"/media/{media}")
        where += "?q=one" if path == "/api/v1/search" else ""
        for name, value in fill.items():
            where = where.replace(f"{{{name}}}", value)
        if "{session_id}" in where:
            ids = [*made.values(), NOBODY]
            found.append([where.replace("{session_id}", each) for each in ids])
        else:
            found.append([where])
    assert all("{" not in each[0] for each in found), "a path parameter has no value here"
    return found


async def fetch(client: httpx2.AsyncClient, path: str) -> int:
    """Get a path, and no more than the beginning of a stream; return the status."""
    async with client.stream("GET", path) as response:
        async for _ in response.aiter_raw():
            break
        return response.status_code


@table("ahead_s", [0, 100 * DAY_S], ids=["fresh", "expired"])
async def test_no_get_changes_anything(tmp_path: Path, ahead_s: float) -> None:
    """A page that is left open, a probe, a crawler: whoever looks, nothing happens by it."""
    async with (
        passive_gateway(tmp_path, ahead_s=ahead_s) as (gateway, made),
        gateway.client() as client,
    ):
        workspace = tmp_path / "workspace"
        media = next((workspace / "sessions" / made["idle"] / "media").iterdir()).name
        await client.get(
            "/api/v1/sessions?order=activity"
        )  # the index, a cache, is made where there is none
        before = await anyio.to_thread.run_sync(tree_marks, workspace)
        statuses: dict[str, int] = {}
        for paths in await gets(gateway, made, media):
            for path in paths:
                statuses[path] = await fetch(client, path)
                assert (await gateway.service.activity.load()).active == 0, path
            # Whatever was changed, if only for a moment, has another time of change.
            after = await anyio.to_thread.run_sync(tree_marks, workspace)
            assert after == before, paths
        listed = (await client.get("/api/v1/sessions")).json()["sessions"]
        told = {
            name: (await client.get(f"/api/v1/sessions/{session_id}")).json()
            for name, session_id in made.items()
            if name != "corrupt"
        }

    corrupt = made["corrupt"]
    odd = {path: status for path, status in statuses.items() if status not in {200, 204}}
    assert all(
        corrupt in path
        or any(
            each in path
            for each in (
                NOBODY,
                "/context",
                "/media/",
                "/checkpoints/",
                "/results/",
                "/files",
                "/memory",
                "/webhook",
            )
        )
        for path in odd
    ), odd
    assert all(status < 500 or corrupt in path for path, status in odd.items()), odd
    assert len(listed) >= len(made) - 1
    assert {name: body["status"] for name, body in told.items()} == {
        **dict.fromkeys(told, "active"),
        "ended": "ended",
        "paused": "paused",
    }
    assert [each["call_id"] for each in told["asking"]["approvals"]] == ["c1"]
    assert told["open"]["open_turn"] is not None
    assert told["torn"]["messages"] == told["idle"]["messages"] == told["misread"]["messages"]


SHOWING = [
    "sessions list",
    "sessions show {idle}",
    "sessions show {paused}",
    "sessions show {open}",
    "sessions show {torn}",
    "sessions show {corrupt}",
    "sessions show {misread}",
    "attach --read-only {ended}",
    "context show {open}",
    "context show {asking}",
    "context explain {idle} 4",
    "doctor",
    "schedule list",
    "schedule show standup",
    "schedule next standup",
    "channel list",
    "pair list",
    "usage",
    "agent list",
]


async def test_no_command_that_shows_something_changes_anything(tmp_path: Path) -> None:
    """Who looks around in a workspace that nothing serves leaves it as it is, a crash included."""
    await anyio.to_thread.run_sync(write_agents, tmp_path)
    async with open_http_gateway(tmp_path) as gateway:
        made = await make_sessions(gateway)
    await anyio.to_thread.run_sync(damage, tmp_path / "workspace", made)
    await anyio.to_thread.run_sync(answer_without_a_model, tmp_path)
    await everturn("sessions", "list", cwd=tmp_path)  # as above
    before = await anyio.to_thread.run_sync(marks_when_passive, tmp_path / "workspace")
    for line in SHOWING:
        done = await everturn(*line.format(**made).split(), cwd=tmp_path)
        after = await anyio.to_thread.run_sync(marks_when_passive, tmp_path / "workspace")
        assert done.code == 0 or "corrupt" in line or line == "doctor", (line, done)
        assert after == before, line


def answer_without_a_model(folder: Path) -> None:
    """Write a configuration, and let the agents use the built-in responder."""
    (folder / "everturn.yaml").write_text("workspace: workspace\nagents_dir: agents\n")
    for file in (folder / "agents").glob("*/agent.yaml"):
        document = yaml.safe_load(file.read_text())
        document["spec"]["model"] = {"provider": "builtin", "name": "assistant"}
        file.write_text(yaml.safe_dump(document))


def marks_when_passive(workspace: Path) -> object:
    """Return the marks of all but the lock and the log of the commands themselves."""
    return tree_marks(workspace, without=("workspace.lock", "everturn.log"))
