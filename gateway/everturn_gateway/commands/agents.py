"""`everturn agent`: list, show, validate, schema. Reads the agents' folders; needs no gateway."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from msgspec import structs

from everturn_actors.context.catalog import policy_of
from everturn_actors.context.estimation.calibration import ModelStatistics
from everturn_actors.context.estimation.windows import hint_notes, input_window
from everturn_actors.errors import CoreError, UnknownAgentError
from everturn_channels.errors import ClientError
from everturn_gateway.app import make_price_meter, open_keyed
from everturn_gateway.client import ToolsNow, ask_tools
from everturn_gateway.clock import SystemClock
from everturn_gateway.commands.shared.errors import EXIT_BAD_INPUT, EXIT_OK, say
from everturn_gateway.commands.shared.finding import find_running
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_json, print_line
from everturn_gateway.commands.shared.settings import api_token, load, require_agents, run_async
from everturn_gateway.commands.shared.tables import print_table
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import ConfigError, Fault, GatewayError
from everturn_gateway.model_statistics import StoredModelStatistics, look_up
from everturn_gateway.private_environ import process_environ
from everturn_gateway.providers import Providers, open_providers
from everturn_gateway.specs import (
    AgentDefaults,
    AgentFile,
    check_models,
    load_agent,
    open_library,
    schema_text,
)
from everturn_gateway.tools.config import (
    ToolConfig,
    hidden_notes,
    may_write,
    policy_notes,
    tool_names,
)
from everturn_gateway.tools.factory import FILES_FOLDER
from everturn_gateway.tools.marks import Marked, marked_below, trust_files
from everturn_gateway.tools.policy import PROTECTED
from everturn_gateway.workspace_files import MODELS_FOLDER

AGENT_FILE = "agent.yaml"


def list_agents(options: Options, *, as_json: bool) -> int:
    """Print all agents; return the exit code, 2 where one cannot be loaded."""
    config = load(options)
    agents, faults = check_agents(config)
    if as_json:
        print_json([_summary(agent) for agent in agents], default=str)
    elif agents:
        print_table(
            ("agent", "provider", "model", "description"),
            [
                (a.spec.name, a.spec.model.provider, a.spec.model.name, a.spec.description)
                for a in agents
            ],
        )
    elif not faults:
        sys.stdout.write(f"no agents in {config.agents_dir}; `everturn init` creates one\n")
    for fault in faults:
        say(str(fault))
    return EXIT_BAD_INPUT if faults else EXIT_OK


def show_agent(options: Options, name: str, *, as_json: bool) -> int:
    """Print one agent; return the exit code."""
    config = load(options)
    found = _agent(config, name)

    async def known() -> StoredModelStatistics:
        async with open_keyed(config, is_change=False) as keyed:
            return await look_up(keyed, SystemClock())

    statistics = run_async(known).of(found.spec.model)
    now = _tools_now(config, name)
    if as_json:
        print_json(
            {
                **_summary(found),
                "folder": str(found.folder),
                "window_tokens": input_window(found.spec.model, statistics),
                "notes": list(hint_notes(found.spec.model, statistics)),
                "tools_now": list(now.names) if now is not None else None,
                "tool_faults": list(now.faults) if now is not None else None,
                "document": dict(found.document),
            },
            default=str,
        )
        return EXIT_OK
    print_line("\n".join((*_details(found, statistics), *_now_lines(now))))
    return EXIT_OK


def list_files(options: Options, name: str, *, trust: Sequence[str], as_json: bool) -> int:
    """Print the files of an agent's workspace that hold text from outside; return the exit code.

    Those that `trust` names are no longer among them; a folder stands for all in it.
    """
    config = load(options)
    root = workspace_of(config, name)
    marked = marked_below(root, config.workspace)
    missing = [path for path in trust if not any(_is_at(each, path, root) for each in marked)]
    for path in missing:
        say(f"{path}: no text from outside is marked there; paths are seen from {root}")
    trusted = [each.path for each in marked if any(_is_at(each, path, root) for path in trust)]
    trust_files(root, trusted, config.workspace)
    for path in trusted:
        say(f"{path}: trusted from now on")
    left = [each for each in marked if each.path not in trusted]
    if as_json:
        print_json([structs.asdict(each) for each in left])
    elif left:
        rows = [(each.path, ", ".join(each.sources)) for each in left]
        print_table(("file", "with text from"), rows)
    else:
        print_line(f"no file in {root} is marked as text from outside")
    return EXIT_BAD_INPUT if missing else EXIT_OK


def _is_at(marked: Marked, path: str, root: Path) -> bool:
    """Return whether a marked file is the one at a path, or below it."""
    wanted = os.path.relpath(root / path, root)
    return wanted in {".", marked.path} or marked.path.startswith(f"{wanted}/")


def workspace_of(config: Config, name: str) -> Path:
    """Return the workspace of an agent: the folder that its tools see.

    Raises:
        ConfigError: It cannot be loaded.
        UnknownAgentError: There is none of this name.
    """
    return (_agent(config, name).files or config.workspace / FILES_FOLDER / name).absolute()


def _agent(config: Config, name: str) -> AgentFile:
    """Return one agent.

    Raises:
        ConfigError: It cannot be loaded.
        UnknownAgentError: There is none of this name.
    """
    agents: list[AgentFile] = []
    faults: list[Fault] = []
    for folder in agent_folders(config):
        try:
            agents.append(_load(config, folder))
        except ConfigError as error:
            faults += error.faults if folder.name == name else ()
    found = next((agent for agent in agents if agent.spec.name == name), None)
    if found is None:
        if faults:
            raise ConfigError(faults=faults)
        raise UnknownAgentError(name, tuple(sorted(agent.spec.name for agent in agents)))
    return found


def _load(config: Config, folder: Path) -> AgentFile:
    """Return the agent of a folder.

    Raises:
        ConfigError: It cannot be loaded.
    """
    return load_agent(
        folder,
        environ=process_environ(),
        sessions=config.sessions,
        state=config.workspace,
        timezone=config.schedules.timezone,
    )


def _tools_now(config: Config, name: str) -> ToolsNow | None:
    """Return the tools that a running gateway gives an agent; None where none runs, or says it."""
    found: list[ToolsNow] = []

    async def look() -> int:
        running = await find_running(config.workspace)
        if running is not None:
            try:
                found.append(await ask_tools(running.url, name, token=api_token(config)))
            except (CoreError, ClientError) as error:
                say(f"the running gateway does not tell its tools: {error}")
        return EXIT_OK

    run_async(look)
    return found[0] if found else None


def _now_lines(now: ToolsNow | None) -> Iterator[str]:
    """Yield what the running gateway says of an agent's tools."""
    if now is None:
        return
    yield f"tools now    {', '.join(now.names) or 'none'}"
    for fault in now.faults:
        yield f"tool fault   {fault}"


