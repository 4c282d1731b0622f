"""`everturn doctor`: is everything in order, and what to do where it is not."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import anyio.to_thread
from msgspec import Struct

from everturn_actors.context.estimation.windows import hint_notes
from everturn_actors.errors import CoreError
from everturn_channels.errors import ClientError, SetupError
from everturn_channels.health import ChannelStatus
from everturn_gateway.app import check_journals, keeps_files, open_keyed
from everturn_gateway.channels import START_GRACE_S, move_notes, route_notes
from everturn_gateway.client import ask_channels, ask_readiness, ask_tools
from everturn_gateway.clock import SystemClock
from everturn_gateway.commands.agents import check_agents
from everturn_gateway.commands.channel import channel_text
from everturn_gateway.commands.jobs.health import ask_jobs, read_jobs
from everturn_gateway.commands.jobs.texts import fault_text
from everturn_gateway.commands.plugin_health import plugin_findings
from everturn_gateway.commands.sandbox_health import sandbox_notes
from everturn_gateway.commands.servers.logins import login_notes, sampling_notes
from everturn_gateway.commands.shared.crash import LOG_NAME
from everturn_gateway.commands.shared.errors import EXIT_FAILED, EXIT_OK
from everturn_gateway.commands.shared.finding import find_running, is_alive
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_line
from everturn_gateway.commands.shared.progress import SlowProgress
from everturn_gateway.commands.shared.running import NOTE_NAME, Running, read_note
from everturn_gateway.commands.shared.settings import api_token, load, run_async
from everturn_gateway.commands.talk import HISTORY_NAME
from everturn_gateway.commands.token import token_notes
from everturn_gateway.config.settings import Config, check_listener
from everturn_gateway.errors import ConfigError, GatewayError
from everturn_gateway.model_statistics import StoredModelStatistics, look_up
from everturn_gateway.plugins import installed
from everturn_gateway.principals import TOKENS_KEY, USED_KEY
from everturn_gateway.specs import AgentFile
from everturn_gateway.tools.config import hidden_notes, policy_notes, reaches_out

_FREE_WARN_BYTES = 1024**3
_TOKEN_CHARACTERS = 16  # shorter tokens are words and dates; 16 at random nobody guesses
_FREE_FAIL_BYTES = 100 * 1024**2  # below it, writing events may soon fail

Verdict: TypeAlias = Literal["ok", "note", "repaired", "problem"]


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    verdict: Verdict
    subject: str
    text: str


def doctor(options: Options, *, repair: bool) -> int:
    """Look at everything and print what was found; return the exit code, 1 for a problem.

    Args:
        options: Where the configuration is.
        repair: Set right what can be set right without losing anything.
    """

    async def main() -> int:
        failed = False
        async for finding in _examine(options, repair=repair):
            failed |= finding.verdict == "problem"
            lines = finding.text.splitlines() or [""]
            for line in lines:
                print_line(f"{finding.verdict:<8}  {finding.subject:<11}  {line}")
            sys.stdout.flush()
        return EXIT_FAILED if failed else EXIT_OK

    return run_async(main)


async def _examine(options: Options, *, repair: bool) -> AsyncGenerator[Finding]:
    try:
        config = await anyio.to_thread.run_sync(partial(load, options, with_channels=True))
    except ConfigError as error:
        yield Finding(verdict="problem", subject="config", text=str(error))
        return
    for finding in _config(config):
        yield finding
    for finding in await anyio.to_thread.run_sync(_plugins):
        yield finding
    statistics: StoredModelStatistics | None = None
    try:
        async with open_keyed(config, is_change=False) as keyed:
            statistics = await look_up(keyed, SystemClock())
    except (CoreError, GatewayError) as error:
        yield Finding(verdict="problem", subject="store", text=str(error))
    findings, agents = await anyio.to_thread.run_sync(_agents, config, statistics)
    for finding in findings:
        yield finding
    for finding in await _tokens(config):
        yield finding
    for finding in await anyio.to_thread.run_sync(_logins, config, agents):
        yield finding
    for finding in await anyio.to_thread.run_sync(_permissions, config, repair):
        yield finding
    yield await anyio.to_thread.run_sync(_disk, config)
    running = await find_running(config.workspace)
    if running is not None:
        text = f"process {running.pid} serves this workspace on {running.url}"
        yield Finding(verdict="ok", subject="gateway", text=text)
        async for finding in _tasks(config, running):
            yield finding
        async for finding in _tools(config, running, agents):
            yield finding
    else:
        yield await anyio.to_thread.run_sync(_stale_note, config, repair)
    async for finding in _channels(config, running, agents):
        yield finding
    async for finding in _schedules(config, running, agents):
        yield finding
    async for finding in _journals(config, repair=repair):
        yield finding


async def _tasks(config: Config, running: Running) -> AsyncGenerator[Finding]:
    """Say which parts of a running gateway are down, and what to do."""
    try:
        told = await ask_readiness(running.url, token=api_token(config))
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
    if told.fault:
        yield Finding(verdict="problem", subject="gateway", text=told.fault)


async def _tools(
    config: Config, running: Running, agents: Sequence[AgentFile]
) -> AsyncGenerator[Finding]:
    """Say what is wrong with the tools of the agents of a running gateway."""
    for agent in agents:
        name = agent.spec.name
        try:
            found = await ask_tools(running.url, name, token=api_token(config))
        except (CoreError, ClientError) as error:
            yield Finding(verdict="note", subject="agent", text=f"{name}: {error}")
            continue
        told = hidden_notes(agent.tool_config)
        for fault in (each for each in found.faults if each not in told):
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


async def _tokens(config: Config) -> list[Finding]:
    """Say which tokens of principals expire, are over, or were never used."""
    try:
        notes = await token_notes(config)
    except (CoreError, GatewayError) as error:
        return [Finding(verdict="problem", subject="token", text=str(error))]
    return [Finding(verdict="note", subject="token", text=text) for text in notes]


def _logins(config: Config, agents: Sequence[AgentFile]) -> list[Finding]:
    """Say which logins at MCP servers are over."""
    try:
        notes = login_notes(config, agents)
    except (CoreError, GatewayError) as error:
        return [Finding(verdict="problem", subject="mcp", text=str(error))]
    return [Finding(verdict="note", subject="mcp", text=text) for text in notes]


def _agents(
    config: Config, model_statistics: StoredModelStatistics | None
) -> tuple[list[Finding], list[AgentFile]]:
    """Return what is to be said of the agents, and those that work, by name."""
    try:
        agents, faults = check_agents(config)
    except GatewayError as error:
        return [Finding(verdict="problem", subject="agent", text=str(error))], []
    found = [Finding(verdict="problem", subject="agent", text=str(fault)) for fault in faults]
    if not agents and not faults:
        text = f"none in {config.agents_dir}; `everturn init` creates one"
        found.append(Finding(verdict="problem", subject="agent", text=text))
    for agent in agents:
        name, model = agent.spec.name, agent.spec.model
        text = f"{name}: {model.provider} / {model.name}"
        found.append(Finding(verdict="ok", subject="agent", text=text))
        found += [
            Finding(verdict="note", subject="agent", text=f"{name}: {note}")
            for note in (hint_notes(model, model_statistics.of(model)) if model_statistics else ())
        ]
        found += [
            Finding(verdict="note", subject="agent", text=f"{name}: {note}")
            for note in sandbox_notes(config, agent)
        ]
        found += [
            Finding(verdict="note", subject="agent", text=f"{name}: policy: {note}")
            for note in policy_notes(agent.tool_config)
        ]
        found += [
            Finding(verdict="note", subject="agent", text=f"{name}: {note}")
            for note in (*hidden_notes(agent.tool_config), *sampling_notes(agent))
        ]
        if risk := _strangers_may(agent):
            text = f"{name}: anybody may write to it (spec.access: open), and {risk}"
            found.append(Finding(verdict="note", subject="agent", text=text))
        if agent.inactive:
            text = f"{name}: without effect: {', '.join(agent.inactive)}"
            found.append(Finding(verdict="note", subject="agent", text=text))
    return found, sorted(agents, key=lambda agent: agent.spec.name)


async def _channels(
    config: Config, running: Running | None, agents: Sequence[AgentFile]
) -> AsyncGenerator[Finding]:
    """Say how the channels fare, where a gateway runs; otherwise only that they are set up."""
    for note in route_notes(config, [agent.spec.name for agent in agents]):
        yield Finding(verdict="problem", subject="channel", text=note)
    try:
        async with open_keyed(config, is_change=False) as keyed:
            notes = await move_notes(config, keyed, agents)
        for note in notes:
            yield Finding(verdict="note", subject="channel", text=note)
    except (CoreError, GatewayError, SetupError) as error:
        yield Finding(verdict="problem", subject="channel", text=str(error))
    facts: Mapping[str, ChannelStatus] = {}
    try:
        if running is not None and config.channels:
            statuses = await ask_channels(running.url, token=api_token(config))
            facts = {status.name: status for status in statuses}
    except (CoreError, ClientError) as error:
        yield Finding(verdict="problem", subject="channel", text=str(error))
        return
    for channel in config.channels:
        fact = facts.get(channel.name)
        if running is None:
            text = f"{channel.name}: set up; `everturn channel check` logs in and looks"
            yield Finding(verdict="note", subject="channel", text=text)
        elif fact is None:
            text = f"{channel.name}: the running gateway does not know it; start it anew"
            yield Finding(verdict="problem", subject="channel", text=text)
        else:
            text = f"{channel.name}: {channel_text(fact)}"
            yield Finding(verdict=_verdict(fact), subject="channel", text=text)


def _verdict(status: ChannelStatus) -> Verdict:
    """Return what to think of a channel; one that was just started has yet to be heard from."""
    if status.is_healthy:
        return "problem" if status.blocked else "note" if status.unreadable else "ok"
    age = SystemClock().now() - status.since
    is_early = not status.error and not status.last_received_at
    return "note" if is_early and age < timedelta(seconds=START_GRACE_S) else "problem"


def _strangers_may(agent: AgentFile) -> str:
    """Return what people may do whom nobody let in, with tools that reach beyond the agent's files.

    Empty where that is nothing.
    """
    tools, rules = agent.tool_config, agent.access
    is_open = "open" in {rules.dm.policy, rules.groups.policy}
    if not is_open or not reaches_out(tools):
        return ""
    if tools.policy.mode == "dangerous":
        return "its calls run without a question (mode: dangerous)"
    if tools.policy.mode == "ask" and not tools.policy.approvers:
        return "whoever writes may allow what they asked for; name approvers in policy.yaml"
    return ""


def _permissions(config: Config, repair: bool) -> list[Finding]:  # noqa: FBT001 - for a thread
    """Look whether others can read what people said, or write where the gateway writes."""
    workspace = config.workspace
    if not workspace.exists():
        text = f"{workspace} does not exist yet; it is created at the first start"
        return [Finding(verdict="note", subject="workspace", text=text)]
    if not os.access(workspace, os.R_OK | os.W_OK | os.X_OK):
        text = f"{workspace} cannot be written by this user"
        return [Finding(verdict="problem", subject="workspace", text=text)]
    found = [
        finding
        for path, mode in (
            (workspace, 0o700),
            (workspace / NOTE_NAME, 0o600),
            (workspace / HISTORY_NAME, 0o600),
            (workspace / LOG_NAME, 0o600),
            *((workspace / key, 0o600) for key in (TOKENS_KEY, USED_KEY)),
            ((workspace / TOKENS_KEY).parent, 0o700),
            *(((config.path, 0o600),) if _holds_secret(config) else ()),
        )
        if path is not None and (finding := _private(path, mode, repair=repair)) is not None
    ]
    return found or [Finding(verdict="ok", subject="workspace", text=f"{workspace} is private")]


def _holds_secret(config: Config) -> bool:
    """Say whether a secret stands in the configuration itself, not in the environment."""
    if config.path is None:
        return False
    text = config.path.read_text(encoding="utf-8", errors="replace")
    return any(secret in text for secret in config.secrets)


def _private(path: Path, mode: int, *, repair: bool) -> Finding | None:
    """Say where others have rights on `path`; None where they have none."""
    try:
        rights = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return None
    if not rights & 0o077:
        return None
    text = f"{path} is open to other users ({rights:04o})"
    if not repair:
        return Finding(
            verdict="problem", subject="workspace", text=f"{text}; --repair makes it {mode:04o}"
        )
    try:
        path.chmod(mode)
    except OSError as error:
        return Finding(
            verdict="problem", subject="workspace", text=f"{text}, and stays: {error.strerror}"
        )
    return Finding(verdict="repaired", subject="workspace", text=f"{path} is now {mode:04o}")


def _disk(config: Config) -> Finding:
    place = config.workspace
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    text = f"{free / 1024**3:.1f} GiB free"
    if free < _FREE_FAIL_BYTES:
        return Finding(verdict="problem", subject="disk", text=f"only {text}")
    verdict: Verdict = "note" if free < _FREE_WARN_BYTES else "ok"
    return Finding(verdict=verdict, subject="disk", text=text)


def _stale_note(config: Config, repair: bool) -> Finding:  # noqa: FBT001 - for a thread
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


async def _schedules(
    config: Config, running: Running | None, agents: Sequence[AgentFile]
) -> AsyncGenerator[Finding]:
    """Say which definitions are set aside, and which jobs cannot run."""
    try:
        if running is not None:
            health = await ask_jobs(config, running)
        else:
            health = await read_jobs(config, agents, SystemClock().now())
    except (CoreError, ClientError, OSError) as error:
        yield Finding(verdict="problem", subject="schedules", text=str(error))
        return
    for fault in health.faults:
        yield Finding(verdict="problem", subject="schedules", text=fault_text(fault))
    if health.jobs and not health.faults:
        jobs = "one job" if health.jobs == 1 else f"{health.jobs:,} jobs"
        yield Finding(verdict="ok", subject="schedules", text=f"{jobs}, in order")


async def _journals(config: Config, *, repair: bool) -> AsyncGenerator[Finding]:
    if not await anyio.to_thread.run_sync(keeps_files, config):
        text = f"not looked at: sessions are kept by the store {config.store.type}"
        yield Finding(verdict="note", subject="journals", text=text)
        return
    try:
        with SlowProgress("sessions") as looked:
            done = await check_journals(config, repair=True, looked=looked) if repair else ()
        for found in done:
            verdict: Verdict = "repaired" if found.is_repair else "note"
            yield Finding(verdict=verdict, subject="journals", text=found.text)
        with SlowProgress("sessions") as looked:
            problems = await check_journals(config, repair=False, looked=looked)
    except CoreError as error:
        yield Finding(verdict="problem", subject="journals", text=str(error))
        return
    for problem in problems:
        yield Finding(verdict="problem", subject="journals", text=problem.text)
    if not problems:
        yield Finding(verdict="ok", subject="journals", text="in order")
