"""Run logs when the disk fails, or the process ends, at any moment."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.run_logs import edge, failing, names_in, opened, put, started_anew
from support.run_records import a_life, armed, done, hour, standing_after
from support.tables import table

from everturn_gateway.scheduler.jobs import JobState
from everturn_gateway.scheduler.rules.records import Kept, Paused, Record
from everturn_gateway.scheduler.run_logs.files import LINES_MAX
from everturn_gateway.scheduler.run_logs.lines import encode, read_log

TESTS = Path(__file__).parents[1]

# --- disks that fail ---


async def test_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not durable has not happened; half of it must not stay to be read later."""
    logs = await opened(tmp_path)
    before = await logs.append("job", *a_life(2))
    data = (tmp_path / "job.jsonl").read_bytes()
    pwrite = os.pwrite

    def half(descriptor: int, rest: memoryview, offset: int) -> int:
        if offset == len(data):
            return pwrite(descriptor, rest[:20], offset)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with edge(monkeypatch, "pwrite", half), pytest.raises(OSError, match="disk is full"):
        await logs.append("job", *done(3))

    assert (tmp_path / "job.jsonl").read_bytes() == data
    assert logs.job_state("job") == before.job_state
    await logs.append("job", *done(3))
    assert await started_anew(tmp_path) == standing_after(a_life(3))
    assert names_in(tmp_path) == {"job.jsonl"}


async def test_a_limit_of_the_kernel_changes_nothing(tmp_path: Path) -> None:
    """The kernel takes half of a line and refuses the rest: nothing of it may stay."""
    logs = await opened(tmp_path)
    before = await logs.append("job", *a_life(2))
    size = (tmp_path / "job.jsonl").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, hard))
    try:
        with pytest.raises(OSError, match="may not grow"):
            await logs.append("job", *done(3))
        with pytest.raises(OSError, match="may not grow"):
            await logs.append("new", *a_life(9))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert await started_anew(tmp_path) == logs.job_state("job") == before.job_state
    assert names_in(tmp_path) == {"job.jsonl"}
    await logs.append("job", *done(3))
    await logs.append("new", *a_life(9))
    assert await started_anew(tmp_path) == standing_after(a_life(3))


@table("taken", [20, 10_000], ids=["half a line", "all lines"])
async def test_a_write_that_cannot_be_taken_back_is_cut_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    """A caller was told that it failed, and does it again: it must not stand there twice."""
    logs = await opened(tmp_path)
    await logs.append("job", *a_life(2))
    pwrite = os.pwrite

    def some(descriptor: int, rest: memoryview, offset: int) -> int:
        pwrite(descriptor, rest[:taken], offset)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with (
        edge(monkeypatch, "pwrite", some),
        edge(monkeypatch, "ftruncate", failing(errno.EIO)),
        pytest.raises(OSError, match="Input/output"),
    ):
        await logs.append("job", *done(3))

    assert logs.job_state("job") == standing_after(a_life(2))
    await logs.append("job", *done(4))
    assert await started_anew(tmp_path) == standing_after([*a_life(2), *done(4)])


