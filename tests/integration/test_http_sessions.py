"""Sessions, agents, administration and health over HTTP."""

from __future__ import annotations

from pathlib import Path

import anyio
import httpx2
from support.gateway import HttpGateway, open_http_gateway, write_agent

from everturn_actors.events import Received
from everturn_actors.testing import ScriptedProvider, calling

UNKNOWN = "20260101T000000000-00000000"


async def say(gateway: HttpGateway, session_id: str, *texts: str) -> None:
    """Send messages, one turn each."""
    async with gateway.client() as client:
        for text in texts:
            answer = await client.post(
                f"/api/v1/sessions/{session_id}/messages", json={"content": text}
            )
            assert answer.status_code == 200, answer.text


async def test_health_tells_alive_ready_and_version(tmp_path: Path) -> None:
    """Whoever watches the process decides by these whether to restart it or to send it work."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        live = await client.get("/livez")
        ready = await client.get("/readyz")
        version = await client.get("/version")
        gateway.is_ready = False
        not_ready = await client.get("/readyz")

    assert live.json() == {"status": "ok"}
    assert ready.json() == {
        "status": "ready",
        "tasks": [],
        "restarts": {},
        "blocked_chats": {},
        "quarantined_sessions": 0,
        "homes_away": [],
        "node_differences": [],
        "refused_keys": [],
    }
    assert version.json()["version"] == "1.2.3"
    assert not_ready.status_code == 503
    assert not_ready.json()["type"] == "urn:everturn:problem:not-ready"


async def test_agents_are_listed_and_described(tmp_path: Path) -> None:
    """A client chooses an agent by what it reads here."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        agents = (await client.get("/api/v1/agents")).json()["agents"]
        one = (await client.get("/api/v1/agents/test")).json()
        spec = (await client.get("/api/v1/agents/test/spec")).json()
        unknown = await client.get("/api/v1/agents/nobody")

    assert agents == [{name: one[name] for name in agents[0]}]
    assert (one["tools"], one["tool_faults"]) == ([], [])
    assert one["model"] == {"provider": "scripted", "name": "scripted"}
    assert spec["document"]["metadata"]["name"] == "test"
    assert unknown.status_code == 404
    assert unknown.headers["content-type"] == "application/problem+json"
    assert "nobody" in unknown.json()["detail"]


async def test_admin_lists_faults_and_reloads(tmp_path: Path) -> None:
    """An operator learns what is wrong with an agent, and loads the repaired one at once."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        bad = await anyio.to_thread.run_sync(
            lambda: write_agent(gateway.config.agents_dir, name="second")
        )
        text = await anyio.Path(bad).read_text()
        await anyio.Path(bad).write_text(text.replace("kind: Agent", "kind: Agnt"))
        refused = (await client.post("/api/v1/admin/reload")).json()
        listed = (await client.get("/api/v1/admin/agents")).json()
        await anyio.Path(bad).write_text(text)
        loaded = (await client.post("/api/v1/admin/reload")).json()

    assert [(fault["field"], fault["line"] > 0) for fault in refused["faults"]] == [("kind", True)]
    assert listed["faults"] == refused["faults"]
    assert listed["agents"][0]["folder"].endswith("agents/test")
    assert loaded == {"added": ["second"], "changed": [], "removed": [], "faults": []}


async def test_a_session_is_begun_at_its_location_and_a_named_chat_has_one(tmp_path: Path) -> None:
    """The answer names where it is; a client that keeps its own names needs to store no ids.

    A double click begins one conversation, not two of which one is lost.
    """
    found: list[str] = []
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:

        async def begin(**body: str) -> httpx2.Response:
            return await client.post("/api/v1/sessions", json={"agent": "test", **body})

        async def name() -> None:
            found.append((await begin(chat="desk")).json()["id"])

        created = await begin()
        shown = await client.get(created.headers["location"])
        first, again, other = [await begin(chat=f"desk {number}") for number in (4, 4, 5)]
        unknown = await begin(agent="nobody")
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(name)

    assert created.status_code == 201
    assert shown.json() == created.json()
    assert shown.json()["agent"] == "test"
    assert shown.json()["channel"] == "http"
    assert shown.json()["status"] == "active"
    assert shown.json()["open_turn"] is None
    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 201)
    assert again.json()["id"] == first.json()["id"] != other.json()["id"]
    assert unknown.status_code == 404
    assert unknown.json()["detail"] == "there is no agent 'nobody'; there are: test"
    assert len(found) == 10
    assert len(set(found)) == 1


async def test_sessions_are_listed_newest_first_page_by_page(tmp_path: Path) -> None:
    """A client walks through all sessions, each once."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        made = [await gateway.session() for _ in range(5)]
        seen: list[str] = []
        after = ""
        pages = 0
        while True:
            page = (
                await client.get("/api/v1/sessions", params={"after": after, "limit": 2})
            ).json()
            seen += [row["id"] for row in page["sessions"]]
            pages += 1
            if page["next"] is None:
                break
            after = page["next"]

    assert seen == sorted(made, reverse=True)
    assert pages == 3


