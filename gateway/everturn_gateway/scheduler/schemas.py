"""How jobs are shown to programs: over HTTP, and to the command line on either of its ways.

Nothing here shows the whole address of a webhook, which may hold a secret, or where this machine
keeps its files.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Final, Literal, TypeAlias, assert_never
from urllib.parse import quote, urlsplit
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from everturn_actors.model import ConversationKey
from everturn_actors.state.serialization import utc_text
from everturn_gateway.errors import Fault
from everturn_gateway.scheduler.jobs import (
    At,
    Cron,
    Destination,
    Every,
    Job,
    JobState,
    JobView,
    Made,
    MadeBy,
    Misfire,
    Payload,
    QuietHours,
    Run,
    RunOutcome,
    RunTask,
    SendMessage,
    ToChat,
    ToSession,
    ToWebhook,
    When,
    Where,
)
from everturn_gateway.scheduler.places import Places

RECENT_RUNS: Final = 10  # shown with a job

Timestamp: TypeAlias = Annotated[
    str,
    WithJsonSchema(
        {"type": "string", "format": "date-time", "examples": ["2026-12-01T07:30:00.000000Z"]}
    ),
]


COMMAND_LINE: Final = "everturn-cli"
"The `User-Agent` of the command line; a job says that it was made there. It opens nothing."


class ScheduleBody(BaseModel):
    """Base of all that is shown: no unknown fields, no changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)


# --- when, what, where to ---


class AtBody(ScheduleBody):
    """Once."""

    at: Timestamp


class EveryBody(ScheduleBody):
    """Again and again."""

    every_seconds: int


class CronBody(ScheduleBody):
    """By the clock of a time zone."""

    cron: str = Field(description="Five fields.", examples=["30 8 * * mon-fri"])
    timezone: str = Field(description="An IANA zone.", examples=["Europe/Berlin"])


WhenBody: TypeAlias = AtBody | EveryBody | CronBody


def _when(when: When) -> WhenBody:
    match when:
        case At():
            return AtBody(at=utc_text(when.scheduled_at))
        case Every():
            return EveryBody(every_seconds=when.interval_s)
        case Cron():
            return CronBody(cron=when.expression, timezone=when.timezone)
        case _:
            assert_never(when)


class SayBody(ScheduleBody):
    """A text that is said as it stands; no model is called."""

    message: str


class TaskBody(ScheduleBody):
    """A text that the agent acts on, in a turn with its tools."""

    task: str


PayloadBody: TypeAlias = SayBody | TaskBody


def _payload(payload: Payload) -> PayloadBody:
    match payload:
        case SendMessage():
            return SayBody(message=payload.text)
        case RunTask():
            return TaskBody(task=payload.text)
        case _:
            assert_never(payload)


class ToChatBody(ScheduleBody):
    """The agent's conversation in a chat."""

    channel: str
    chat: str
    topic: str


class ToSessionBody(ScheduleBody):
    """One session, as long as it goes on."""

    session: str


class ToWebhookBody(ScheduleBody):
    """An address that takes the result by HTTP."""

    webhook: str = Field(
        description="Scheme and host alone: the rest may hold a secret.",
        examples=["https://example.org"],
    )


ToBody: TypeAlias = ToChatBody | ToSessionBody | ToWebhookBody


def _to(to: Destination | None) -> ToBody | None:
    match to:
        case None:
            return None
        case ToChat():
            return ToChatBody(channel=to.channel, chat=to.chat, topic=to.topic)
        case ToSession():
            return ToSessionBody(session=to.session_id)
        case ToWebhook():
            return ToWebhookBody(webhook=shown_address(to.url))
        case _:
            assert_never(to)


