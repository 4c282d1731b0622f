"""Scheduled jobs in words, for people at a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final, assert_never
from zoneinfo import ZoneInfo

from everturn_gateway.errors import Fault
from everturn_gateway.scheduler.jobs import RunOutcome
from everturn_gateway.scheduler.schemas import (
    AtBody,
    CronBody,
    EveryBody,
    JobBody,
    JobDetail,
    JobFaultBody,
    RunBody,
    SayBody,
    ToBody,
    ToChatBody,
    ToSessionBody,
    ToWebhookBody,
)

_UNITS: Final = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))
_MINUTE_S: Final = 60


def when_text(job: JobBody) -> str:
    """Return when a job runs: `every 15 minutes`, `at 2026-12-01 08:30 Europe/Berlin`."""
    match job.when:
        case AtBody(at=at):
            return f"at {moment_text(at, job.timezone)}"
        case EveryBody(every_seconds=seconds):
            return f"every {span_text(seconds)}".replace("every 1 ", "every ")
        case CronBody(cron=cron, timezone=zone):
            return f"{cron}, {zone}"
        case _:
            assert_never(job.when)


def span_text(seconds: float) -> str:
    """Return a span of time in its largest unit that leaves nothing over: `90 minutes`.

    One day is 24 hours: it begins at no particular time of day.
    """
    for unit, size_s in _UNITS:
        count, rest = divmod(seconds, size_s)
        if not rest and count > (1 if unit == "day" else 0):
            return f"{count:,.0f} {unit}{'' if count == 1 else 's'}"
    return f"{seconds:,g} seconds"


def took_text(seconds: float | None) -> str:
    """Return how long something took, in few characters."""
    if seconds is None:
        return ""
    if seconds < _MINUTE_S:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), _MINUTE_S)
    return f"{minutes} min {rest} s"


def moment_text(scheduled_at: str, zone: str) -> str:
    """Return an instant by the clock of a zone, with its name; seconds where it has any.

    Of a time that comes twice the offset tells which of the two it is.
    """
    local = datetime.fromisoformat(scheduled_at).astimezone(ZoneInfo(zone))
    seconds = f":{local:%S}" if local.second else ""
    comes_twice = local.utcoffset() != local.replace(fold=1 - local.fold).utcoffset()
    return f"{local:%Y-%m-%d %H:%M}{seconds}{f' {local:%z}' if comes_twice else ''} {zone}"


def to_text(to: ToBody | None) -> str:
    """Return who is told."""
    match to:
        case None:
            return "nobody"
        case ToChatBody():
            return f"{to.channel}, chat {to.chat}" + (f", topic {to.topic}" if to.topic else "")
        case ToSessionBody():
            return f"session {to.session}"
        case ToWebhookBody():
            return f"webhook at {to.webhook}"
        case _:
            assert_never(to)


def payload_text(job: JobBody) -> tuple[str, str]:
    """Return which kind of payload a job has, and its text."""
    payload = job.payload
    return ("message", payload.message) if isinstance(payload, SayBody) else ("task", payload.task)


def outcome_text(run: RunBody) -> str:
    """Return how a run came out, or several that were missed."""
    if run.outcome is None:
        return "running"
    if run.outcome == "misfired" and run.misfired > 1:
        return f"missed {run.misfired:,}"
    return run.outcome


def last_text(job: JobBody) -> str:
    """Return how a job's newest run came out, and when it was due."""
    if job.last is None:
        return ""
    return f"{outcome_text(job.last)} {moment_text(job.last.scheduled_at, job.timezone)}"


def coming_text(job: JobBody) -> str:
    """Return when a job is due next, or why it is not."""
    if job.next_at:
        return f"next {moment_text(job.next_at, job.timezone)}"
    return job.why or job.state


def job_row(job: JobBody) -> tuple[str, ...]:
    """Return the row of a job: its id, agent, when, next, state, last."""
    next_at = moment_text(job.next_at, job.timezone) if job.next_at else ""
    return (job.id, job.agent, when_text(job), next_at, job.state, last_text(job))


