"""The installed gateway looks at itself, and tells what it logged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import httpx2
from support.command import start

AGENT = (
    "apiVersion: duragent/v1alpha1\nkind: Agent\nmetadata: {name: parrot}\n"
    "spec: {model: {provider: builtin, name: echo}}\n"
)


def write(folder: Path) -> None:
    """Write a workspace with an agent, and one that is not valid."""
    for name, text in (("parrot", AGENT), ("broken", AGENT.replace("echo", "echo, top: 1"))):
        file = folder / "agents" / name / "agent.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(text)


async def findings(client: httpx2.AsyncClient) -> list[dict[str, Any]]:
    """Return what the gateway finds, and last what it says at the end."""
    answer = await client.post("/api/v1/admin/doctor")
    assert answer.status_code == 200, answer.text
    lines = [line for line in answer.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


async def test_a_gateway_examines_itself_and_repairs_nothing(tmp_path: Path) -> None:
    """What the command finds beside it, it finds too: faults of agents, and damage in journals."""
    await anyio.to_thread.run_sync(write, tmp_path)
    async with start("serve", "--port", "0", cwd=tmp_path) as gateway:
        await gateway.until("Ctrl-C")
        note = json.loads(await anyio.Path(tmp_path / ".everturn" / "gateway.json").read_text())
        async with httpx2.AsyncClient(base_url=note["url"], timeout=60) as client:
            made = await client.post("/api/v1/sessions", json={"agent": "parrot"})
            session = made.json()["id"]
            messages = f"/api/v1/sessions/{session}/messages"
            await client.post(messages, json={"content": "hi"})
            first = await findings(client)
            (log,) = list((tmp_path / ".everturn").rglob(f"*{session}*/events.jsonl"))
            damaged = log.read_bytes().replace(b'"hi"', b'"ho"')
            log.write_bytes(damaged)
            second = await findings(client)
            kept = log.read_bytes()
            records = (await client.get("/api/v1/admin/log")).json()["records"]

    *found, end = first
    told = {(each["subject"], each["verdict"]) for each in found}
    broken = [each["text"] for each in found if each["verdict"] == "problem"]
    assert told >= {("agent", "ok"), ("gateway", "ok"), ("journals", "ok"), ("workspace", "ok")}
    assert all("broken" in each for each in broken)
    assert end == {"problems": len(broken)}
    assert any(e["subject"] == "journals" and e["verdict"] == "problem" for e in second[:-1])
    assert kept == damaged
    assert any(each["message"] == "the gateway listens" for each in records)
