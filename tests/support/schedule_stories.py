"""What happens to scheduled jobs, told for gateways that may die at any moment of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from support.lives import Down, Here, Lives, Script, Up, down_until, until
from support.ticking import CHAT, World, at

from everturn_gateway.scheduler.definitions.settings import JobSettings
from everturn_gateway.scheduler.errors import UnknownJobError
from everturn_gateway.scheduler.job_runner import WebhookError
from everturn_gateway.scheduler.jobs import Made

DAY = "2026-11-23"
BEGINS = f"{DAY}T08:59:59+00:00"
NINE = f"{DAY}T09:00:00+00:00"
DAILY = {"cron": "0 9 * * *", "timezone": "UTC"}
HOURLY = {"cron": "0 * * * *", "timezone": "UTC"}
HOOK = {"webhook": "https://hooks.example/1"}
RETRIES = {"max": 1, "backoff_seconds": 10}


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What happens to some jobs."""

    jobs: Mapping[str, Mapping[str, object]]
    script: Script
    outcomes: Mapping[str, str]
    "By job, of all runs, oldest first: what has to come of it, whatever ends."
    begins: str = BEGINS
    model_takes_s: float = 0
    post_fails: int = 0
    outbox: int = 1
    "How many texts the chat gets."
    may_be_cut_off: bool = False
    "Of what is called off, nobody knows after a crash how it went on."

    def lives(self, folder: Path) -> Lives:
        """Return a world in which it has not begun."""
        lives = Lives(folder, self.begins, self.script, model_takes_s=self.model_takes_s)
        for name, fields in self.jobs.items():
            write(lives.world, name, **fields)
        lives.postbox.failures = [WebhookError("status 503") for _ in range(self.post_fails)]
        return lives


def write(world: World, name: str, **fields: object) -> None:
    """Write a job file by hand, at the time that the clock shows."""
    path = world.write(name, **fields)
    written = world.clock.now().timestamp()
    os.utime(path, (written, written))


def clock(*times: str) -> Script:
    """Let the clock go on to some times of the day while the gateway lives."""
    return [until(f"{DAY}T{time}+00:00") for time in times]


def until_bit_by_bit(time: str) -> Up:
    """Let the clock go on while the gateway lives, never so far that it seems to jump."""
    end = at(f"{DAY}T{time}+00:00")

    async def act(here: Here) -> None:
        while (left_s := (end - here.world.clock.now()).total_seconds()) > 0:
            here.world.clock.advance(min(left_s, 20))
            await here.process.settle()

    return Up(act)


# --- what people do; where the gateway dies before it says so, they do it again ------------------


async def pause(here: Here) -> None:
    """Pause the job."""
    await here.scheduler.pause("job")


async def resume(here: Here) -> None:
    """Let it go on."""
    await here.scheduler.resume("job")


async def cancel(here: Here) -> None:
    """Call it off, unless that is done."""
    if any(view.job.job_id == "job" for view in here.scheduler.jobs()):
        await here.scheduler.cancel("job")


async def run_by_hand(here: Here) -> None:
    """Run it now, unless it was begun."""
    job_state = here.scheduler.job("job").job_state
    if not any(run.by_hand for run in (*job_state.open, *job_state.recent)):
        await here.scheduler.run_now("job")


async def add(here: Here) -> None:
    """Make a job, unless it is there."""
    section = JobSettings.model_validate(
        {"agent": "test", "at": NINE, "message": "Made.", "to": {"channel": "test", "chat": 42}}
    )
    try:
        here.scheduler.job("made")
    except UnknownJobError:
        await here.scheduler.add(section, job_id="made", made=Made(by="cli"))


async def move(here: Here) -> None:
    """Change the time of a one-shot in its file."""
    write(here.world, "job", at=f"{DAY}T09:20:00+00:00")
    here.process.tell_of_files()


async def begin_another_session(here: Here) -> None:
    """Let the chat begin anew, as `/reset` does where a turn may go on."""
    await here.live.service.conversations.create(CHAT)


def spoil(world: World) -> None:
    """Leave its file with a fault in it."""
    write(world, "job", task="Think.", paused="perhaps", **DAILY)


def mend(world: World) -> None:
    """Set it right."""
    write(world, "job", task="Think.", **DAILY)