def details(job: JobDetail) -> Iterator[tuple[str, str]]:
    """Yield what is to be said of a job, name by name."""
    yield "job", f"{job.id} ({job.label})" if job.label else job.id
    yield "agent", job.agent
    yield "state", f"{job.state}: {job.why}" if job.why else job.state
    yield "when", when_text(job)
    yield payload_text(job)
    yield "to", to_text(job.to)
    if payload_text(job)[0] == "task":
        yield "session", job.session
    yield "misfire", f"{job.misfire}, within {span_text(job.grace_seconds)}"
    if job.jitter_seconds:
        yield "jitter", f"up to {span_text(job.jitter_seconds)}"
    for name, scheduled_at in (("start", job.start), ("end", job.end)):
        if scheduled_at:
            yield name, moment_text(scheduled_at, job.timezone)
    if job.quiet:
        yield "quiet", f"{job.quiet.begins} to {job.quiet.ends} {job.quiet.timezone}"
    retries = job.retries
    yield "retries", f"{retries.max}, the first after {span_text(retries.backoff_seconds)}"
    yield "runs", f"{job.ran:,}" + (f" of {job.max_runs:,}" if job.max_runs else "")
    if job.process:
        yield "process", job.process
    yield "made", _made_text(job)
    if job.file:
        yield "file", f"{job.file}:{job.line}" if job.line else job.file


def _made_text(job: JobBody) -> str:
    made = job.made
    at = f", {moment_text(made.at, job.timezone)}" if made.at else ""
    place = made.conversation
    where = f", in {place.channel}, chat {place.chat}" if place else ""
    outside = ", after it had read text from outside" if made.untrusted else ""
    return f"by {_MAKERS[made.by]}{at}{where}{outside}"


_MAKERS: Final = {
    "file": "hand",
    "agent": "its agent.yaml",
    "heartbeat": "its agent.yaml (heartbeat)",
    "tool": "its agent",
    "cli": "the command line",
    "http": "HTTP",
}


def run_row(run: RunBody, zone: str) -> tuple[str, ...]:
    """Return the row of a run: due, outcome, took, tries, session, turn, error."""
    return (
        moment_text(run.scheduled_at, zone) + (" (by hand)" if run.by_hand else ""),
        outcome_text(run),
        took_text(run.duration_seconds) if run.outcome != "misfired" else "",
        str(run.attempt) if run.outcome != "misfired" else "",
        run.session_id or "",
        run.turn_id or "",
        run.error,
    )


def run_text(job_id: str, run: RunBody) -> str:
    """Return how a run came out, in a line."""
    where = f" in session {run.session_id}" if run.session_id else ""
    turn = f", turn {run.turn_id}" if run.turn_id else ""
    if run.outcome is None:
        return f"{job_id} was begun{where}; {goes_on_text(job_id)}"
    took = f", after {took_text(run.duration_seconds)}" if run.duration_seconds is not None else ""
    error = f": {run.error}" if run.error else ""
    return f"{_OUTCOMES[run.outcome]}{where}{turn}{took}{error}"


_OUTCOMES: Final[dict[RunOutcome, str]] = {
    "answered": "answered",
    "sent": "sent",
    "silent": "silent: there was nothing to say",
    "failed": "failed",
    "cancelled": "cancelled",
    "misfired": "missed",
}


def goes_on_text(job_id: str) -> str:
    """Return what becomes of a run that nobody waits for, and where that can be seen."""
    return (
        "it goes on while a gateway runs, and"
        f" `everturn schedule show {job_id}` says how it comes out"
    )


def wall_text(scheduled_at: str) -> str:
    """Return an instant by the clock it was written in, with its offset from UTC."""
    at = datetime.fromisoformat(scheduled_at)
    offset = f"{at:%z}" if at.utcoffset() else ""
    return f"{at:%Y-%m-%d %H:%M:%S} {offset}".rstrip()


def fault_text(fault: JobFaultBody) -> str:
    """Return what is wrong in a definition, in a line: `file:line: field: message`."""
    return str(
        Fault(file=Path(fault.file), line=fault.line, field=fault.field, message=fault.message)
    )
