"""The durability contract of `SessionStore`: every store keeps it, and no caller can tell which."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from itertools import product
from pathlib import Path

import pytest
from support.stores import FileWorld, MemoryWorld, World, on_each_store
from support.suites import hold_to_suite
from support.tables import table

from everturn.testing import StoreContract
from everturn.testing._histories import (
    LOG,
    OTHER_ID,
    SESSION_ID,
    next_event,
    replay,
    simple_log,
    state_in,
)
from everturn_actors.errors import FencedError, WorkspaceLockedError
from everturn_actors.ports import SessionStore


class FileStore(StoreContract):
    """The store of every gateway."""

    def open_store(self) -> AbstractAsyncContextManager[SessionStore]:
        """Open the workspace again."""
        return FileWorld(self.folder / "workspace").open()


class MemoryStore(StoreContract):
    """The store of tests and of passing turns."""

    @cached_property
    def world(self) -> MemoryWorld:
        """The disk of one test."""
        return MemoryWorld()

    def open_store(self) -> AbstractAsyncContextManager[SessionStore]:
        """Open the disk again."""
        return self.world.open()


@table("store", [FileStore, MemoryStore])
def test_stores_keep_the_contract(store: type[StoreContract], tmp_path: Path) -> None:
    """Whoever uses them cannot tell which it is."""
    hold_to_suite(store, tmp_path)


# --- what belongs to these two: torn lines, and the limits of what is kept ---


@on_each_store
async def test_a_torn_line_is_cut_off_and_reported(world: World) -> None:
    """Nobody was told that it was accepted; what was accepted is all there, and goes on."""
    async with world.open() as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
    world.tear(SESSION_ID)
    async with world.open() as store:
        first, second = await store.load(SESSION_ID), await store.load(SESSION_ID)

        assert first is not None
        assert second is not None
        assert (first.events, second.events) == (LOG, LOG)
        assert len(first.repairs) == 1
        assert second.repairs == ()
        await store.append(SESSION_ID, (next_event(16),), expected_seq=16)


@on_each_store
@table(("snapshot_at", "torn"), product((0, 10, 16), (False, True)))
async def test_inspecting_shows_what_a_load_would_and_changes_nothing(
    world: World, snapshot_at: int, *, torn: bool
) -> None:
    """Looking at a session is no act: not even what a crash left behind is tidied up by it."""
    async with world.open() as store:
        assert await store.inspect(SESSION_ID) is None
        await store.append(SESSION_ID, LOG, expected_seq=0)
        if snapshot_at:
            state = replay(LOG[:snapshot_at])
            await store.save_snapshot(state, compaction="archive")
    if torn:
        world.tear(SESSION_ID)
    before = world.marks()
    async with world.open() as store:
        first = await store.inspect(SESSION_ID)
        again = await store.inspect(SESSION_ID)
        events = await store.read(SESSION_ID, after=0, limit=100)
        during = world.marks()
        loaded = await store.load(SESSION_ID)

    assert before == during
    assert events == LOG
    assert first is not None
    assert loaded is not None
    assert first == again
    assert (first.snapshot, first.events) == (loaded.snapshot, loaded.events)
    assert bool(first.repairs) == bool(loaded.repairs) == torn
    async with world.open() as store:
        await store.delete(SESSION_ID)


@on_each_store
async def test_a_torn_line_is_not_appended_to(world: World) -> None:
    """Appended to, a torn line would swallow the event that was promised to be kept."""
    async with world.open() as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        await store.mark_passive(SESSION_ID)
        world.tear(SESSION_ID)
        with pytest.raises(FencedError):
            await store.append(SESSION_ID, (next_event(16),), expected_seq=16)
        with pytest.raises(FencedError):
            await store.save_snapshot(replay(LOG), compaction="archive")

        assert (await state_in(store)).last_seq == 16


@on_each_store
async def test_the_oldest_results_go_when_all_together_are_too_large(world: World) -> None:
    """A long session must not fill the disk, and what is asked for is mostly recent."""
    async with world.open(results_max_bytes=100) as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        await store.append(OTHER_ID, simple_log(1, session_id=OTHER_ID), expected_seq=0)
        await store.save_result(OTHER_ID, "a", "o" * 100)
        for name in "edcba":
            await store.save_result(SESSION_ID, name, name * 20)
        await store.save_result(SESSION_ID, "e", "e" * 20)  # saved again, it is the newest
        whole = await held(store, "abcde")
        await store.save_result(SESSION_ID, "f", "f" * 20)
    async with world.open(results_max_bytes=100) as store:
        less = await held(store, "abcdef")
        await store.save_result(SESSION_ID, "g", "漢" * 20)

        assert (whole, less) == ("abcde", "abcef")
        assert await held(store, "abcdefg") == "efg"
        assert await store.read_result(OTHER_ID, "a") == "o" * 100


@on_each_store
async def test_the_result_just_saved_stays_whatever_its_size(world: World) -> None:
    """The marker that the model reads next names it."""
    async with world.open(results_max_bytes=10) as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        await store.save_result(SESSION_ID, "a", "a" * 5)
        await store.save_result(SESSION_ID, "b", "b" * 5000)
        first = await held(store, "ab")
        await store.save_result(SESSION_ID, "a", "a" * 5)

        assert first == "b"
        assert await held(store, "ab") == "a"


@on_each_store
async def test_files_have_a_limit_of_their_own(world: World) -> None:
    """Pictures must not push out results, nor fill the disk; the newest is never let go."""
    async with world.open(results_max_bytes=100, media_max_bytes=50) as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        await store.save_result(SESSION_ID, "result", "r" * 100)
        for name in "abc":
            await store.save_media(SESSION_ID, name, name.encode() * 20)
        await store.save_media(SESSION_ID, "b", b"b" * 20)  # saved again, it is the newest
    async with world.open(results_max_bytes=100, media_max_bytes=50) as store:
        await store.save_media(SESSION_ID, "d", b"d" * 20)
        first = [n for n in "abcd" if await store.read_media(SESSION_ID, n) is not None]
        await store.save_media(SESSION_ID, "e", b"e" * 500)

        assert first == ["b", "d"]
        assert [n for n in "bde" if await store.read_media(SESSION_ID, n)] == ["e"]
        assert await store.read_result(SESSION_ID, "result") == "r" * 100


async def held(store: SessionStore, names: str) -> str:
    """Return those of the names, each one letter, under which there is a result."""
    found = [name for name in names if await store.read_result(SESSION_ID, name) is not None]
    return "".join(found)


@on_each_store
async def test_a_second_store_is_refused_while_the_first_is_open(world: World) -> None:
    """Two processes on one workspace would write over each other."""
    async with world.open() as store:
        with pytest.raises(WorkspaceLockedError, match=str(os.getpid())) as caught:
            async with world.open():
                raise AssertionError
        await store.append(SESSION_ID, LOG, expected_seq=0)

    assert caught.value.pid == os.getpid()
    async with world.open() as store:
        assert (await state_in(store)).last_seq == 16
