"""A scheduler that runs nothing, for tests of what talks to one; and conversations to call from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from anyio import to_thread
from support.policies import NOW

from everturn_actors.model import Conversation, OpenTurn, Step, UserMessage
from everturn_actors.testing import ManualClock
from everturn_gateway.errors import Fault
from everturn_gateway.scheduler.definitions.making import job_of
from everturn_gateway.scheduler.definitions.settings import JobSettings
from everturn_gateway.scheduler.errors import JobFixedError, JobRefusedError, UnknownJobError
from everturn_gateway.scheduler.job_changes import JobChanges
from everturn_gateway.scheduler.jobs import Job, JobView, Made, Run
from everturn_gateway.scheduler.rules import rules


@dataclass(slots=True, kw_only=True)
class PaperScheduler:
    """Implements `SchedulerClient`: jobs are read as the real one reads them, and only kept."""

    clock: ManualClock
    timezone: str = ""
    "The workspace's."
    views: dict[str, JobView] = field(default_factory=dict[str, JobView])
    fails: dict[str, Exception] = field(default_factory=dict[str, Exception])
    "What a method raises, by its name."
    limits: list[int | None] = field(default_factory=list[int | None])
    "`max_jobs` of each job that was added."
    is_loaded: bool = True
    "Whether it knows its jobs; otherwise the first change makes it read them."
    on_add: Callable[[], Awaitable[None]] | None = None
    "Called when a job was added, before that is told."

    changes: JobChanges = field(default_factory=JobChanges)

    async def preview(
        self, section: JobSettings, *, count: int
    ) -> tuple[Job, tuple[datetime, ...]]:
        """Fail: tools preview nothing."""
        raise NotImplementedError(section, count)

    async def load(self) -> None:
        """Do nothing: there is nothing to read."""

    def ids(self) -> tuple[str, ...]:
        """Return the ids of all jobs."""
        return tuple(sorted(self.views))

    def jobs(self) -> tuple[JobView, ...]:
        """Return all jobs."""
        return tuple(self.views[job_id] for job_id in sorted(self.views))

    def job(self, job_id: str) -> JobView:
        """Return one job."""
        if job_id not in self.views or not self.is_loaded:
            raise UnknownJobError(job_id, self.views)
        return self.views[job_id]

    def faults(self) -> tuple[Fault, ...]:
        """Return nothing: what is refused is not kept."""
        return ()

    def coming(self, job_id: str, *, count: int) -> tuple[datetime, ...]:
        """Return when a job is due next, by the real rules."""
        job, now = self.job(job_id).job, self.clock.now()
        found: list[datetime] = []
        after: datetime | None = now
        while after is not None and len(found) < count:
            after = rules.next_scheduled_time(job, after=after, anchor=now)
            if after is not None:
                found.append(after)
        return tuple(found)

    async def add(
        self, section: JobSettings, *, job_id: str = "", made: Made, max_jobs: int | None = None
    ) -> JobView:
        """Keep a job."""
        self._fail("add")
        self.is_loaded = True
        self.limits.append(max_jobs)
        # In a thread: a time zone is read from a file.
        job = await to_thread.run_sync(
            partial(job_of, section, job_id=job_id, timezone=self.timezone, made=made)
        )
        if job_id in self.views:
            msg = f"id: {job_id!r} is taken"
            raise JobRefusedError(msg)
        next_at = rules.next_scheduled_time(job, after=self.clock.now(), anchor=self.clock.now())
        view = JobView(job=job, state="scheduled", next_at=next_at)
        self.views[job_id] = view
        if self.on_add is not None:
            await self.on_add()
        return view

    async def cancel(self, job_id: str) -> None:
        """Forget a job."""
        self._fail("cancel")
        if self.job(job_id).job.made.by == "agent":
            raise JobFixedError
        del self.views[job_id]

    async def pause(self, job_id: str) -> None:
        """Do nothing; no test asks for it."""
        raise AssertionError(job_id)

    async def resume(self, job_id: str) -> None:
        """Do nothing; no test asks for it."""
        raise AssertionError(job_id)

    async def run_now(self, job_id: str) -> Run:
        """Do nothing; no test asks for it."""
        raise AssertionError(job_id)

    async def wait(self, job_id: str, scheduled_at: datetime) -> Run:
        """Do nothing; no test asks for it."""
        raise AssertionError(job_id, scheduled_at)

    def _fail(self, name: str) -> None:
        if name in self.fails:
            raise self.fails[name]


def talk(
    *senders: str, steps: tuple[Step, ...] = (), untrusted: bool = False, ambient: str = ""
) -> Conversation:
    """Return a conversation whose running turn was begun by messages of these senders.

    It has also heard a message of `ambient`, which was not for the agent.
    """
    users = tuple(
        UserMessage(text="hello", sender=sender, untrusted=untrusted) for sender in senders
    )
    if ambient:
        users = (UserMessage(text="we should meet", sender=ambient, ambient=True), *users)
    return Conversation(current=OpenTurn(number=2, users=users, started_at=NOW, steps=steps))


def utc(text: str) -> datetime:
    """Return an instant that is written without its zone."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
