"""CR-04: a gateway that ends at any write of a scheduled job, and every run runs once.

Each story is told once without a crash. Then its gateway dies at each durable write - of sessions,
run logs, job files and webhooks alike - is started again, and has to leave the same behind.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import anyio
from msgspec import structs
from support.crashing import Moment
from support.examples import LONG_RUN
from support.lives import Lives
from support.patience import WAIT_S
from support.schedule_left import Left, left_by
from support.schedule_stories import STORIES, Story, write
from support.schedule_victim import DUE, open_gateway
from support.tables import table
from support.ticking import World

from everturn_actors.events import Received
from everturn_actors.testing import ManualClock

TESTS = Path(__file__).parents[1]


def moments(number: int, write: str) -> tuple[Moment, ...]:
    """Return when the process ends at a write; before it is as good as after the one before.

    By day it is one of the moments, in turns, at night each.
    """
    can_be_halved = len(write.split()) > 2 or ": " in write  # several events, or a line of a log
    if not can_be_halved:
        return ("after",)
    return ("half", "after") if LONG_RUN else ("half" if number % 2 else "after",)


async def told(story: Story, folder: Path) -> tuple[Lives, Left]:
    """Tell a story without a crash, and check that it is what it should be."""
    lives = story.lives(folder)
    await lives.go_on()
    left = left_by(lives)
    for job_id, outcomes in story.outcomes.items():
        job_state = left.job_states[job_id]
        assert " ".join(run.outcome or "" for run in job_state.recent) == outcomes
        assert not job_state.open
    assert left.outbox.total() == story.outbox
    return lives, left


def without_cut_off(left: Left) -> Left:
    """Leave out how the runs of jobs came out that were called off."""
    known = {"answered": "", "cancelled": "the job was removed"}
    job_states = dict(left.job_states)
    for job_id, job_state in left.job_states.items():
        if job_state.cancelled:
            assert all(known[run.outcome or ""] == run.error for run in job_state.recent)
            recent = tuple(
                structs.replace(run, outcome=None, error="", turn=0) for run in job_state.recent
            )
            job_states[job_id] = structs.replace(job_state, recent=recent)
    return replace(left, job_states=job_states)


def check(story: Story, lives: Lives, left: Left, first: tuple[Lives, Left]) -> None:
    """Check what several lives left against what one left."""
    whole, expected = first
    if story.may_be_cut_off:
        left, expected = without_cut_off(left), without_cut_off(expected)
    assert left.job_states == expected.job_states, "an instant is lost, or came out otherwise"
    assert set(left.finished.values()) <= {1}, "an end was written down twice"
    assert left == expected
    for asked, times in lives.model.calls.items():
        assert times <= whole.model.calls[asked] + lives.deaths, "the model was asked too often"
    assert len(lives.postbox.posts) <= len(whole.postbox.posts) + lives.deaths


@table("story", STORIES.values(), ids=STORIES, parts=4)
async def test_every_run_runs_once_whatever_write_the_gateway_dies_at(
    story: Story, tmp_path: Path
) -> None:
    """CR-04: neither lost nor doubled, and nobody is told twice."""
    first = await told(story, tmp_path / "whole")
    deaths = 0

    for number, name in enumerate(first[0].past.writes, 1):
        for moment in moments(number, name):
            lives = story.lives(tmp_path / f"{number}-{moment}")
            await lives.go_on((number, moment))
            deaths += lives.deaths
            check(story, lives, left_by(lives), first)
    # Messages of two jobs at the same moment are one write of their session, or two; and a run that
    # may be cut off may need a write less.
    spared = len(story.outcomes) - 1 + int(story.may_be_cut_off)
    assert deaths >= len(first[0].past.writes) - spared


@table("name", ["an isolated first try that fails", "missed while down, run all"])
async def test_every_run_runs_once_when_it_dies_again_while_it_goes_on(
    name: str, tmp_path: Path
) -> None:
    """A machine that crashes once tends to crash again, in the middle of setting things right."""
    story = STORIES[name]
    first = await told(story, tmp_path / "whole")

    for number in range(1, len(first[0].past.writes) + 1):
        lives = story.lives(tmp_path / f"{number}")
        await lives.go_on((number, "half"), (1, "half"), (2, "after"))
        check(story, lives, left_by(lives), first)
        assert lives.deaths > 1


async def test_a_gateway_that_is_killed_goes_on_with_what_it_had_begun(tmp_path: Path) -> None:
    """SIGKILL of a real process, real files: one message, one question, one answer."""
    clock = ManualClock(DUE - timedelta(minutes=1))
    world = World(folder=tmp_path / "schedules", clock=clock)
    write(world, "message", at=DUE.isoformat())
    write(world, "task", at=DUE.isoformat(), task="Think.", session="isolated")
    victim = await anyio.open_process(
        [sys.executable, "-m", "support.schedule_victim", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdout=subprocess.PIPE,
        stderr=None,
    )
    async with victim:
        assert victim.stdout is not None
        with anyio.fail_after(WAIT_S):
            assert (await victim.stdout.receive()).strip() == b"asked"
        victim.kill()
        await victim.wait()
    async with open_gateway(tmp_path) as (world, live):
        await world.provider.until_called()
        world.provider.release()
        (sent,) = await live.runs("message", 1)
        (answered,) = await live.runs("task", 1)
        asked = await live.service.history(answered.session_id, after=0, limit=100)

        assert (sent.outcome, answered.outcome) == ("sent", "answered")
        assert [type(event.body) for event in asked].count(Received) == 1
        assert await live.said() == ("Now.", "reply 1")