def _details(agent: AgentFile, statistics: ModelStatistics) -> Iterator[str]:
    """Return what is known of an agent, as rows for people."""
    spec = agent.spec
    yield f"agent        {spec.name}"
    if spec.description:
        yield f"description  {spec.description}"
    if spec.version:
        yield f"version      {spec.version}"
    yield f"folder       {agent.folder}"
    yield f"model        {spec.model.provider} / {spec.model.name}"
    if spec.model.base_url:
        yield f"             at {spec.model.base_url}"
    yield f"window       {input_window(spec.model, statistics):,} tokens"
    for note in hint_notes(spec.model, statistics):
        yield f"             {note}"
    if spec.model.tokenizer:
        yield f"counted by   {spec.model.tokenizer}, near the edge of the window"
    for fallback in spec.model.fallbacks:
        yield f"fallback     {fallback.provider} / {fallback.name}"
    prompt = spec.prompt
    sizes = [
        f"{name} {len(text)}"
        for name, text in (
            ("soul", prompt.soul),
            ("system prompt", prompt.system_prompt),
            ("instructions", prompt.instructions),
        )
        if text
    ]
    yield f"prompt       {', '.join(sizes) + ' (characters)' if sizes else 'none'}"
    numbers = "".join(f", {name} {value}" for name, value in agent.policy_numbers.items())
    yield f"context      policy {policy_of(spec.session.context).name}{numbers}"
    writer = agent.summarizer
    yield f"summaries    {f'{writer.provider} / {writer.name}' if writer else 'none'}"
    limits = [
        *((f"${agent.limit.cost_usd:g}",) if agent.limit.cost_usd is not None else ()),
        *((f"{agent.limit.tokens:,} tokens",) if agent.limit.tokens is not None else ()),
    ]
    if limits:
        yield f"daily limit  {', '.join(limits)}"
    yield from _tools(agent.tool_config)
    if agent.inactive:
        yield "without effect:"
        yield from (f"  {field}" for field in agent.inactive)


def _tools(config: ToolConfig) -> Iterator[str]:
    """Yield what is told of an agent's tools."""
    tools = tool_names(config)
    yield f"tools        {', '.join(tools) if tools else 'none'}"
    if config.skills:
        yield f"skills       {', '.join(skill.name for skill in config.skills)}"
    if tools:
        policy = config.policy
        lists = f"{len(policy.allow)} allowed, {len(policy.deny)} denied"
        yield f"policy       mode {policy.mode}, patterns: {lists}"
        yield from (f"             {note}" for note in policy_notes(config))
    if may_write(config):
        yield "protected    files that nobody writes without a question:"
        yield from (f"             {what}: {which}" for what, which in PROTECTED)


