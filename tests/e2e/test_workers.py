"""`everturn serve --workers`: several processes, one port; people see one gateway."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import anyio
import httpx2
import psutil
from support.command import start
from support.database import needs_database, running_server
from support.model_api import open_model_api
from support.patience import WAIT_S
from support.process import write_workspace

pytestmark = needs_database


async def test_workers_share_a_port_and_are_started_again(tmp_path: Path) -> None:
    """Whichever process takes a connection answers; one that is killed is missed by nobody."""
    with running_server() as server:
        async with open_model_api() as api:
            write_workspace(tmp_path, api.url)
            store = f'store: {{type: postgres, url: "{server.url()}", connections: 2}}\n'
            (tmp_path / "everturn.yaml").write_text(f"server: {{port: 0}}\n{store}")
            key = {"OPENAI_API_KEY": "sk-test"}
            command = start("serve", "--workers", "2", cwd=tmp_path, env=key)
            async with command as running:
                await running.until("Ctrl-C stops them.")
                note = json.loads((tmp_path / ".everturn" / "gateway.json").read_text())
                workers = psutil.Process(note["pid"]).children()
                answers = [await say(note["url"], f"k{number}") for number in range(6)]
                workers[0].kill()
                answers.append(await say(note["url"], "k6"))
                said = await running.until_error("is started again")
                if "the gateway listens" not in said.rpartition("is started again")[2]:
                    await running.until_error("the gateway listens")
                started = psutil.Process(note["pid"]).children()
                running.process.send_signal(signal.SIGTERM)
                done = await running.end()
            owners = server.psql("SELECT count(*) FROM everturn.node")
    assert answers == ["All right."] * 7
    assert len(started) == 2
    assert workers[0].pid not in {each.pid for each in started}
    assert done.code == 0
    assert owners == "0"  # each of them said goodbye


async def say(url: str, key: str) -> str:
    """Say something in a session of its own, until it is answered."""
    with anyio.fail_after(WAIT_S):
        while True:
            try:
                async with httpx2.AsyncClient(base_url=url, timeout=30) as client:
                    begun = await client.post("/api/v1/sessions", json={"agent": "helper"})
                    path = f"/api/v1/sessions/{begun.json()['id']}/messages"
                    sent = await client.post(
                        path, json={"content": "hi"}, headers={"Idempotency-Key": key}
                    )
                    return str(sent.raise_for_status().json()["content"])
            except httpx2.HTTPError:  # it was at the process that was killed
                await anyio.sleep(0.1)
