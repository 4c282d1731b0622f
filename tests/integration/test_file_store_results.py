"""Large results on a real disk: what is durable, what a crash leaves, and who stays outside."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.tables import table

from everturn.testing._histories import OTHER_ID, SESSION_ID, simple_log
from everturn_actors.errors import JournalError, JournalWriteError
from everturn_actors.journal.files import FileStore
from everturn_actors.journal.opening import open_file_store

LOG = simple_log(1)
TESTS = Path(__file__).parents[1]

SAVE = """
import sys, anyio
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from everturn.testing._histories import SESSION_ID, simple_log
from everturn_actors.journal.opening import open_file_store

async def main():
    async with open_file_store(Path(sys.argv[1])) as store:
        await store.append(SESSION_ID, simple_log(1), expected_seq=0)
        for number in range(2000):
            await store.save_result(SESSION_ID, f"call_{number}", f"text {number}\\n" * 5000)
            print(number, flush=True)

anyio.run(main)
"""


@asynccontextmanager
async def a_session(
    workspace: Path, *, results_max_bytes: int = 10_000
) -> AsyncGenerator[tuple[FileStore, Path]]:
    """Open a store with one session at rest and its result `call_1`; give that folder too."""
    async with open_file_store(workspace, results_max_bytes=results_max_bytes) as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        await store.save_result(SESSION_ID, "call_1", "before")
        await store.mark_passive(SESSION_ID)
        yield store, store.layout.session(SESSION_ID).results


def saving(workspace: Path) -> subprocess.Popen[str]:
    """Start a process that saves one result after the other and says so."""
    return subprocess.Popen(
        [sys.executable, "-c", SAVE, str(workspace), str(TESTS)], stdout=subprocess.PIPE, text=True
    )


async def test_no_result_that_was_saved_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    """With the real signal; and what was not finished is not there in halves."""
    with saving(tmp_path) as saver:
        assert saver.stdout is not None
        for _ in range(20):
            saver.stdout.readline()
        saver.send_signal(signal.SIGKILL)
        saver.wait()
        printed = 20 + len(saver.stdout.readlines())
    async with open_file_store(tmp_path) as store:
        found = [await store.read_result(SESSION_ID, f"call_{n}") for n in range(printed + 2)]

        assert found[:printed] == [f"text {n}\n" * 5000 for n in range(printed)]
        assert found[printed] in (None, f"text {printed}\n" * 5000)
        assert found[printed + 1] is None


async def test_a_result_is_durable_with_its_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First the bytes, then the name, then its folder: in this order a power cut costs nothing."""
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def recorded_fsync(fd: int) -> None:
        steps.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        fsync(fd)

    def recorded_replace(source: str, target: str, **folders: int) -> None:
        steps.append(f"{source} becomes {target}")
        replace(source, target, **folders)

    async with open_file_store(tmp_path) as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", recorded_fsync)
            patch.setattr(os, "replace", recorded_replace)
            await store.save_result(SESSION_ID, "a", "text")
            first = list(steps)
            await store.save_result(SESSION_ID, "b", "text")

    assert first == [SESSION_ID, ".a.tmp", ".a.tmp becomes a", "results"]
    assert steps[4:] == [".b.tmp", ".b.tmp becomes b", "results"]


@table("call", ["pwrite", "fsync", "replace"])
@table("name", ["call_1", "call_2"], ids=["again", "new"])
async def test_a_result_that_cannot_be_written_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, name: str
) -> None:
    """On a full disk the caller goes on without; what stood there before still does."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with a_session(tmp_path) as (store, folder):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, full)
            with pytest.raises(JournalWriteError, match="the disk is full") as caught:
                await store.save_result(SESSION_ID, name, "after")

        assert caught.value.path == folder / name
        assert [path.name for path in folder.iterdir()] == ["call_1"]
        assert await store.read_result(SESSION_ID, "call_1") == "before"
        await store.save_result(SESSION_ID, name, "after")
        assert await store.read_result(SESSION_ID, name) == "after"


async def test_what_a_crash_left_half_written_goes_with_the_next_save(tmp_path: Path) -> None:
    """It must not take room for ever, and is nobody's result."""
    async with a_session(tmp_path) as (store, folder):
        (folder / ".call_1.tmp").write_bytes(b"half")
        (folder / ".call_2.tmp").write_bytes(b"half")
        before = await store.read_result(SESSION_ID, "call_1")
        await store.save_result(SESSION_ID, "call_1", "after")

        assert before == "before"
        assert [path.name for path in folder.iterdir()] == ["call_1"]
        assert await store.read_result(SESSION_ID, "call_1") == "after"


