"""Gateways with a scheduler that end at any durable write, and what is left of them on the disks.

A process that has ended does nothing any more: whoever waits for its disk, its model or a webhook
waits for ever. What a dead machine forgets is not looked at here, so nothing is synced.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import anyio
import pytest
from anyio import to_thread
from anyio.lowlevel import checkpoint
from support.crashing import CrashingStore, Moment, ProcessEndedError
from support.patience import WAIT_S
from support.ticking import Live, Postbox, WallClock, World, at, refusal

from everturn_actors.journal.memory import open_memory_store
from everturn_actors.model import ModelRequest, Reply, UserMessage
from everturn_actors.ports import Clock, SessionStore
from everturn_actors.testing import ScriptedProvider
from everturn_gateway.channels.running import LaterDeliveryPort
from everturn_gateway.scheduler.definitions.job_store import JobStore, Page
from everturn_gateway.scheduler.job_runner import WebhookError
from everturn_gateway.scheduler.rules.records import Record
from everturn_gateway.scheduler.run_logs.files import Appended, RunLogs
from everturn_gateway.scheduler.run_logs.lines import to_line
from everturn_gateway.scheduler.scheduler import Scheduler

T = TypeVar("T")

QUIET = 40  # rounds of the loop in which nothing touches a disk


@dataclass(slots=True)
class Past:
    """What happened in all lives so far."""

    writes: list[str] = field(default_factory=list[str])
    "The name of each durable write that was begun, posts to webhooks too."
    records: list[tuple[str, Record]] = field(default_factory=list[tuple[str, Record]])
    "Job and record, of all that ever came whole into a run log."


class Process(CrashingStore):
    """One process: sessions, run logs, job files and webhooks, their writes in one count."""

    def __init__(self, inner: SessionStore, past: Past, clock: Clock) -> None:
        """Begin with a process that does not end."""
        super().__init__(inner)
        self._clock = clock
        self.writes = past.writes
        self._records = past.records
        self._files_changed = anyio.Event()
        self._idle = anyio.Event()

    async def settle(self) -> None:
        """Wait until nothing goes on that does not wait for the clock."""
        quiet = 0
        while quiet < QUIET:
            await checkpoint()
            quiet += 1
            while self.working:
                self._idle = anyio.Event()
                await self._idle.wait()
                quiet = 0

    async def _do(self, work: Callable[[], Awaitable[T]]) -> T:
        try:
            return await super()._do(work)
        finally:
            if not self.working:
                self._idle.set()

    def _date(self, file: Path) -> None:
        """Let a file be as old as the clock says."""
        written = self._clock.now().timestamp()
        os.utime(file, (written, written))

    def tell_of_files(self) -> None:
        """Say that a job file has changed."""
        self._files_changed.set()

    async def durable(
        self,
        name: str,
        work: Callable[[], Awaitable[T]],
        half: Callable[[], Awaitable[None]] | None = None,
    ) -> T:
        """Do something that is one write; where the process ends at it, never return."""
        done: list[T] = []

        async def whole() -> None:
            done.append(await work())

        try:
            await self._write(name, whole, half)
        except ProcessEndedError:
            await anyio.sleep_forever()
        return done[0]

    async def living(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do something that writes nothing; where the process has ended, never return."""
        try:
            return await self._do(work)
        except ProcessEndedError:
            await anyio.sleep_forever()
            raise

    @contextmanager
    def at_work(self) -> Generator[None]:
        """Let every scheduler that is used in this block belong to this process."""
        append, put_away = RunLogs.append, JobStore.put_away
        write, read, load = JobStore.write, JobStore.read, RunLogs.load

        async def append_(logs: RunLogs, job_id: str, *records: Record) -> Appended:
            async def work() -> Appended:
                appended = await append(logs, job_id, *records)
                self._records.extend((job_id, record) for record in records)
                return appended

            async def half() -> None:
                await to_thread.run_sync(_tear, Path(logs._store.place(logs._key(job_id))), records)

            kinds = " ".join(type(record).__name__ for record in records)
            return await self.durable(f"{job_id}: {kinds}", work, half)

        async def put_away_(book: JobStore, file: Path) -> None:
            await self.durable("put away", lambda: put_away(book, file))

        async def write_(book: JobStore, job_id: str, *what: Any) -> None:
            async def work() -> None:
                await write(book, job_id, *what)
                await to_thread.run_sync(self._date, book._folder / f"{job_id}.yaml")

            await self.durable("a job file", work)

        async def read_(book: JobStore) -> Page:
            return await self.living(lambda: read(book))

        async def load_(logs: RunLogs) -> None:
            await self.living(lambda: load(logs))

        async def watch_(_book: JobStore, on_change: Callable[[], Awaitable[object]]) -> None:
            while True:
                self._files_changed = anyio.Event()
                await on_change()
                await self._files_changed.wait()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RunLogs, "append", append_)
            patch.setattr(RunLogs, "load", load_)
            patch.setattr(JobStore, "put_away", put_away_)
            patch.setattr(JobStore, "write", write_)
            patch.setattr(JobStore, "read", read_)
            patch.setattr(JobStore, "watch", watch_)
            yield


