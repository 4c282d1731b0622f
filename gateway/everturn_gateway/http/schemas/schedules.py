"""What a request says of a scheduled job.

How jobs are shown stands in `scheduler.bodies`: the command line shows them, too.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, ConfigDict, Field

from everturn_gateway.scheduler.definitions.settings import (
    JOB_ID_CHARACTERS,
    JobFields,
    JobSettings,
    check_job_id,
)

_TIMES: Final = {
    *("at", "every", "cron", "timezone"),
    *("start", "end", "max_runs", "jitter_seconds"),
}


class NewJob(JobFields):
    """A scheduled job, in the fields of its file."""

    model_config = ConfigDict(defer_build=False)  # the routes ask for it when they are made

    id: Annotated[str, AfterValidator(check_job_id)] | None = Field(
        default=None,
        max_length=JOB_ID_CHARACTERS,
        description="Lower-case letters, digits, - and _, dots between them. By default one is"
        " made.",
        examples=["standup"],
    )
    agent: str = Field(
        pattern=r"^[A-Za-z0-9-]{1,64}$", description="Whose job it is.", examples=["assistant"]
    )

    @property
    def is_for_admin(self) -> bool:
        """Whether it makes the gateway send something to an address."""
        return self.to is not None and self.to.webhook is not None

    def section(self) -> JobSettings:
        """Return it as it would stand in a file."""
        return JobSettings.model_validate(self.model_dump(exclude_unset=True))


class JobTimes(JobFields):
    """When a job is to run, in the fields of its file; what else stands there is not looked at."""

    model_config = ConfigDict(defer_build=False)  # as above

    def section(self) -> JobSettings:
        """Return a job with these times."""
        times = self.model_dump(exclude_unset=True, include=_TIMES)
        return JobSettings.model_validate({**times, "agent": "preview", "task": "preview"})
