"""How far a channel has read: kept at once in memory, soon on disk, and never half written."""

from __future__ import annotations

import json
import logging
import stat
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from support.patience import WAIT_S
from support.tables import table

from everturn_actors.journal.keyed import FileKeyedStore
from everturn_actors.testing import ManualClock
from everturn_channels.chats import cursors as cursors_module
from everturn_channels.chats.cursors import NAMES_MAX, PAUSE_S, Cursors, open_cursors
from everturn_channels.errors import ChannelError, SetupError


def opened(path: Path, clock: ManualClock) -> AbstractAsyncContextManager[Cursors]:
    """Open the cursors that are kept in `path`."""
    return open_cursors(FileKeyedStore(path.parents[1]), path.stem, clock)


async def _kept(path: Path) -> Any:
    return json.loads(await anyio.Path(path).read_text())["cursors"]


async def test_cursors_come_back_after_a_restart(tmp_path: Path) -> None:
    """However the gateway ended."""
    # What was read is not asked for again.
    path = tmp_path / "channels" / "telegram.json"

    async with opened(path, ManualClock()) as cursors:
        first_start = cursors.is_new
        before = cursors.get("offset")
        await cursors.put("offset", "41")
        await cursors.put("offset", "42")
        at_once = cursors.get("offset")
    async with opened(path, ManualClock()) as cursors:
        again = (cursors.is_new, cursors.get("offset"), cursors.get("other"))

    assert first_start
    assert (before, at_once) == ("", "42")
    assert again == (False, "42", "")
    assert stat.S_IMODE((await anyio.Path(path).stat()).st_mode) == 0o600

    # A channel is new until it kept something. A channel that lost its connection after its first
    # login has to read what it missed.
    path = tmp_path / "channels" / "new.json"

    async with opened(path, ManualClock()) as cursors:
        pass
    was_written = await anyio.Path(path).exists()
    async with opened(path, ManualClock()) as cursors:
        still_new = cursors.is_new
        await cursors.put("a", "1")
        after_the_first = cursors.is_new

    assert not was_written
    assert (still_new, after_the_first) == (True, False)

    # A cancelled channel keeps its cursors. A stop is a cancellation, and the usual way to end.
    path = tmp_path / "channels" / "stopped.json"

    with anyio.CancelScope() as scope:
        async with opened(path, ManualClock()) as cursors:
            await cursors.put("a", "1")
            scope.cancel()
            await anyio.lowlevel.checkpoint()

    assert await _kept(path) == {"a": "1"}


async def test_a_burst_of_changes_is_one_write(tmp_path: Path) -> None:
    """A busy channel must not sync the disk for every message."""
    clock, path = ManualClock(), tmp_path / "channels" / "c.json"

    async with opened(path, clock) as cursors:
        await cursors.put("a", "1")
        await clock.until_sleeping(PAUSE_S)
        first = await _kept(path)
        await cursors.put("a", "2")
        await cursors.put("a", "3")
        meanwhile = await _kept(path)
        clock.advance(PAUSE_S)
        await clock.until_sleeping(PAUSE_S)
        then = await _kept(path)
        await cursors.put("b", "1")
        new = await _kept(path)

    assert first == meanwhile == {"a": "1"}
    assert then == {"a": "3"}
    assert new == {"a": "3", "b": "1"}, "whoever is killed now would begin anew with it"


async def test_gateways_that_take_deliveries_together_set_no_cursor_back(tmp_path: Path) -> None:
    """What one of them took would be read again at the next start, and perhaps answered."""
    path, clock = tmp_path / "channels" / "c.json", ManualClock()
    store = FileKeyedStore(tmp_path)

    async with (
        open_cursors(store, "c", clock, is_shared=True) as one,
        open_cursors(store, "c", clock, is_shared=True) as other,
    ):
        await one.put("a", "1")
        await other.put("b", "1")
        await one.put("a", "2")
        await one.flush()
        await other.put("b", "2")
        assert await other.flush()
        kept = await _kept(path)
        known = other.get("a")

    assert kept == {"a": "2", "b": "2"}
    assert known == "2"


