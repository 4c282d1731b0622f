"""`everturn schedule`."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from everturn_gateway import commands
from everturn_gateway.cli.declaration import JobId, Json, command
from everturn_gateway.commands.shared.options import Options

Once: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Once, like 2026-12-01T08:30, 'tomorrow 9:00' or 'in 10 minutes'.", metavar="WHEN"
    ),
]
Every: TypeAlias = Annotated[
    str | None, typer.Option(help="Again and again, like 15m, '90 minutes' or 90.", metavar="SPAN")
]
Cron: TypeAlias = Annotated[
    str | None,
    typer.Option(help="By the clock, like '30 8 * * mon-fri' or @daily.", metavar="FIELDS"),
]
Zone: TypeAlias = Annotated[
    str | None, typer.Option(help="The zone of the clock, like Europe/Berlin.", metavar="ZONE")
]
schedule_app = typer.Typer(help="What agents do by the clock.", no_args_is_help=True)


@command(schedule_app, "list")
def list_jobs(
    options: Options,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Those too of which nothing is to come.")
    ] = False,
    as_json: Json = False,
) -> int:
    """List scheduled jobs, and what is wrong with definitions."""
    return commands.schedule.list_jobs(options, everything=everything, as_json=as_json)


@command(schedule_app, "show")
def show_job(options: Options, job: JobId, *, as_json: Json = False) -> int:
    """Show a job, when it is due next, and how it came out lately."""
    return commands.schedule.show_job(options, job, as_json=as_json)


@command(schedule_app, "add")
def add_job(
    options: Options,
    *,
    agent: Annotated[str, typer.Option("--agent", "-a", help="Whose job it is.")] = "",
    job_id: Annotated[
        str | None, typer.Option("--id", help="What it is called.", show_default="made up")
    ] = None,
    label: Annotated[str | None, typer.Option(help="What people call it.")] = None,
    at: Once = None,
    every: Every = None,
    cron: Cron = None,
    timezone: Zone = None,
    message: Annotated[str | None, typer.Option(help="Say this text as it stands.")] = None,
    task: Annotated[str | None, typer.Option(help="Let the agent do this.")] = None,
    to: Annotated[str, typer.Option(help="Tell this chat.", metavar="CHANNEL:CHAT[:TOPIC]")] = "",
    to_session: Annotated[str, typer.Option(help="Tell this session.", metavar="ID")] = "",
    to_webhook: Annotated[str, typer.Option(help="Send it to this address.", metavar="URL")] = "",
    isolated: Annotated[
        bool, typer.Option("--isolated", help="Do the task in a session of its own.")
    ] = False,
    misfire: Annotated[
        str | None,
        typer.Option(
            help="What becomes of what came due while nothing ran: run_once, skip, run_all."
        ),
    ] = None,
    grace_seconds: Annotated[
        int | None, typer.Option(help="Later than this it does not run.", metavar="SECONDS")
    ] = None,
    jitter_seconds: Annotated[
        int | None, typer.Option(help="Run it up to so much later.", metavar="SECONDS")
    ] = None,
    start: Annotated[str | None, typer.Option(help="Nothing runs before.", metavar="WHEN")] = None,
    end: Annotated[str | None, typer.Option(help="Nothing runs after.", metavar="WHEN")] = None,
    max_runs: Annotated[
        int | None, typer.Option(help="It is over after so many runs.", metavar="COUNT")
    ] = None,
    as_json: Json = False,
) -> int:
    """Make a job: one of --at, --every and --cron, and one of --message and --task."""
    given = {
        "id": job_id,
        "label": label,
        "at": at,
        "every": every,
        "cron": cron,
        "timezone": timezone,
        "message": message,
        "task": task,
        "session": "isolated" if isolated else None,
        "misfire": misfire,
        "grace_seconds": grace_seconds,
        "jitter_seconds": jitter_seconds,
        "start": start,
        "end": end,
        "max_runs": max_runs,
    }
    new = commands.schedule.NewJob(
        agent=agent,
        fields={name: value for name, value in given.items() if value is not None},
        to=to,
        to_session=to_session,
        to_webhook=to_webhook,
    )
    return commands.schedule.add_job(options, new, as_json=as_json)


@command(schedule_app, "cancel")
def cancel_job(options: Options, job: JobId, *, as_json: Json = False) -> int:
    """Call a job off; what runs of it is finished."""
    return commands.schedule.cancel_job(options, job, as_json=as_json)


@command(schedule_app, "pause")
def pause_job(options: Options, job: JobId, *, as_json: Json = False) -> int:
    """Let nothing of a job run until it is resumed."""
    return commands.schedule.pause_job(options, job, as_json=as_json)


@command(schedule_app, "resume")
def resume_job(options: Options, job: JobId, *, as_json: Json = False) -> int:
    """Let a paused job go on with what comes due from now on."""
    return commands.schedule.resume_job(options, job, as_json=as_json)


@command(schedule_app, "run")
def run_job(
    options: Options,
    job: JobId,
    *,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Say how it came out, or that it was begun.")
    ] = True,
    timeout: Annotated[
        float | None, typer.Option(help="Wait for so many seconds at most.", min=0.001)
    ] = None,
    as_json: Json = False,
) -> int:
    """Run a job once, now, beside its own times.

    The exit code is 0 when it is done, 1 when it failed or is not done in time, 2 for bad input.
    """
    return commands.schedule.run_job(options, job, waits=wait, timeout_s=timeout, as_json=as_json)


@command(schedule_app, "next")
def next_times(
    options: Options,
    job: JobId,
    *,
    count: Annotated[int, typer.Option(help="How many.", min=1, max=100)] = 5,
    as_json: Json = False,
) -> int:
    """Tell when a job is due next."""
    return commands.schedule.next_times(options, job, count=count, as_json=as_json)
