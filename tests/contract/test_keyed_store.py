"""The contract of `KeyedStore`, and what of it belongs to files: crashes, and other processes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from support.patience import WAIT_S
from support.suites import hold_to_suite
from support.tables import table

from everturn.testing import KeyedStoreContract
from everturn_actors.errors import DamagedValueError, JournalError, JournalWriteError
from everturn_actors.journal.keyed import FileKeyedStore, MemoryKeyedStore
from everturn_actors.journal.keyed.draft import draft_of
from everturn_actors.ports import KeyedStore

KEY, LINES = "pairing/approved.json", "schedules/runs/digest.jsonl"


class Files(KeyedStoreContract):
    """Values in a workspace."""

    @asynccontextmanager
    async def open_keyed(self) -> AsyncGenerator[KeyedStore]:
        """Open the workspace again."""
        yield FileKeyedStore(self.folder / "workspace")


class Memory(KeyedStoreContract):
    """Values that are gone with the process."""

    @cached_property
    def values(self) -> dict[str, bytes]:
        """What outlives a store."""
        return {}

    @asynccontextmanager
    async def open_keyed(self) -> AsyncGenerator[KeyedStore]:
        """Open them again."""
        yield MemoryKeyedStore(self.values)


@table("values", [Files, Memory])
def test_stores_of_values_keep_the_contract(
    values: type[KeyedStoreContract], tmp_path: Path
) -> None:
    """Whoever uses them cannot tell which it is."""
    hold_to_suite(values, tmp_path)


# A child writes for ever and says how far it is; each system call that changes something is a step
# before which it may be killed.
CHILD = """
import os, signal, sys
from pathlib import Path
import anyio
from everturn_actors.journal.keyed import FileKeyedStore

folder, kill_at = Path(sys.argv[1]), int(sys.argv[2])
steps = 0

def counted(real):
    def step(*args, **kwargs):
        global steps
        steps += 1
        if steps == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    return step

async def main():
    store = FileKeyedStore(folder)
    before = await store.get("pairing/approved.json")
    number = int(before.data) if before else 0
    (lines,) = await store.read(["schedules/runs/digest.jsonl"])
    for name in ("open", "pwrite", "fsync", "fdatasync", "ftruncate", "rename", "replace", "unlink",
                 "mkdir", "close"):
        setattr(os, name, counted(getattr(os, name)))
    while number < 100:
        number += 1
        await store.put("pairing/approved.json", b"%d" % number)
        print("value", number, flush=True)
        if number % 3:
            line = b"%d\\n" % number
            await store.append("schedules/runs/digest.jsonl", line, expected_bytes=len(lines))
            lines += line
        else:
            await store.rewrite("schedules/runs/digest.jsonl", b"0\\n", expected_bytes=len(lines))
            lines = b"0\\n"
        print("lines", lines.decode().replace("\\n", ","), flush=True)

anyio.run(main)
"""


@table("kill_at", range(1, 46, 5))
async def test_a_kill_at_any_step_leaves_what_was_acknowledged(
    tmp_path: Path, kill_at: int
) -> None:
    """Accepted means durable, also for who was let in; and the next process goes on at once."""
    done = await anyio.run_process(
        [sys.executable, "-c", CHILD, str(tmp_path), str(kill_at)], check=False
    )

    assert done.returncode == -signal.SIGKILL, done.stderr.decode()[-500:]
    told = dict(line.split(" ", 1) for line in done.stdout.decode().splitlines())
    store = FileKeyedStore(tmp_path)
    value = await store.get(KEY)
    (lines,) = await store.read([LINES])
    assert isinstance(lines, bytes)
    number = int(told.get("value", "0"))
    assert int(value.data if value else b"0") in {number, number + 1}
    acknowledged = [each for each in told.get("lines", "").split(",") if each]
    lines = lines[: lines.rfind(b"\n") + 1]  # the rest was told to nobody
    found = lines.decode().split()
    assert found in (acknowledged, [*acknowledged, str(number)], ["0"])
    with anyio.fail_after(WAIT_S):
        await store.put(KEY, b"next")
        await store.append(LINES, b"next\n", expected_bytes=len(lines))
        await store.delete(KEY)


async def test_a_torn_line_is_cut_off_and_kept_beside_the_others(tmp_path: Path) -> None:
    """A machine that lost power in the middle of an append leaves half a line."""
    store = FileKeyedStore(tmp_path)
    await store.append(LINES, b"one\n", expected_bytes=0)
    path = tmp_path / LINES
    path.write_bytes(b"one\ntw")
    lines = await store.read([LINES])
    await store.append(LINES, b"two\n", expected_bytes=4)

    assert lines == (b"one\ntw",)
    assert path.read_bytes() == b"one\ntwo\n"
    assert path.with_name(f"{path.name}.torn").read_bytes() == b"tw"


async def test_a_disk_that_is_away_is_not_begun_anew(tmp_path: Path) -> None:
    """An empty folder in its place would look as if no job had ever run."""
    store = FileKeyedStore(tmp_path / "disk")
    await store.append(LINES, b"one\n", expected_bytes=0)
    (tmp_path / "disk").rename(tmp_path / "away")
    with pytest.raises(JournalWriteError):
        await store.append(LINES, b"two\n", expected_bytes=4)

    assert not (tmp_path / "disk").exists()


async def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    """Others on the machine must not read who talks to an agent, or what a token may do."""
    store = FileKeyedStore(tmp_path / "workspace")
    await store.put(KEY, b"x")
    await store.append(LINES, b"x\n", expected_bytes=0)
    found = list((tmp_path / "workspace").rglob("*"))

    assert {path.name for path in found if path.is_file()} == {"approved.json", "digest.jsonl"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in found)


async def test_what_is_no_file_is_named_and_not_waited_for(tmp_path: Path) -> None:
    """A pipe in the place of a file would stop whoever reads it for ever."""
    store = FileKeyedStore(tmp_path)
    (tmp_path / "pairing").mkdir()
    os.mkfifo(tmp_path / KEY)
    with (
        anyio.fail_after(WAIT_S),
        pytest.raises(DamagedValueError, match=r"approved\.json: it is no file"),
    ):
        await store.get(KEY)


async def test_one_unreadable_log_does_not_keep_others_from_being_read(tmp_path: Path) -> None:
    """One bad disk block must not stop every job."""
    store = FileKeyedStore(tmp_path)
    await store.append(LINES, b"x\n", expected_bytes=0)
    (tmp_path / "schedules/runs/folder.jsonl").mkdir()
    bad, good = await store.read(["schedules/runs/folder.jsonl", LINES])

    assert isinstance(bad, JournalError)
    assert "folder.jsonl" in str(bad)
    assert good == b"x\n"


async def test_a_writer_waits_for_another_one(tmp_path: Path) -> None:
    """A command beside a running gateway must not write into what the gateway is writing."""
    store = FileKeyedStore(tmp_path)
    await store.put(KEY, b"before")
    is_done = anyio.Event()

    async def write() -> None:
        await store.put(KEY, b"after")
        is_done.set()

    other = draft_of(tmp_path / KEY)
    await anyio.to_thread.run_sync(other.__enter__)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        with anyio.move_on_after(0.1):
            await is_done.wait()
        value = await store.get(KEY)

        assert not is_done.is_set()
        assert value is not None
        assert value.data == b"before"
        await anyio.to_thread.run_sync(other.__exit__, None, None, None)
    value = await store.get(KEY)

    assert value is not None
    assert value.data == b"after"
