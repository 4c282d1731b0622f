"""A history with missing events says so wherever it is read, and why they are missing."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.gateway import HttpGateway, open_client_here, open_http_gateway
from support.patience import WAIT_S

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
KINDS = pytest.mark.parametrize("kind", DAMAGE)


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


@KINDS
async def test_messages_over_http_come_with_the_gap(tmp_path: Path, kind: str) -> None:
    """Page by page, each gap is told once, and no message beside it is missing."""
    async with talked(tmp_path, kind=kind) as (gateway, session), gateway.client() as client:
        path = f"/api/v1/sessions/{session}/messages"
        whole = (await client.get(path)).json()
        pages, after = list[dict[str, Any]](), "0"
        while after:
            page = (await client.get(path, params={"after": after, "limit": 2})).json()
            pages.append(page)
            after = page["next"]
        await client.post(path, json={"content": "once more"})
        later = (await client.get(path)).json()

    (gap,) = whole["gaps"]
    assert gap["cause"] == "lost"
    assert LOST in gap["text"]
    assert (gap["first"] == 1) is (kind != "halved")
    assert [m for page in pages for m in page["messages"]] == whole["messages"]
    told = [each for page in pages for each in page["gaps"]]
    assert (told[0]["first"], told[-1]["last"]) == (gap["first"], gap["last"])
    numbers = [int(m["message_id"][1:]) for m in whole["messages"]]
    assert not [number for number in numbers if gap["first"] <= number <= gap["last"]]
    assert [m["content"] for m in later["messages"]][-2:] == ["once more", "reply 1"]
    assert later["gaps"] == whole["gaps"]


@KINDS
async def test_a_follower_is_told_of_the_gap(tmp_path: Path, kind: str) -> None:
    """Numbers have no holes but those that the stream names; resuming goes on behind a gap."""
    async with talked(tmp_path, kind=kind) as (gateway, session):
        read = await read_stream(gateway, session, after=0)
        (gap,) = [each for each in read if each["event"] == "gap"]
        async with gateway.client() as client:
            await client.post(f"/api/v1/sessions/{session}/messages", json={"content": "more"})
        again = await read_stream(gateway, session, after=0)
        later = await read_stream(gateway, session, after=gap["last"])

    expected = 1
    for each in read:
        first = each["first"] if each["event"] == "gap" else each["seq"]
        assert first == expected
        expected = (each["last"] if each["event"] == "gap" else each["seq"]) + 1
    assert LOST in gap["text"]
    assert [each for each in again if each["event"] == "gap"] == [gap]
    assert later == again[again.index(gap) + 1 :]


async def test_the_past_ends_also_where_it_was_discarded(tmp_path: Path) -> None:
    """A client that shows a session again would otherwise wait for events that never come."""
    async with talked(tmp_path, compaction="discard") as (gateway, session):
        then = (await gateway.service.view(session)).last_seq
        with anyio.fail_after(WAIT_S):
            async with open_api(gateway.base_url, token="") as api, gateway.client() as client:
                gone = [each.seq async for each in past_events(api, session, until=then)]
                await client.post(f"/api/v1/sessions/{session}/messages", json={"content": "more"})
                now = (await gateway.service.view(session)).last_seq
                found = [each.seq async for each in past_events(api, session, until=now)]

    assert gone == []
    assert found == [*range(then + 1, now + 1)]


@KINDS
async def test_a_past_request_behind_a_gap_is_refused_with_the_reason(
    tmp_path: Path, kind: str
) -> None:
    """A replay with a hole in it would tell something that never was."""
    async with talked(tmp_path, kind=kind) as (gateway, session), gateway.client() as client:
        last_seq = (await gateway.service.view(session)).last_seq
        late = await client.get(f"/api/v1/sessions/{session}/context/{last_seq}")
        early = await client.get(f"/api/v1/sessions/{session}/context/2")

    assert late.status_code == 404
    assert LOST in late.json()["detail"]
    assert early.status_code == (200 if kind == "halved" else 404)


async def terminal_history(gateway: HttpGateway, session: str) -> Sequence[Said]:
    """Return what the terminal shows of a session."""
    async with open_client_here(gateway) as client:
        return await client.history.messages(session, after=0)


@KINDS
async def test_the_command_line_shows_the_gap(tmp_path: Path, kind: str) -> None:
    """`sessions show` reads the same history, in process as over HTTP."""
    async with talked(tmp_path, kind=kind) as (gateway, session):
        said = await terminal_history(gateway, session)

    (gap,) = [each for each in said if each.role == "gap"]
    assert LOST in gap.text
    assert [each.seq for each in said] == sorted(each.seq for each in said)


async def test_what_was_discarded_on_purpose_is_told_apart(tmp_path: Path) -> None:
    """Nobody should look for a fault in what was chosen."""
    async with (
        talked(tmp_path, compaction="discard") as (gateway, session),
        gateway.client() as client,
    ):
        page = (await client.get(f"/api/v1/sessions/{session}/messages")).json()
        read = await read_stream(gateway, session, after=0)
        said = await terminal_history(gateway, session)

    (gap,) = page["gaps"]
    assert gap["cause"] == "discarded"
    assert DISCARDED in gap["text"]
    assert read[0] == {"event": "gap", **gap}
    assert (said[0].role, said[0].text) == ("gap", gap["text"])


async def test_a_whole_history_has_no_gap(tmp_path: Path) -> None:
    """An alarm that is always there is no alarm."""
    async with talked(tmp_path) as (gateway, session), gateway.client() as client:
        page = (await client.get(f"/api/v1/sessions/{session}/messages")).json()
        read = await read_stream(gateway, session, after=0)
        said = await terminal_history(gateway, session)

    assert page["gaps"] == []
    assert not [each for each in read if each["event"] == "gap"]
    assert not [each for each in said if each.role == "gap"]
