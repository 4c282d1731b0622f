"""What is said of scheduled jobs to the model. Pure, but for time zones.

Reads the file of a time zone that was not used before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Final, assert_never
from zoneinfo import ZoneInfo

from everturn_gateway.scheduler.definitions.reading import interval_text
from everturn_gateway.scheduler.jobs import (
    At,
    Cron,
    Every,
    Job,
    JobView,
    Run,
    RunOutcome,
    SendMessage,
    When,
)
from everturn_gateway.tools.recall.messages import one_line
from everturn_gateway.tools.wording import counted

SHOWN: Final = 3  # instants of a new job
_LISTED: Final = 30
_TEXT_CHARACTERS: Final = 80
_REASON_CHARACTERS: Final = 200
_OUTCOMES: Final[dict[RunOutcome, str]] = {
    "answered": "done",
    "sent": "sent",
    "silent": "done, with nothing to say",
    "failed": "failed",
    "cancelled": "called off",
    "misfired": "missed",
}
_LAST: Final = datetime.max.replace(tzinfo=UTC)


def time_text(scheduled_at: datetime, timezone: str) -> str:
    """Return an instant as people of a time zone read it: `Tue 2026-12-01 08:30 Europe/Berlin`."""
    local = scheduled_at.astimezone(ZoneInfo(timezone))
    seconds = f":{local:%S}" if local.second else ""
    return f"{local:%a %Y-%m-%d %H:%M}{seconds} {timezone}"


def described_job(view: JobView, coming: Sequence[datetime], *, is_new: bool) -> str:
    """Return what a call is told of the job that it made.

    Args:
        view: The job.
        coming: When it is due next: `SHOWN` instants and one more, where there are so many.
        is_new: Whether it made it now; otherwise it had made it before, and was cut short.
    """
    job = view.job
    said = f"{job.job_id} {'is scheduled' if is_new else 'was scheduled before'}, {_times(job)}"
    due = "; ".join(time_text(each, job.timezone) for each in coming[:SHOWN])
    if due:
        said += f"\ndue {due}{'; and so on' if len(coming) > SHOWN else ''}"
    return said if view.state == "scheduled" else f"{said}\n{_reductions(view)}"


def listing(views: Sequence[JobView], own: Collection[str]) -> str:
    """Return jobs as lines, those that are due next first.

    Args:
        views: All of them.
        own: The ids of those of which the text is shown.
    """
    if not views:
        return "nothing is scheduled in this conversation"
    ordered = sorted(views, key=_order)
    rows = [_row(view, shows_text=view.job.job_id in own) for view in ordered[:_LISTED]]
    if len(ordered) > _LISTED:
        rows.append(f"and {len(ordered) - _LISTED} more, of those that are due last or done")
    return "\n".join(rows)


def _order(view: JobView) -> tuple[bool, datetime, str]:
    return view.state == "done", view.next_at or _LAST, view.job.job_id


def _row(view: JobView, *, shows_text: bool) -> str:
    job = view.job
    name = f"{job.job_id} “{one_line(job.label)}”" if job.label else job.job_id
    what = "message" if isinstance(job.payload, SendMessage) else "task"
    if shows_text:
        what += f" “{one_line(job.payload.text, _TEXT_CHARACTERS)}”"
    return f"- {name}: {what}, {_times(job)}; {_reductions(view)}"


def _times(job: Job) -> str:
    """Return when a job runs, in words."""
    parts = [_when(job.when)]
    if job.max_runs is not None and not job.is_once:
        parts.append(f"at most {counted(job.max_runs, 'run')}")
    if job.ends_at is not None:
        parts.append(f"until {time_text(job.ends_at, job.timezone)}")
    if job.process:
        parts.append(f"until {job.process} ends")
    return ", ".join(parts)


def _when(when: When) -> str:
    match when:
        case At():
            return "once"
        case Every(interval_s=interval_s):
            return f"every {interval_text(interval_s)}"
        case Cron(expression=expression):
            return f"cron {expression}"
        case _:
            assert_never(when)


def _reductions(view: JobView) -> str:
    """Return how a job stands: when it is due next, and what became of it last."""
    timezone, state = view.job.timezone, view.state
    said: str = state
    if state == "waiting":
        said = f"cannot run: {one_line(view.why, _REASON_CHARACTERS)}"
    elif state == "scheduled" and view.next_at is not None:
        said = f"next {time_text(view.next_at, timezone)}"
    last = view.job_state.last
    return said if last is None else f"{said}; last {_run(last, timezone)}"


def _run(run: Run, timezone: str) -> str:
    word = _OUTCOMES[run.outcome] if run.outcome else "begun"
    error = f": {one_line(run.error, _REASON_CHARACTERS)}" if run.error else ""
    return f"{word} ({time_text(run.scheduled_at, timezone)}){error}"
