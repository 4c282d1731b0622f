"""When the gateway was started, and what had been before."""

from __future__ import annotations

from pathlib import Path

from support.tables import table

from everturn_actors.journal.keyed import FileKeyedStore
from everturn_actors.testing import ManualClock
from everturn_gateway.starts import KEPT, KEY, Starts, open_starts


async def test_a_start_after_a_kill_says_so(tmp_path: Path) -> None:
    """A kill leaves no trace of its own; a person wants to know why a reply came late."""
    store, clock = FileKeyedStore(tmp_path), ManualClock()
    found: list[list[str]] = []

    async def run(*, is_killed: bool = False) -> None:
        async with open_starts(store, clock, "1.0") as starts:
            found.append([each.after for each in starts.newest()])
            clock.advance(60)
            held = await store.get(KEY)
        assert held is not None
        if is_killed:  # what stood there in the middle stands there at the next start
            await store.put(KEY, held.data)

    await run()
    await run(is_killed=True)
    await run()
    await run()

    assert found == [
        ["first"],
        ["clean", "first"],
        ["killed", "clean", "first"],
        ["clean", "killed", "clean", "first"],
    ]


async def test_the_list_stays_short(tmp_path: Path) -> None:
    """A gateway that starts again each minute must not fill a disk."""
    store, clock = FileKeyedStore(tmp_path), ManualClock()
    for _ in range(KEPT + 1):
        async with open_starts(store, clock, "1.0"):
            clock.advance(1)
    async with open_starts(store, clock, "1.0") as starts:
        found = starts.newest()

    assert len(found) == KEPT - 1
    assert {each.after for each in found} == {"clean"}
    assert starts.newest(3) == found[:3]


@table("held", [b"{", b'{"version": 1, "starts": [{"at": 1}]}'])
async def test_a_damaged_list_costs_only_itself(tmp_path: Path, held: bytes) -> None:
    """Nobody's gateway stays down for a list of times."""
    store = FileKeyedStore(tmp_path)
    await store.put(KEY, held)
    async with open_starts(store, ManualClock(), "1.0") as starts:
        found = [each.after for each in starts.newest()]

    assert found == ["first"]
    assert Starts().newest() == ()
