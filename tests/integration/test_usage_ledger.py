"""What agents used, across restarts, midnights, and bad days of the disk."""

from __future__ import annotations

import json
import logging
import stat
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.patience import WAIT_S
from support.stores import FullDisk
from support.tables import table

from everturn_actors.errors import DamagedValueError
from everturn_actors.journal.keyed import FileKeyedStore
from everturn_actors.model import Usage
from everturn_actors.testing import ManualClock
from everturn_gateway.usage import (
    Tally,
    UsageLedger,
    UsageRow,
    ledger,
    open_ledger,
    read_usage,
)

USED = Usage(
    input_tokens=100,
    output_tokens=10,
    cached_tokens=60,
    cache_written_tokens=20,
    cost_nanodollars=1234,
)
ONE = Tally(
    calls=1,
    input_tokens=100,
    output_tokens=10,
    cached_tokens=60,
    cache_written_tokens=20,
    cost_nanodollars=1234,
)
MODEL = "openai/gpt-5"
TODAY = date(2026, 1, 2)  # of a ManualClock


def add(to: UsageLedger, agent: str = "a", model: str = MODEL) -> None:
    """Count one call."""
    to.add(agent, model, USED, priced=True)


def clock_at(year: int, month: int, day: int, hour: int = 12) -> ManualClock:
    """Return a clock that stands at an hour."""
    return ManualClock(datetime(year, month, day, hour, tzinfo=UTC))


async def stored(path: Path) -> Any:
    """Return what a file holds."""
    return json.loads(await anyio.Path(path).read_text())


async def read(
    folder: Path, *, until: date = TODAY, days: int = 1, agent: str = ""
) -> tuple[UsageRow, ...]:
    """Return what the files say, as the command line reads them."""
    return await read_usage(FileKeyedStore(folder), "", until=until, days=days, agent=agent)


def names(folder: Path) -> list[str]:
    """Return the files of a folder."""
    return sorted(child.name for child in folder.iterdir())


