"""The run logs on a real disk: what is kept, how it is shortened, what damage does."""

from __future__ import annotations

import errno
import os
import zlib
from pathlib import Path

import anyio
import pytest
from support.patience import WAIT_S
from support.run_logs import edge, failing, modes_in, names_in, opened, put, started_anew, stuck
from support.run_records import a_life, armed, done, hour, standing_after
from support.tables import table

from everturn_gateway.scheduler.jobs import JobState
from everturn_gateway.scheduler.rules.records import RECENT, Kept, Misfire, Paused
from everturn_gateway.scheduler.run_logs.files import LINES_MAX, DamagedLogError
from everturn_gateway.scheduler.run_logs.lines import encode, from_line, to_line

# --- what is kept ---


async def test_what_was_written_is_there_after_a_restart(tmp_path: Path) -> None:
    """The log is all that says which runs ran."""
    logs = await opened(tmp_path / "runs")
    assert logs.job_state("standup") == JobState()
    appended = await logs.append("standup", armed())
    appended = await logs.append("standup", *done(1))

    assert appended.job_state == logs.job_state("standup") == standing_after(a_life(1))
    assert await started_anew(tmp_path / "runs", "standup") == appended.job_state
    again = await opened(tmp_path / "runs")
    assert again.ids() == logs.ids() == ("standup",)
    assert again.last_change("standup") == logs.last_change("standup") == hour(1.5)
    assert again.last_change("other") is None


async def test_logs_are_private_to_their_user(tmp_path: Path) -> None:
    """What an agent is told to do, and when, is nobody else's business."""
    before = os.umask(0)
    try:
        logs = await opened(tmp_path / "deep" / "runs")
        await logs.append("job", armed())
    finally:
        os.umask(before)

    assert modes_in(tmp_path) == {"deep": 0o700, "runs": 0o700, "job.jsonl": 0o600}


async def test_runs_that_leave_the_log_are_named(tmp_path: Path) -> None:
    """Their sessions are deleted by whoever asked for the append, and by nobody else."""
    logs = await opened(tmp_path)
    first = await logs.append("job", *a_life(RECENT))
    second = await logs.append("job", *done(RECENT + 1))

    assert first.gone == ()
    assert second.gone == first.job_state.recent[:1]


async def test_memory_says_what_the_file_says(tmp_path: Path) -> None:
    """A long error is shortened in the file; in memory it must not be another one."""
    logs = await opened(tmp_path)
    appended = await logs.append("job", *done(1, outcome="failed", error="x" * 5000))

    assert appended.job_state.recent[0].error.endswith("…")
    assert await started_anew(tmp_path) == appended.job_state


async def test_nothing_to_write_writes_nothing(tmp_path: Path) -> None:
    """An empty file would be the log of a job that never was."""
    logs = await opened(tmp_path)

    assert (await logs.append("job")).job_state == JobState()
    assert names_in(tmp_path) == set()
    assert logs.ids() == ()


@table("job_id", ["", "../job", "a/b", "Job", ".job", "x" * 81, "a\n"])
async def test_what_is_no_id_of_a_job_is_never_a_path(tmp_path: Path, job_id: str) -> None:
    """Ids come from people and models, and must not lead out of the folder."""
    logs = await opened(tmp_path / "runs")
    with pytest.raises(ValueError, match="lower-case letters"):
        await logs.append(job_id, armed())

    assert names_in(tmp_path) == set()


async def test_a_forgotten_job_leaves_nothing(tmp_path: Path) -> None:
    """Jobs of years must not fill a folder that is read at every start."""
    put(tmp_path, encode(a_life(1)) + b"torn")
    logs = await opened(tmp_path)
    await logs.append("job", Paused(at=hour(2)))
    await logs.append("other", armed())
    put(tmp_path, b"half a log", "job.jsonl.tmp")
    assert len(names_in(tmp_path)) == 4
    await logs.forget("job")
    await logs.forget("unknown")

    assert names_in(tmp_path) == {"other.jsonl"}
    assert logs.ids() == ("other",)
    assert (logs.job_state("job"), logs.last_change("job")) == (JobState(), None)
    assert (await logs.append("job", armed())).job_state == standing_after([armed()])