def validate(options: Options, names: Sequence[str], *, as_json: bool = False) -> int:
    """Check agents and print every fault; return the exit code, 2 where there is one.

    Args:
        options: Where the configuration is.
        names: Names of agents, or folders; empty = all.
        as_json: Print JSON.

    Raises:
        GatewayError: There is nothing to check.
    """
    config = load(options)
    if names:
        agents, faults = _check_folders(config, [_folder(config, name) for name in names])
    else:
        agents, faults = check_agents(config)
    if as_json:
        print_json({"agents": [*map(_checked, agents)], "faults": [*map(_fault, faults)]})
        return EXIT_BAD_INPUT if faults else EXIT_OK
    for agent in agents:
        count = len(agent.inactive)
        note = f" ({count} settings without effect)" if count else ""
        print_line(f"ok  {agent.spec.name}  {agent.folder}{note}")
        for text in hidden_notes(agent.tool_config):
            print_line(f"    {text}")
        for text in policy_notes(agent.tool_config):
            print_line(f"    policy: {text}")
    for fault in faults:
        say(str(fault))
    if not agents and not faults:
        msg = f"no agents in {config.agents_dir}; `everturn init` creates one"
        raise GatewayError(msg)
    return EXIT_BAD_INPUT if faults else EXIT_OK


def _checked(agent: AgentFile) -> dict[str, object]:
    return {
        "name": agent.spec.name,
        "folder": str(agent.folder),
        "inactive": [str(each) for each in agent.inactive],
        "notes": [*hidden_notes(agent.tool_config), *policy_notes(agent.tool_config)],
    }


def _fault(fault: Fault) -> dict[str, object]:
    return {
        "file": str(fault.file),
        "line": fault.line or None,
        "field": fault.field or None,
        "message": fault.message,
    }


def _folder(config: Config, name: str) -> Path:
    for folder in (config.agents_dir / name, Path(name)):
        if (folder / AGENT_FILE).is_file():
            return folder.absolute()
    known = tuple(folder.name for folder in agent_folders(config))
    raise UnknownAgentError(name, known)


def schema() -> int:
    """Print the JSON Schema of `agent.yaml`; return the exit code."""
    sys.stdout.write(schema_text())
    return EXIT_OK


def agent_folders(config: Config) -> list[Path]:
    """Return the folders of all agents, sorted."""
    return sorted(file.parent for file in config.agents_dir.glob(f"*/{AGENT_FILE}"))


def check_agents(config: Config) -> tuple[list[AgentFile], list[Fault]]:
    """Return the agents that a gateway could use now, by name, and what is wrong with the others.

    Runs an event loop of its own: not to be called from one.

    Raises:
        GatewayError: There is no agents folder.
    """
    require_agents(config)
    agents: list[AgentFile] = []
    faults: list[Fault] = []

    async def check() -> int:
        async with _open_providers(config) as providers:
            library = await open_library(
                config.agents_dir,
                process_environ(),
                providers.make,
                defaults=AgentDefaults(
                    sessions=config.sessions,
                    timezone=config.schedules.timezone,
                    statistics=await _learnt(config),
                ),
                meter=make_price_meter(config, SystemClock()),
                state=config.workspace,
            )
            agents.extend(library.file(name) for name in library.names())
            faults.extend(library.faults())
        return EXIT_OK

    run_async(check)
    return agents, faults


def _check_folders(config: Config, folders: Sequence[Path]) -> tuple[list[AgentFile], list[Fault]]:
    """Do as `check_agents` with these folders, wherever they are."""
    agents: list[AgentFile] = []
    faults: list[Fault] = []

    async def check() -> int:
        learnt = await _learnt(config)
        async with _open_providers(config) as providers:
            for folder in folders:
                try:
                    agent = _load(config, folder)
                    check_models(agent, providers.make, make_price_meter(config, SystemClock()))
                except ConfigError as error:
                    faults.extend(error.faults)
                else:
                    agents.append(agent)
                    known = None if learnt is None else learnt.of(agent.spec.model)
                    faults.extend(agent.warnings_by(known))
        return EXIT_OK

    run_async(check)
    return agents, faults


async def _learnt(config: Config) -> StoredModelStatistics | None:
    """Return what was learnt of models; None where the store is away, which `doctor` tells."""
    try:
        async with open_keyed(config, is_change=False) as keyed:
            return await look_up(keyed, SystemClock())
    except (CoreError, GatewayError):
        return None


def _open_providers(config: Config) -> AbstractAsyncContextManager[Providers]:
    return open_providers(
        environ=process_environ(),
        models_dir=config.workspace / MODELS_FOLDER,
        settings=config.providers,
    )


def _summary(agent: AgentFile) -> dict[str, object]:
    return {
        "name": agent.spec.name,
        "description": agent.spec.description,
        "version": agent.spec.version,
        "model": structs.asdict(agent.spec.model),
        "summarizer": structs.asdict(agent.summarizer) if agent.summarizer else None,
        "tools": list(tool_names(agent.tool_config)),
        "skills": [skill.name for skill in agent.tool_config.skills],
        "policy": agent.tool_config.policy.mode,
        "policy_notes": list(policy_notes(agent.tool_config)),
        "protected_files": dict(PROTECTED) if may_write(agent.tool_config) else {},
        "inactive": list(agent.inactive),
    }