async def test_the_order_of_results_does_not_hang_on_the_clock(tmp_path: Path) -> None:
    """A clock that was set back must not make the newest result the first one to go."""
    async with a_session(tmp_path, results_max_bytes=12) as (store, folder):
        tomorrow_ns = (folder / "call_1").stat().st_mtime_ns + 86_400 * 10**9
        os.utime(folder / "call_1", ns=(tomorrow_ns, tomorrow_ns))
        await store.save_result(SESSION_ID, "b", "second")
        await store.mark_passive(SESSION_ID)
        await store.save_result(SESSION_ID, "a", "third")

        assert await store.read_result(SESSION_ID, "call_1") is None
        assert await store.read_result(SESSION_ID, "b") == "second"


async def test_a_result_that_cannot_be_removed_is_reported_and_the_new_one_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What was to be saved is; the operator learns why the folder grows."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    async with a_session(tmp_path, results_max_bytes=10) as (store, _):
        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", refuse)
            await store.save_result(SESSION_ID, "call_2", "second")
        both = [await store.read_result(SESSION_ID, f"call_{n}") for n in (1, 2)]
        await store.mark_passive(SESSION_ID)
        await store.save_result(SESSION_ID, "call_2", "second")

        assert both == ["before", "second"]
        assert "an old file of a session could not be removed" in caplog.messages
        assert await store.read_result(SESSION_ID, "call_1") is None


@table("linked", ["file", "folder"])
async def test_no_symbolic_link_is_followed(tmp_path: Path, linked: str) -> None:
    """An agent's tools may write here; a link of theirs must not lead us to other files."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "call_1").write_text("secret")
    (outside / "call_2").write_text("secret")
    async with a_session(tmp_path / "workspace") as (store, folder):
        if linked == "file":
            (folder / "call_2").symlink_to(outside / "call_2")
            (folder / ".call_3.tmp").symlink_to(outside / "call_1")
        else:
            (folder / "call_1").unlink()
            folder.rmdir()
            folder.symlink_to(outside)
        with pytest.raises(JournalError, match=r"call_2: there is a symbolic link"):
            await store.read_result(SESSION_ID, "call_2")
        if linked == "file":
            await store.save_result(SESSION_ID, "call_2", "ours")
            await store.save_result(SESSION_ID, "call_3", "ours")
            assert await store.read_result(SESSION_ID, "call_2") == "ours"
        else:
            with pytest.raises(JournalWriteError, match=r"call_2: there is a symbolic link"):
                await store.save_result(SESSION_ID, "call_2", "ours")

    assert {path.name: path.read_text() for path in outside.iterdir()} == {
        "call_1": "secret",
        "call_2": "secret",
    }


async def test_what_is_no_text_is_refused_by_name(tmp_path: Path) -> None:
    """A damaged file, a pipe or a folder in its place is told, and hangs nobody."""
    async with a_session(tmp_path) as (store, folder):
        (folder / "call_1").write_bytes(b"good\xff")
        os.mkfifo(folder / "pipe")
        (folder / "folder").mkdir()
        with pytest.raises(JournalError, match=r"call_1: byte 5: this is not UTF-8"):
            await store.read_result(SESSION_ID, "call_1")
        with pytest.raises(JournalError, match=r"pipe: it is no plain file"):
            await store.read_result(SESSION_ID, "pipe")
        with pytest.raises(JournalError, match=r"folder: it is no plain file"):
            await store.read_result(SESSION_ID, "folder")
        with pytest.raises(JournalWriteError, match=r"folder: writing failed"):
            await store.save_result(SESSION_ID, "folder", "text")
        await store.save_result(SESSION_ID, "call_1", "mended")

        assert await store.read_result(SESSION_ID, "call_1") == "mended"


async def test_what_people_do_in_the_folder_is_no_fault(tmp_path: Path) -> None:
    """What Everturn did not put there, it does not remove; where it is cleared out, it goes on.

    Most sessions have no large results, and ten thousand of them need no further directories.
    """
    async with a_session(tmp_path, results_max_bytes=12) as (store, folder):
        (folder / ".DS_Store").write_bytes(b"x" * 99)
        (folder / "notes of mine").write_bytes(b"x" * 99)
        (folder / "folder").mkdir()
        await store.save_result(SESSION_ID, "call_2", "1234")
        strangers = {".DS_Store", "notes of mine", "folder"}
        assert {path.name for path in folder.iterdir()} == {*strangers, "call_1", "call_2"}

        shutil.rmtree(folder)
        await store.save_result(SESSION_ID, "call_3", "third")
        assert await store.read_result(SESSION_ID, "call_2") is None
        assert await store.read_result(SESSION_ID, "call_3") == "third"

        await store.append(OTHER_ID, simple_log(1, session_id=OTHER_ID), expected_seq=0)
        await store.read_result(OTHER_ID, "call_1")
        assert not store.layout.session(OTHER_ID).results.exists()