async def test_reset_ends_a_session_and_its_chat_starts_anew(tmp_path: Path) -> None:
    """After a reset nothing of the old session reaches the model, and the old one can be read."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        named = {"agent": "test", "chat": "desk"}
        old = (await client.post("/api/v1/sessions", json=named)).json()["id"]
        reset = await client.post(f"/api/v1/sessions/{old}/reset")
        ended = (await client.get(f"/api/v1/sessions/{old}")).json()
        late = await client.post(f"/api/v1/sessions/{old}/messages", json={"content": "hi"})
        new = await client.post("/api/v1/sessions", json=named)

    assert reset.status_code == 204
    assert (ended["status"], ended["ended_reason"]) == ("ended", "reset")
    assert late.status_code == 409
    assert late.json()["type"] == "urn:everturn:problem:session-ended"
    assert new.status_code == 201
    assert new.json()["id"] != old


async def test_what_is_no_session_is_404_on_every_route(tmp_path: Path) -> None:
    """In the same shape for a wrong id and for one that was deleted, whose words are gone."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        gone = await gateway.session()
        await say(gateway, gone, "secret")
        deleted = await client.delete(f"/api/v1/sessions/{gone}")
        answers: dict[str, list[httpx2.Response]] = {}
        for session_id in (gone, UNKNOWN):
            base = f"/api/v1/sessions/{session_id}"
            message = {"content": "hi"}
            answers[session_id] = [
                await client.get(base),
                await client.delete(base),
                await client.post(f"{base}/reset"),
                await client.post(f"{base}/cancel"),
                await client.get(f"{base}/messages"),
                await client.post(f"{base}/messages", json=message),
                await client.post(f"{base}/stream", json=message),
                await client.get(f"{base}/events"),
            ]
        rows = (await client.get("/api/v1/sessions")).json()["sessions"]

    assert deleted.status_code == 204
    assert rows == []
    for session_id, told in answers.items():
        assert [answer.status_code for answer in told] == [404] * 8
        types = {answer.json()["type"] for answer in told}
        assert types == {"urn:everturn:problem:unknown-session"}
        details = {answer.json()["detail"] for answer in told}
        assert details == {f"there is no session '{session_id}'"}


async def test_a_path_as_session_id_reaches_no_file(tmp_path: Path) -> None:
    """An id is never part of a path before it is known to be an id."""
    outside = tmp_path / "workspace" / "outside.yaml"
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        await anyio.Path(outside).write_text("secret")
        answers = [
            await client.request(method, f"/api/v1/sessions/{evil}{path}")
            for evil in (
                "..",
                "..%2f..%2foutside.yaml",
                "%2e%2e%2foutside.yaml",
                "a%00b",
                "~",
                "C:",
            )
            for method, path in (("GET", ""), ("GET", "/messages"), ("DELETE", ""))
        ]

    assert {answer.status_code for answer in answers} <= {404, 405}
    assert all("secret" not in answer.text for answer in answers)
    assert outside.exists()


async def test_messages_are_paged_oldest_first(tmp_path: Path) -> None:
    """Walking through a history gives every message once, with its turn, wherever pages are cut."""
    provider = ScriptedProvider(*(f"reply {number}" for number in range(1, 13)))
    provider.script += [calling(("a", "clock"), ("b", "date")), "noon"]
    async with (
        open_http_gateway(tmp_path, provider=provider) as gateway,
        gateway.client() as client,
    ):
        session_id = await gateway.session()
        await say(gateway, session_id, *(f"question {number}" for number in range(1, 14)))
        path = f"/api/v1/sessions/{session_id}/messages"
        whole = (await client.get(path, params={"limit": 500})).json()
        for size in (1, 2, 3, 7):
            pages: list[dict[str, object]] = []
            after = "0"
            while True:
                page = (await client.get(path, params={"after": after, "limit": size})).json()
                pages += page["messages"]
                if page["next"] is None:
                    break
                after = page["next"]

            assert pages == whole["messages"]

    roles = [*["user", "assistant"] * 13, "tool", "tool", "assistant"]
    turns = [*(f"t{number}" for number in range(1, 14) for _ in range(2)), *["t13"] * 3]
    assert [m["role"] for m in whole["messages"]] == roles
    assert [m["turn_id"] for m in whole["messages"]] == turns
    assert whole["messages"][2]["content"] == "question 2"
    assert whole["messages"][3]["content"] == "reply 2"


async def test_a_waiting_message_has_no_turn_yet(tmp_path: Path) -> None:
    """A message that waits behind a running turn is shown, and is not claimed by that turn."""
    provider = ScriptedProvider()
    provider.hold()
    async with open_http_gateway(tmp_path, provider=provider) as gateway:
        session_id = await gateway.session()
        path = f"/api/v1/sessions/{session_id}/messages"
        async with gateway.client() as client:
            wish = {"Prefer": "respond-async"}
            await client.post(path, json={"content": "first"}, headers=wish)
            await provider.until_called()
            await client.post(path, json={"content": "second"}, headers=wish)
            messages = (await client.get(path)).json()["messages"]
            session = (await client.get(f"/api/v1/sessions/{session_id}")).json()
        provider.release()

    assert [(m["content"], m["turn_id"]) for m in messages] == [("first", "t1"), ("second", None)]
    assert session["waiting"] == 1
    assert session["open_turn"]["turn_id"] == "t1"


async def test_history_is_complete_after_a_restart_and_as_it_was_sent(tmp_path: Path) -> None:
    """What people read is what is on disk; odd characters and blanks reach the log unchanged."""
    text = "  \u2028 zero\u0000 emoji \U0001f469‍\U0001f4bb \x7f \ufeff\n"
    async with open_http_gateway(tmp_path) as gateway:
        session_id = await gateway.session()
        await say(gateway, session_id, "one", text)
        async with gateway.client() as client:
            before = (await client.get(f"/api/v1/sessions/{session_id}/messages")).json()
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        after = (await client.get(f"/api/v1/sessions/{session_id}/messages")).json()
        events = await gateway.service.history(session_id, after=0, limit=99)

    assert after == before
    assert len(after["messages"]) == 4
    assert [e.body.text for e in events if isinstance(e.body, Received)] == ["one", text]
