"""A history with missing events says so wherever it is read, and why they are missing."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
from support.gateway import HttpGateway, open_client_here, open_http_gateway
from support.patience import WAIT_S
from support.tables import table

from everturn_actors.model import Compaction
from everturn_channels.terminal.client import Said
from everturn_gateway.client import open_api
from everturn_gateway.client.history import past_events
from everturn_gateway.http.streams import session_messages

TURNS = 14  # enough for a snapshot to have let go of the beginning
LOST = "the archive that held them was lost or damaged"
DISCARDED = "discarded on purpose"


def _unlink(path: Path) -> None:
    path.unlink()


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _halve(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


DAMAGE = {"lost": _unlink, "emptied": _empty, "halved": _halve}


def damage(folder: Path, kind: str) -> None:
    """Damage the one archive of a folder."""
    (archive,) = folder.rglob("events.archive.jsonl")
    DAMAGE[kind](archive)


@asynccontextmanager
async def talked(
    tmp_path: Path, *, kind: str = "", compaction: Compaction = "archive"
) -> AsyncGenerator[tuple[HttpGateway, str]]:
    """Talk, stop, damage the archive, and start again; yield the gateway and the session."""
    async with open_http_gateway(tmp_path, compaction=compaction) as gateway:
        session = await gateway.session()
        async with gateway.client() as client:
            for number in range(TURNS):
                sent = {"content": f"word {number}"}
                answer = await client.post(f"/api/v1/sessions/{session}/messages", json=sent)
                assert answer.status_code == 200
    if kind:
        damage(tmp_path, kind)
    async with open_http_gateway(tmp_path, compaction=compaction) as gateway:
        yield gateway, session


async def read_stream(gateway: HttpGateway, session: str, *, after: int) -> list[dict[str, Any]]:
    """Return the gaps and events of a session's stream up to its newest event."""
    last_seq = (await gateway.service.view(session)).last_seq
    read: list[dict[str, Any]] = []
    chunks = session_messages(gateway.service, session, lambda _: False, after=after)
    with anyio.fail_after(WAIT_S):
        async with aclosing(chunks):
            async for chunk in chunks:
                lines = dict(
                    line.split(": ", 1) for line in chunk.decode().splitlines() if ": " in line
                )
                if "data" in lines:
                    read.append({"event": lines["event"], **json.loads(lines["data"])})
                if lines.get("id") == str(last_seq):
                    return read
    raise AssertionError(read)


async def all_pages(client: httpx2.AsyncClient, path: str) -> list[dict[str, Any]]:
    """Return a history two messages a page."""
    pages, after = list[dict[str, Any]](), "0"
    while after:
        page = (await client.get(path, params={"after": after, "limit": 2})).json()
        pages.append(page)
        after = page["next"]
    return pages


@table("kind", DAMAGE)
async def test_a_gap_is_told_wherever_the_history_is_read(tmp_path: Path, kind: str) -> None:
    """Page by page over HTTP, to followers, on the command line, and where a request is explained.

    Each gap is told once, and no message beside it is missing. A stream's numbers have no holes but
    those that it names, and resuming goes on behind one.
    """
    async with talked(tmp_path, kind=kind) as (gateway, session), gateway.client() as client:
        path = f"/api/v1/sessions/{session}"
        last_seq = (await gateway.service.view(session)).last_seq
        explained = await client.get(f"{path}/context/{last_seq}")
        early = await client.get(f"{path}/context/2")
        said = await terminal_history(gateway, session)
        whole = (await client.get(f"{path}/messages")).json()
        pages = await all_pages(client, f"{path}/messages")
        read = await read_stream(gateway, session, after=0)
        await client.post(f"{path}/messages", json={"content": "once more"})
        later = (await client.get(f"{path}/messages")).json()
        again = await read_stream(gateway, session, after=0)
        (told,) = [each for each in read if each["event"] == "gap"]
        resumed = await read_stream(gateway, session, after=told["last"])

    (gap,) = whole["gaps"]
    assert gap["cause"] == "lost"
    assert LOST in gap["text"]
    assert (gap["first"] == 1) is (kind != "halved")
    assert [m for page in pages for m in page["messages"]] == whole["messages"]
    of_pages = [each for page in pages for each in page["gaps"]]
    assert (of_pages[0]["first"], of_pages[-1]["last"]) == (gap["first"], gap["last"])
    numbers = [int(m["message_id"][1:]) for m in whole["messages"]]
    assert not [number for number in numbers if gap["first"] <= number <= gap["last"]]
    assert [m["content"] for m in later["messages"]][-2:] == ["once more", "reply 1"]
    assert later["gaps"] == whole["gaps"]

    expected = 1
    for each in read:
        first = each["first"] if each["event"] == "gap" else each["seq"]
        assert first == expected
        expected = (each["last"] if each["event"] == "gap" else each["seq"]) + 1
    assert LOST in told["text"]
    assert [each for each in again if each["event"] == "gap"] == [told]
    assert resumed == again[again.index(told) + 1 :]

    (shown,) = [each for each in said if each.role == "gap"]
    assert LOST in shown.text
    assert [each.seq for each in said] == sorted(each.seq for each in said)

    # A replay with a hole in it would tell something that never was.
    assert explained.status_code == 404
    assert LOST in explained.json()["detail"]
    assert early.status_code == (200 if kind == "halved" else 404)


async def terminal_history(gateway: HttpGateway, session: str) -> Sequence[Said]:
    """Return what the terminal shows of a session."""
    async with open_client_here(gateway) as client:
        return await client.history.messages(session, after=0)


async def test_what_was_discarded_on_purpose_is_told_apart_and_not_waited_for(
    tmp_path: Path,
) -> None:
    """Nobody should look for a fault in what was chosen, nor wait for events that never come."""
    async with (
        talked(tmp_path, compaction="discard") as (gateway, session),
        gateway.client() as client,
    ):
        page = (await client.get(f"/api/v1/sessions/{session}/messages")).json()
        read = await read_stream(gateway, session, after=0)
        said = await terminal_history(gateway, session)
        then = (await gateway.service.view(session)).last_seq
        with anyio.fail_after(WAIT_S):
            async with open_api(gateway.base_url, token="") as api:
                gone = [each.seq async for each in past_events(api, session, until=then)]
                await client.post(f"/api/v1/sessions/{session}/messages", json={"content": "more"})
                now = (await gateway.service.view(session)).last_seq
                found = [each.seq async for each in past_events(api, session, until=now)]

    (gap,) = page["gaps"]
    assert gap["cause"] == "discarded"
    assert DISCARDED in gap["text"]
    assert read[0] == {"event": "gap", **gap}
    assert (said[0].role, said[0].text) == ("gap", gap["text"])
    assert gone == []
    assert found == [*range(then + 1, now + 1)]


async def test_a_whole_history_has_no_gap(tmp_path: Path) -> None:
    """An alarm that is always there is no alarm."""
    async with talked(tmp_path) as (gateway, session), gateway.client() as client:
        page = (await client.get(f"/api/v1/sessions/{session}/messages")).json()
        read = await read_stream(gateway, session, after=0)
        said = await terminal_history(gateway, session)

    assert page["gaps"] == []
    assert not [each for each in read if each["event"] == "gap"]
    assert not [each for each in said if each.role == "gap"]