async def test_a_first_append_that_fails_leaves_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that was never armed must not look as if it were."""
    logs = await opened(tmp_path)
    with (
        edge(monkeypatch, "fsync", failing(errno.EIO)),
        pytest.raises(OSError, match="Input/output"),
    ):
        await logs.append("job", armed())

    assert names_in(tmp_path) == set()
    assert (logs.ids(), logs.job_state("job")) == ((), JobState())
    await logs.append("job", armed())
    assert await started_anew(tmp_path) == standing_after([armed()])


async def test_a_strange_file_in_the_place_of_a_new_log_is_kept(tmp_path: Path) -> None:
    """It was put there by somebody; what cannot be read is never written over."""
    logs = await opened(tmp_path)
    put(tmp_path, b"my notes")
    await logs.append("job", armed())

    assert (tmp_path / "job.jsonl.torn").read_bytes() == b"my notes"
    assert await started_anew(tmp_path) == standing_after([armed()])
    os.truncate(put(tmp_path, b"", "huge.jsonl"), 17 * 1024 * 1024)
    with pytest.raises(OSError, match="more than"):
        await logs.append("huge", armed())
    assert (tmp_path / "huge.jsonl").stat().st_size == 17 * 1024 * 1024


@table("call", ["fsync", "fdatasync"], ids=["first", "next"])
async def test_an_append_returns_when_it_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The power may fail in the moment after it, when the run runs already."""
    logs = await opened(tmp_path)
    if call == "fdatasync":
        await logs.append("job", armed())
    synced: list[tuple[str, int]] = []
    real: Callable[[int], None] = getattr(os, call)

    def double(descriptor: int) -> None:
        real(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append((path.name, path.stat().st_size))

    with edge(monkeypatch, call, double):
        await logs.append("job", *done(1))

    size = (tmp_path / "job.jsonl").stat().st_size
    if call == "fsync":  # its bytes, then its name
        assert synced[0] == ("job.jsonl.tmp", size)
        assert synced[1][0] == tmp_path.name
    else:
        assert synced == [("job.jsonl", size)]


async def test_an_append_that_cannot_be_made_durable_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be on the disk or not; the caller is told that it is not, so it must not be."""
    logs = await opened(tmp_path)
    await logs.append("job", armed())
    data = (tmp_path / "job.jsonl").read_bytes()
    fdatasync, failed = os.fdatasync, [False]

    def once(descriptor: int) -> None:
        if not failed[0]:
            failed[0] = True
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fdatasync(descriptor)

    with edge(monkeypatch, "fdatasync", once), pytest.raises(OSError, match="Input/output"):
        await logs.append("job", *done(1))

    assert (tmp_path / "job.jsonl").read_bytes() == data
    assert logs.job_state("job") == standing_after([armed()])


# --- the process ends at any moment ---


class KilledError(Exception):
    """The process has ended: nothing more reaches the disk."""


class Dying:
    """System calls of a process that ends before, in the middle of or after one of them."""

    CALLS = ("open", "pwrite", "fdatasync", "fsync", "ftruncate", "replace", "unlink")

    def __init__(self, folder: Path, at: int = 0, moment: str = "") -> None:
        """End at the call of this number, counted from 1; 0 = live on and count."""
        self._folder, self._at, self._moment = folder, at, moment
        self.made = 0
        self._is_dead = False

    @contextmanager
    def patched(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Be in the place of the system calls."""
        with monkeypatch.context() as patch:
            for name in self.CALLS:
                patch.setattr(os, name, self._double(name, getattr(os, name)))
            yield

    def _double(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def double(*arguments: Any, **named: Any) -> Any:
            if name in {"open", "replace", "unlink"} and not self._is_ours(arguments[0]):
                return real(*arguments, **named)
            self.made += 1
            if self._is_dead or (self.made == self._at and self._moment == "before"):
                self._is_dead = True
                raise KilledError
            if self.made == self._at and self._moment == "half" and name == "pwrite":
                descriptor, data, offset = arguments
                real(descriptor, data[: len(data) // 2], offset)
                self._is_dead = True
                raise KilledError
            try:
                return real(*arguments, **named)
            finally:
                if self.made == self._at:
                    self._is_dead = True
                    raise KilledError

        return double

    def _is_ours(self, path: object) -> bool:
        return str(path).startswith(str(self._folder))


STATES: dict[str, tuple[bytes, Sequence[Record]]] = {
    "first": (b"", a_life(1)),
    "next": (encode(a_life(1)), done(2)),
    "shortening": (encode(a_life(33)), done(34)),
    "healing": (encode(a_life(1)) + b"torn", done(2)),
}


@table("state", list(STATES))
async def test_a_kill_at_any_moment_leaves_the_old_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """A run is neither lost nor run twice, and no log is left that stops its job."""
    data, records = STATES[state]
    before = read_log(data).job_state
    states = [
        standing_after([Kept(at=hour(0), job_state=before), *records[:n]])
        for n in range(len(records) + 1)
    ]
    living = Dying(tmp_path)
    logs = await opened(_folder(tmp_path, "living", data))
    with living.patched(monkeypatch):
        await logs.append("job", *records)
    assert living.made >= 2
    seen: set[int] = set()
    for number in range(1, living.made + 1):
        for moment in ("before", "half", "after"):
            folder = _folder(tmp_path, f"{number}-{moment}", data)
            logs = await opened(folder)
            with Dying(tmp_path, number, moment).patched(monkeypatch), pytest.raises(KilledError):
                await logs.append("job", *records)
            found = await started_anew(folder)

            assert found in states
            seen.add(states.index(found))
            again = await opened(folder)
            await again.append("job", Paused(at=hour(99)))
            assert again.job_state("job").recent == found.recent
            assert await started_anew(folder) == again.job_state("job")
    assert {0, len(records)} <= seen  # it ended early enough, and late enough


def _folder(parent: Path, name: str, data: bytes) -> Path:
    folder = parent / name
    folder.mkdir()
    if data:
        put(folder, data)
    return folder


WRITE = """
import sys, anyio
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from support.run_records import a_life
from everturn_actors.journal.keyed import FileKeyedStore
from everturn_gateway.scheduler.run_logs.files import RunLogs

async def main():
    logs = RunLogs(FileKeyedStore(Path(sys.argv[1])), "")
    await logs.load()
    for number, record in enumerate(a_life(10_000), 1):
        await logs.append("job", record)
        print(number, flush=True)

anyio.run(main)
"""


async def test_what_was_acknowledged_survives_a_real_kill(tmp_path: Path) -> None:
    """The scheduler runs a run as soon as the append returns."""

    def write_and_kill() -> int:
        command = [sys.executable, "-c", WRITE, str(tmp_path), str(TESTS)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if int(line) == LINES_MAX + 50:  # it was shortened, and goes on
                    process.kill()
                    break
            told = [LINES_MAX + 50, *map(int, process.stdout)]
        return told[-1]

    told = await anyio.to_thread.run_sync(write_and_kill)

    found = await started_anew(tmp_path)
    records = a_life(10_000)
    assert found in [standing_after(records[:told]), standing_after(records[: told + 1])]