# --- logs are shortened ---


async def test_a_long_log_is_shortened_and_says_the_same(tmp_path: Path) -> None:
    """A job of years must not cost more at each start than one of days."""
    logs = await opened(tmp_path)
    records = a_life(LINES_MAX)
    longest = 0
    for start in range(0, len(records), 2):
        appended = await logs.append("job", *records[start : start + 2])
        lines = (tmp_path / "job.jsonl").read_bytes().splitlines()
        longest = max(longest, len(lines))
        if len(lines) == 1:
            assert isinstance(from_line(lines[0]), Kept)
            assert await started_anew(tmp_path) == appended.job_state

    assert longest == LINES_MAX
    assert await started_anew(tmp_path) == standing_after(records)
    assert (await opened(tmp_path)).last_change("job") == hour(LINES_MAX + 0.5)
    assert names_in(tmp_path) == {"job.jsonl"}


async def test_a_log_that_cannot_be_shortened_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is maintenance: what happened is written down already, and must not count as refused."""
    records = a_life(LINES_MAX)[: LINES_MAX + 2]
    put(tmp_path, encode(records[:LINES_MAX]))
    logs = await opened(tmp_path)
    with edge(monkeypatch, "replace", failing(errno.ENOSPC)):
        appended = await logs.append("job", records[LINES_MAX])

    assert appended.job_state == standing_after(records[: LINES_MAX + 1])
    assert "could not be shortened" in caplog.text
    assert names_in(tmp_path) == {"job.jsonl"}
    await logs.append("job", records[LINES_MAX + 1])
    assert len((tmp_path / "job.jsonl").read_bytes().splitlines()) == 1
    assert await started_anew(tmp_path) == standing_after(records)


# --- what a crash leaves ---

LAST = to_line(Paused(at=hour(3)))


@table("cut", [1, 2, len(LAST) // 2, len(LAST) - 2])
async def test_a_torn_end_is_cut_off_and_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, cut: int
) -> None:
    """What follows must not be glued to it, and an operator may want to see it."""
    torn = encode(a_life(2)) + LAST[:cut]
    path = put(tmp_path, torn)
    logs = await opened(tmp_path)

    assert logs.job_state("job") == standing_after(a_life(2))
    assert path.read_bytes() == torn  # looking changes nothing
    appended = await logs.append("job", *done(3))
    assert appended.job_state == standing_after(a_life(3)) == await started_anew(tmp_path)
    assert (tmp_path / "job.jsonl.torn").read_bytes() == LAST[:cut]
    assert "cut short by a crash" in caplog.text
    await logs.append("job", *done(4))
    assert await started_anew(tmp_path) == standing_after(a_life(4))


async def test_at_most_one_torn_log_is_kept(tmp_path: Path) -> None:
    """A machine that crashes every day must not fill its disk with them."""
    path = put(tmp_path, encode(a_life(1)) + b"first")
    await (await opened(tmp_path)).append("job", *done(2))
    put(tmp_path, path.read_bytes() + b"second")
    await (await opened(tmp_path)).append("job", *done(3))

    assert names_in(tmp_path) == {"job.jsonl", "job.jsonl.torn"}
    assert (tmp_path / "job.jsonl.torn").read_bytes().endswith(b"second")
    assert await started_anew(tmp_path) == standing_after(a_life(3))


async def test_a_last_line_without_its_end_counts_and_gets_one(tmp_path: Path) -> None:
    """Editors take the last newline away; a run must not run twice for that."""
    put(tmp_path, encode(a_life(2))[:-1])
    logs = await opened(tmp_path)
    await logs.append("job", *done(3))

    assert await started_anew(tmp_path) == standing_after(a_life(3))


@table("left", [b"", encode(a_life(1))], ids=["empty", "an older copy"])
async def test_a_log_that_was_changed_is_written_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, left: bytes
) -> None:
    """The gateway knows what ran; somebody's editor must not make it run again."""
    logs = await opened(tmp_path)
    await logs.append("job", *a_life(2))
    put(tmp_path, left)
    await logs.append("job", *done(3))

    assert await started_anew(tmp_path) == standing_after(a_life(3))
    assert "not as it was left" in caplog.text
    assert (tmp_path / "torn" / "job.jsonl").exists() == bool(left)


