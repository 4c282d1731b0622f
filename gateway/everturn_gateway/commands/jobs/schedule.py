"""`everturn schedule`: list, show, add, cancel, pause, resume, run, next."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
from msgspec import Struct
from pydantic import BaseModel

from everturn_actors.json_values import is_object
from everturn_channels.names import clean
from everturn_gateway.client.schedules import ScheduleClient
from everturn_gateway.commands.clients import choose_agent, open_workspace_api
from everturn_gateway.commands.jobs.texts import (
    coming_text,
    details,
    fault_text,
    goes_on_text,
    job_row,
    run_row,
    run_text,
    wall_text,
)
from everturn_gateway.commands.shared.errors import EXIT_FAILED, EXIT_OK, say
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_done, print_json
from everturn_gateway.commands.shared.settings import admin_token, load, run_async
from everturn_gateway.commands.shared.tables import print_table
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import ConfigError, Fault
from everturn_gateway.scheduler.definitions.settings import JobSettings
from everturn_gateway.scheduler.errors import JobRefusedError
from everturn_gateway.scheduler.schemas import ComingList, JobList
from everturn_gateway.yaml_files import Document, FieldPath, Place, check

SHOWN_NEXT: Final = 5
_COMMAND_LINE: Final = Path("command line")  # stands for a file in faults of options
_NONE: Final = "no scheduled jobs; `everturn schedule add --help` says how to make one\n"
_TO: Final = "--to"
# Which option says what a field of a job's file says.
_OPTIONS: Final = {
    "to": _TO,
    "to.channel": _TO,
    "to.chat": _TO,
    "to.topic": _TO,
    "to.session": "--to-session",
    "to.webhook": "--to-webhook",
    "session": "--isolated",
}


class NewJob(Struct, frozen=True, kw_only=True):
    """What `everturn schedule add` was told, in the words of a job's file."""

    agent: str = ""
    fields: Mapping[str, object]
    "Only what was given."
    to: str = ""
    "CHANNEL:CHAT or CHANNEL:CHAT:TOPIC."
    to_session: str = ""
    to_webhook: str = ""


def list_jobs(options: Options, *, everything: bool, as_json: bool) -> int:
    """Print all jobs and what is wrong with definitions; return the exit code.

    Args:
        options: Where the configuration is.
        everything: Jobs of which nothing is to come, too.
        as_json: Print JSON.
    """

    async def main(client: ScheduleClient) -> int:
        found = await client.all()
        jobs = [job for job in found.schedules if everything or job.state != "done"]
        if as_json:
            _print_json(JobList(schedules=tuple(jobs), next=None, faults=found.faults))
            return EXIT_OK
        if jobs:
            print_table(("job", "agent", "when", "next", "state", "last"), map(job_row, jobs))
        else:
            done = len(found.schedules)
            sys.stdout.write(f"nothing is to come; --all lists {done} done\n" if done else _NONE)
        if found.faults:
            sys.stdout.write("\n")
        sys.stdout.writelines(f"{clean(fault_text(fault))}\n" for fault in found.faults)
        return EXIT_OK

    return _with_client(load(options), main)


def show_job(options: Options, job_id: str, *, as_json: bool) -> int:
    """Print a job, when it is due next and its last runs; return the exit code.

    Raises:
        GatewayError: There is no such job.
    """

    async def main(client: ScheduleClient) -> int:
        job = await client.job(job_id)
        if as_json:
            _print_json(job)
            return EXIT_OK
        coming = await client.coming(job_id, count=SHOWN_NEXT)
        sys.stdout.writelines(
            f"{name:<9} {line}\n"
            for name, text in details(job)
            for name, line in _under(name, clean(text))
        )
        if coming.next and job.state in {"scheduled", "running"}:
            sys.stdout.write("\n")
            _print_coming(coming)
        if job.runs:
            sys.stdout.write("\n")
            print_table(
                ("due", "outcome", "took", "tries", "session", "turn", ""),
                (run_row(each, job.timezone) for each in job.runs),
                right=("took", "tries"),
            )
        return EXIT_OK

    return _with_client(load(options), main)


