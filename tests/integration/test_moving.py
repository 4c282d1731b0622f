"""All that is kept goes to a database and comes back, byte for byte, whatever cuts it short."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from support.database import Server, needs_database
from support.stores import open_postgres_store, postgres_setup

from everturn.testing._histories import (
    KEY,
    OTHER_ID,
    SESSION_ID,
    next_event,
    replay,
    simple_log,
    state_in,
)
from everturn_actors.journal.log.layout import Layout
from everturn_actors.model import ConversationKey
from everturn_gateway.app.moving import Moved, move
from everturn_gateway.app.storage import check_not_moved
from everturn_gateway.builtin.postgres.settings import PostgresSettings
from everturn_gateway.builtin.stores import FILE
from everturn_gateway.clock import SystemClock
from everturn_gateway.errors import GatewayError
from everturn_gateway.plugins import OpenedStore

pytestmark = needs_database

IDS = (SESSION_ID, OTHER_ID, "20261121T224956999-3f9a2c1b", "20261122T224956999-3f9a2c1b")
ODD = ConversationKey(channel="\ud800/../\x00", chat="ü" * 500, agent="assistant")


async def fill(opened: OpenedStore) -> None:
    """Keep sessions of each kind, and values beside them."""
    store, keyed = opened.store, opened.keyed
    for session_id in IDS:
        await store.append(session_id, simple_log(2, session_id=session_id), expected_seq=0)
    last = len(simple_log(2))
    logs = {each: simple_log(2, session_id=each) for each in IDS}
    await store.save_snapshot(replay(logs[IDS[0]][:6]), compaction="archive")
    await store.save_snapshot(replay(logs[IDS[1]]), compaction="discard")
    await store.save_snapshot(replay(logs[IDS[2]][:6]), compaction="disabled")
    await store.append(IDS[1], (next_event(last),), expected_seq=last)
    for name in "cab":
        await store.save_result(SESSION_ID, name, name * 500 + "\ud800")
        await store.save_media(SESSION_ID, f"{name}.png", bytes(range(256)))
    await store.bind(KEY, SESSION_ID)
    await store.bind(ODD, OTHER_ID)
    await store.mark_active(OTHER_ID)
    await keyed.put("principals/tokens.json", b'{"tokens": "\xff"}')
    await keyed.append("schedules/runs/digest.jsonl", b"one\ntwo\n", expected_bytes=0)


def contents(workspace: Path) -> dict[str, bytes]:
    """Return all files that are kept, but for caches and locks."""
    passing = ("workspace.lock", "index.sqlite", "move.json")
    return {
        str(path.relative_to(workspace)): path.read_bytes()
        for path in sorted(workspace.rglob("*"))
        if path.is_file() and path.name not in passing
    }


class BrokenOffError(Exception):
    """Something that cuts a move short."""


async def run(source: OpenedStore, target: OpenedStore, *, until: int = 99) -> Moved:
    """Move all; break off when so many sessions are done."""

    def told(done: int, total: int) -> None:
        assert total == len(IDS)
        if done == until:
            raise BrokenOffError

    return await move(source, target, SystemClock().now(), told)


async def test_a_move_there_and_back_changes_no_byte(
    tmp_path: Path, database_server: Server
) -> None:
    """Nobody is locked in, and no gateway works on half of what is kept, or on what was left."""
    old, new = tmp_path / "old", tmp_path / "new"
    section: PostgresSettings = database_server.section(f"t{uuid4().hex}")
    async with FILE.open(postgres_setup(section, old)) as folder:
        await fill(folder)
        before = contents(old)
        async with open_postgres_store(section, tmp_path) as database:
            with pytest.raises(BrokenOffError):
                await run(folder, database, until=2)
            with pytest.raises(GatewayError, match="is not done: run `everturn move` again"):
                await check_not_moved(database.keyed)
            there = await run(folder, database)
            await check_not_moved(database.keyed)
            with pytest.raises(GatewayError, match=r"was moved to everturn@.*name that store in"):
                await check_not_moved(folder.keyed)
            last = len(simple_log(2))
            states = [await state_in(database.store, each) for each in IDS]
            listed = await database.store.recent(before=None, limit=9)
            bound = [await database.store.bound(key) for key in (KEY, ODD)]
            active = await database.store.active()
    assert contents(old) == before
    async with open_postgres_store(section, tmp_path) as database:
        async with FILE.open(postgres_setup(section, new)) as folder:
            back = await run(database, folder)
            again = await folder.store.active()
            gap = await folder.store.explain_gap(OTHER_ID, 1, 3)
        with pytest.raises(GatewayError, match="was moved to"):
            await check_not_moved(database.keyed)

    assert contents(new) == before
    assert (there.sessions, there.written, there.values) == (len(IDS), len(IDS) - 2, 2)
    assert (back.sessions, back.written) == (len(IDS), len(IDS))
    assert [state.last_seq for state in states] == [last, last + 1, last, last]
    assert sorted(row.session_id for row in listed) == sorted(IDS)
    assert bound == [SESSION_ID, OTHER_ID]
    assert active == again == (OTHER_ID,)
    assert [each.cause for each in gap] == ["discarded"]
    names = Layout(workspace=new).session(SESSION_ID).results.iterdir()
    assert "".join(path.name for path in sorted(names, key=lambda p: p.stat().st_mtime_ns)) == "cab"


async def test_nothing_is_written_over(tmp_path: Path, database_server: Server) -> None:
    """Whoever names the wrong database finds everything in it as it was."""
    section: PostgresSettings = database_server.section(f"t{uuid4().hex}")
    async with (
        FILE.open(postgres_setup(section, tmp_path)) as folder,
        open_postgres_store(section, tmp_path) as database,
    ):
        await fill(folder)
        await database.store.append(IDS[3], simple_log(1, session_id=IDS[3]), expected_seq=0)
        with pytest.raises(GatewayError, match="holds sessions already"):
            await run(folder, database)

        assert [row.session_id for row in await database.store.sessions(after="", limit=9)] == [
            IDS[3]
        ]
        await check_not_moved(folder.keyed)
        await check_not_moved(database.keyed)
