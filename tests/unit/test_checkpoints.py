"""Checkpoints: what a turn changed, how it is taken back, and what a kill or others leave."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import pytest
from support.checkpoint_work import Work, checkpoints_of, context_of, others
from support.tables import table
from support.tool_environments import SESSION

from everturn_actors.ports import ToolCapabilities
from everturn_gateway.tools.checkpoints import (
    Change,
    UnknownCheckpointError,
    scan,
    store,
)
from everturn_gateway.tools.checkpoints.workspaces import diff_lines
from everturn_gateway.tools.marks.attribute import add_mark, read_mark


@pytest.fixture
def work(tmp_path: Path) -> Work:
    """Return an agent with two files."""
    return work_in(tmp_path)


def work_in(tmp_path: Path) -> Work:
    """Make an agent with two files."""
    made = Work(tmp_path)
    made.write(tea="green", cup="blue")
    return made


async def test_the_last_turn_that_changed_files_is_taken_back_and_then_the_one_before(
    work: Work,
) -> None:
    """Its calls together: what it wrote, what it made and what it deleted."""
    await work.turn(1, lambda: work.write(tea="black"))
    await work.turn(2, lambda: work.write(tea="red", pot="new"), (work.files / "cup.txt").unlink)
    await work.turn(3, lambda: None)
    changed = await work.now()
    last = await work.checkpoints.undo()
    between = await work.now()
    await work.checkpoints.undo()

    assert changed == {"tea": "red", "pot": "new"}
    assert sorted(last.restored) == ["cup.txt", "pot.txt", "tea.txt"]
    assert (last.checkpoint.turn, last.left) == (2, {})
    assert between == {"tea": "black", "cup": "blue"}
    assert await work.now() == {"tea": "green", "cup": "blue"}
    with pytest.raises(UnknownCheckpointError, match="nothing to take back"):
        await work.checkpoints.undo()


async def test_what_others_changed_since_is_left_and_told(work: Work) -> None:
    """Their work would be gone without a word."""
    await work.turn(1, lambda: work.write(tea="black", cup="red", pot="new"))
    await others(lambda: work.write(tea="mine"))
    await others((work.files / "pot.txt").unlink)
    undone = await work.checkpoints.undo()

    assert undone.left == {"tea.txt": "it was changed since, and is left as it is"}
    assert await work.now() == {"tea": "mine", "cup": "blue"}


async def test_what_others_change_between_two_calls_is_not_the_turns(work: Work) -> None:
    """A person may write beside the agent."""
    await work.turn(1, lambda: work.write(tea="black"))
    await others(lambda: work.write(cup="mine"))
    await work.turn(1, lambda: work.write(pot="new"))
    (checkpoint,) = await work.checkpoints.list()
    await work.checkpoints.undo()

    assert sorted(checkpoint.changes) == ["pot.txt", "tea.txt"]
    assert await work.now() == {"tea": "green", "cup": "mine"}


async def test_a_turn_that_was_killed_can_be_taken_back(work: Work) -> None:
    """Nobody was there to say how its call ended; the next start finds its note."""
    await work.checkpoints.begin(context_of(7))
    await others(lambda: work.write(tea="half", pot="new"))
    await others(let_go)
    undone = await checkpoints_of(work.site).undo()

    assert (undone.checkpoint.turn, undone.checkpoint.session_id) == (7, SESSION)
    assert await work.now() == {"tea": "green", "cup": "blue"}


def let_go() -> None:
    """Close what an open call holds, as the end of a process does."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if "/calls/" in os.readlink(f"/proc/self/fd/{name}"):
                os.close(int(name))
        except OSError:
            pass


