"""How people sort sessions: titles, what is pinned, what is archived."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.gateway import open_http_gateway
from support.tables import table

from everturn_actors.errors import InvalidInputError, JournalError
from everturn_actors.events import Labelled
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import IncomingMessage, Labels
from everturn_actors.ports import SessionFilter
from everturn_actors.testing import TestService, open_test_service

SESSIONS = "/api/v1/sessions"


async def begin(test: TestService) -> str:
    """Begin a session with a message; return its id."""
    submission = await test.service.submit(IncomingMessage(text="hello", key=test.key()))
    await submission.result()
    return submission.session_id


async def listed(client: httpx2.AsyncClient, **params: Any) -> list[str]:
    """Return the ids of the list by activity."""
    answer = await client.get(SESSIONS, params={"order": "activity", **params})
    assert answer.status_code == 200, answer.text
    return [row["id"] for row in answer.json()["sessions"]]


# --- at the service ---


async def test_labels_survive_a_restart_and_stand_in_lists_at_once() -> None:
    """Whoever tidied up finds it so, whatever became of the gateway meanwhile."""
    disk = MemoryDisk()
    async with open_test_service(disk=disk) as test:
        session_id = await begin(test)
        label = test.service.conversations.label
        await label(session_id, title="  Trip ", pinned=True, by="ana")
        before = (await test.service.view(session_id)).last_seq
        assert await label(session_id, pinned=True) == Labels(title="Trip", pinned=True)
        assert (await test.service.view(session_id)).last_seq == before
        wanted = SessionFilter(pinned=True)
        rows = await test.service.reader.sessions(wanted=wanted)
        assert [row.labels.title for row in rows] == ["Trip"]
    async with open_test_service(disk=disk) as test:
        state = await test.service.view(session_id)
        (event,) = await test.service.history(session_id, after=before - 1, limit=9)
    assert state.labels == Labels(title="Trip", pinned=True)
    assert event.body == Labelled(labels=state.labels, by="ana")


async def test_what_has_ended_is_sorted_too_and_its_readers_come_to_the_end() -> None:
    """Most of what people archive is over; it stays over, and nobody waits there for more."""
    disk = MemoryDisk()
    async with open_test_service(disk=disk) as test:
        session_id = await begin(test)
        await test.service.reset(session_id)
        ended = await test.service.view(session_id)
        await test.service.conversations.label(session_id, archived=True)
        seen = [e async for e in test.service.watch(session_id, after=ended.last_seq)]
        rows = await test.service.reader.sessions(wanted=SessionFilter(archived=True))
    async with open_test_service(disk=disk) as test:
        state = await test.service.view(session_id)
        again = await begin(test)
    assert [row.session_id for row in rows] == [session_id]
    assert len(seen) == 1
    assert (state.status, state.ended_reason) == ("ended", "reset")
    assert (state.labels.archived, state.updated_at) == (True, ended.updated_at)
    assert again != session_id


@table("is_kept", [False, True])
async def test_a_crash_leaves_a_label_or_none(*, is_kept: bool) -> None:
    """What was answered is there; what was not is there wholly or not at all."""
    disk = MemoryDisk()
    async with open_test_service(disk=disk) as test:
        session_id = await begin(test)
        disk.lose_power_at_append(kept_events=int(is_kept), tear=not is_kept)
        with pytest.raises(JournalError):
            await test.service.conversations.label(session_id, title="Trip", archived=True)
    async with open_test_service(disk=disk) as test:
        state = await test.service.view(session_id)
        assert state.labels == (Labels(title="Trip", archived=True) if is_kept else Labels())
        assert (await test.service.conversations.label(session_id, pinned=True)).pinned
        rows = await test.service.reader.sessions(wanted=SessionFilter(pinned=True))
        assert [row.labels.archived for row in rows] == [is_kept]


async def test_a_title_is_one_line_of_bounded_length() -> None:
    """It stands in lists, windows and files of others."""
    async with open_test_service() as test:
        session_id = await begin(test)
        for title in ("a\nb", "a\x1b[31m", "a\u202eb", "x" * 121):
            with pytest.raises(InvalidInputError, match="title"):
                await test.service.conversations.label(session_id, title=title)
        assert (await test.service.view(session_id)).labels == Labels()


# --- over HTTP ---


async def test_a_list_has_what_is_pinned_first_and_what_is_archived_when_asked(
    tmp_path: Path,
) -> None:
    """Page by page, and each stands where its last message put it."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        gateway.provider.script += ["one", "two", "three", "four"]
        ids = [await gateway.session() for _ in range(4)]
        for number, each in enumerate(ids):
            await client.post(f"{SESSIONS}/{each}/messages", json={"content": f"words {number}"})
        pinned = await client.patch(f"{SESSIONS}/{ids[0]}", json={"title": "Trip", "pinned": True})
        await client.patch(f"{SESSIONS}/{ids[2]}", json={"archived": True})
        every = await listed(client)
        paged: list[str] = []
        page: dict[str, Any] = {"next": ""}
        while page["next"] is not None:
            params: dict[str, Any] = {"order": "activity", "limit": 1, "after": page["next"]}
            page = (await client.get(SESSIONS, params=params)).json()
            paged += [row["id"] for row in page["sessions"]]
        archived = await listed(client, archived=True)
        named = await listed(client, q="trip")
        by_first_words = await listed(client, q="words 0")
        created = (await client.get(SESSIONS)).json()["sessions"]
        body = (await client.patch(f"{SESSIONS}/{ids[0]}", json={"title": ""})).json()
        rows = (await client.get(SESSIONS, params={"order": "activity"})).json()["sessions"]

    assert (pinned.status_code, pinned.json()["title"]) == (200, "Trip")
    assert every == paged == [ids[0], ids[3], ids[1]]
    assert archived == [ids[2]]
    assert named == by_first_words == [ids[0]]
    assert {row["id"]: row["title"] for row in created}[ids[0]] == "Trip"
    assert len(created) == 4
    assert (body["title"], body["pinned"]) == ("", True)
    assert (rows[0]["title"], rows[0]["pinned"]) == ("words 0", True)


async def test_labels_are_refused_where_they_are_none(tmp_path: Path) -> None:
    """With the field; nothing changes."""
    async with open_http_gateway(tmp_path) as gateway, gateway.client() as client:
        session_id = await gateway.session()
        path = f"{SESSIONS}/{session_id}"
        wrong: list[dict[str, Any]] = [
            {"title": "x" * 121},
            {"title": "two\nlines"},
            {"pinned": 1},
            {"titel": "x"},
        ]
        statuses = [(await client.patch(path, json=each)).status_code for each in wrong]
        nothing = await client.patch(path, json={})
        unknown = await client.patch(f"{SESSIONS}/{session_id[:-1]}x", json={"pinned": True})

    assert statuses == [422, 422, 422, 422]
    assert (nothing.status_code, nothing.json()["last_event"]) == (200, 1)
    assert unknown.status_code == 404
