"""Reads the folders of agents, each by itself: what is wrong in one costs no other."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from everturn_actors.context.estimation.calibration import ModelStatistics
from everturn_actors.ports import Agent, ModelProvider, ModelStatisticsStore, Summariser, Tool
from everturn_actors.spec import ModelSpec
from everturn_gateway.config.settings import SessionsConfig
from everturn_gateway.errors import ConfigError, Fault, GatewayError, printable
from everturn_gateway.plugins import installed
from everturn_gateway.plugins.providers import key_variable
from everturn_gateway.private_environ import read_beside_again
from everturn_gateway.specs.declared import DeclaredAgent
from everturn_gateway.specs.loading import AGENT_FILE, AgentFile, load_agent
from everturn_gateway.specs.models import (
    MakeProvider,
    Metering,
    Voices,
    check_limit,
    models,
    provider_for,
)
from everturn_gateway.specs.tool_sets import with_tools
from everturn_gateway.tools.factory import ToolFactory
from everturn_gateway.tools.mcp import SamplingModel
from everturn_gateway.tools.recall.selection import tools_for
from everturn_gateway.tools.searching import SearchingProvider
from everturn_gateway.yaml_files import Document

logger = logging.getLogger(__name__)

_Version: TypeAlias = tuple[tuple[int, int, int], ...]


class AgentDefaults(Struct, frozen=True, kw_only=True):
    """What holds for agents that do not say otherwise."""

    sessions: SessionsConfig = field(default_factory=SessionsConfig)
    timezone: str = ""
    "For scheduled jobs that name none; empty = each has to."
    voices: Voices | None = None
    "What they hear and speak with; None = voice notes stay files."
    statistics: ModelStatisticsStore | None = None
    "What was learnt of their models; None = what the names of these tell."


class _Made(Struct, frozen=True, kw_only=True):
    """What talks to one model."""

    provider: ModelProvider
    version: _Version
    "Of the file of a scripted model that was read, and of the keys."


class LoadedAgent(Struct, frozen=True, kw_only=True):
    """One agent, and what it was made of."""

    file: AgentFile
    agent: Agent
    made: Mapping[ModelSpec, _Made]
    "For each model of the agent."


class LoadedAgents(Struct, frozen=True, kw_only=True):
    """Everything that is loaded at one moment; replaced as a whole."""

    entries: Mapping[Path, LoadedAgent] = field(default_factory=dict[Path, LoadedAgent])
    "By folder. One whose file has become bad keeps its last good version."
    faults: Mapping[Path, tuple[Fault, ...]] = field(default_factory=dict[Path, tuple[Fault, ...]])
    "By folder; the agents folder itself for what belongs to none."

    @property
    def by_name(self) -> dict[str, LoadedAgent]:
        """The agents by their names."""
        return {entry.file.spec.name: entry for entry in self.entries.values()}

    @property
    def all_faults(self) -> tuple[Fault, ...]:
        """What is wrong, by folder."""
        return tuple(fault for folder in sorted(self.faults) for fault in self.faults[folder])


class AgentReader(Struct, kw_only=True):
    """Reads all agents of a folder, and makes what they need to work."""

    agents_dir: Path
    environ: Mapping[str, str]
    "For `${NAME}` in the files."
    make_provider: MakeProvider
    defaults: AgentDefaults
    "What holds for agents that do not say otherwise; the next reading goes by what stands here."
    meter: Metering | None
    tool_factory: ToolFactory | None
    state: Path | None
    "The gateway's workspace."
    declared: Mapping[Path, DeclaredAgent]
    "Agents that stand in no file, by the folder that they take up."

    def read(self, before: LoadedAgents) -> LoadedAgents:
        """Read all agents; in a thread.

        Args:
            before: What was loaded: an agent whose files are as they were stays the same object,
                and one that has become bad stays as it was.
        """
        try:
            folders = [*self.declared, *self._folders()]
        except OSError as error:
            message = f"the agents folder cannot be read: {error.strerror or error}"
            fault = Fault(file=self.agents_dir, message=message)
            return replace(before, faults={**before.faults, self.agents_dir: (fault,)})
        entries: dict[Path, LoadedAgent] = {}
        faults: dict[Path, tuple[Fault, ...]] = {}
        try:
            read_beside_again()
        except ConfigError as error:
            faults[self.agents_dir] = error.faults
        for folder in folders:
            known = before.entries.get(folder)
            try:
                entry = entries[folder] = self._load(folder, known)
            except ConfigError as error:
                faults[folder] = error.faults
                if known:
                    entries[folder] = known
            except Exception as error:  # the boundary around one agent
                logger.exception(
                    "an agent cannot be read", extra={"folder": printable(str(folder))}
                )
                message = f"cannot be read, by a fault of Everturn ({type(error).__name__})"
                faults[folder] = (Fault(file=folder, message=f"{message}; its log says more"),)
                if known:
                    entries[folder] = known
            else:
                if warnings := entry.file.warnings_by(self._learnt(entry.file)):
                    faults[folder] = warnings
        for twin, first in _twins(entries, before):
            message = f"is also the name of the agent in {first.file.folder}"
            faults[twin] = (entries.pop(twin).file.fault("metadata.name", message),)
        return LoadedAgents(entries=entries, faults=faults)

    def _folders(self) -> list[Path]:
        """Return the folders of agents, sorted; none where all agents are declared."""
        if self.declared and not self.agents_dir.exists():
            return []
        return sorted(
            path
            for path in self.agents_dir.iterdir()
            if not path.name.startswith(".") and _is_agent(path)
        )

    def load_file(self, folder: Path, document: Document | None = None) -> AgentFile:
        """Read one agent; `document` instead of its `agent.yaml`, where that is given.

        Raises:
            ConfigError: It is not valid.
        """
        return load_agent(
            folder,
            environ=self.environ,
            sessions=self.defaults.sessions,
            state=self.state,
            timezone=self.defaults.timezone,
            document=document,
        )

    def _load(self, folder: Path, known: LoadedAgent | None) -> LoadedAgent:
        declared = self.declared.get(folder)
        file = self.load_file(folder, declared.as_document() if declared else None)
        if declared is not None:
            file = declared.with_tools(file)
        made = self._make(file, known.made if known else {})
        is_same = known is not None and known.file == file
        if known and is_same and all(made[model] is known.made.get(model) for model in made):
            return known
        if self.meter is not None:
            check_limit(file, self.meter)
        agent = _agent(file, made, self.meter)
        if (voices := self.defaults.voices) is not None:
            name, limit = file.spec.name, file.limit
            agent = replace(
                agent,
                transcriber=voices.transcriber(name, limit),
                speaker=voices.speaker(name, limit),
            )
        if self.tool_factory is not None:
            sampling = _sampling(file, made, self.meter)
            agent = with_tools(agent, file, self.tool_factory, sampling, self._learnt(file))
        return LoadedAgent(file=file, agent=agent, made=made)

    def _learnt(self, file: AgentFile) -> ModelStatistics | None:
        store = self.defaults.statistics
        return None if store is None else store.of(file.spec.model)

    def with_model(self, entry: LoadedAgent, model: ModelSpec) -> Agent:
        """Return an agent with another model, all else as it is.

        Raises:
            GatewayError: It cannot be used as it is configured, or its price is not known where
                the agent has a daily limit in dollars.
        """
        file = entry.file
        provider = self.make_provider(model, file.folder)
        if self.meter is not None:
            if file.limit.cost_usd is not None and (unknown := self.meter.unpriced(model)):
                msg = f"no price is known for {', '.join(unknown)}, and the agent has a daily limit"
                raise GatewayError(msg)
            provider = self.meter.metered(
                provider, agent=file.spec.name, model=model, limit=file.limit
            )
        plugin = installed().providers.get(model.provider)
        can_call = plugin is None or plugin.calls_tools
        agent = entry.agent
        tools = agent.tools if can_call else dict[str, Tool]()
        summariser = agent.summariser
        if summariser is not None and summariser.model == file.spec.model:
            # Its own one writes, as the agent names none for that: now that is the chosen one.
            writes = plugin is None or plugin.is_model
            summariser = Summariser(provider=provider, model=model) if writes else None
        return replace(
            agent,
            spec=replace(agent.spec, model=model),
            provider=SearchingProvider(provider, tools) if self.tool_factory else provider,
            tools=tools,
            summariser=summariser,
        )

    def _make(self, file: AgentFile, known: Mapping[ModelSpec, _Made]) -> dict[ModelSpec, _Made]:
        """Return what talks to the agent's models, what is known already as it is.

        Raises:
            ConfigError: A model cannot be used as it is configured.
        """
        made: dict[ModelSpec, _Made] = {}
        for field_name, model in models(file).items():
            version = self._version(model, file.folder)
            if model in known and known[model].version == version:
                made[model] = known[model]
            else:
                provider = provider_for(file, field_name, model, self.make_provider)
                made[model] = _Made(provider=provider, version=version)
        return made

    def _version(self, model: ModelSpec, folder: Path) -> _Version:
        """Return what changes with the key of a model or fallback, and with a script's replies."""
        return tuple(
            (*_file_version(each, folder), hash(self.environ.get(key_variable(each.provider))))
            for each in (model, *model.fallbacks)
        )