@table("after", range(4))
async def test_taking_back_that_was_killed_is_finished_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """No file is half one and half the other, and none is forgotten."""
    work = work_in(tmp_path)
    await work.turn(1, lambda: work.write(tea="black", cup="red", pot="new"))
    await work.turn(2, lambda: None)
    restore = work.checkpoints._restore
    done: list[str] = []

    def killed(path: str, change: Change) -> str:
        if len(done) == after:
            raise KeyboardInterrupt
        done.append(path)
        return restore(path, change)

    if after < 3:
        monkeypatch.setattr(work.checkpoints, "_restore", killed)
        with pytest.raises(KeyboardInterrupt):
            await work.checkpoints.undo()
    undone = await checkpoints_of(work.site).undo()

    assert len(undone.restored) == 3
    assert await work.now() == {"tea": "green", "cup": "blue"}


@pytest.mark.skipif(sys.platform != "linux", reason="marks are extended attributes")
async def test_a_mark_of_text_from_outside_comes_back_with_the_file(work: Work) -> None:
    """What came from a page stays text from a page."""
    tea = work.files / "tea.txt"

    def mark() -> bool:
        with tea.open("r+b") as stream:
            return add_mark(stream.fileno(), ["the page https://example.org"])

    if not await others(mark):
        pytest.skip("this file system keeps no marks")
    await work.turn(1, tea.unlink)
    await work.checkpoints.undo()

    assert await others(lambda: read_mark(str(tea))) == ("the page https://example.org",)


async def test_permissions_come_back(work: Work) -> None:
    """A script that can no longer be run is a change."""
    script = work.files / "tea.txt"
    await others(lambda: script.chmod(0o750))
    await work.turn(1, lambda: script.chmod(0o640))
    await work.checkpoints.undo()

    assert (await others(script.stat)).st_mode & 0o777 == 0o750


async def test_only_what_calls_change_is_kept(work: Work) -> None:
    """Most calls only read."""
    # Calls that only read cost nothing. Most calls do.
    reads = ToolCapabilities(kind="bash", read_only=True)
    await work.turn(1, lambda: work.write(tea="black"), capabilities=reads)
    await work.turn(1, lambda: work.write(tea="black"), capabilities=ToolCapabilities())

    assert await work.checkpoints.list() == ()
    assert not await others((work.site.state / "checkpoints").exists)

    # What is left out is not kept. Folders that tools make anew, and what the owner names.
    ignored = work.files / ".everturnignore"
    await others(lambda: ignored.write_text("# big\n*.iso\nbuild/\n"))

    def change() -> None:
        for path in ("a.iso", "build/x.txt", "node_modules/y.txt", ".git/z.txt", "sub/kept.txt"):
            (work.files / path).parent.mkdir(exist_ok=True)
            (work.files / path).write_text("new")

    await work.turn(1, change)
    (checkpoint,) = await work.checkpoints.list()

    assert [*checkpoint.changes] == ["sub/kept.txt"]


async def test_a_workspace_that_is_too_large_is_told_and_the_call_runs(
    work: Work, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Work goes on, and whoever looks into the log knows what cannot be taken back."""
    monkeypatch.setattr(scan, "FILES_MAX", 1)
    await work.turn(1, lambda: work.write(tea="black"), lambda: work.write(tea="red"))

    assert (await work.now())["tea"] == "red"
    assert await work.checkpoints.list() == ()
    assert [each.levelname for each in caplog.records].count("WARNING") == 1


async def test_the_oldest_turns_leave_and_what_only_they_held(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of contents that grows for ever fills the disk."""
    monkeypatch.setattr(store, "TURNS_MAX", 3)
    for number in range(1, 9):
        await work.turn(number, partial(work.write, tea=f"tea {number}"))
    kept = await work.checkpoints.list()
    blobs = await others(lambda: [*(work.site.state / "checkpoints").glob("*/blobs/*")])

    assert [each.number for each in kept] == [6, 7, 8]
    assert len(blobs) <= 5
    await work.checkpoints.undo(number=8)
    assert (await work.now())["tea"] == "tea 7"


def test_differences_are_told_line_by_line() -> None:
    """And what is no text is named."""
    assert [*diff_lines("a", b"x\n", b"y\n")][3:] == ["-x", "+y"]
    assert [*diff_lines("a", None, b"y\n")][-1] == "+y"
    assert [*diff_lines("a", b"\xff", b"y")] == ["Binary file a differs"]
