"""The file store on a real disk: layout, permissions, the lock, shared flushes, failing writes."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import EventLoopToken, current_token
from msgspec import structs
from support.patience import WAIT_S
from support.tables import table

from everturn.testing._histories import KEY, OTHER_ID, SESSION_ID, replay, simple_log
from everturn_actors.errors import (
    FencedError,
    JournalError,
    JournalWriteError,
    WorkspaceLockedError,
    WorkspaceLostError,
)
from everturn_actors.events import SessionStarted
from everturn_actors.journal.files import FileStore
from everturn_actors.journal.log.codec import encode
from everturn_actors.journal.log.layout import SessionFiles
from everturn_actors.journal.opening import open_file_store
from everturn_actors.ports import Loaded

LOG = simple_log(3)

HOLD = """
import sys, anyio
from pathlib import Path
from everturn_actors.journal.opening import open_file_store

async def main():
    async with open_file_store(Path(sys.argv[1])):
        print("open", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""

WRITE = """
import sys, anyio
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from everturn.testing._histories import SESSION_ID, simple_log
from everturn_actors.journal.opening import open_file_store

async def main():
    async with open_file_store(Path(sys.argv[1])) as store:
        for event in simple_log(2000):
            await store.append(SESSION_ID, (event,), expected_seq=event.seq - 1)
            print(event.seq, flush=True)

anyio.run(main)
"""

FULL = """
import resource, sys, anyio
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from everturn.testing._histories import SESSION_ID, simple_log
from everturn_actors.errors import JournalWriteError
from everturn_actors.journal.opening import open_file_store

async def main():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))
    async with open_file_store(Path(sys.argv[1])) as store:
        for event in simple_log(20):
            try:
                await store.append(SESSION_ID, (event,), expected_seq=event.seq - 1)
            except JournalWriteError as error:
                print(event.seq, error)
                return

anyio.run(main)
"""


def files_of(store: FileStore, session_id: str = SESSION_ID) -> SessionFiles:
    """Return where a session is."""
    return store.layout.session(session_id)


@contextmanager
def python(script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run a script in a process of its own; it is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


TESTS = Path(__file__).parents[1]


async def test_a_workspace_is_private_to_its_user(tmp_path: Path) -> None:
    """Conversations are nobody else's business, whatever the umask says."""
    before = os.umask(0)
    try:
        async with open_file_store(tmp_path / "deep" / "workspace") as store:
            await store.append(SESSION_ID, LOG, expected_seq=0)
            await store.save_snapshot(replay(LOG[:6]), compaction="archive")
            await store.save_result(SESSION_ID, "call_1.txt", "text")
            await store.bind(KEY, SESSION_ID)
            await store.mark_active(SESSION_ID)
            assert len(await store.sessions(after="", limit=9)) == 1
    finally:
        os.umask(before)
    modes = {
        path.relative_to(tmp_path / "deep").as_posix(): stat.S_IMODE(path.stat().st_mode)
        for path in (tmp_path / "deep").rglob("*")
    }

    assert {mode for path, mode in modes.items() if (tmp_path / "deep" / path).is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if (tmp_path / "deep" / path).is_file()} == {0o600}
    assert {path.partition("/")[2] for path in modes if "conversations/" not in path} == {
        "",
        "workspace.lock",
        "sessions",
        f"sessions/{SESSION_ID}",
        f"sessions/{SESSION_ID}/events.jsonl",
        f"sessions/{SESSION_ID}/events.archive.jsonl",
        f"sessions/{SESSION_ID}/state.yaml",
        f"sessions/{SESSION_ID}/results",
        f"sessions/{SESSION_ID}/results/call_1.txt",
        "active",
        f"active/{SESSION_ID}",
        "conversations",
        "deleted",
        "index.sqlite",
    }


def take_away(how: str, workspace: Path) -> None:
    """Do with a workspace in use what people and scripts that tidy up do."""
    lock = workspace / "workspace.lock"
    match how:
        case "removed":
            lock.unlink()
        case "made anew":
            lock.unlink()
            lock.touch()
        case _:
            workspace.rename(workspace.with_name("moved"))


async def files_in(folder: Path) -> list[str]:
    """Return the names in a folder."""
    return sorted([path.name async for path in anyio.Path(folder).iterdir()])


@table("how", ["removed", "made anew"])
async def test_a_second_process_is_refused_also_where_somebody_removed_the_lock_file(
    tmp_path: Path, how: str
) -> None:
    """Two gateways on one workspace would answer everything twice; who is refused is told why.

    The file looks like what a crash left behind, and `rm` is what people do with that.
    """
    with python(HOLD, tmp_path) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "open\n"
        with pytest.raises(WorkspaceLockedError, match=f"process {first.pid}") as caught:
            async with open_file_store(tmp_path):
                raise AssertionError
        first.send_signal(signal.SIGSTOP)  # it has not noticed yet
        take_away(how, tmp_path)
        before = await files_in(tmp_path)
        with pytest.raises(WorkspaceLockedError):
            async with open_file_store(tmp_path):
                raise AssertionError
        after = await files_in(tmp_path)
        first.send_signal(signal.SIGCONT)
        assert first.wait(timeout=30) != 0

    assert caught.value.pid == first.pid
    assert after == before
    async with open_file_store(tmp_path) as store:
        assert await store.active() == ()


@table("how", ["removed", "made anew", "moved away"])
async def test_a_store_whose_lock_is_gone_writes_nothing_more(tmp_path: Path, how: str) -> None:
    """Whoever comes next may believe that the workspace is theirs; and nobody is told otherwise."""
    workspace = tmp_path / "workspace"
    errors: list[Exception] = []
    was_ended = False
    with pytest.raises(ExceptionGroup) as caught:
        async with open_file_store(workspace) as store:
            await store.append(SESSION_ID, LOG[:6], expected_seq=0)
            state = replay(LOG[:6])
            await store.save_snapshot(state, compaction="disabled")
            take_away(how, workspace)
            for refused in (
                partial(store.append, SESSION_ID, LOG[6:], expected_seq=6),
                partial(store.mark_active, SESSION_ID),
                partial(store.save_snapshot, state, compaction="archive"),
                partial(store.bind, KEY, SESSION_ID),
                partial(store.save_result, SESSION_ID, "call_1.txt", "text"),
                partial(store.delete, SESSION_ID),
            ):
                try:
                    await refused()
                except WorkspaceLostError as error:
                    errors.append(error)
            with anyio.fail_after(WAIT_S):
                try:
                    await anyio.sleep_forever()
                finally:
                    was_ended = True
    if how == "moved away":
        assert not workspace.exists()
        workspace.with_name("moved").rename(workspace)
    async with open_file_store(workspace) as again:
        loaded = await again.load(SESSION_ID)
        current = await again.bound(KEY)

    assert len(errors) == 6
    assert was_ended
    assert caught.group_contains(WorkspaceLostError)
    assert loaded is not None
    assert loaded.snapshot == state
    assert loaded.events == ()
    assert current == ""


async def test_where_folders_cannot_be_locked_the_file_keeps_others_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On NFS; there a lock file that was removed is at least seen by who held it."""
    real = fcntl.flock

    def flock(fd: int, operation: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        real(fd, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(ExceptionGroup) as caught:
        async with open_file_store(tmp_path) as store:
            with pytest.raises(WorkspaceLockedError, match=str(os.getpid())):
                async with open_file_store(tmp_path):
                    raise AssertionError
            take_away("made anew", tmp_path)
            async with open_file_store(tmp_path) as second:
                with pytest.raises(WorkspaceLostError):
                    await store.append(SESSION_ID, LOG, expected_seq=0)
                await second.append(SESSION_ID, LOG, expected_seq=0)
            with anyio.fail_after(WAIT_S):
                await anyio.sleep_forever()

    assert caught.group_contains(WorkspaceLostError)


@table("acknowledged", [1, 60])
async def test_nothing_acknowledged_is_lost_when_the_process_is_killed(
    tmp_path: Path, acknowledged: int
) -> None:
    """The first promise, with the real signal."""
    with python(WRITE, tmp_path, TESTS) as writer:
        assert writer.stdout is not None
        for _ in range(acknowledged):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        printed = acknowledged + len(writer.stdout.readlines())
    async with open_file_store(tmp_path) as store:
        loaded = await store.load(SESSION_ID)

    assert loaded is not None
    assert loaded.events == simple_log(2000)[: len(loaded.events)]
    assert printed <= len(loaded.events) <= printed + 1


def path_of(fd: int) -> Path:
    """Return what a descriptor is open on."""
    return Path(f"/proc/self/fd/{fd}").readlink()


@contextmanager
def edge(monkeypatch: pytest.MonkeyPatch, name: str, double: object) -> Iterator[None]:
    """Stand in for a system call for the length of a block."""
    with monkeypatch.context() as patch:
        patch.setattr(os, name, double)
        yield


async def test_appends_of_many_sessions_share_their_flushes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty-two people at once must not wait for thirty-two disks' worth of time."""
    ids = [f"20261121T2249561{number:02d}-3f9a2c1b" for number in range(32)]
    calls: list[str] = []
    pwrite, fdatasync = os.pwrite, os.fdatasync

    def recorded_pwrite(fd: int, data: bytes, offset: int) -> int:
        calls.append("w")
        return pwrite(fd, data, offset)

    def recorded_fdatasync(fd: int) -> None:
        calls.append("s")
        fdatasync(fd)

    async with open_file_store(tmp_path) as store:
        for session_id in ids:
            await store.append(session_id, simple_log(0, session_id=session_id), expected_seq=0)
        with (
            edge(monkeypatch, "pwrite", recorded_pwrite),
            edge(monkeypatch, "fdatasync", recorded_fdatasync),
        ):
            async with anyio.create_task_group() as tasks:
                for session_id in ids:
                    event = simple_log(1, session_id=session_id)[1]
                    tasks.start_soon(_append_one, store, session_id, event.seq)

    assert calls.count("w") == calls.count("s") == 32
    assert "".join(calls).count("ws") <= 4  # batches: all is written before anything is synced


async def _append_one(store: FileStore, session_id: str, seq: int) -> None:
    event = simple_log(1, session_id=session_id)[seq - 1]
    await store.append(session_id, (event,), expected_seq=seq - 1)


async def test_a_new_session_is_durable_with_its_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file whose name is lost in a power cut is lost too; later appends need no more syncs."""
    synced: list[str] = []
    fsync = os.fsync

    def recorded(fd: int) -> None:
        synced.append(path_of(fd).relative_to(tmp_path).as_posix())
        fsync(fd)

    async with open_file_store(tmp_path) as store:
        with edge(monkeypatch, "fsync", recorded):
            await store.append(SESSION_ID, LOG[:1], expected_seq=0)
            first = list(synced)
            await store.append(SESSION_ID, LOG[1:], expected_seq=1)
            later = synced[len(first) :]
            await store.mark_active(SESSION_ID)
            await store.mark_active(SESSION_ID)

    assert first == ["sessions", f"sessions/{SESSION_ID}"]
    assert later == []
    assert synced[2:] == ["active"]


def failing(
    error: int, *, suffix: str, taken_bytes: int = 0
) -> Callable[[int, bytes | memoryview, int], int]:
    """Return a `pwrite` that takes some bytes of a file and then fails."""
    pwrite = os.pwrite
    left = [taken_bytes]

    def double(fd: int, data: bytes | memoryview, offset: int) -> int:
        if not str(path_of(fd)).endswith(suffix):
            return pwrite(fd, data, offset)
        if left[0]:
            taken, left[0] = left[0], 0
            return pwrite(fd, data[:taken], offset)
        raise OSError(error, os.strerror(error))

    return double


@table(
    ("error", "said"),
    [
        (errno.ENOSPC, "the disk is full (ENOSPC)"),
        (errno.EDQUOT, "the disk is full (EDQUOT)"),
        (errno.EROFS, "the disk is read-only (EROFS)"),
        (errno.EIO, "(EIO)"),
    ],
    ids=["full", "quota", "read-only", "broken"],
)
@table("taken_bytes", [0, 40], ids=["at once", "in the middle"])
async def test_a_failing_disk_refuses_one_session_and_keeps_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, said: str, taken_bytes: int
) -> None:
    """The caller learns what to do, nothing half-written stays, and the next try works."""
    async with open_file_store(tmp_path) as store:
        await store.append(SESSION_ID, LOG[:6], expected_seq=0)
        log = files_of(store).log
        before = log.read_bytes()
        double = failing(error, suffix=f"{SESSION_ID}/events.jsonl", taken_bytes=taken_bytes)
        failures: list[JournalWriteError] = []

        async def fail() -> None:
            with pytest.raises(JournalWriteError) as caught:
                await store.append(SESSION_ID, LOG[6:], expected_seq=6)
            failures.append(caught.value)

        with edge(monkeypatch, "pwrite", double):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(fail)
                tasks.start_soon(_append_one, store, OTHER_ID, 1)

        assert said in str(failures[0])
        assert failures[0].path == log
        assert log.read_bytes() == before
        assert await store.load(OTHER_ID) is not None
        await store.append(SESSION_ID, LOG[6:], expected_seq=6)
        loaded = await store.load(SESSION_ID)
        assert loaded is not None
        assert loaded.events == LOG


@table("call", ["fdatasync", "fsync"])
async def test_a_first_append_that_fails_leaves_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """A session that was never accepted must not stand in the list."""
    times: list[int] = []
    real: Callable[[int], None] = getattr(os, call)

    def double(fd: int) -> None:
        times.append(fd)
        if len(times) == 1:
            raise OSError(errno.EIO, "broken")
        real(fd)

    async with open_file_store(tmp_path) as store:
        with (
            edge(monkeypatch, call, double),
            pytest.raises(JournalWriteError, match="EIO"),
        ):
            await store.append(SESSION_ID, LOG, expected_seq=0)

        assert list((tmp_path / "sessions").iterdir()) == []
        assert await store.load(SESSION_ID) is None
        await store.append(SESSION_ID, LOG, expected_seq=0)


async def test_a_write_that_cannot_be_taken_back_is_cut_by_the_next_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that dies in the middle leaves half a line; the session survives it."""

    def stuck(fd: int, size: int) -> None:
        raise OSError(errno.EIO, f"{fd} {size}")

    async with open_file_store(tmp_path) as store:
        await store.append(SESSION_ID, LOG[:6], expected_seq=0)
        double = failing(errno.EIO, suffix="/events.jsonl", taken_bytes=40)
        with (
            edge(monkeypatch, "pwrite", double),
            edge(monkeypatch, "ftruncate", stuck),
            pytest.raises(JournalWriteError),
        ):
            await store.append(SESSION_ID, LOG[6:], expected_seq=6)
        with pytest.raises(JournalError):
            await store.append(SESSION_ID, LOG[6:], expected_seq=6)
        loaded = await store.load(SESSION_ID)

        assert loaded is not None
        assert loaded.events == LOG[:6]
        assert "40 bytes" in loaded.repairs[0]
        await store.append(SESSION_ID, LOG[6:], expected_seq=6)


async def test_a_full_file_system_of_the_real_kind(tmp_path: Path) -> None:
    """The kernel takes half of the line and refuses the rest: nothing of it may stay."""
    with python(FULL, tmp_path, TESTS) as process:
        assert process.stdout is not None
        seq, _, said = process.stdout.read().partition(" ")
    async with open_file_store(tmp_path) as store:
        loaded = await store.load(SESSION_ID)

    assert "events.jsonl: " in said
    assert "EFBIG" in said
    assert loaded is not None
    assert loaded.repairs == ()
    assert loaded.events == simple_log(20)[: int(seq) - 1]


@table("suffix", ["state.yaml.tmp", "archive.jsonl", "events.jsonl.tmp"])
async def test_a_snapshot_that_cannot_be_written_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """A full disk must not take the state that stood there before with it."""
    async with open_file_store(tmp_path) as store:
        await store.append(SESSION_ID, LOG[:11], expected_seq=0)
        await store.save_snapshot(replay(LOG[:6]), compaction="archive")
        double = failing(errno.ENOSPC, suffix=suffix, taken_bytes=10)
        with (
            edge(monkeypatch, "pwrite", double),
            pytest.raises(JournalWriteError, match="the disk is full"),
        ):
            await store.save_snapshot(replay(LOG[:9]), compaction="archive")
        await store.append(SESSION_ID, LOG[11:], expected_seq=11)
        loaded = await store.load(SESSION_ID)

        assert loaded is not None
        assert loaded.snapshot in (replay(LOG[:6]), replay(LOG[:9]))
        assert loaded.events[-1] == LOG[-1]
        assert await store.read(SESSION_ID, after=0, limit=99) == LOG
        assert not list(files_of(store).folder.glob("*.tmp"))


async def test_a_crash_between_archive_and_rewrite_archives_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive is the history: an event in it twice happened twice."""
    replace = os.replace

    def crash(source: Path, target: Path) -> None:
        if Path(target).name == "events.jsonl":
            raise OSError(errno.EIO, "the machine goes down here")
        replace(source, target)

    async with open_file_store(tmp_path) as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        with edge(monkeypatch, "replace", crash), pytest.raises(JournalWriteError):
            await store.save_snapshot(replay(LOG[:6]), compaction="archive")
        archive = files_of(store).archive
        assert len(archive.read_bytes().splitlines()) == 6
    archive.write_bytes(archive.read_bytes() + b'{"v":2,"seq":7,"at"')  # as a crash leaves it
    async with open_file_store(tmp_path) as store:
        loaded = await store.load(SESSION_ID)
        assert loaded is not None
        assert (loaded.snapshot, loaded.events) == (replay(LOG[:6]), LOG[6:])
        await store.save_snapshot(replay(LOG[:11]), compaction="archive")

        assert await store.read(SESSION_ID, after=0, limit=99) == LOG
        seqs = [json.loads(line)["seq"] for line in archive.read_bytes().splitlines()]
        assert seqs == list(range(1, 12))


@dataclass(slots=True)
class SlowDisk:
    """An `fdatasync` that takes until it is told to end."""

    syncing: anyio.Event = field(default_factory=anyio.Event)
    loop: EventLoopToken = field(default_factory=current_token)
    release: threading.Event = field(default_factory=threading.Event)
    fdatasync: Callable[[int], None] = os.fdatasync

    def __call__(self, fd: int) -> None:
        anyio.from_thread.run_sync(self.syncing.set, token=self.loop)
        assert self.release.wait(5)
        self.fdatasync(fd)


async def test_what_is_queued_is_not_shown_before_it_is_durable_nor_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A follower must not be told what a failing disk is about to take back.

    Where the caller was cancelled, whoever comes next has to find a whole log, not a race with a
    write nobody waits for.
    """
    disk = SlowDisk()
    async with open_file_store(tmp_path) as store:
        await store.append(SESSION_ID, LOG[:1], expected_seq=0)
        loads: list[Loaded | None] = []

        async def load() -> None:
            loads.append(await store.load(SESSION_ID))

        with edge(monkeypatch, "fdatasync", disk):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_append_one, store, SESSION_ID, 2)
                await disk.syncing.wait()
                during = await store.read(SESSION_ID, after=0, limit=9)
                tasks.cancel_scope.cancel()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(load)
                await anyio.wait_all_tasks_blocked()
                early = len(loads)
                disk.release.set()
        after = await store.read(SESSION_ID, after=0, limit=9)

    assert (during, after) == (LOG[:1], LOG[:2])
    assert early == 0
    assert loads[0] is not None
    assert loads[0].events == LOG[:2]


@table("change", ["longer", "shorter", "no newline", "gone"])
async def test_a_log_that_somebody_else_changed_is_not_appended_to(
    tmp_path: Path, change: str
) -> None:
    """The lock is only advisory: a stranger's write must be noticed before it is written over."""
    async with open_file_store(tmp_path) as store:
        await store.append(SESSION_ID, LOG[:6], expected_seq=0)
        log = files_of(store).log
        data = log.read_bytes()
        if change == "gone":
            log.unlink()
        else:
            changed = {
                "longer": data + encode(SESSION_ID, LOG[6:7]),
                "shorter": data[: data.index(b"\n") + 1],
                "no newline": data[:-1] + b" ",
            }
            log.write_bytes(changed[change])
        before = log.read_bytes() if log.exists() else None
        with pytest.raises(FencedError):
            await store.append(SESSION_ID, LOG[6:7], expected_seq=6)

        assert (log.read_bytes() if log.exists() else None) == before


async def test_more_sessions_than_a_batch_takes_are_all_written(tmp_path: Path) -> None:
    """The limits of a batch and of the queue make callers wait, never fail."""
    ids = [f"20261121T22495{number:04d}-3f9a2c1b" for number in range(1000, 1300)]
    async with open_file_store(tmp_path) as store, anyio.create_task_group() as tasks:
        for session_id in ids:
            tasks.start_soon(_append_one, store, session_id, 1)
    async with open_file_store(tmp_path) as store:
        rows = await store.sessions(after="", limit=999)

    assert [row.session_id for row in rows] == ids[::-1]


async def test_a_caller_that_leaves_a_full_queue_takes_its_append_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session whose append was never queued can go on at once."""
    monkeypatch.setattr("everturn_actors.journal.writer.WAITING_JOBS_MAX", 1)
    disk = SlowDisk()
    async with open_file_store(tmp_path) as store:
        await store.append(SESSION_ID, LOG[:1], expected_seq=0)
        with edge(monkeypatch, "fdatasync", disk):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_append_one, store, SESSION_ID, 2)
                await disk.syncing.wait()
                with anyio.move_on_after(0):
                    await _append_one(store, OTHER_ID, 1)
                disk.release.set()
        assert await store.load(OTHER_ID) is None
        await _append_one(store, OTHER_ID, 1)

        assert await store.load(OTHER_ID) is not None


async def test_a_store_that_is_torn_down_lets_nobody_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the gateway fails, actors that wait for the disk must end too, with the truth."""
    disk = SlowDisk()
    outcomes: dict[str, str] = {}

    async def append(store: FileStore, session_id: str) -> None:
        try:
            await _append_one(store, session_id, 1)
            outcomes[session_id] = "written"
        except JournalWriteError as error:
            outcomes[session_id] = str(error)

    async def live() -> None:
        with edge(monkeypatch, "fdatasync", disk):
            async with open_file_store(tmp_path) as store:
                tasks.start_soon(append, store, SESSION_ID)
                await disk.syncing.wait()
                tasks.start_soon(append, store, OTHER_ID)
                await anyio.wait_all_tasks_blocked()
                disk.release.set()
                raise FloodError

    with anyio.fail_after(WAIT_S):
        async with anyio.create_task_group() as tasks:
            with pytest.RaisesGroup(FloodError):
                await live()
    async with open_file_store(tmp_path) as store:
        found = [await store.load(SESSION_ID), await store.load(OTHER_ID)]

    assert outcomes[SESSION_ID] == "written"
    assert "closing" in outcomes[OTHER_ID]
    assert [loaded is not None for loaded in found] == [True, False]


class FloodError(Exception):
    """Whatever ends a gateway."""


async def test_a_workspace_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a read-only disk the gateway says so before it takes any message.

    So it does where the workspace is a file, by a slip in the configuration.
    """
    real = os.open

    def refuse(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(path, flags, mode)

    with (
        edge(monkeypatch, "open", refuse),
        pytest.raises(JournalWriteError, match=r"workspace\.lock: the disk is read-only"),
    ):
        async with open_file_store(tmp_path):
            raise AssertionError
    (tmp_path / "workspace").write_text("")
    with pytest.raises(JournalWriteError, match="workspace: "):
        async with open_file_store(tmp_path / "workspace"):
            raise AssertionError


@table("seq", [1, 2])
async def test_a_log_that_cannot_be_opened_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seq: int
) -> None:
    """Out of descriptors, without the right: the session is refused, and nothing is left of it."""
    real = os.open

    def refuse(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if str(path).endswith("events.jsonl") and flags & os.O_RDWR:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, flags, mode)

    async with open_file_store(tmp_path) as store:
        await store.append(SESSION_ID, LOG[: seq - 1], expected_seq=0)
        with edge(monkeypatch, "open", refuse), pytest.raises(JournalWriteError, match="EACCES"):
            await _append_one(store, SESSION_ID, seq)

        assert len(list((tmp_path / "sessions").iterdir())) == seq - 1
        await _append_one(store, SESSION_ID, seq)


async def test_rested_sessions_cost_no_memory(tmp_path: Path) -> None:
    """Ten thousand sessions of last month are only files."""
    async with open_file_store(tmp_path) as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        await store.load(OTHER_ID)
        kept = len(store._handles._handles)
        await store.mark_passive(SESSION_ID)

        assert (kept, len(store._handles._handles)) == (1, 0)


async def test_a_deletion_that_a_crash_cut_short_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleted means gone from the disk, also where the process died in between."""

    def crash(*_: object) -> None:
        raise OSError(errno.EIO, "the machine goes down here")

    async with open_file_store(tmp_path) as store:
        await store.append(SESSION_ID, LOG, expected_seq=0)
        with monkeypatch.context() as patch:
            patch.setattr("shutil.rmtree", crash)
            with pytest.raises(JournalWriteError):
                await store.delete(SESSION_ID)
        assert await store.load(SESSION_ID) is None
        assert list((tmp_path / "deleted").iterdir())
    async with open_file_store(tmp_path):
        assert list((tmp_path / "deleted").iterdir()) == []


async def test_pointers_and_marks_are_hints(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A bad pointer must not stop a conversation, nor must a tidy-up by hand refuse it.

    Turns that do not go on by themselves, as nothing says which are open, are noticed by the
    operator, not by the customer.
    """
    async with open_file_store(tmp_path) as store:
        await store.bind(KEY, SESSION_ID)
        path = store.layout.pointer(KEY)
        for content in (b"", b"{", b"[]", b'{"key": {}, "session": "x"}', b"\xff"):
            path.write_bytes(content)
            assert await store.bound(KEY) == ""
        await store.bind(KEY, OTHER_ID)
        assert await store.bound(KEY) == OTHER_ID
        (tmp_path / "active").rmdir()
        await store.mark_active(SESSION_ID)
        assert await store.active() == (SESSION_ID,)
        await store.mark_passive(SESSION_ID)
    assert "everturn doctor" not in caplog.text
    (tmp_path / "active").rmdir()
    async with open_file_store(tmp_path):
        pass

    assert "everturn doctor --repair" in caplog.text


async def test_all_sessions_are_listed_but_those_that_cannot_be_read(tmp_path: Path) -> None:
    """One broken session must not hide all others.

    The head of a snapshot may be longer than what is read at first.
    """
    ids = [f"2026112{day}T224956123-3f9a2c1b" for day in range(2, 7)]
    body = SessionStarted(session_id=SESSION_ID, key=KEY, instructions="Be kind. ü" * 9_000)
    event = structs.replace(LOG[0], body=body)
    async with open_file_store(tmp_path) as store:
        for session_id in ids:
            log = simple_log(1, session_id=session_id)
            await store.append(session_id, log, expected_seq=0)
            await store.save_snapshot(replay(log), compaction="archive")
        files_of(store, ids[0]).state.write_bytes(b"rubbish")
        files_of(store, ids[1]).state.unlink()  # the archive says what it held
        files_of(store, ids[2]).state.write_bytes(files_of(store, ids[4]).state.read_bytes())
        files_of(store, ids[3]).log.unlink()
        (tmp_path / "sessions" / "notes.txt").write_text("not a session")
        rows = await store.sessions(after="", limit=10)
        await store.append(SESSION_ID, (event,), expected_seq=0)
        await store.save_snapshot(replay((event,)), compaction="archive")
        await store.mark_passive(SESSION_ID)
        long = [row for row in await store.sessions(after="", limit=10) if row not in rows]
        await store.append(SESSION_ID, LOG[1:2], expected_seq=1)

    assert [row.session_id for row in rows] == [ids[4], ids[1]]
    assert [(row.session_id, row.key) for row in long] == [(SESSION_ID, KEY)]