async def test_a_log_that_is_gone_is_written_anew(tmp_path: Path) -> None:
    """As above, and there is nothing to keep."""
    logs = await opened(tmp_path)
    await logs.append("job", *a_life(2))
    (tmp_path / "job.jsonl").unlink()
    await logs.append("job", *done(3))

    assert await started_anew(tmp_path) == standing_after(a_life(3))
    assert names_in(tmp_path) == {"job.jsonl"}


# --- damage ---


async def test_a_damaged_log_stops_its_job_and_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """To go on from a guess could run something twice; the operator is told what to do."""
    lines = encode(a_life(2)).splitlines(keepends=True)
    damaged = b"".join([*lines[:2], b'{"kind":"ac\n', *lines[3:]])
    path = put(tmp_path, damaged)
    put(tmp_path, encode(a_life(2)), "other.jsonl")
    logs = await opened(tmp_path)

    assert logs.damage("job").startswith(f"its run log is damaged: {path}:3: it is cut short")
    assert "move the file away" in logs.damage("job")
    assert logs.damage("other") == logs.damage("unknown") == ""
    assert logs.ids() == ("job", "other")
    (fault,) = logs.faults()
    assert (fault.file, fault.line) == (path, 3)
    assert str(fault) in [getattr(record, "fault", "") for record in caplog.records]
    assert (logs.job_state("job"), logs.last_change("job")) == (JobState(), None)
    with pytest.raises(DamagedLogError, match=r"job\.jsonl:3: ") as caught:
        await logs.append("job", armed())
    assert isinstance(caught.value, OSError)
    with pytest.raises(DamagedLogError):
        await logs.forget("job")
    assert path.read_bytes() == damaged
    assert logs.job_state("other") == standing_after(a_life(2))
    await logs.append("other", *done(3))


async def test_a_damaged_log_that_was_moved_away_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A gateway with hundreds of conversations need not be started anew for one job."""
    path = put(tmp_path, b"bad\n" + encode(a_life(2)))
    logs = await opened(tmp_path)
    caplog.clear()
    await logs.recheck()

    assert logs.damage("job")
    assert caplog.text == ""  # it was said before
    path.rename(tmp_path / "job.jsonl.old")
    await logs.recheck()
    assert (logs.damage("job"), logs.faults(), logs.ids()) == ("", (), ())
    await logs.append("job", armed())
    assert await started_anew(tmp_path) == standing_after([armed()])
    await logs.recheck()
    assert logs.job_state("job") == standing_after([armed()])


async def test_a_log_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    """Whoever goes back a version must be able to go forward again."""
    later = to_line(Paused(at=hour(3))).replace(b"paused", b"dreamt")
    body = later[: later.index(b',"crc"')]
    later = b'%b,"crc":"%08x"}\n' % (body, zlib.crc32(body))
    path = put(tmp_path, encode(a_life(1)) + later)
    logs = await opened(tmp_path)
    with pytest.raises(DamagedLogError, match="kind is 'dreamt', which is none of"):
        await logs.append("job", armed())

    assert path.read_bytes().endswith(later)


async def test_what_cannot_be_a_log_is_named_and_passed_over(tmp_path: Path) -> None:
    """A start must not hang on a pipe, nor end with a folder in the wrong place."""
    put(tmp_path, encode(a_life(1)))
    put(tmp_path, b"", "Job.jsonl")
    put(tmp_path, b"", "notes.txt")
    (tmp_path / "folder.jsonl").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "loop.jsonl").symlink_to(tmp_path / "loop.jsonl")
    logs = await opened(tmp_path)

    said = {fault.file.name: fault.message for fault in logs.faults()}
    assert said == {
        "Job.jsonl": "its name is not that of a job; move it away",
        "folder.jsonl": "it is no file",
        "loop.jsonl": "cannot be used: Too many levels of symbolic links",
        "pipe.jsonl": "it is no file",
    }
    assert logs.job_state("job") == standing_after(a_life(1))


async def test_a_log_that_cannot_be_read_stops_its_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken for an empty one, everything in it would run again."""
    path = put(tmp_path, encode(a_life(1)))
    huge = put(tmp_path, b"", "huge.jsonl")
    os.truncate(huge, 17 * 1024 * 1024)
    with edge(monkeypatch, "fstat", failing(errno.EIO, times=2)):
        logs = await opened(tmp_path)

    assert f"{path}: cannot be used: Input/output error" in logs.damage("job")
    await logs.recheck()
    assert logs.damage("job") == ""
    assert logs.job_state("job") == standing_after(a_life(1))
    assert f"it has {17 * 1024 * 1024} bytes, more than any that is written" in logs.damage("huge")