def _tear(path: Path, records: tuple[Record, ...]) -> None:
    """Leave half of what an append would have written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = b"".join(map(to_line, records))
    # A log that is not there yet is written aside first.
    path = path if path.exists() else path.with_name(f"{path.name}.tmp")
    with path.open("ab") as file:
        file.write(data[: len(data) // 2])


class SlowModel(ScriptedProvider):
    """Answers by what it is asked, after some time, however often it is asked.

    It refuses what holds `fails once`, in the first try, and what holds `always fails`.
    """

    def __init__(self, clock: Clock, takes_s: float = 0) -> None:
        """Begin without requests."""
        super().__init__()
        self.process: Process | None = None
        self.calls: Counter[str] = Counter()
        "How often it was asked each thing."
        self._clock, self._takes_s = clock, takes_s

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """Answer, unless the process has ended."""
        assert self.process is not None
        told = [m.text for m in request.messages if isinstance(m, UserMessage)][-1]
        asked = told[max(told.rfind("[Scheduled task"), 0) :]  # without what was said beside it
        self.calls[asked] += 1
        if self._takes_s:
            await self._clock.sleep(self._takes_s)
        await self.process.living(checkpoint)
        if "always fails" in asked or ("fails once" in asked and "try 2" not in asked):
            raise refusal()
        on_text("done")
        return Reply(text=f"done: {asked}", model=request.model)


@dataclass(slots=True)
class CountedPostbox(Postbox):
    """A webhook whose requests count as durable writes."""

    process: Process | None = None

    async def post(self, url: str, data: Mapping[str, object], *, key: str) -> None:
        """Take what is sent, unless the process has ended."""
        assert self.process is not None

        async def take() -> None:
            await Postbox.post(self, url, data, key=key)

        failure: list[WebhookError] = []

        async def work() -> None:
            await checkpoint()
            try:
                await take()
            except WebhookError as error:
                failure.append(error)

        await self.process.durable("a post", work)
        if failure:
            raise failure[0]


# --- one life after the other --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """A gateway that lives, for a step of a script."""

    live: Live
    process: Process
    world: World

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler."""
        return self.live.scheduler


@dataclass(frozen=True, slots=True)
class Up:
    """A step while the gateway lives; where it dies in the middle of it, it is done once more."""

    act: Callable[[Here], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Down:
    """A step after the gateway was stopped; the next one starts it again."""

    act: Callable[[World], object]


Script: TypeAlias = Sequence[Up | Down]


def until(text: str) -> Up:
    """Let the clock go on to an instant while the gateway lives."""

    async def act(here: Here) -> None:
        _advance(here.world, at(text))

    return Up(act)


def down_until(text: str) -> Down:
    """Let the clock go on to an instant while the gateway is down."""
    return Down(lambda world: _advance(world, at(text)))


def _advance(world: World, moment: datetime) -> None:
    world.clock.advance((moment - world.clock.now()).total_seconds())


class Lives:
    """The lives of one gateway: a script, whatever ends them."""

    def __init__(
        self, folder: Path, begins: str, script: Script, *, model_takes_s: float = 0
    ) -> None:
        """Make a world in which nothing has happened.

        Args:
            folder: The workspace.
            begins: What the clock shows.
            script: What happens in all lives together.
            model_takes_s: For each of its answers.
        """
        self.clock = clock = WallClock(at(begins))
        self.model = SlowModel(clock, model_takes_s)
        self.postbox = CountedPostbox()
        self.world = World(
            folder=folder / "schedules",
            clock=clock,
            provider=self.model,
            postbox=self.postbox,
            delivery_ports={"test": LaterDeliveryPort()},
        )
        self.past = Past()
        self.deaths = 0
        self._script = list(script)

    async def go_on(self, *ends: tuple[int, Moment]) -> None:
        """Live until nothing is left of the script.

        Args:
            ends: How the process ends, the first of them first: at which write, counted from 1, of
                all; of those after the first, counted from the death before.
        """
        deaths = [*ends]
        seen = 0
        while True:
            while self._script and isinstance(step := self._script[0], Down):
                step.act(self.world)
                del self._script[0]
            number, moment = deaths[0] if deaths else (0, "after")
            has_ended = await self._live((seen + number, moment) if deaths else None)
            if has_ended:
                self.deaths += 1
                del deaths[0]
                seen = len(self.past.writes)
            elif not self._script:
                return

    @asynccontextmanager
    async def process(self) -> AsyncGenerator[Process]:
        """Begin a process on the disks; `world.opened` opens its scheduler and its service."""
        async with open_memory_store(self.world.disk) as inner:
            process = Process(inner, self.past, self.world.clock)
            self.world.store = self.model.process = self.postbox.process = process
            with process.at_work():
                yield process

    async def _live(self, end: tuple[int, Moment] | None) -> bool:
        """Live until a step says that the gateway is stopped; return whether it died before."""
        async with self.process() as process, anyio.create_task_group() as tasks:
            process.at = end

            async def work() -> None:
                async with self.world.opened() as live:
                    here = Here(live=live, process=process, world=self.world)
                    await process.settle()
                    while self._script and isinstance(step := self._script[0], Up):
                        try:
                            await step.act(here)
                        except ProcessEndedError:
                            await anyio.sleep_forever()
                        del self._script[0]
                        await process.settle()
                tasks.cancel_scope.cancel()

            tasks.start_soon(work)
            with anyio.fail_after(WAIT_S):
                await process.ended.wait()
            tasks.cancel_scope.cancel()
        return process.ended.is_set()