STORIES = {
    "a message to a chat": Story(
        jobs={"job": DAILY},
        script=clock("09:00:00", "09:00:30"),
        outcomes={"job": "sent"},
    ),
    "a task in a chat": Story(
        jobs={"job": {"task": "Think.", **DAILY}},
        script=clock("09:00:00", "09:00:30"),
        outcomes={"job": "answered"},
    ),
    "an isolated task, announced": Story(
        jobs={"job": {"task": "Think.", "session": "isolated", **DAILY}},
        script=clock("09:00:00", "09:00:30"),
        outcomes={"job": "answered"},
    ),
    "an isolated task to a webhook": Story(
        jobs={"job": {"task": "Think.", "to": HOOK, **DAILY}},
        script=clock("09:00:00", "09:00:15", "09:00:30"),
        outcomes={"job": "answered"},
        outbox=0,
        post_fails=1,
    ),
    "a message to a webhook": Story(
        jobs={"job": {"to": HOOK, **DAILY}},
        script=clock("09:00:00", "09:00:30"),
        outcomes={"job": "sent"},
        outbox=0,
    ),
    "a first try that fails": Story(
        jobs={"job": {"task": "It fails once.", "retries": RETRIES, **DAILY}},
        script=clock("09:00:00", "09:00:15", "09:00:30", "09:00:45"),
        outcomes={"job": "answered"},
    ),
    "an isolated first try that fails": Story(
        jobs={
            "job": {
                "task": "It fails once.",
                "session": "isolated",
                "retries": RETRIES,
                "at": NINE,
            }
        },
        script=clock("09:00:00", "09:00:15", "09:00:30", "09:00:45"),
        outcomes={"job": "answered"},
    ),
    "a one-shot that fails for good": Story(
        jobs={"job": {"task": "It always fails.", "retries": RETRIES, "at": NINE}},
        script=clock("09:00:00", "09:00:15", "09:00:30", "09:00:45"),
        outcomes={"job": "failed"},
    ),
    "a recurring job that fails each time": Story(
        jobs={"job": {"task": "It always fails.", "retries": {"max": 0}, **HOURLY}},
        script=clock("09:00:00", "10:00:00", "10:00:30"),
        outcomes={"job": "failed failed"},
    ),
    "a one-shot": Story(
        jobs={"job": {"at": NINE}},
        script=clock("09:00:00", "09:00:30"),
        outcomes={"job": "sent"},
    ),
    "a one-shot that was too late": Story(
        jobs={"job": {"at": NINE, "misfire": "skip"}},
        script=[
            *clock("08:59:59"),
            down_until(f"{DAY}T09:01:00+00:00"),
            *clock("09:01:00", "09:02:00"),
        ],
        outcomes={"job": "misfired"},
    ),
    "missed while down, run once": Story(
        jobs={"job": HOURLY},
        script=[
            *clock("08:59:59"),
            down_until(f"{DAY}T12:30:00+00:00"),
            *clock("12:30:30", "13:00:00", "13:00:30"),
        ],
        outcomes={"job": "misfired sent sent"},
        outbox=2,
    ),
    "missed while down, run all": Story(
        jobs={"job": {"task": "Think.", "misfire": "run_all", "grace_seconds": 7200, **HOURLY}},
        script=[
            *clock("08:59:59"),
            down_until(f"{DAY}T12:30:00+00:00"),
            *clock("12:30:30", "12:31:00", "12:31:30", "13:00:00", "13:00:30", "13:01:00"),
        ],
        outcomes={"job": "misfired answered answered answered"},
        outbox=3,
        model_takes_s=10,
    ),
    "so many runs and no more": Story(
        jobs={"job": {"every": 60, "max_runs": 2}},
        script=[until_bit_by_bit("09:03:59")],
        outcomes={"job": "sent sent"},
        outbox=2,
    ),
    "run by hand": Story(
        jobs={"job": {"task": "Think.", **DAILY}},
        script=[Up(run_by_hand), *clock("09:00:00", "09:00:10", "09:00:20", "09:00:30")],
        outcomes={"job": "answered answered"},
        outbox=2,
        model_takes_s=5,
    ),
    "paused and resumed": Story(
        jobs={"job": {"task": "Think.", **HOURLY}},
        script=[
            *clock("09:00:00"),
            Up(pause),
            *clock("09:00:10", "09:00:20", "10:00:00", "10:30:00"),
            Up(resume),
            *clock("11:00:00", "11:00:10", "11:00:20"),
        ],
        outcomes={"job": "answered answered"},
        outbox=2,
        model_takes_s=5,
    ),
    "called off while it runs": Story(
        jobs={"job": {"task": "Think.", **HOURLY}, "other": HOURLY},
        script=[*clock("09:00:00"), Up(cancel), *clock("09:00:10", "09:00:20", "10:00:00")],
        outcomes={"job": "answered", "other": "sent sent"},
        outbox=3,
        model_takes_s=5,
        may_be_cut_off=True,
    ),
    "moved by hand": Story(
        jobs={"job": {"at": f"{DAY}T09:10:00+00:00"}},
        script=[Up(move), *clock("09:10:00", "09:15:00", "09:20:00", "09:25:00")],
        outcomes={"job": "sent"},
    ),
    "run by hand, and it fails once": Story(
        jobs={
            "job": {"task": "It fails once.", "retries": RETRIES, "jitter_seconds": 300, **DAILY}
        },
        script=[until_bit_by_bit("09:00:01"), Up(run_by_hand), until_bit_by_bit("09:06:00")],
        outcomes={"job": "answered answered"},
        outbox=2,
    ),
    "another session in the chat meanwhile": Story(
        jobs={"job": {"task": "Think.", **DAILY}},
        script=[*clock("09:00:00"), Up(begin_another_session), *clock("09:00:10", "09:00:20")],
        outcomes={"job": "answered"},
        model_takes_s=5,
    ),
    "made by a program": Story(
        jobs={"other": DAILY},
        script=[Up(add), *clock("09:00:00", "09:00:30")],
        outcomes={"made": "sent", "other": "sent"},
        outbox=2,
    ),
    "a file with a fault while it is under way": Story(
        jobs={"job": {"task": "Think.", **DAILY}},
        script=[
            *clock("09:00:00"),
            Down(spoil),
            *clock("09:00:10"),
            Down(mend),
            *clock("09:00:20", "09:00:30"),
        ],
        outcomes={"job": "answered"},
        model_takes_s=5,
    ),
}
