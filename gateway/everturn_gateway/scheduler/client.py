"""What can be asked of the scheduler. Tools, HTTP and the command line know this alone."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from everturn_gateway.errors import Fault
from everturn_gateway.scheduler.definitions.settings import JobSettings
from everturn_gateway.scheduler.job_changes import JobChanges
from everturn_gateway.scheduler.jobs import Job, JobView, Made, Run


class SchedulerClient(Protocol):
    """The scheduled jobs of a gateway.

    What asks without waiting sees nothing before all jobs are read once; see `load`.
    """

    @property
    def changes(self) -> JobChanges:
        """Which jobs changed."""
        ...

    async def load(self) -> None:
        """Return when all jobs are read, which is soon after the start.

        Raises:
            OSError: They cannot be read.
        """
        ...

    def ids(self) -> tuple[str, ...]:
        """Return the ids of all jobs, those that are done included, sorted."""
        ...

    def jobs(self) -> tuple[JobView, ...]:
        """Return all jobs, by id; each takes some 50 microseconds."""
        ...

    def job(self, job_id: str) -> JobView:
        """Return one job.

        Raises:
            UnknownJobError: There is none of this id.
        """
        ...

    def faults(self) -> tuple[Fault, ...]:
        """Return what is wrong with definitions; such jobs do not run."""
        ...

    def coming(self, job_id: str, *, count: int) -> tuple[datetime, ...]:
        """Return when a job is due next, UTC, at most `count` instants, jitter left out.

        Raises:
            UnknownJobError: There is none of this id.
        """
        ...

    async def preview(
        self, section: JobSettings, *, count: int
    ) -> tuple[Job, tuple[datetime, ...]]:
        """Return what a job would be that is made now, and when it would be due; makes nothing.

        Args:
            section: What it is to be; whether its agent and its channel are there is not asked.
            count: At most so many instants, UTC, jitter left out.

        Raises:
            JobRefusedError: It cannot be as it is described.
        """
        ...

    async def add(
        self, section: JobSettings, *, job_id: str = "", made: Made, max_jobs: int | None = None
    ) -> JobView:
        """Make a job; return when it is durable and armed.

        Args:
            section: What it is to be; it names its agent.
            job_id: Its id; empty = the section's, or a new one is made.
            made: Who makes it.
            max_jobs: It is refused where its agent has so many that are made by the same means
                and are not done; None = no limit.

        Raises:
            JobRefusedError: It cannot be as it is described, or its id is taken.
            OSError: It cannot be written.
        """
        ...

    async def cancel(self, job_id: str) -> None:
        """Call a job off; return when that is durable. What runs of it is finished.

        Its file is kept in `schedules/cancelled`.

        Raises:
            UnknownJobError: There is none of this id.
            JobFixedError: It stands in an `agent.yaml`.
            OSError: It cannot be written.
        """
        ...

    async def pause(self, job_id: str) -> None:
        """Let nothing of a job run until it is resumed; durable.

        Raises:
            UnknownJobError: There is none of this id.
            OSError: It cannot be written.
        """
        ...

    async def resume(self, job_id: str) -> None:
        """Let a paused job go on with what comes due from now on; durable.

        Raises:
            UnknownJobError: There is none of this id.
            JobFixedError: Its own definition says `paused`.
            OSError: It cannot be written.
        """
        ...

    async def run_now(self, job_id: str) -> Run:
        """Run a job once, now, beside its own times; return when that is durable, and begun.

        Raises:
            UnknownJobError: There is none of this id.
            JobRefusedError: It cannot run: its agent or channel is missing.
            OSError: It cannot be written.
        """
        ...

    async def wait(self, job_id: str, scheduled_at: datetime) -> Run:
        """Wait for the end of a run that is under way; return how it came out.

        The caller sets the deadline.

        Raises:
            UnknownJobError: There is no such job, or no such run.
        """
        ...
