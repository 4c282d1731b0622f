"""What changes about a job while one of its runs runs: none runs twice, or too late."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest
from support.lives import CountedPostbox, Here, Lives, Script, Up
from support.schedule_left import left_by
from support.schedule_stories import (
    DAY,
    HOOK,
    HOURLY,
    RETRIES,
    clock,
    pause,
    resume,
    write,
)
from support.ticking import WallClock, at

from everturn_gateway.scheduler.rules.records import Began, Finished, Misfire, Record
from everturn_gateway.scheduler.run_logs.files import Appended, RunLogs

SLOW_S = 7200


def on_the_day(time: str) -> datetime:
    """Return a time of the day."""
    return at(f"{DAY}T{time}+00:00")


def told(lives: Lives, job_id: str = "job") -> list[tuple[str, int]]:
    """Return which runs began, ended or were passed over, by their hour."""
    kinds = (Began, Finished, Misfire)
    records = [each for name, each in lives.past.records if name == job_id]
    return [(type(r).__name__, r.scheduled_at.hour) for r in records if isinstance(r, kinds)]


async def own_words(
    folder: Path,
    script: Script,
    *,
    begins: str = "08:30:00",
    model_takes_s: float = 0,
    jobs: Mapping[str, Mapping[str, object]],
) -> Lives:
    """Let something happen to some jobs; return what is left of their gateway."""
    lives = Lives(folder, f"{DAY}T{begins}+00:00", script, model_takes_s=model_takes_s)
    for name, fields in jobs.items():
        write(lives.world, name, **fields)
    await lives.go_on()
    return lives


async def come_back(here: Here) -> None:
    """Take the file of the job away, and put it back."""
    path = here.world.folder / "job.yaml"
    text = path.read_text()
    for step in (path.unlink, lambda: path.write_text(text)):
        step()
        here.process.tell_of_files()
        await here.process.settle()


async def run_by_hand(here: Here) -> None:
    """Run it now."""
    await here.scheduler.run_now("job")


async def test_one_run_at_a_time_also_of_a_job_that_went_and_came_back(
    tmp_path: Path,
) -> None:
    """A task that takes longer than its interval must not run beside itself."""
    lives = await own_words(
        tmp_path,
        [*clock("09:00:00"), Up(come_back), *clock("10:00:00", "10:30:00", "11:00:00", "13:00:00")],
        model_takes_s=SLOW_S,
        jobs={"job": {"task": "Think.", **HOURLY}},
    )

    assert told(lives)[:4] == [("Began", 9), ("Finished", 9), ("Misfire", 10), ("Began", 11)]


async def test_what_came_due_while_one_ran_is_judged_when_that_is_over(tmp_path: Path) -> None:
    """A machine that slept in the middle of a list does not work off last week's rest of it."""
    lives = await own_words(
        tmp_path,
        clock("11:30:00", "15:00:00", "15:00:01"),
        begins="08:59:59",
        model_takes_s=60,
        jobs={"job": {"task": "Think.", "misfire": "run_all", "grace_seconds": 2 * 3600, **HOURLY}},
    )

    assert told(lives) == [
        ("Misfire", 9),
        ("Began", 10),
        ("Finished", 10),
        ("Misfire", 12),
        ("Began", 13),
    ]


async def test_a_pause_ends_a_list_that_is_worked_off(tmp_path: Path) -> None:
    """Nothing begins after somebody was told that the job is paused."""
    lives = await own_words(
        tmp_path,
        [*clock("11:30:00"), Up(pause), *clock("11:31:00", "11:32:00"), Up(resume)],
        begins="08:59:59",
        model_takes_s=60,
        jobs={"job": {"task": "Think.", "misfire": "run_all", **HOURLY}},
    )

    assert told(lives) == [("Began", 9), ("Finished", 9)]