async def test_a_restart_keeps_what_was_used(tmp_path: Path) -> None:
    """A limit that a restart resets is none."""
    folder = tmp_path / "usage"
    async with open_ledger(FileKeyedStore(folder.parent), "usage/", ManualClock()) as first:
        add(first)
        add(first, model="anthropic/x")
        add(first, agent="b")
    async with open_ledger(FileKeyedStore(folder.parent), "usage/", ManualClock()) as second:
        before = second.today("a")
        add(second)
        after = second.today("a")

    assert before == ONE + ONE
    assert after == ONE + ONE + ONE
    assert names(folder) == ["2026-01.json"]
    assert stat.S_IMODE((folder / "2026-01.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


async def test_it_is_on_disk_a_few_seconds_later(tmp_path: Path) -> None:
    """A gateway that is killed loses seconds, not its day; people can read the file."""
    folder, clock = tmp_path / "usage", ManualClock()
    async with open_ledger(FileKeyedStore(folder.parent), "usage/", clock) as opened:
        add(opened)
        with anyio.fail_after(WAIT_S):
            await clock.until_sleeping(ledger.SAVE_EVERY_S)
            before = folder.exists()
            clock.advance(ledger.SAVE_EVERY_S)
            await clock.until_sleeping(ledger.SAVE_EVERY_S)
        document = await stored(folder / "2026-01.json")

    assert not before
    assert document == {
        "version": 1,
        "days": {
            "2026-01-02": {
                "a": {
                    MODEL: {
                        "calls": 1,
                        "input_tokens": 100,
                        "output_tokens": 10,
                        "cached_tokens": 60,
                        "cache_written_tokens": 20,
                        "cost_nanodollars": 1234,
                        "unpriced_calls": 0,
                        "saved_nanodollars": 0,
                    }
                }
            }
        },
    }


async def test_an_idle_gateway_writes_nothing(tmp_path: Path) -> None:
    """It must let the disk sleep, and leave no trace where no model was called."""
    folder = tmp_path / "usage"
    async with open_ledger(FileKeyedStore(folder.parent), "usage/", ManualClock()) as opened:
        await opened.flush()
    assert not folder.exists()
    async with open_ledger(FileKeyedStore(folder.parent), "usage/", ManualClock()) as opened:
        add(opened)
        await opened.flush()
        (folder / "2026-01.json").unlink()
        await opened.flush()

    assert names(folder) == []


async def test_midnight_begins_a_day_and_the_first_a_file(tmp_path: Path) -> None:
    """A gateway runs for months."""
    clock = clock_at(2026, 1, 30)
    async with open_ledger(FileKeyedStore(tmp_path), "", clock) as opened:
        for _ in range(3):
            add(opened)
            clock.advance(24 * 3600)
        today = opened.today("a")
        rows = await opened.rows(days=7)
        few = await opened.rows(days=2)

    days = [date(2026, 1, 30), date(2026, 1, 31), date(2026, 2, 1)]
    assert today == Tally()
    assert [(row.day, row.tally) for row in rows] == [(day, ONE) for day in days]
    assert [row.day for row in few] == days[2:]
    assert names(tmp_path) == ["2026-01.json", "2026-02.json"]
    assert await read(tmp_path, until=date(2026, 2, 2), days=7) == rows


async def test_a_report_is_by_day_agent_and_model(tmp_path: Path) -> None:
    """Months before this one are read from their files."""
    async with open_ledger(FileKeyedStore(tmp_path), "", clock_at(2025, 12, 31)) as old:
        add(old, agent="b")
    async with open_ledger(FileKeyedStore(tmp_path), "", ManualClock()) as opened:
        add(opened, agent="b", model="z/z")
        add(opened, agent="b", model="a/a")
        add(opened, agent="a")
        rows = await opened.rows(days=30)
        one = await opened.rows(days=30, agent="b")

    assert [(row.day, row.agent, row.model) for row in rows] == [
        (date(2025, 12, 31), "b", MODEL),
        (TODAY, "a", MODEL),
        (TODAY, "b", "a/a"),
        (TODAY, "b", "z/z"),
    ]
    assert one == tuple(row for row in rows if row.agent == "b")
    assert await read(tmp_path, days=30) == rows
    assert await read(tmp_path, days=30, agent="b") == one


async def test_a_clock_that_is_set_back_overwrites_nothing(tmp_path: Path) -> None:
    """The file of last month is added to, though it was not read at the start."""
    async with open_ledger(FileKeyedStore(tmp_path), "", clock_at(2025, 12, 31)) as old:
        add(old)
    clock = ManualClock()
    async with open_ledger(FileKeyedStore(tmp_path), "", clock) as opened:
        add(opened)
        clock.advance(-2 * 24 * 3600)
        add(opened)
        unsaved = await opened.rows(days=1)
        await opened.flush()
        saved = await opened.rows(days=1)
    stands = await read(tmp_path, until=date(2025, 12, 31))

    both = (UsageRow(day=date(2025, 12, 31), agent="a", model=MODEL, tally=ONE + ONE),)
    assert (unsaved, saved, stands) == (both, both, both)


DAMAGED = [
    b"",
    b"{",
    b"\x00" * 100,
    b"[]",
    b"{}",
    b'{"version": 2, "days": {}}',
    b'{"version": 1, "days": []}',
    b'{"version": 1, "days": {"yesterday": {}}}',
    b'{"version": 1, "days": {"2026-01-02": {"a": {"m": 3}}}}',
    b'{"version": 1, "days": {"2026-01-02": {"a": {"m": {"calls": -1}}}}}',
]


@table("damaged", DAMAGED)
async def test_a_damaged_file_is_put_aside(
    tmp_path: Path, damaged: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """No reason not to start, nor to throw away what somebody may still read."""
    caplog.clear()
    path = tmp_path / "2026-01.json"
    path.write_bytes(damaged)
    with pytest.raises(DamagedValueError, match=r"2026-01\.json is damaged"):
        await read(tmp_path)
    with caplog.at_level(logging.WARNING):
        async with open_ledger(FileKeyedStore(tmp_path), "", ManualClock()) as opened:
            add(opened)

    assert (tmp_path / "2026-01.json.damaged").read_bytes() == damaged
    assert [record.__dict__["kept_as"] for record in caplog.records] == [f"{path}.damaged"]
    assert [row.tally for row in await read(tmp_path)] == [ONE]


@table("name", ["calls", "cost_nanodollars"])
@table("value", [-1, 1.5, "1", None, True])
async def test_a_number_that_is_no_count_is_damage(
    tmp_path: Path, name: str, value: object
) -> None:
    """A negative cost would lift a limit."""
    async with open_ledger(FileKeyedStore(tmp_path), "", ManualClock()) as opened:
        add(opened)
    path = tmp_path / "2026-01.json"
    document = await stored(path)
    document["days"]["2026-01-02"]["a"][MODEL][name] = value
    path.write_text(json.dumps(document), encoding="utf-8")
    async with open_ledger(FileKeyedStore(tmp_path), "", ManualClock()) as opened:
        used = opened.today("a")

    assert used == Tally()
    assert names(tmp_path) == ["2026-01.json.damaged"]


async def test_a_damaged_old_month_is_left_out_of_a_report(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What can be read is told, and what is missing is in the log."""
    (tmp_path / "2025-12.json").write_bytes(b"{")
    async with open_ledger(FileKeyedStore(tmp_path), "", ManualClock()) as opened:
        add(opened)
        with caplog.at_level(logging.WARNING):
            rows = await opened.rows(days=30)

    assert [row.tally for row in rows] == [ONE]
    assert len(caplog.records) == 1
    assert (tmp_path / "2025-12.json").read_bytes() == b"{"


async def test_what_cannot_be_read_is_not_written_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Set right by its owner, it is counted on from where it stood."""
    path = tmp_path / "2026-01.json"
    async with open_ledger(FileKeyedStore(tmp_path), "", ManualClock()) as opened:
        add(opened)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(path)  # a link to itself cannot be read
    async with open_ledger(FileKeyedStore(tmp_path), "", ManualClock()) as opened:
        add(opened)
        await opened.flush()
        used, is_link = opened.today("a"), path.is_symlink()
        path.unlink()
        (tmp_path / "elsewhere").rename(path)

    assert (used, is_link) == (ONE, True)
    assert [row.tally for row in await read(tmp_path)] == [ONE + ONE]
    assert "cannot be read" in caplog.text


async def test_a_save_that_fails_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """A full disk is emptied some day; nothing is lost until then."""
    disk = FullDisk()
    disk.is_full = True
    async with open_ledger(disk, "usage/", ManualClock()) as opened:
        add(opened)
        await opened.flush()
        disk.is_full = False
        await opened.flush()
        saved = await read_usage(disk, "usage/", until=TODAY, days=1)

    assert [row.tally for row in saved] == [ONE]
    assert len(caplog.records) == 1


async def test_what_is_new_is_saved_when_the_gateway_is_stopped(tmp_path: Path) -> None:
    """A stop is a cancellation, and comes in the middle of everything."""
    with anyio.CancelScope() as scope:
        async with open_ledger(FileKeyedStore(tmp_path), "", ManualClock()) as opened:
            add(opened)
            scope.cancel()
            await anyio.sleep_forever()

    assert [row.tally for row in await read(tmp_path)] == [ONE]


async def test_what_two_processes_count_is_added(tmp_path: Path) -> None:
    """Each adds what is new to what is kept, and knows of the other's some seconds later."""
    clock, store = ManualClock(), FileKeyedStore(tmp_path)
    first, second = (UsageLedger(store, "usage/", clock) for _ in range(2))
    for each in (first, second):
        await each.load()
    for each in (first, second, first):
        add(each)
        await each.flush()
    await second.flush()

    assert first.today("a").calls == second.today("a").calls == 3
    found = await read_usage(store, "usage/", until=TODAY, days=1)
    assert [row.tally.calls for row in found] == [3]