def _used(
    file: AgentFile, model: ModelSpec, made: Mapping[ModelSpec, _Made], meter: Metering | None
) -> ModelProvider:
    provider, agent = made[model].provider, file.spec.name
    if meter is None:
        return provider
    return meter.metered(provider, agent=agent, model=model, limit=file.limit)


def _sampling(
    file: AgentFile, made: Mapping[ModelSpec, _Made], meter: Metering | None
) -> Mapping[str, SamplingModel]:
    """Return the models that MCP servers of the agent may use, by the server's name."""
    found: dict[str, SamplingModel] = {}
    for server in file.tool_config.mcp:
        if server.sampling is not None:
            model = server.sampling.model or file.spec.model
            provider = _used(file, model, made, meter)
            found[server.name] = SamplingModel(provider=provider, model=model)
    return found


def _agent(file: AgentFile, made: Mapping[ModelSpec, _Made], meter: Metering | None) -> Agent:
    writer, summariser = file.summarizer, None
    if writer is not None:
        summariser = Summariser(provider=_used(file, writer, made, meter), model=writer)
    provider = _used(file, file.spec.model, made, meter)
    tools = tools_for(file.spec)
    return Agent(spec=file.spec, provider=provider, tools=tools, summariser=summariser)


def _file_version(model: ModelSpec, folder: Path) -> tuple[int, int]:
    if model.provider != "scripted":
        return (0, 0)
    try:
        found = (folder / model.name).stat()
    except (OSError, ValueError):
        return (0, 0)  # making the provider says what is wrong
    return (found.st_mtime_ns, found.st_size)


def _is_agent(folder: Path) -> bool:
    try:
        os.lstat(folder / AGENT_FILE)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # loading it says what is wrong
    return True


def _twins(
    entries: Mapping[Path, LoadedAgent], before: LoadedAgents
) -> tuple[tuple[Path, LoadedAgent], ...]:
    """Return the folders whose agent has the name of another one, with that other one.

    The one that had the name before keeps it, else the one whose folder is called so, else the
    first one.
    """
    holders: dict[str, Path] = {}

    def claim(folder: Path) -> tuple[bool, bool]:
        name = entries[folder].file.spec.name
        known = before.entries.get(folder)
        return not (known and known.file.spec.name == name), folder.name != name

    for folder in sorted(entries, key=lambda folder: (*claim(folder), folder)):
        holders.setdefault(entries[folder].file.spec.name, folder)
    return tuple(
        (folder, entries[holders[entry.file.spec.name]])
        for folder, entry in entries.items()
        if holders[entry.file.spec.name] != folder
    )