def add_job(options: Options, new: NewJob, *, as_json: bool) -> int:
    """Make a job and print when it is due; return the exit code.

    Raises:
        ConfigError: It cannot be as it is described, by option.
        GatewayError, CoreError: There is no such agent, or none was named of several.
    """
    fields = {**new.fields, **_destination(new)}
    config = load(options)

    async def main(client: ScheduleClient) -> int:
        names = await client.agents()
        agent = await anyio.to_thread.run_sync(choose_agent, new.agent, names, config)
        asked = {"agent": agent, **fields}
        _check(asked)
        try:
            job = await client.add(asked)
        except JobRefusedError as error:
            if not error.faults:
                raise
            raise ConfigError(faults=map(_of_option, error.faults)) from error
        if as_json:
            _print_json(job)
        else:
            sys.stdout.write(clean(f"added {job.id} of {job.agent}: {coming_text(job)}\n"))
        return EXIT_OK

    return _with_client(config, main)


def cancel_job(options: Options, job_id: str, *, as_json: bool = False) -> int:
    """Call a job off; return the exit code.

    Raises:
        GatewayError: There is no such job, or it stands in an agent's own file.
    """

    async def main(client: ScheduleClient) -> int:
        await client.cancel(job_id)
        text = f"cancelled {job_id}; its file is kept in schedules/cancelled"
        print_done(text, {"id": job_id, "state": "cancelled"}, as_json=as_json)
        return EXIT_OK

    return _with_client(load(options), main)


def pause_job(options: Options, job_id: str, *, as_json: bool = False) -> int:
    """Let nothing of a job run until it is resumed; return the exit code.

    Raises:
        GatewayError: There is no such job.
    """

    async def main(client: ScheduleClient) -> int:
        job = await client.pause(job_id)
        text = f"paused {job.id}; `everturn schedule resume {job.id}` goes on"
        print_done(text, job.model_dump(mode="json"), as_json=as_json)
        return EXIT_OK

    return _with_client(load(options), main)


def resume_job(options: Options, job_id: str, *, as_json: bool = False) -> int:
    """Let a paused job go on; return the exit code.

    Raises:
        GatewayError: There is no such job, or its own file says that it is paused.
    """

    async def main(client: ScheduleClient) -> int:
        job = await client.resume(job_id)
        text = f"resumed {job.id}: {coming_text(job)}"
        print_done(text, job.model_dump(mode="json"), as_json=as_json)
        return EXIT_OK

    return _with_client(load(options), main)


def run_job(
    options: Options, job_id: str, *, waits: bool, timeout_s: float | None, as_json: bool
) -> int:
    """Run a job once, now; return the exit code, 1 where it failed or did not end in time.

    Args:
        options: Where the configuration is.
        job_id: Which job.
        waits: Print how it came out; otherwise only that it was begun.
        timeout_s: Waits no longer than this, in seconds; None = as long as its turn may take.
        as_json: Print JSON.

    Raises:
        GatewayError: There is no such job, or it cannot run.
    """

    async def main(client: ScheduleClient) -> int:
        run = await client.run(job_id)
        if waits:
            with anyio.move_on_after(timeout_s) as waiting:
                run = await client.wait(job_id, run)
            if waiting.cancelled_caught:
                say(f"not done within {timeout_s:g} s; {goes_on_text(job_id)}")
        if as_json:
            _print_json(run)
        elif run.outcome is not None or not waits:
            sys.stdout.write(f"{clean(run_text(job_id, run))}\n")
        return (
            EXIT_OK if run.outcome in {"answered", "sent", "silent"} or not waits else EXIT_FAILED
        )

    return _with_client(load(options), main, resume=True)