async def test_a_gateway_that_takes_nothing_learns_how_far_the_others_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would read all of that again from a history."""
    monkeypatch.setattr(cursors_module, "LOOK_S", 0.01)
    clock, store = ManualClock(), FileKeyedStore(tmp_path)

    async with (
        open_cursors(store, "c", clock, is_shared=True) as one,
        open_cursors(store, "c", clock, is_shared=True) as other,
    ):
        await one.put("a", "1")
        with anyio.fail_after(WAIT_S):
            while other.get("a") != "1":
                clock.advance(PAUSE_S)
                await anyio.sleep(0.01)


async def test_the_very_first_value_is_on_disk_when_it_is_kept(tmp_path: Path) -> None:
    """A new bot would take what was written to it since for old news."""
    # Killed before that, a new bot takes what was written to it since for old news.
    path = tmp_path / "channels" / "first.json"

    async with opened(path, ManualClock()) as cursors:
        await cursors.put("begun", "now")
        kept = await _kept(path)

    assert kept == {"begun": "now"}

    # A first value whose put was cancelled is kept all the same. It holds in memory, so it comes to
    # the disk with the other writes, not with the next put.
    path, clock = tmp_path / "channels" / "put.json", ManualClock()

    async with opened(path, clock) as cursors:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await cursors.put("offset", "41")
        await clock.until_sleeping(PAUSE_S)  # the write after it is done
        kept = await _kept(path)

    assert scope.cancelled_caught
    assert kept == {"offset": "41"}


async def test_the_names_put_longest_ago_go(tmp_path: Path) -> None:
    """A bot that saw a million chats must not remember each of them for ever."""
    async with opened(tmp_path / "channels" / "c.json", ManualClock()) as cursors:
        for number in range(NAMES_MAX):
            await cursors.put(str(number), "x")
        await cursors.put("0", "x")
        await cursors.put("new", "x")

        found = [cursors.get(name) for name in ("0", "1", "2", "new")]

    assert found == ["x", "", "x", "x"]
    assert len(await _kept(tmp_path / "channels" / "c.json")) == NAMES_MAX


@table(
    "text", ["", "{", "[]", '{"version": 2, "cursors": {}}', '{"version": 1, "cursors": {"a": 1}}']
)
async def test_a_damaged_file_is_put_aside_and_the_channel_begins_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    """An old channel without cursors would read its chats from their beginning."""
    path = tmp_path / "channels" / "c.json"
    await anyio.Path(path.parent).mkdir()
    await anyio.Path(path).write_text(text)

    async with opened(path, ManualClock()) as cursors:
        is_new = cursors.is_new
        await cursors.put("a", "1")

    assert is_new
    assert await anyio.Path(tmp_path / "channels" / "c.json.damaged").read_text() == text
    assert await _kept(path) == {"a": "1"}
    assert "the channel begins anew" in caplog.text


async def test_a_file_that_may_not_be_read_stops_the_channel_with_words(tmp_path: Path) -> None:
    """Its owner can set that right, and nothing is lost meanwhile."""
    path = tmp_path / "channels" / "c.json"
    await anyio.Path(path.parent).mkdir()
    path.symlink_to(path)  # a link to itself cannot be read

    with pytest.raises(SetupError, match=r"how far .*c\.json: cannot be used: .*permissions"):
        async with opened(path, ManualClock()):
            pass  # pragma: no cover - it does not open


async def test_a_failed_write_is_told_once_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk stops no channel: it costs a second look at what was read before."""
    clock, folder = ManualClock(), tmp_path / "channels"
    caplog.set_level(logging.WARNING)

    async with opened(folder / "c.json", clock) as cursors:
        await anyio.Path(folder).write_text("a file where the folder should be")
        await cursors.put("a", "1")
        for _ in range(3):
            await clock.until_sleeping(PAUSE_S)
            clock.advance(PAUSE_S)
        told = caplog.text.count("what is new is not saved")
        await clock.until_sleeping(PAUSE_S)
        await anyio.Path(folder).unlink()
        clock.advance(PAUSE_S)
        await clock.until_sleeping(PAUSE_S)
        kept = await _kept(folder / "c.json")

    assert told == 1
    assert kept == {"a": "1"}


@table(("name", "value"), [("n" * 201, "v"), ("n", "v" * 4097)])
async def test_a_cursor_is_bounded(tmp_path: Path, name: str, value: str) -> None:
    """A plug-in chooses names and values, and the gateway keeps them all in memory."""
    async with opened(tmp_path / "channels" / "c.json", ManualClock()) as cursors:
        with pytest.raises(ChannelError, match="cannot be kept"):
            await cursors.put(name, value)

        assert cursors.get(name) == ""
