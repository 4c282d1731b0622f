"""`everturn doctor`: is everything in order, and what to do where it is not."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Final

from anyio.to_thread import run_sync
from msgspec import Struct, structs

from everturn_channels.health import ChannelStatus
from everturn_gateway.app import can_be_examined, check_journals, open_keyed
from everturn_gateway.client import Readiness, ask_channels, ask_readiness, ask_tools, open_api
from everturn_gateway.client.schedules import ScheduleClient
from everturn_gateway.clock import SystemClock
from everturn_gateway.commands.agents import check_agents
from everturn_gateway.commands.shared.crash import crash_log
from everturn_gateway.commands.shared.errors import EXIT_FAILED, EXIT_OK
from everturn_gateway.commands.shared.finding import find_running, is_alive
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_json, print_line
from everturn_gateway.commands.shared.progress import slow_progress
from everturn_gateway.commands.shared.running import Running, read_note
from everturn_gateway.commands.shared.settings import api_token, load, run_async
from everturn_gateway.config.settings import Config
from everturn_gateway.doctor.examination import examine
from everturn_gateway.doctor.findings import Finding, JournalNote
from everturn_gateway.doctor.subject import JobHealth, Subject
from everturn_gateway.errors import ConfigError, Fault
from everturn_gateway.model_statistics import StoredModelStatistics, look_up
from everturn_gateway.specs import AgentFile
from everturn_gateway.workspace_files import NOTE_NAME

_SUBJECT_CHARACTERS: Final = 11


def doctor(options: Options, *, repair: bool, as_json: bool = False) -> int:
    """Look at everything and print what was found; return the exit code, 1 for a problem.

    Args:
        options: Where the configuration is.
        repair: Set right what can be set right without losing anything.
        as_json: Print JSON: the findings, as HTTP has them.
    """

    async def main() -> int:
        try:
            config = await run_sync(partial(load, options, with_channels=True))
        except ConfigError as error:
            return report([Finding(verdict="problem", subject="config", text=str(error))])
        found: list[Finding] = []
        async for finding in examine(await _subject(config, repair=repair)):
            found.append(finding)
            if not as_json:
                _print(finding)
        return report(found, is_told=not as_json)

    def report(found: Sequence[Finding], *, is_told: bool = False) -> int:
        if as_json:
            print_json({"findings": [structs.asdict(each) for each in found]})
        for finding in () if as_json or is_told else found:
            _print(finding)
        return EXIT_FAILED if any(each.verdict == "problem" for each in found) else EXIT_OK

    return run_async(main)


def _print(finding: Finding) -> None:
    for line in finding.text.splitlines() or [""]:
        subject = finding.subject.ljust(_SUBJECT_CHARACTERS)
        print_line(f"{finding.verdict:<8}  {subject}  {line}")
    sys.stdout.flush()


class _OverHttp(Struct, frozen=True):
    """A gateway of another process. Implements `RunningGateway`."""

    url: str
    token: str

    async def readiness(self) -> Readiness:
        return await ask_readiness(self.url, token=self.token)

    async def tool_faults(self, agent: str) -> tuple[str, ...]:
        return (await ask_tools(self.url, agent, token=self.token)).faults

    async def channels(self) -> Sequence[ChannelStatus]:
        return await ask_channels(self.url, token=self.token)

    async def jobs(self) -> JobHealth:
        async with open_api(self.url, token=self.token) as api:
            found = await ScheduleClient(api).all()
        return JobHealth(jobs=len(found.schedules), faults=found.faults)


async def _subject(config: Config, *, repair: bool) -> Subject:
    """Return what is examined: the gateway that runs, or the workspace alone."""
    running = await find_running(config.workspace)

    async def statistics() -> StoredModelStatistics:
        async with open_keyed(config, is_change=False) as keyed:
            return await look_up(keyed, SystemClock())

    async def agents() -> tuple[Sequence[AgentFile], Sequence[Fault]]:
        return await run_sync(check_agents, config)

    async def journals(*, repair: bool = False) -> Sequence[JournalNote]:
        async with slow_progress("sessions") as looked:
            return await check_journals(config, repair=repair, looked=looked)

    return Subject(
        config=config,
        secrets=crash_log.secrets,
        repair=repair,
        running=_OverHttp(running.url, api_token(config)) if running is not None else None,
        gateway=partial(run_sync, partial(_gateway, config, running, repair=repair)),
        statistics=statistics,
        agents=agents,
        keyed=partial(open_keyed, config, is_change=False),
        check_journals=journals,
        repair_journals=partial(journals, repair=True) if repair else None,
        can_be_examined=partial(can_be_examined, config),
    )


def _gateway(config: Config, running: Running | None, *, repair: bool) -> Finding:
    """Say which gateway serves the workspace, or which one has left its note there."""
    if running is not None:
        text = f"process {running.pid} serves this workspace on {running.url}"
        return Finding(verdict="ok", subject="gateway", text=text)
    note = read_note(config.workspace)
    if note is None:
        return Finding(verdict="ok", subject="gateway", text="none is running")
    if is_alive(note.pid):
        text = f"process {note.pid} does not answer on {note.url}"
        return Finding(verdict="problem", subject="gateway", text=text)
    text = f"{NOTE_NAME} is left from process {note.pid}, which is gone"
    if not repair:
        return Finding(verdict="note", subject="gateway", text=text)
    (config.workspace / NOTE_NAME).unlink(missing_ok=True)
    return Finding(verdict="repaired", subject="gateway", text=f"{text}; removed")