async def test_a_run_by_hand_is_taken_up_by_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Definitions are read in the moment in which it is written down, and while it runs."""

    async def read_again(here: Here) -> None:
        append = RunLogs.append

        async def appended(logs: RunLogs, job_id: str, *records: Record) -> Appended:
            patch.undo()
            done = await append(logs, job_id, *records)
            await here.scheduler.pause("job")
            await here.scheduler.resume("job")
            await here.process.settle()
            return done

        with monkeypatch.context() as patch:
            patch.setattr(RunLogs, "append", appended)
            await run_by_hand(here)

    lives = await own_words(
        tmp_path,
        [Up(read_again), Up(pause), Up(resume), *clock("08:31:00", "08:32:00")],
        model_takes_s=60,
        jobs={"job": {"task": "Think.", **HOURLY}},
    )

    assert told(lives) == [("Began", 8), ("Finished", 8)]
    assert lives.model.calls.total() == 1


async def test_a_pause_holds_the_next_try_too(tmp_path: Path) -> None:
    """Who pauses a job because it fails does not want to see it fail again."""
    lives = await own_words(
        tmp_path,
        [
            *clock("09:00:00"),
            Up(pause),
            *clock("09:00:15", "09:00:30"),
            Up(resume),
            *clock("09:00:45", "09:01:00"),
        ],
        jobs={"job": {"task": "It fails once.", "retries": RETRIES, **HOURLY}},
    )

    again = [each for _, each in lives.past.records if isinstance(each, Began)][1]
    assert (again.attempt, again.at) == (2, on_the_day("09:00:45"))


async def test_a_disk_that_fails_for_a_moment_lets_nothing_run_beside_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be written down is tried again, when the run before it is over."""

    async def until_the_disk_fails(here: Here) -> None:
        append = RunLogs.append

        async def fail(logs: RunLogs, job_id: str, *records: Record) -> Appended:
            if any(isinstance(record, Finished) for record in records):
                patch.undo()
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return await append(logs, job_id, *records)

        with monkeypatch.context() as patch:
            patch.setattr(RunLogs, "append", fail)
            here.world.clock.advance(1.5 * 3600)
            await here.process.settle()

    lives = await own_words(
        tmp_path,
        [
            Up(run_by_hand),  # until half past ten
            *clock("09:00:00"),
            Up(until_the_disk_fails),
            *clock("10:30:30", "11:00:00", "12:59:59"),
        ],
        model_takes_s=SLOW_S,
        jobs={"job": {"task": "Think.", "session": "isolated", **HOURLY}},
    )

    assert told(lives) == [
        ("Began", 8),
        ("Began", 9),
        ("Finished", 9),
        ("Finished", 8),
        ("Misfire", 10),
        ("Began", 11),
    ]


async def test_a_file_that_is_spoilt_while_a_try_waits_calls_nothing_off(tmp_path: Path) -> None:
    """It goes on when the file is right again, with the try that was to come."""

    async def spoil(here: Here) -> None:
        write(here.world, "job", task="It fails once.", cron="never")
        here.process.tell_of_files()

    async def mend(here: Here) -> None:
        write(here.world, "job", task="It fails once.", retries=RETRIES, **HOURLY)
        here.process.tell_of_files()

    lives = await own_words(
        tmp_path,
        [
            *clock("09:00:00"),
            Up(spoil),
            *clock("09:00:15", "09:00:30"),
            Up(mend),
            *clock("09:00:45", "09:01:00"),
        ],
        jobs={"job": {"task": "It fails once.", "retries": RETRIES, **HOURLY}},
    )

    (run,) = left_by(lives).job_states["job"].recent
    assert (run.outcome, run.attempt) == ("answered", 2)


async def test_a_job_is_called_off_also_where_another_file_has_a_fault(tmp_path: Path) -> None:
    """A new job of its id begins anew, and is not over because the old one was."""

    async def cancel(here: Here) -> None:
        await here.scheduler.cancel("job")

    async def make_anew(here: Here) -> None:
        write(here.world, "job", max_runs=1, **HOURLY)
        here.process.tell_of_files()

    lives = await own_words(
        tmp_path,
        [*clock("09:00:00"), Up(cancel), Up(make_anew), *clock("10:00:00")],
        jobs={"job": {"max_runs": 1, **HOURLY}, "wrong": {"cron": "never"}},
    )

    assert told(lives) == [("Began", 9), ("Finished", 9), ("Began", 10), ("Finished", 10)]


@dataclass(slots=True, kw_only=True)
class SlowPostbox(CountedPostbox):
    """The clock is set back while it takes something."""

    clock: WallClock
    to: datetime

    async def post(self, url: str, data: Mapping[str, object], *, key: str) -> None:
        """Take what is sent."""
        await CountedPostbox.post(self, url, data, key=key)
        if len(self.posts) == 1:
            self.clock.set(self.to)


async def test_a_clock_that_is_set_back_while_one_is_passed_over_does_not_take_it(
    tmp_path: Path,
) -> None:
    """By a clock that was ahead it is too late; it is not, and runs when it is time."""
    lives = Lives(tmp_path, "2030-01-01T00:00:00+00:00", clock("09:00:00", "09:00:01"))
    lives.postbox = lives.world.postbox = SlowPostbox(clock=lives.clock, to=on_the_day("05:00:00"))
    path = lives.world.write("job", at=f"{DAY}T09:00:00+00:00", to=HOOK)
    written = on_the_day("04:00:00").timestamp()
    os.utime(path, (written, written))
    await lives.go_on()

    assert told(lives) == [("Misfire", 9), ("Began", 9), ("Finished", 9)]