# --- side by side ---


async def test_many_jobs_write_at_the_same_time(tmp_path: Path) -> None:
    """At nine o'clock everything is due at once."""
    logs = await opened(tmp_path)
    jobs = {f"job-{number}": a_life(number % 5 + 1) for number in range(60)}

    async def live(job_id: str) -> None:
        for record in jobs[job_id]:
            await logs.append(job_id, record)

    async with anyio.create_task_group() as tasks:
        for job_id in jobs:
            tasks.start_soon(live, job_id)

    again = await opened(tmp_path)
    assert again.ids() == logs.ids() == tuple(sorted(jobs))
    for job_id, records in jobs.items():
        assert again.job_state(job_id) == logs.job_state(job_id) == standing_after(records)


async def test_appends_of_one_job_follow_each_other(tmp_path: Path) -> None:
    """Each caller sees what its own record led to, and the file has them in the same order."""
    logs = await opened(tmp_path)
    counts: list[int] = []

    async def miss(number: int) -> None:
        missed = Misfire(at=hour(number), first=hour(0), scheduled_at=hour(number), count=number)
        appended = await logs.append("job", missed)
        assert appended.job_state.recent[-1].misfired == number
        counts.append(len(appended.job_state.recent))

    async with anyio.create_task_group() as tasks:
        for number in range(1, 21):
            tasks.start_soon(miss, number)

    assert sorted(counts) == list(range(1, 21))
    assert await started_anew(tmp_path) == logs.job_state("job")


async def test_a_slow_disk_holds_up_its_own_job_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One job's log may be long under way; the others are due now."""
    logs = await opened(tmp_path)
    await logs.append("slow", armed())
    await logs.append("other", armed())
    with stuck(monkeypatch, "slow") as (begun, free):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(logs.append, "slow", *done(1))
            await anyio.to_thread.run_sync(begun.wait, WAIT_S)
            with anyio.fail_after(WAIT_S):
                await logs.append("other", *done(1))

            assert logs.job_state("slow") == standing_after([armed()])  # not before it is durable
            free.set()

    assert logs.job_state("slow") == standing_after(a_life(1))


async def test_a_cancelled_append_is_whole_or_was_never_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway that stops must know of what its disk has taken."""
    logs = await opened(tmp_path)
    await logs.append("slow", armed())
    with stuck(monkeypatch, "slow") as (begun, free):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(logs.append, "slow", *done(1))
            await anyio.to_thread.run_sync(begun.wait, WAIT_S)
            tasks.start_soon(logs.append, "slow", *done(2))
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
            free.set()

    assert logs.job_state("slow") == standing_after(a_life(1))
    assert await started_anew(tmp_path, "slow") == standing_after(a_life(1))
    with anyio.fail_after(WAIT_S):
        await logs.append("slow", *done(2))


async def test_a_job_that_comes_back_while_it_is_forgotten_has_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was written down, so it must be there."""
    logs = await opened(tmp_path)
    await logs.append("slow", *a_life(1))
    with stuck(monkeypatch, "slow", "unlink") as (begun, free):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(logs.forget, "slow")
            await anyio.to_thread.run_sync(begun.wait, WAIT_S)
            tasks.start_soon(logs.append, "slow", armed())
            await anyio.wait_all_tasks_blocked()
            free.set()

    assert logs.job_state("slow") == standing_after([armed()])
    assert await started_anew(tmp_path, "slow") == standing_after([armed()])
