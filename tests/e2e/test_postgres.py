"""The whole product on a database: no kill of gateway or server loses a turn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
from support.database import needs_database, running_server
from support.model_api import Answer, open_model_api
from support.process import gateway_process, write_workspace

pytestmark = needs_database


async def send(client: httpx2.AsyncClient, session: str, text: str, key: str) -> None:
    """Send a message without waiting for its answer."""
    response = await client.post(
        f"/api/v1/sessions/{session}/messages",
        json={"content": text},
        headers={"Idempotency-Key": key, "Prefer": "respond-async"},
    )
    assert response.status_code == 202, response.text


async def answered(client: httpx2.AsyncClient, session: str, key: str, text: str) -> str:
    """Return the answer to a message that was sent already, by its key."""
    response = await client.post(
        f"/api/v1/sessions/{session}/messages",
        json={"content": text},
        headers={"Idempotency-Key": key},
    )
    return str(response.raise_for_status().json()["content"])


async def contents(client: httpx2.AsyncClient, session: str) -> list[str]:
    """Return what was said, oldest first."""
    response = await client.get(f"/api/v1/sessions/{session}/messages?limit=500")
    return [str(each["content"]) for each in response.raise_for_status().json()["messages"]]


async def test_no_kill_of_gateway_or_database_loses_or_doubles_a_turn(tmp_path: Path) -> None:
    """Each is killed in the middle of a turn; with all syncs of the server, as at its owner's."""
    gate = anyio.Event()
    with running_server(is_quick=False) as server:
        async with open_model_api() as api:
            write_workspace(tmp_path, api.url)
            store = f'store: {{type: postgres, url: "{server.url()}"}}\n'
            (tmp_path / "everturn.yaml").write_text(f"server: {{port: 0}}\n{store}")
            api.script(
                Answer(text="never finished", hold={1: anyio.Event()}),
                Answer(text="one"),
                Answer(text="two", hold={1: gate}),
                Answer(text="three"),
            )
            async with gateway_process(tmp_path) as gateway, gateway.client() as client:
                begun = await client.post("/api/v1/sessions", json={"agent": "helper"})
                session = str(begun.raise_for_status().json()["id"])
                await send(client, session, "first", "key-1")
                await api.received(1)
                await gateway.kill()
            async with gateway_process(tmp_path) as gateway, gateway.client() as client:
                first = await answered(client, session, "key-1", "first")
                await send(client, session, "second", "key-2")
                await api.received(3)
                await anyio.to_thread.run_sync(server.kill)
                gate.set()
                ready = await client.get("/readyz")
                await anyio.to_thread.run_sync(server.start)
                second = await answered(client, session, "key-2", "second")
                third = await answered(client, session, "key-3", "third")
                said = await contents(client, session)
                listed = await client.get("/api/v1/sessions")
            database = server.psql(
                "SELECT string_agg(convert_from(line, 'UTF8'), '' ORDER BY seq) FROM everturn.event"
            )

    assert ready.status_code in {200, 503}
    assert (first, second, third) == ("one", "two", "three")
    assert said == ["first", "one", "second", "two", "third", "three"]
    assert api.count == 4
    events: list[dict[str, Any]] = [json.loads(line) for line in database.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [each["id"] for each in listed.json()["sessions"]] == [session]
