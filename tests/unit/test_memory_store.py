"""The memory store's disk does what a test tells it to; the contract suite checks the rest."""

from __future__ import annotations

import errno

import pytest
from support.tables import table

from everturn.testing._histories import OTHER_ID, SESSION_ID, simple_log
from everturn_actors.errors import JournalWriteError
from everturn_actors.journal.memory import MemoryDisk, PowerLostError, open_memory_store

LOG = simple_log(1)  # 6 events


async def test_a_chosen_write_fails_and_leaves_nothing() -> None:
    """Callers are tested against a full disk at exactly the wrong moment."""
    # A chosen append fails and leaves nothing.
    disk = MemoryDisk()
    async with open_memory_store(disk) as store:
        disk.fail_append(errno.ENOSPC, nth=2)
        await store.append(SESSION_ID, LOG[:2], expected_seq=0)
        with pytest.raises(JournalWriteError, match="the disk is full"):
            await store.append(SESSION_ID, LOG[2:], expected_seq=2)
        await store.append(SESSION_ID, LOG[2:3], expected_seq=2)
        loaded = await store.load(SESSION_ID)

    assert disk.appends == 3
    assert loaded is not None
    assert loaded.events == LOG[:3]

    # A first append that fails leaves no session. As on a real disk.
    disk = MemoryDisk()
    disk.fail_append(errno.EROFS)
    async with open_memory_store(disk) as store:
        with pytest.raises(JournalWriteError, match="read-only"):
            await store.append(SESSION_ID, LOG, expected_seq=0)

        assert await store.load(SESSION_ID) is None
        assert await store.sessions(after="", limit=9) == ()

    # A chosen result fails and the old one stays. A turn is tested against a disk that is too full
    # for a large result.
    disk = MemoryDisk()
    async with open_memory_store(disk) as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        disk.fail_result(errno.ENOSPC, nth=2)
        await store.save_result(SESSION_ID, "call_1", "first")
        with pytest.raises(JournalWriteError, match="the disk is full"):
            await store.save_result(SESSION_ID, "call_1", "second")
        kept = await store.read_result(SESSION_ID, "call_1")
        await store.save_result(SESSION_ID, "call_1", "third")

        assert disk.saved_results == 3
        assert kept == "first"
        assert await store.read_result(SESSION_ID, "call_1") == "third"


@table("kept", [0, 1, 4])
@table("tear", [True, False])
async def test_the_power_goes_during_a_chosen_append(kept: int, *, tear: bool) -> None:
    """Some of what was not acknowledged may be there afterwards; the store itself is dead."""
    disk = MemoryDisk()
    disk.lose_power_at_append(nth=2, kept_events=kept, tear=tear)
    async with open_memory_store(disk) as store:
        await store.append(SESSION_ID, LOG[:2], expected_seq=0)
        with pytest.raises(PowerLostError):
            await store.append(SESSION_ID, LOG[2:], expected_seq=2)
        with pytest.raises(PowerLostError):
            await store.load(SESSION_ID)
    async with open_memory_store(disk) as store:
        loaded = await store.load(SESSION_ID)

    assert loaded is not None
    assert loaded.events == LOG[: 2 + kept]
    assert bool(loaded.repairs) is tear


@table(("kept", "left"), [(False, "first"), (True, "second")])
async def test_the_power_goes_while_a_chosen_result_is_saved(left: str, *, kept: bool) -> None:
    """What was not acknowledged may be there or not; what was before is never half gone."""
    disk = MemoryDisk()
    async with open_memory_store(disk) as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        await store.save_result(SESSION_ID, "call_1", "first")
        disk.lose_power_at_result(kept=kept)
        with pytest.raises(PowerLostError):
            await store.save_result(SESSION_ID, "call_1", "second")
        with pytest.raises(PowerLostError):
            await store.read_result(SESSION_ID, "call_1")
    async with open_memory_store(disk) as store:
        assert await store.read_result(SESSION_ID, "call_1") == left


async def test_a_disk_is_of_one_store_at_a_time() -> None:
    """And each store has one."""
    # A disk without power can be opened anew at once. A crashed process does not close its store;
    # the next one must not be locked out.
    disk = MemoryDisk()
    async with open_memory_store(disk) as crashed:
        await crashed.append(SESSION_ID, LOG, expected_seq=0)
        disk.lose_power()
        async with open_memory_store(disk) as store:
            with pytest.raises(PowerLostError):
                await crashed.append(OTHER_ID, LOG[:1], expected_seq=0)

            assert await store.load(SESSION_ID) is not None
        assert disk.user is None

    # Without a disk every store has its own. Stateless turns must not see each other.
    async with open_memory_store() as one, open_memory_store() as two:
        await one.append(SESSION_ID, LOG, expected_seq=0)

        assert await two.load(SESSION_ID) is None