def next_times(options: Options, job_id: str, *, count: int, as_json: bool) -> int:
    """Print when a job is due next; return the exit code.

    Raises:
        GatewayError: There is no such job.
    """

    async def main(client: ScheduleClient) -> int:
        coming = await client.coming(job_id, count=count)
        if as_json:
            _print_json(coming)
        elif coming.next:
            _print_coming(coming)
        else:
            sys.stdout.write(clean(f"nothing of {job_id} is to come\n"))
        return EXIT_OK

    return _with_client(load(options), main)


# --- what was asked for ---


def _destination(new: NewJob) -> dict[str, object]:
    """Return `to` as a job's file has it; nothing where none was given.

    Raises:
        ConfigError: More than one was given, or one cannot be read.
    """
    given = [
        (option, value)
        for option, value in (
            (_TO, new.to),
            ("--to-session", new.to_session),
            ("--to-webhook", new.to_webhook),
        )
        if value
    ]
    if len(given) > 1:
        raise _wrong(given[1][0], f"is given beside {given[0][0]}; keep one of the two")
    match given:
        case [(option, text)] if option == _TO:
            channel, _, rest = text.partition(":")
            chat, _, topic = rest.partition(":")
            if not channel or not chat:
                msg = f"must be CHANNEL:CHAT or CHANNEL:CHAT:TOPIC, not {text!r}"
                raise _wrong(_TO, msg)
            place = {"channel": channel, "chat": chat}
            return {"to": {**place, "topic": topic} if topic else place}
        case [("--to-session", session_id)]:
            return {"to": {"session": session_id}}
        case [("--to-webhook", url)]:
            return {"to": {"webhook": url}}
        case _:
            return {}


def _check(fields: Mapping[str, object]) -> None:
    """Refuse what cannot be right, in the same words as for a file, before anybody is asked.

    Raises:
        ConfigError: With every fault, by option.
    """
    places = {
        path: Place(
            line=0, written=str(value), kind="section" if isinstance(value, dict) else "scalar"
        )
        for path, value in _flat(fields)
    }
    document = Document(file=_COMMAND_LINE, text="", data=dict(fields), places=places)
    _, faults = check(document, JobSettings)
    if faults:
        raise ConfigError(faults=map(_of_option, faults))


def _flat(fields: Mapping[str, object], path: FieldPath = ()) -> Iterator[tuple[FieldPath, object]]:
    for name, value in fields.items():
        yield (*path, name), value
        if is_object(value):
            yield from _flat(value, (*path, name))


def _of_option(fault: Fault) -> Fault:
    """Return a fault of a field as one of the option that says it."""
    option = f"--{fault.field.replace('_', '-')}" if fault.field else ""
    option = _OPTIONS.get(fault.field, option)
    return Fault(file=_COMMAND_LINE, field=option, message=fault.message)


def _wrong(option: str, message: str) -> ConfigError:
    return ConfigError(faults=[Fault(file=_COMMAND_LINE, field=option, message=message)])


# --- what is shown ---


def _print_coming(coming: ComingList) -> None:
    zone = coming.timezone
    if zone == "UTC":
        print_table(("next, UTC",), [(wall_text(each.local),) for each in coming.next])
        return
    print_table(
        (f"next, {zone}", "UTC"),
        [(wall_text(each.local), wall_text(each.at)) for each in coming.next],
    )


def _with_client(
    config: Config, main: Callable[[ScheduleClient], Awaitable[int]], *, resume: bool = False
) -> int:
    async def opened() -> int:
        async with open_workspace_api(config, resume=resume) as api:
            return await main(ScheduleClient(api, admin_token=admin_token(config)))

    return run_async(opened)


def _print_json(body: BaseModel) -> None:
    print_json(body.model_dump(mode="json"))


def _under(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a text, the first one beside its name."""
    for line in text.splitlines() or [""]:
        yield name, line
        name = ""
