"""A scheduler over a real service, a clock that tests move, and disks that outlive it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import anyio
import yaml
from support.patience import WAIT_S

from everturn_actors.delivery.port import DeliveryPort
from everturn_actors.errors import ModelRefusedError
from everturn_actors.journal.keyed import FileKeyedStore
from everturn_actors.journal.memory import MemoryDisk
from everturn_actors.model import ConversationKey
from everturn_actors.ports import SessionStore
from everturn_actors.service import TurnService
from everturn_actors.testing import ManualClock, ScriptedProvider, open_test_service
from everturn_gateway.errors import Fault
from everturn_gateway.scheduler.job_registry import JobNeeds
from everturn_gateway.scheduler.job_runner import JobRunner
from everturn_gateway.scheduler.jobs import Job, JobView, Run
from everturn_gateway.scheduler.scheduler import JobStorage, Scheduler, open_scheduler

CHAT = ConversationKey(channel="test", chat="42", agent="test")


class WallClock(ManualClock):
    """A clock that can also be set: what sleeps goes on as if nothing had happened."""

    def set(self, scheduled_at: datetime) -> None:
        """Show another time, and wake whoever sleeps, as if their sleep were over."""
        self._now = scheduled_at
        for _, woken in self._sleepers:
            woken.set()


@dataclass(slots=True)
class Shelf:
    """Implements `AgentShelf`: the agents that there are, and their own jobs."""

    agents: tuple[str, ...] = ("test",)
    own: tuple[Job, ...] = ()
    wrong: tuple[Fault, ...] = ()
    version: int = 0
    _news: anyio.Event = field(default_factory=anyio.Event)

    def names(self) -> tuple[str, ...]:
        """Return the names of all agents."""
        return self.agents

    def jobs(self) -> tuple[Job, ...]:
        """Return the jobs of their files."""
        return self.own

    def faults(self) -> tuple[Fault, ...]:
        """Return what is wrong with them."""
        return self.wrong

    def changed(self) -> None:
        """Say that something is different now."""
        self.version += 1
        self._news.set()
        self._news = anyio.Event()

    async def wait_beyond(self, version: int) -> None:
        """Wait until `version` has passed."""
        while self.version <= version:
            await self._news.wait()


@dataclass(slots=True)
class Post:
    """One request to a webhook."""

    url: str
    data: Mapping[str, object]
    key: str


@dataclass(slots=True)
class Postbox:
    """Implements `Poster`: keeps what it is given, after as many failures as it is told."""

    posts: list[Post] = field(default_factory=list[Post])
    failures: list[Exception] = field(default_factory=list[Exception])

    async def post(self, url: str, data: Mapping[str, object], *, key: str) -> None:
        """Take what is sent."""
        if self.failures:
            raise self.failures.pop(0)
        self.posts.append(Post(url, data, key))


@dataclass(slots=True, kw_only=True)
class World:
    """What outlives a gateway."""

    folder: Path
    clock: ManualClock = field(default_factory=ManualClock)
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    store: SessionStore | None = None
    "In place of one on `disk`."
    provider: ScriptedProvider = field(default_factory=ScriptedProvider)
    shelf: Shelf = field(default_factory=Shelf)
    postbox: Postbox = field(default_factory=Postbox)
    delivery_ports: Mapping[str, DeliveryPort] = field(default_factory=dict[str, DeliveryPort])
    processes: set[str] = field(default_factory=set[str])
    "Background processes that run."

    def write(self, name: str, **fields: object) -> Path:
        """Write a job file by hand; `to` and a text are given where they are left out."""
        fields.setdefault("agent", "test")
        fields.setdefault("to", {"channel": "test", "chat": "42"})
        if "task" not in fields:
            fields.setdefault("message", "Now.")
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(fields))
        return path

    @asynccontextmanager
    async def opened(self, *, serve: bool = True) -> AsyncGenerator[Live]:
        """Open a gateway's scheduler and service; leave it as a stop would."""
        async with (
            open_test_service(
                provider=self.provider,
                store=self.store,
                disk=self.disk,
                clock=self.clock,
                delivery_ports=self.delivery_ports,
            ) as opened,
            open_scheduler(
                JobStorage(folder=self.folder, keyed=FileKeyedStore(self.folder.parent)),
                runner=JobRunner(opened.service, self.postbox),
                needs=JobNeeds(
                    agents=self.shelf,
                    channels=frozenset(("test",)),
                    is_running=self.processes.__contains__,
                ),
                clock=self.clock,
            ) as scheduler,
            anyio.create_task_group() as tasks,
        ):
            await scheduler.load()
            if serve:
                tasks.start_soon(scheduler.serve)
            yield Live(scheduler=scheduler, service=opened.service, clock=self.clock)
            tasks.cancel_scope.cancel()


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """An open scheduler."""

    scheduler: Scheduler
    service: TurnService
    clock: ManualClock

    async def until(self, job_id: str, holds: Callable[[JobView], bool]) -> JobView:
        """Wait until something is true of a job."""
        with anyio.fail_after(WAIT_S):
            while not holds(view := self.scheduler.job(job_id)):
                await self.scheduler.until_news(job_id)
        return view

    async def runs(self, job_id: str, count: int) -> tuple[Run, ...]:
        """Wait until so many runs of a job are over, missed ones included; return all."""
        view = await self.until(job_id, lambda v: len(v.job_state.recent) >= count)
        return view.job_state.recent

    async def said(self, key: ConversationKey = CHAT) -> tuple[str, ...]:
        """Return what is pending for the people of a conversation, oldest first."""
        session_id = await self.service.conversations.current(key)
        return tuple(p.text for p in (await self.service.view(session_id)).outbox)


def at(text: str) -> datetime:
    """Return an instant of an ISO text with an offset."""
    return datetime.fromisoformat(text)


def refusal() -> ModelRefusedError:
    """Return what a provider that refuses raises; a turn does not try again."""
    return ModelRefusedError("the provider refused")
