"""The list of sessions and those that are idle: from an index that is never believed over files."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from support.patience import WAIT_S
from support.tables import table

from everturn.testing._histories import moment, replay
from everturn_actors.events import Event, Received, SessionEnded, SessionStarted
from everturn_actors.ids import new_session_id
from everturn_actors.journal.files import FileStore
from everturn_actors.journal.index import entries as index
from everturn_actors.journal.index import listing
from everturn_actors.journal.log.layout import SessionFiles
from everturn_actors.journal.opening import open_file_store
from everturn_actors.model import ConversationKey

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LONG_AFTER = datetime(9999, 1, 1, tzinfo=UTC)
MANY = 300


async def begin(store: FileStore, *numbers: int, agent: str = "a") -> list[str]:
    """Begin a session for each number; later numbers are newer."""
    ids = [new_session_id(NOW + timedelta(days=number), "00000000") for number in numbers]
    for session_id in ids:
        key = ConversationKey(channel="cli", chat=session_id, agent=agent)
        body = SessionStarted(session_id=session_id, key=key)
        await store.append(session_id, (Event(seq=1, at=NOW, body=body),), expected_seq=0)
    return ids


async def listed(store: FileStore, page: int = 7) -> list[str]:
    """Return the whole list, read in pages."""
    ids: list[str] = []
    while rows := await store.sessions(after=ids[-1] if ids else "", limit=page):
        ids += [row.session_id for row in rows]
    return ids


async def idle(store: FileStore, agent: str = "a", before: datetime = LONG_AFTER) -> list[str]:
    """Return the sessions of an agent that are idle."""
    return [row.session_id async for row in store.idle(agent, before=before)]


async def until_indexed(store: FileStore, agent: str, ids: Sequence[str]) -> None:
    """Return when the index knows what there is to know of these."""
    with anyio.fail_after(WAIT_S):
        while sorted(await idle(store, agent)) != sorted(ids):  # noqa: ASYNC110 - it tells nobody
            await anyio.sleep(0.01)


@asynccontextmanager
async def eager_store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[FileStore]:
    """Open a store whose index does not wait with what it could do later."""
    monkeypatch.setattr(listing, "START_DELAY_S", 0.0)
    monkeypatch.setattr(listing, "WRITE_BEHIND_S", 0.01)
    async with open_file_store(folder) as store:
        yield store


def put_back(saved: Path, folder: Path) -> None:
    """Copy a session folder, as somebody does who restores a backup."""
    shutil.copytree(saved, folder / "sessions" / saved.name)


async def test_the_list_is_what_the_folders_are(tmp_path: Path) -> None:
    """Whoever restores, copies or deletes a folder by hand finds the list to be true."""
    workspace, saved = tmp_path / "w", tmp_path / "saved"
    async with open_file_store(workspace) as store:
        ids = await begin(store, 1, 2, 3, 4)
        await anyio.to_thread.run_sync(shutil.move, workspace / "sessions" / ids[1], saved / ids[1])
        before = await listed(store)
        await anyio.to_thread.run_sync(put_back, saved / ids[1], workspace)
        (workspace / "sessions" / ids[0] / "events.jsonl").write_bytes(b"no log")
        after = await listed(store)

    assert before == [ids[3], ids[2], ids[0]]
    assert after == [ids[3], ids[2], ids[1]]


async def test_half_a_character_in_a_name_hides_no_session(tmp_path: Path) -> None:
    """A log may hold it, the index may not: neither the list nor the end of the store fails."""
    async with open_file_store(tmp_path) as store:
        odd = await begin(store, 1, agent="a\udfff")
        ids = await begin(store, 2)
        before = await listed(store)
    async with open_file_store(tmp_path) as store:
        after = await listed(store)

        assert await idle(store) == ids
    assert before == after == [*ids, *odd]


@table("damage", ["missing", "empty", "garbage", "another", "folder"])
async def test_an_index_that_cannot_be_used_is_made_anew(tmp_path: Path, damage: str) -> None:
    """It is a cache; nobody has to repair it, and nobody has to know of it."""
    async with open_file_store(tmp_path) as store:
        ids = await begin(store, *range(1, 20))
        assert await listed(store) == ids[::-1]
    path = tmp_path / "index.sqlite"
    match damage:
        case "missing":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "garbage":
            path.write_bytes(os.urandom(20_000))
        case "another":
            data = bytearray(path.read_bytes())
            data[4096:] = os.urandom(len(data) - 4096)
            path.write_bytes(data)
        case _:
            path.unlink()
            path.mkdir()
    async with open_file_store(tmp_path) as store:
        agents = await store.agents()
        found = await idle(store), agents, await listed(store)
        again = await listed(store)

    assert (sorted(found[0]), found[1], found[2]) == (ids, ("a",), ids[::-1])
    assert again == found[2]


async def test_sessions_that_were_there_before_the_index_expire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is filled beside the work; what it has not read yet comes with the next round."""
    async with open_file_store(tmp_path) as store:
        ids = await begin(store, *range(1, MANY))
        others = await begin(store, *range(MANY, MANY + 5), agent="b")
    (tmp_path / "index.sqlite").unlink(missing_ok=True)
    async with eager_store(tmp_path, monkeypatch) as store:
        await until_indexed(store, "a", ids)
        assert sorted(await idle(store, "b")) == others
        assert sorted(await store.agents()) == ["a", "b"]


async def test_a_look_for_idle_sessions_reads_those_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour's round costs what is due, not what there is."""
    async with eager_store(tmp_path, monkeypatch) as store:
        ids = await begin(store, *range(1, MANY))
        long_ago = NOW.timestamp()
        for session_id in ids[:3]:
            log = tmp_path / "sessions" / session_id / "events.jsonl"
            os.utime(log, (long_ago, long_ago))
        await until_indexed(store, "a", ids)
        assert len(await idle(store, before=NOW + timedelta(days=1))) == 3
    read: list[str] = []
    summarise = index.summarise

    def counted(session: SessionFiles) -> object:
        read.append(session.session_id)
        return summarise(session)

    monkeypatch.setattr(index, "summarise", counted)
    async with open_file_store(tmp_path) as store:
        found = await idle(store, before=NOW + timedelta(days=1))

    assert sorted(found) == ids[:3]
    assert sorted(read) == ids[:3]


async def test_what_the_index_says_is_looked_up_before_it_is_believed(tmp_path: Path) -> None:
    """A process that was killed had not written down yet what had happened last."""
    async with open_file_store(tmp_path) as store:
        ids = await begin(store, 1, 2, 3)
        assert len(await idle(store)) == 3  # the index is written here
        await store.append(
            ids[0],
            (Event(seq=2, at=moment(5), body=SessionEnded(reason="reset")),),
            expected_seq=1,
        )
        events = await store.read(ids[0], after=0, limit=9)
        await store.save_snapshot(replay(events), compaction="disabled")
        stale = (tmp_path / "index.sqlite").read_bytes()
        now = datetime.now(UTC)  # noqa: TID251 - file times are the machine's
        await store.append(
            ids[1], (Event(seq=2, at=now, body=Received(text="still here")),), expected_seq=1
        )
        soon = now - timedelta(seconds=5)
    (tmp_path / "index.sqlite").write_bytes(stale)
    async with open_file_store(tmp_path) as store:
        ended_is_left_out = await idle(store)
        busy_are_left_out = await idle(store, before=soon)

    assert sorted(ended_is_left_out) == ids[1:]
    assert busy_are_left_out == []
