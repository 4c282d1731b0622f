"""Looks at everything of a workspace, one thing after the other."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from functools import partial
from typing import Final

from anyio.to_thread import run_sync

from everturn_actors.errors import CoreError
from everturn_channels.errors import ClientError
from everturn_gateway.config.settings import Config, check_listener
from everturn_gateway.doctor.agents import agent_findings
from everturn_gateway.doctor.channels import channel_findings
from everturn_gateway.doctor.findings import Finding, Verdict
from everturn_gateway.doctor.logins import login_notes
from everturn_gateway.doctor.plugins import plugin_findings
from everturn_gateway.doctor.schedules import schedule_findings
from everturn_gateway.doctor.subject import RunningGateway, Subject
from everturn_gateway.doctor.tokens import token_notes
from everturn_gateway.doctor.voice import voice_findings
from everturn_gateway.doctor.workspace import disk_finding, permission_findings
from everturn_gateway.errors import Fault, GatewayError
from everturn_gateway.model_statistics import StoredModelStatistics
from everturn_gateway.plugins import installed
from everturn_gateway.specs import AgentFile
from everturn_gateway.tools.config import hidden_notes

_TOKEN_CHARACTERS: Final = 16  # shorter tokens are words and dates; 16 at random nobody guesses


async def examine(subject: Subject) -> AsyncGenerator[Finding]:
    """Yield what is found, as it is found."""
    config = subject.config
    for finding in _config(config):
        yield finding
    for finding in await run_sync(_plugins):
        yield finding
    statistics: StoredModelStatistics | None = None
    try:
        statistics = await subject.statistics()
    except (CoreError, GatewayError) as error:
        yield Finding(verdict="problem", subject="store", text=str(error))
    agents: Sequence[AgentFile] = ()
    faults: Sequence[Fault] = ()
    try:
        agents, faults = await subject.agents()
    except GatewayError as error:
        yield Finding(verdict="problem", subject="agent", text=str(error))
    else:
        look = partial(agent_findings, config, subject.secrets, agents, faults, statistics)
        for finding in await run_sync(look):
            yield finding
    for finding in await run_sync(list, voice_findings(config, agents)):
        yield finding
    agents = sorted(agents, key=lambda agent: agent.spec.name)
    for finding in await _tokens(subject):
        yield finding
    for finding in await _logins(subject, agents):
        yield finding
    for finding in await run_sync(partial(permission_findings, config, repair=subject.repair)):
        yield finding
    yield await run_sync(disk_finding, config)
    yield await subject.gateway()
    if subject.running is not None:
        async for finding in _tasks(subject.running):
            yield finding
        async for finding in _tools(subject.running, agents):
            yield finding
    async for finding in channel_findings(subject, agents):
        yield finding
    async for finding in schedule_findings(subject, agents):
        yield finding
    async for finding in _journals(subject):
        yield finding


async def _tasks(running: RunningGateway) -> AsyncGenerator[Finding]:
    """Say which parts of a running gateway are down, and what to do."""
    try:
        told = await running.readiness()
    except (CoreError, ClientError) as error:
        yield Finding(verdict="problem", subject="gateway", text=str(error))
        return
    for task in told.tasks:
        what = f"{task.name} failed {task.failures} times in a row ({task.error})"
        if task.is_given_up:
            text = (
                f"{what} and is down since {task.since:%Y-%m-%d %H:%M:%S} UTC; its log says where;"
                " start the gateway anew when the cause is mended"
            )
            yield Finding(verdict="problem", subject="gateway", text=text)
        else:
            text = f"{what} and is started again"
            yield Finding(verdict="note", subject="gateway", text=text)
    if told.restarts:
        counts = ", ".join(f"{part} {times}" for part, times in told.restarts.items())
        text = f"started again after failures, since the gateway began: {counts}; its log says why"
        yield Finding(verdict="note", subject="gateway", text=text)
    if told.quarantined_sessions:
        which = "session" if told.quarantined_sessions == 1 else "sessions"
        text = (
            f"{told.quarantined_sessions} {which} failed again and again, and nothing more is taken"
            ' there; the log names each ("a session failed"): cancel its turn, reset or delete it'
        )
        yield Finding(verdict="problem", subject="gateway", text=text)
    for line in dict.fromkeys((*told.homes_away, *told.node_differences)):
        yield Finding(verdict="problem", subject="nodes", text=line)
    for line in told.refused_keys:
        yield Finding(verdict="problem", subject="provider", text=line)
    if told.fault:
        yield Finding(verdict="problem", subject="gateway", text=told.fault)


async def _tools(running: RunningGateway, agents: Sequence[AgentFile]) -> AsyncGenerator[Finding]:
    """Say what is wrong with the tools of the agents of a running gateway."""
    for agent in agents:
        name = agent.spec.name
        try:
            found = await running.tool_faults(name)
        except (CoreError, ClientError) as error:
            yield Finding(verdict="note", subject="agent", text=f"{name}: {error}")
            continue
        told = hidden_notes(agent.tool_config)
        for fault in (each for each in found if each not in told):
            yield Finding(verdict="note", subject="agent", text=f"{name}: {fault}")


def _config(config: Config) -> Iterator[Finding]:
    text = str(config.path) if config.path else "no file; the defaults hold"
    yield Finding(verdict="ok", subject="config", text=text)
    for note in config.notes:
        yield Finding(verdict="note", subject="config", text=note)
    fault = check_listener(config.server, config.path)
    if fault is not None:
        yield Finding(verdict="problem", subject="config", text=str(fault))
    server = config.server
    for field, token in (("api_token", server.api_token), ("admin_token", server.admin_token)):
        if 0 < len(token) < _TOKEN_CHARACTERS:
            text = (
                f"server.{field} has {len(token)} characters, and may be guessed, slowly: tries are"
                " counted and limited; `openssl rand -hex 32` makes a good one"
            )
            yield Finding(verdict="note", subject="config", text=text)


def _plugins() -> list[Finding]:
    """Say which plug-ins are installed beside those of Everturn, and which cannot be used."""
    return [
        Finding(verdict=verdict, subject="plug-in", text=text)
        for verdict, text in plugin_findings(installed())
    ]


async def _tokens(subject: Subject) -> list[Finding]:
    """Say which tokens of principals expire, are over, or were never used."""
    try:
        async with subject.keyed() as keyed:
            notes = await token_notes(subject.config, keyed)
    except (CoreError, GatewayError) as error:
        return [Finding(verdict="problem", subject="token", text=str(error))]
    return [Finding(verdict="note", subject="token", text=text) for text in notes]


async def _logins(subject: Subject, agents: Sequence[AgentFile]) -> list[Finding]:
    """Say which logins at MCP servers are over."""
    try:
        async with subject.keyed() as keyed:
            notes = await login_notes(keyed, subject.secrets, agents)
    except (CoreError, GatewayError) as error:
        return [Finding(verdict="problem", subject="mcp", text=str(error))]
    return [Finding(verdict="note", subject="mcp", text=text) for text in notes]


async def _journals(subject: Subject) -> AsyncGenerator[Finding]:
    if not await run_sync(subject.can_be_examined):
        text = f"not looked at: sessions are kept by the store {subject.config.store.type}"
        yield Finding(verdict="note", subject="journals", text=text)
        return
    try:
        for found in await subject.repair_journals() if subject.repair_journals else ():
            verdict: Verdict = "repaired" if found.is_repair else "note"
            yield Finding(verdict=verdict, subject="journals", text=found.text)
        problems = await subject.check_journals()
    except (CoreError, GatewayError) as error:
        yield Finding(verdict="problem", subject="journals", text=str(error))
        return
    for note in problems:
        level: Verdict = "problem" if note.is_problem else "ok"
        yield Finding(verdict=level, subject="journals", text=note.text)
    if not any(note.is_problem for note in problems):
        yield Finding(verdict="ok", subject="journals", text="in order")
