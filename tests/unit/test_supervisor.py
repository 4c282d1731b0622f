"""Supervision: what fails is started again, stays down after a bound, and stops nothing else."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Never

import anyio
import pytest
from support.patience import WAIT_S
from support.tables import table

from everturn_actors.supervisor import (
    PERMANENT,
    TEMPORARY,
    TRANSIENT,
    Backoff,
    ChildStatus,
    RestartPolicy,
    Supervisor,
    contain,
)
from everturn_actors.testing import ManualClock

SECRET = "sk-very-secret"


@dataclass(slots=True)
class World:
    """A supervisor with a clock that tests move."""

    clock: ManualClock
    supervisor: Supervisor
    tasks: anyio.abc.TaskGroup
    runs: int = 0
    "How often the body began."
    _changed: anyio.Event = field(default_factory=anyio.Event)

    def start(
        self,
        body: Callable[[], Awaitable[object]],
        policy: RestartPolicy = PERMANENT,
        name: str = "part",
    ) -> None:
        """Start a child whose runs are counted."""

        async def counted() -> None:
            self.runs += 1
            self._changed.set()
            self._changed = anyio.Event()
            await body()

        async def child() -> None:
            await self.supervisor.run(name, counted, policy=policy)
            self._changed.set()

        self.tasks.start_soon(child)

    async def until(self, runs: int) -> None:
        """Let pauses pass until the body began so often."""
        with anyio.fail_after(WAIT_S):
            while self.runs < runs:
                await self.clock.until_sleeping(60)
                self.clock.advance(60)
                await anyio.wait_all_tasks_blocked()

    def status(self, name: str = "part") -> ChildStatus:
        """Return the status of a child."""
        return next(each for each in self.supervisor.children() if each.name == name)


@asynccontextmanager
async def world() -> AsyncGenerator[World]:
    """Open a supervisor whose pauses are whole, and which knows a secret."""
    clock = ManualClock()
    supervisor = Supervisor(clock, jitter=lambda: 1.0, mask=lambda t: t.replace(SECRET, "[secret]"))
    async with anyio.create_task_group() as tasks:
        yield World(clock, supervisor, tasks)
        tasks.cancel_scope.cancel()


async def boom() -> Never:
    """Fail as a bug does."""
    msg = f"boom {SECRET}"
    raise RuntimeError(msg)


async def foreign() -> Never:
    """Fail as what waits for a future does that somebody else cancelled."""
    raise anyio.get_cancelled_exc_class()


@table("fault", [boom, foreign])
async def test_what_fails_is_started_again_and_nobody_else_notices(
    fault: Callable[[], Awaitable[object]],
) -> None:
    """A cancellation that nobody here asked for counts as a failure like another."""
    async with world() as there:
        there.start(anyio.sleep_forever, name="other")
        there.start(fault)
        await there.until(runs=4)

        assert there.status().restarts >= 2
        assert there.status().failures >= 3
        assert there.status("other").state == "running"
        assert there.supervisor.restarts()["part"] == there.status().restarts


async def test_pauses_grow_to_their_bound_and_a_part_of_them_is_chance() -> None:
    """Many that failed together do not try again together, nor for ever once a second."""
    backoff = Backoff(first_s=1, longest_s=60, jitter=0.5)

    assert [backoff.pause_s(n, 1.0) for n in (1, 2, 3, 7, 10_000)] == [1, 2, 4, 60, 60]
    assert backoff.pause_s(3, 0.0) == 2


async def test_after_so_many_failures_in_a_row_it_stays_down(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It says so once, its traceback stands in the log once, and no secret anywhere."""
    caplog.set_level(logging.WARNING)
    async with world() as there:
        there.start(boom, RestartPolicy(failures_max=3))
        await there.until(runs=3)
        there.clock.advance(3600)
        await anyio.wait_all_tasks_blocked()

        status = there.status()
        assert (there.runs, status.state, status.failures, status.restarts) == (3, "failed", 3, 2)
        assert status.error is not None
        assert (status.error.kind, status.error.text) == ("RuntimeError", "boom [secret]")
        assert [each.name for each in there.supervisor.down()] == ["part"]
    levels = [record.levelname for record in caplog.records]
    assert levels == ["WARNING", "WARNING", "ERROR"]
    assert [bool(record.exc_info) for record in caplog.records] == [True, False, False]


async def test_a_run_that_lasted_ends_the_row() -> None:
    """What fails once an hour is never given up."""
    async with world() as there:

        async def after_an_hour() -> None:
            await there.clock.sleep(3600)
            await boom()

        there.start(after_an_hour, RestartPolicy(failures_max=2))
        for _ in range(5):
            await there.clock.until_sleeping(3600)
            there.clock.advance(3600)
            await there.clock.until_sleeping(60)
            there.clock.advance(60)
        with anyio.fail_after(WAIT_S):
            await there.clock.until_sleeping(3600)

        assert (there.status().state, there.status().failures) == ("running", 1)
        assert there.status().restarts == 5


@table(
    ("policy", "body", "state"),
    [
        (PERMANENT, anyio.lowlevel.checkpoint, "backing_off"),
        (TRANSIENT, anyio.lowlevel.checkpoint, "finished"),
        (TEMPORARY, anyio.lowlevel.checkpoint, "finished"),
        (TRANSIENT, boom, "backing_off"),
        (TEMPORARY, boom, "failed"),
    ],
)
async def test_the_restart_rule_says_what_becomes_of_an_end(
    policy: RestartPolicy, body: Callable[[], Awaitable[object]], state: str
) -> None:
    """What should run for ever and ends is as wrong as what fails."""
    async with world() as there:
        there.start(body, policy)
        await anyio.wait_all_tasks_blocked()

        assert there.status().state == state


async def test_a_cancelled_child_ends_at_once_and_is_not_listed() -> None:
    """Its owner closed: that is no failure, also where its own end fails."""
    clock = ManualClock()
    supervisor = Supervisor(clock)

    async def fails_at_its_end() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            await boom()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(supervisor.run, "one", anyio.sleep_forever)
        tasks.start_soon(supervisor.run, "two", fails_at_its_end)
        await anyio.wait_all_tasks_blocked()
        assert [each.name for each in supervisor.children()] == ["one", "two"]
        tasks.cancel_scope.cancel()

    assert supervisor.children() == ()

    # A process that ended is no line in the status for ever.
    async with world() as there:
        there.start(anyio.lowlevel.checkpoint, TRANSIENT, name="process:p1")
        await anyio.wait_all_tasks_blocked()

        assert there.supervisor.children() == ()


@table("fault", [boom, foreign])
async def test_a_contained_fault_cancels_no_sibling(
    fault: Callable[[], Awaitable[object]], caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever shares its task group goes on, and its owner is told."""
    told: list[Exception] = []
    done = anyio.Event()

    async def sibling() -> None:
        await anyio.wait_all_tasks_blocked()
        done.set()

    async def contained() -> None:
        assert not await contain("a test", fault, on_error=told.append)

    with anyio.fail_after(WAIT_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sibling)
            tasks.start_soon(contained)

    assert done.is_set()
    assert len(told) == 1
    assert [record.message for record in caplog.records] == ["a task failed"]