def shown_address(url: str) -> str:
    """Return what may be shown of an address: scheme, host and port."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


class RetriesBody(ScheduleBody):
    """What follows a run that failed."""

    max: int = Field(description="Tries after the first one.")
    backoff_seconds: float = Field(description="Before the second try; doubled with each.")


class QuietBody(ScheduleBody):
    """A part of each day in which no run falls."""

    begins: str = Field(examples=["22:00"])
    ends: str = Field(examples=["07:00"])
    timezone: str

    @staticmethod
    def of(quiet: QuietHours | None) -> QuietBody | None:
        """Return the body of `quiet`."""
        if quiet is None:
            return None
        return QuietBody(
            begins=f"{quiet.begins:%H:%M}", ends=f"{quiet.ends:%H:%M}", timezone=quiet.timezone
        )


class ConversationBody(ScheduleBody):
    """A conversation."""

    channel: str
    chat: str
    topic: str
    agent: str

    @staticmethod
    def of(key: ConversationKey | None) -> ConversationBody | None:
        """Return the body of `key`."""
        if key is None:
            return None
        return ConversationBody(
            channel=key.channel, chat=key.chat, topic=key.topic, agent=key.agent
        )


class MadeBody(ScheduleBody):
    """Who made a job, and when."""

    by: MadeBy = Field(
        description="file: somebody wrote its file; agent, heartbeat: it stands in an agent.yaml;"
        " the others wrote its file for somebody."
    )
    at: Timestamp | None = Field(description="Null for what people wrote themselves.")
    conversation: ConversationBody | None = Field(
        description="The one in which an agent's tool made it."
    )
    untrusted: bool = Field(
        description="It was made in a turn that had read text from outside; its own turns count as"
        " if they had, too."
    )
    principal: str = Field(
        description="Whose job it is, and who pays for its sessions; empty: whoever runs the"
        " gateway."
    )

    @staticmethod
    def of(made: Made) -> MadeBody:
        """Return the body of `made`."""
        return MadeBody(
            by=made.by,
            at=_timestamp(made.at),
            conversation=ConversationBody.of(made.key),
            untrusted=made.untrusted,
            principal=made.principal,
        )


# --- runs ---


class RunBody(ScheduleBody):
    """A run that was begun, or passed over. Its instant is its name."""

    scheduled_at: Timestamp = Field(description="When it was due.")
    started_at: Timestamp
    finished_at: Timestamp | None = Field(description="Null while it is under way.")
    duration_seconds: float | None
    attempt: int = Field(description="The newest try, counted from 1.")
    by_hand: bool = Field(description="Somebody asked for it, beside the job's own times.")
    outcome: RunOutcome | None = Field(
        description="answered: a task was done; sent: a message is on its way; silent: there was"
        " nothing to say; failed: so did all tries; cancelled: it was called off; misfired: it was"
        " not run. Null while it is under way."
    )
    error: str = Field(description="Why it failed, was called off or misfired.")
    session_id: str | None = Field(description="The session of its task.")
    session: str | None = Field(description="Path of that session.")
    turn_id: str | None = Field(description="The turn that did the task.", pattern=r"^t[0-9]+$")
    misfired: int = Field(
        description="How many runs this stands for, where they were missed; `scheduled_at` is"
        " the newest."
    )
    first_misfired: Timestamp | None = Field(description="The oldest of them.")

    @staticmethod
    def of(run: Run) -> RunBody:
        """Return the body of `run`."""
        ended = run.finished_at
        return RunBody(
            scheduled_at=utc_text(run.scheduled_at),
            started_at=utc_text(run.started_at),
            finished_at=_timestamp(ended),
            # A clock that was set back in between measures nothing.
            duration_seconds=max(0.0, (ended - run.started_at).total_seconds()) if ended else None,
            attempt=run.attempt,
            by_hand=run.by_hand,
            outcome=run.outcome,
            error=run.error,
            session_id=run.session_id or None,
            session=f"/api/v1/sessions/{quote(run.session_id, safe='')}"
            if run.session_id
            else None,
            turn_id=f"t{run.turn}" if run.turn else None,
            misfired=run.misfired,
            first_misfired=_timestamp(run.first_misfired),
        )


class RunList(ScheduleBody):
    """Runs of a job, newest first."""

    runs: tuple[RunBody, ...]

    @staticmethod
    def of(job_state: JobState, *, limit: int) -> RunList:
        """Return the newest `limit`; those under way come first."""
        return RunList(runs=_runs(job_state, limit))


def _runs(job_state: JobState, limit: int) -> tuple[RunBody, ...]:
    newest_first = [*reversed(job_state.open), *reversed(job_state.recent)]
    return tuple(map(RunBody.of, newest_first[:limit]))


# --- jobs ---


class JobBody(ScheduleBody):
    """A scheduled job."""

    id: str
    agent: str
    label: str = Field(description="What people call it; empty = its id.")
    state: Literal["scheduled", "running", "paused", "waiting", "done"] = Field(
        description="waiting: it cannot run now, `why` says what is missing; done: nothing of it"
        " is to come."
    )
    why: str
    next_at: Timestamp | None = Field(description="When it is due next, its jitter included.")
    when: WhenBody
    timezone: str = Field(description="The zone in which people read its times.")
    payload: PayloadBody
    to: ToBody | None = Field(description="Null: nobody; the result stays in the task's session.")
    session: Where = Field(
        description="Whether its task runs in the conversation it is for, or in a session of its"
        " own."
    )
    misfire: Misfire = Field(
        description="What becomes of runs that could not run in time: the newest runs, none"
        " does, or all do."
    )
    grace_seconds: int = Field(description="One that is later than this does not run.")
    jitter_seconds: int
    start: Timestamp | None
    end: Timestamp | None
    max_runs: int | None
    retries: RetriesBody
    quiet: QuietBody | None
    process: str | None = Field(description="The background process it ends with.")
    made: MadeBody
    file: str = Field(description="Where it is defined.", examples=[".everturn/schedules/a.yaml"])
    line: int
    ran: int = Field(description="Runs that ran by its times as they are now.")
    last: RunBody | None = Field(description="The newest run that is finished.")

    @staticmethod
    def of(view: JobView, places: Places) -> JobBody:
        """Return the body of a job."""
        job, job_state = view.job, view.job_state
        return JobBody(
            id=job.job_id,
            agent=job.agent,
            label=job.label,
            state=view.state,
            why=places.without_paths(view.why),
            next_at=_timestamp(view.next_at),
            when=_when(job.when),
            timezone=job.timezone,
            payload=_payload(job.payload),
            to=_to(job.to),
            session=job.where,
            misfire=job.misfire,
            grace_seconds=job.grace_s,
            jitter_seconds=job.jitter_s,
            start=_timestamp(job.begins_at),
            end=_timestamp(job.ends_at),
            max_runs=job.max_runs,
            retries=RetriesBody(max=job.retries.most, backoff_seconds=job.retries.backoff_s),
            quiet=QuietBody.of(job.quiet),
            process=job.process or None,
            made=MadeBody.of(job.made),
            file=places.name(job.file),
            line=job.line,
            ran=job_state.ran,
            last=RunBody.of(job_state.last) if job_state.last else None,
        )


class JobDetail(JobBody):
    """A scheduled job and its newest runs."""

    runs: tuple[RunBody, ...] = Field(description="Newest first.")

    @staticmethod
    def whole(view: JobView, places: Places, *, runs: int = RECENT_RUNS) -> JobDetail:
        """Return the body of a job with so many of its runs."""
        fields = dict(JobBody.of(view, places))
        return JobDetail(**fields, runs=_runs(view.job_state, runs))


class JobFaultBody(ScheduleBody):
    """One thing that is wrong in a definition; what it defines does not run."""

    file: str
    line: int = Field(description="From 1; 0 where the fault belongs to the whole file.")
    field: str
    message: str

    @staticmethod
    def of(fault: Fault, places: Places) -> JobFaultBody:
        """Return the body of `fault`."""
        return JobFaultBody(
            file=places.name(fault.file),
            line=fault.line,
            field=fault.field,
            message=places.without_paths(fault.message),
        )


class JobList(ScheduleBody):
    """A page of jobs, by id, and what is wrong with definitions."""

    schedules: tuple[JobDetail | JobBody, ...]
    next: str | None = Field(description="`after` of the next page; null on the last one.")
    faults: tuple[JobFaultBody, ...] = Field(description="On the first page, at most 200 of them.")


# --- times to come ---


class ComingBody(ScheduleBody):
    """A time at which a job is due."""

    at: Timestamp
    local: Timestamp = Field(description="The same by the clock of the job's zone.")


class ComingList(ScheduleBody):
    """When a job is due next, jitter left out."""

    timezone: str
    next: tuple[ComingBody, ...] = Field(description="Soonest first.")

    @staticmethod
    def of(job: Job, scheduled_times: Iterable[datetime]) -> ComingList:
        """Return the body of the next instants of `job`."""
        zone = ZoneInfo(job.timezone)
        return ComingList(
            timezone=job.timezone,
            next=tuple(
                ComingBody(at=utc_text(each), local=each.astimezone(zone).isoformat())
                for each in scheduled_times
            ),
        )


def _timestamp(scheduled_at: datetime | None) -> str | None:
    return utc_text(scheduled_at) if scheduled_at else None
