"""Cleaning by `sessions.keep`, and erasing a person, over HTTP and as commands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
from support.command import everturn, write_agent
from support.files import files_with
from support.gateway import HttpGateway, open_http_gateway

from everturn_actors.events import Received
from everturn_actors.model import ConversationKey, IncomingMessage
from everturn_actors.testing import ManualClock
from everturn_gateway.config.keep import SessionsKeepSettings

ADMIN = "/api/v1/admin"
SECRET = b"my number is 555 0199"


def keeping(gateway: HttpGateway, keep: Mapping[str, object]) -> None:
    """Set `sessions.keep`."""
    value = SessionsKeepSettings.model_validate(keep).value()
    sessions = replace(gateway.config.sessions, keep=value)
    gateway.config = replace(gateway.config, sessions=sessions)


async def told(client: httpx2.AsyncClient, path: str, body: Mapping[str, str]) -> list[Any]:
    """Have something done; return what was told of it."""
    async with client.sse(f"{ADMIN}/{path}", method="POST", json=dict(body)) as source:
        assert source.response.status_code == 200, await source.response.aread()
        return [(each.event, json.loads(each.data)) async for each in source if each.data]


async def say(
    gateway: HttpGateway, chat: str, sender: str, text: str, channel: str = "telegram"
) -> str:
    """Send a message as a channel does, wait for its answer, and return the session."""
    key = ConversationKey(channel=channel, chat=chat, agent="test")
    sent = await gateway.service.submit(IncomingMessage(key=key, text=text, sender=sender))
    await sent.result()
    return sent.session_id


async def test_old_sessions_go_and_pinned_and_busy_ones_stay(tmp_path: Path) -> None:
    """First as a plan, which changes nothing; a conversation that was cleaned begins anew."""
    clock = ManualClock(datetime.now(UTC))  # noqa: TID251 - files are stamped by the machine's
    async with open_http_gateway(tmp_path, clock=clock) as gateway, gateway.client() as client:
        sessions = [await say(gateway, f"c{n}", "7", f"hello {n}", "http") for n in range(3)]
        gateway.provider.hold()
        key = ConversationKey(channel="http", chat="c3", agent="test")
        asked = await gateway.service.submit(IncomingMessage(key=key, text="take your time"))
        sessions.append(asked.session_id)
        await client.patch(f"/api/v1/sessions/{sessions[1]}", json={"pinned": True})
        await gateway.store.save_media(sessions[2], "a.png", b"x" * 50)
        clock.advance(timedelta(days=6).total_seconds())
        none = (await client.get(f"{ADMIN}/clean")).json()
        keeping(gateway, {"days": 5, "media_days": 1})
        plan = (await client.get(f"{ADMIN}/clean")).json()
        unchanged = await gateway.store.sessions(after="", limit=9)
        events = await told(client, "clean", {})
        left = await gateway.store.sessions(after="", limit=9)
        gateway.provider.release()
        anew = await say(gateway, "c0", "7", "who am I?", "http")
        twice = await told(client, "clean", {})

    assert none == {"is_set": False, "steps": [], "size_bytes": 0}
    assert {(each["what"], each["name"]) for each in plan["steps"]} == {
        ("session", sessions[0]),
        ("session", sessions[2]),
    }
    assert plan["size_bytes"] == sum(each["size_bytes"] for each in plan["steps"]) > 50
    assert len(unchanged) == 4
    assert events[-1] == ("done", {"removed": 2, "stayed": 0, "size_bytes": plan["size_bytes"]})
    assert {row.session_id for row in left} == {sessions[1], sessions[3]}
    assert anew not in sessions
    assert twice == [("done", {"removed": 0, "stayed": 0, "size_bytes": 0})]


async def test_what_is_said_to_a_session_that_is_held_waits_and_is_answered(
    tmp_path: Path,
) -> None:
    """It is not lost, whatever is done to the session meanwhile; two do not hold it at once."""
    async with open_http_gateway(tmp_path) as gateway, anyio.create_task_group() as tasks:
        session = await say(gateway, "c", "7", "hello")
        held = gateway.service.maintenance.held
        async with held(session) as is_held, held(session) as is_held_twice:
            before = await gateway.store.read(session, after=0, limit=99)
            tasks.start_soon(say, gateway, "c", "7", "are you there?")
            for _ in range(100):
                await anyio.lowlevel.checkpoint()
            meanwhile = await gateway.store.read(session, after=0, limit=99)
        again = await say(gateway, "c", "7", "thank you")
        after = await gateway.store.read(session, after=0, limit=99)

    assert (is_held, is_held_twice) == (True, False)
    assert meanwhile == before
    assert again == session
    said = [each.body.text for each in after if isinstance(each.body, Received)]
    assert sorted(said) == ["are you there?", "hello", "thank you"]


async def test_what_a_person_said_is_nowhere_any_more(tmp_path: Path) -> None:
    """Their own chat goes; in a group what others said stays, and the group goes on."""
    key = ConversationKey(channel="telegram", chat="g", agent="test")
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        own = await say(gateway, "7", "7", f"[Bob] {SECRET.decode()}")
        group = await say(gateway, "g", "8", "[Ann] whose number is it?")
        aside = IncomingMessage(
            kind="ambient", key=key, text=f"[Bob] {SECRET.decode()}", sender="7"
        )
        await gateway.service.submit(aside)
        await say(gateway, "g", "8", "[Ann] thank you, Bob")
        other = await say(gateway, "9", "9", "my name is Nobody")
        search = await client.get("/api/v1/search", params={"q": "0199"})
        assert files_with(tmp_path, SECRET)
        wrong = await client.post(f"{ADMIN}/erase", json={"person": "bob"})
        events = await told(client, "erase", {"person": "telegram:7"})
        after = await client.get("/api/v1/search", params={"q": "0199"})
        kept = await client.get("/api/v1/search", params={"q": "number"})
        goes_on = await say(gateway, "g", "8", "[Ann] and now?")
        history = (await client.get(f"/api/v1/sessions/{group}/messages")).json()["messages"]
        again = await told(client, "erase", {"person": "telegram:7"})
        sessions = {row.session_id for row in await gateway.store.sessions(after="", limit=9)}

    assert {hit["session_id"] for hit in search.json()["hits"]} == {own, group}
    assert wrong.status_code == 422
    assert "person" in wrong.json()["detail"]
    assert events[-1] == (
        "done",
        {"looked": 3, "removed": 1, "rewritten": 1, "messages": 2, "left": []},
    )
    assert after.json()["hits"] == []
    assert [hit["session_id"] for hit in kept.json()["hits"]] == [group]
    assert goes_on == group
    assert "[Ann] whose number is it?" in [each["content"] for each in history]
    assert again[-1][1]["messages"] == 0
    assert sessions == {group, other}
    assert files_with(tmp_path, SECRET) == []
    records = (tmp_path / "workspace" / "erasures.jsonl").read_text().splitlines()
    assert [json.loads(line)["messages"] for line in records] == [2, 0]
    assert "telegram" not in "".join(records)


async def test_both_are_commands(tmp_path: Path) -> None:
    """A person sees a plan, is asked before what cannot be taken back, and told what was done."""
    write_agent(tmp_path)
    await everturn("run", "hello", cwd=tmp_path)
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"x" * 9)
    await everturn("run", "look", "--attach", "a.png", cwd=tmp_path)
    taken = await everturn("export", "--media", "--format", "jsonl", "--json", cwd=tmp_path)
    both = await everturn("export", "x", "--agent", "y", cwd=tmp_path)
    unset = await everturn("clean", "--dry-run", cwd=tmp_path)
    keep = "sessions: {keep: {days: 0.0000001, agents: {gone: {days: 3}}}}\n"
    (tmp_path / "everturn.yaml").write_text(keep)
    doctor = await everturn("doctor", cwd=tmp_path)
    plan = await everturn("clean", "--dry-run", cwd=tmp_path)
    done = await everturn("clean", "--json", cwd=tmp_path)
    nothing = await everturn("clean", cwd=tmp_path)
    nobody = await everturn("erase", "bob", cwd=tmp_path)
    unasked = await everturn("erase", "telegram:7", cwd=tmp_path)
    erased = await everturn("erase", "telegram:7", "--yes", cwd=tmp_path)
    listed = await everturn("help", cwd=tmp_path)
    page = await everturn("help", "how long what is kept", cwd=tmp_path)
    options = await everturn("help", "sessions", "list", cwd=tmp_path)
    no_topic = await everturn("help", "no such thing", cwd=tmp_path)
    (tmp_path / "everturn.yaml").write_text("sessions: {keep: {days: -1, weeks: 2}}\n")
    wrong = await everturn("clean", cwd=tmp_path)

    told = json.loads(taken.out)
    assert (told["sessions"], told["files"], told["left"]) == (2, 1, [])
    (media,) = (tmp_path / "export").rglob("*.png")
    assert media.read_bytes() == (tmp_path / "a.png").read_bytes()
    logs = [*(tmp_path / "export").glob("*.jsonl")]
    assert {log.read_bytes()[:9] for log in logs} == {b'{"seq":1,'}
    assert both.code == 2
    assert (unset.code, "`sessions.keep` in everturn.yaml has no limit" in unset.out) == (0, True)
    assert "2 would be removed" in plan.out
    assert "sessions.keep has limits for 'gone', and there is no such agent" in doctor.out
    assert "nothing happened in it for 1e-07 days" in plan.out
    assert json.loads(done.out)["removed"] == 2
    assert nothing.out == "0 removed, 0.0 MB\n"
    assert (nobody.code, "CHANNEL:ID" in nobody.err) == (2, True)
    assert (unasked.code, "add --yes" in unasked.err) == (2, True)
    assert "0 messages of telegram:7 erased" in erased.out
    assert "\noperate " in listed.out
    assert page.out.startswith("## How long what is kept\n")
    assert "--limit" in options.out
    assert (no_topic.code, "lists the pages" in no_topic.err) == (2, True)
    assert wrong.code == 2
    assert "sessions.keep.days" in wrong.err
