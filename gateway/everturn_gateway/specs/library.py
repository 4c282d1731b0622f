"""The agents of a gateway, and their reload while it runs."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePath
from typing import NoReturn, TypeAlias

import anyio
import anyio.to_thread
from anyio.abc import TaskStatus
from msgspec import Struct, field
from msgspec.structs import replace
from watchfiles import Change, DefaultFilter

from everturn_actors.errors import UnknownAgentError
from everturn_actors.ports import Agent, ModelProvider, Summariser
from everturn_actors.spec import ModelSpec
from everturn_channels.settings import AccessRules
from everturn_gateway.config.settings import SessionsConfig
from everturn_gateway.errors import ConfigError, Fault, printable
from everturn_gateway.scheduler.jobs import Job
from everturn_gateway.specs.agent_files import AgentFolder
from everturn_gateway.specs.declared import DeclaredAgent
from everturn_gateway.specs.loading import AGENT_FILE, AgentFile, load_agent
from everturn_gateway.specs.models import (
    MakeProvider,
    Metering,
    check_limit,
    models,
    provider_for,
)
from everturn_gateway.specs.tool_sets import equipped
from everturn_gateway.tools.factory import ToolFactory
from everturn_gateway.tools.mcp import Prompt, SamplingModel, UnknownPromptError
from everturn_gateway.tools.recall.selection import tools_for
from everturn_gateway.tools.toolbox import Toolbox
from everturn_gateway.yaml_files import Document
from everturn_gateway.yaml_files.watching import POLL_MS, watch_folder

logger = logging.getLogger(__name__)

_Version: TypeAlias = tuple[tuple[int, int], ...]

_WRITTEN_BY_AGENTS = frozenset(("memory",))  # folders beside agent.yaml


class AgentDefaults(Struct, frozen=True, kw_only=True):
    """What holds for agents that do not say otherwise."""

    sessions: SessionsConfig = field(default_factory=SessionsConfig)
    timezone: str = ""
    "For scheduled jobs that name none; empty = each has to."


class ReloadReport(Struct, frozen=True, kw_only=True):
    """What a reload changed."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    "Names of agents, sorted, in all three."
    faults: tuple[Fault, ...] = ()
    "All that is wrong now, whether it is new or not."


class _Made(Struct, frozen=True, kw_only=True):
    """What talks to one model."""

    provider: ModelProvider
    script: _Version
    "Which version of the file of a scripted model was read."


class _Entry(Struct, frozen=True, kw_only=True):
    file: AgentFile
    agent: Agent
    made: Mapping[ModelSpec, _Made]
    "For each model of the agent."


class _Shelf(Struct, frozen=True, kw_only=True):
    """Everything that is loaded at one moment; replaced as a whole."""

    entries: Mapping[Path, _Entry] = field(default_factory=dict[Path, _Entry])
    "By folder. One whose file has become bad keeps its last good version."
    faults: Mapping[Path, tuple[Fault, ...]] = field(default_factory=dict[Path, tuple[Fault, ...]])
    "By folder; the agents folder itself for what belongs to none."

    @property
    def by_name(self) -> dict[str, _Entry]:
        return {entry.file.spec.name: entry for entry in self.entries.values()}

    @property
    def all_faults(self) -> tuple[Fault, ...]:
        return tuple(fault for folder in sorted(self.faults) for fault in self.faults[folder])


class AgentLibrary:
    """The agents in one folder; implements `Agents`. Made by `open_library`."""

    def __init__(
        self,
        agents_dir: Path,
        environ: Mapping[str, str],
        make_provider: MakeProvider,
        defaults: AgentDefaults,
        meter: Metering | None,
        tool_factory: ToolFactory | None,
        state: Path | None,
        declared: Sequence[DeclaredAgent],
    ) -> None:
        self._agents_dir, self._environ = agents_dir, environ
        self._make_provider, self._defaults = make_provider, defaults
        self._meter, self._tool_factory = meter, tool_factory
        self._state = tool_factory.state if tool_factory is not None else state
        self._declared = {each.folder: each for each in declared}
        self._shelf = _Shelf()
        self._by_name: Mapping[str, _Entry] = {}
        self._version = 0
        self._reloading = anyio.Lock()
        self._next = anyio.Event()

    @property
    def version(self) -> int:
        """How many reloads found something changed: agents, or what is wrong with them."""
        return self._version

    def get(self, name: str) -> Agent:
        """Return the current version of an agent.

        Raises:
            UnknownAgentError: There is none of this name; says so where its folder has faults.
        """
        entry = self._by_name.get(name)
        return entry.agent if entry is not None else self._entry(name).agent

    def file(self, name: str) -> AgentFile:
        """Return an agent as it was read.

        Raises:
            UnknownAgentError: There is none of this name.
        """
        return self._entry(name).file

    def folder(self, name: str) -> AgentFolder:
        """Return the folder of an agent for whoever edits it, also where it has only faults.

        Raises:
            UnknownAgentError: There is none of this name, or it stands in no file.
        """
        entry = self._by_name.get(name)
        file = entry.file if entry is not None else None
        folder = file.folder if file is not None else self._agents_dir / name
        if folder in self._declared or (file is None and folder not in self._shelf.faults):
            self._entry(name)
            raise UnknownAgentError(name, self.names(), why="it stands in no file")
        return AgentFolder(folder, self._load_file, workspace=file.files if file else None)

    def tool_names(self, name: str) -> tuple[str, ...]:
        """Return the tools that an agent has now, by the names that its model calls.

        Those of MCP servers are among them since its first turn.

        Raises:
            UnknownAgentError: There is none of this name.
        """
        return tuple(self._entry(name).agent.tools)

    def tool_faults(self, name: str) -> tuple[str, ...]:
        """Return what is wrong with the tools of an agent now, one line each.

        Raises:
            UnknownAgentError: There is none of this name.
        """
        tools = self._entry(name).agent.tools
        return tools.faults if isinstance(tools, Toolbox) else ()

    async def prompts(self, name: str) -> tuple[Prompt, ...]:
        """Return the prompts of an agent's MCP servers, for people to send.

        Raises:
            UnknownAgentError: There is none of this name.
        """
        tools = self._entry(name).agent.tools
        return await tools.prompts() if isinstance(tools, Toolbox) else ()

    async def prompt_text(self, name: str, prompt: str, arguments: Mapping[str, str]) -> str:
        """Return the text of a prompt of an agent's MCP servers; nobody vouches for it.

        Raises:
            UnknownAgentError: There is no such agent.
            McpError: There is no such prompt, or its server does not say.
        """
        tools = self._entry(name).agent.tools
        if not isinstance(tools, Toolbox):
            raise UnknownPromptError(prompt, ())
        return await tools.prompt_text(prompt, arguments)

    def access(self, name: str) -> AccessRules | None:
        """Return who may talk to an agent on a chat platform; None = there is no such agent."""
        entry = self._by_name.get(name)
        return entry.file.access if entry is not None else None

    def names(self) -> tuple[str, ...]:
        """Return the names of all agents, sorted."""
        return tuple(sorted(self._by_name))

    def jobs(self) -> tuple[Job, ...]:
        """Return the scheduled jobs that stand in the agents' own files, by agent."""
        return tuple(job for name in self.names() for job in self._by_name[name].file.jobs)

    def faults(self) -> tuple[Fault, ...]:
        """Return what is wrong in the agents folder."""
        return self._shelf.all_faults

    async def reload(self) -> ReloadReport:
        """Read the agents folder again.

        A bad agent is set aside and reported while the others work; one that was good before
        stays as it was.
        """
        async with self._reloading:
            shelf = await anyio.to_thread.run_sync(self._read, self._shelf)
            report = self._report(shelf)
            changed = bool(report.added or report.changed or report.removed)
            if changed or shelf.all_faults != self._shelf.all_faults:
                _log(report, set(self._shelf.all_faults))
                self._shelf, self._by_name = shelf, shelf.by_name
                self._version += 1
                if self._tool_factory is not None:
                    for name in report.removed:
                        self._tool_factory.retire(name)
                self._next.set()
                self._next = anyio.Event()
            return report

    async def reconfigure(self, defaults: AgentDefaults) -> None:
        """Read the agents again with other defaults."""
        if defaults != self._defaults:
            self._defaults = defaults
            await self.reload()

    async def wait_beyond(self, version: int) -> None:
        """Wait until `version` has passed. The caller sets the deadline."""
        while self._version <= version:
            await self._next.wait()

    async def watch(
        self,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
        poll_ms: int = POLL_MS,
    ) -> NoReturn:
        """Reload whenever a file of an agent changes, until cancelled.

        Args:
            task_status: Of `TaskGroup.start`; started when no later change can be missed.
            poll_ms: How often to look whether the folder is there and still the same; and to read
                it, where the system cannot tell of changes.
        """
        await watch_folder(
            self._agents_dir,
            self.reload,
            wanted=AgentFiles,
            poll_ms=poll_ms,
            task_status=task_status,
        )

    def _entry(self, name: str) -> _Entry:
        if entry := self._by_name.get(name):
            return entry
        wrong = self._shelf.faults.get(self._agents_dir / name, ())
        why = f"its folder has faults: {wrong[0]}" if wrong else ""
        raise UnknownAgentError(name, self.names(), why=why)

    def _read(self, before: _Shelf) -> _Shelf:
        """Read all agents; in a thread."""
        try:
            folders = [*self._declared, *self._folders()]
        except OSError as error:
            message = f"the agents folder cannot be read: {error.strerror or error}"
            fault = Fault(file=self._agents_dir, message=message)
            return replace(before, faults={**before.faults, self._agents_dir: (fault,)})
        entries: dict[Path, _Entry] = {}
        faults: dict[Path, tuple[Fault, ...]] = {}
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
                if entry.file.warnings:
                    faults[folder] = entry.file.warnings
        for twin, first in _twins(entries, before):
            message = f"is also the name of the agent in {first.file.folder}"
            faults[twin] = (entries.pop(twin).file.fault("metadata.name", message),)
        return _Shelf(entries=entries, faults=faults)

    def _folders(self) -> list[Path]:
        """Return the folders of agents, sorted; none where all agents are declared."""
        if self._declared and not self._agents_dir.exists():
            return []
        return sorted(
            path
            for path in self._agents_dir.iterdir()
            if not path.name.startswith(".") and _is_agent(path)
        )

    def _load_file(self, folder: Path, document: Document | None = None) -> AgentFile:
        return load_agent(
            folder,
            environ=self._environ,
            sessions=self._defaults.sessions,
            state=self._state,
            timezone=self._defaults.timezone,
            document=document,
        )

    def _load(self, folder: Path, known: _Entry | None) -> _Entry:
        declared = self._declared.get(folder)
        file = self._load_file(folder, declared.as_document() if declared else None)
        if declared is not None:
            file = declared.equip(file)
        made = self._make(file, known.made if known else {})
        is_same = known is not None and known.file == file
        if known and is_same and all(made[model] is known.made.get(model) for model in made):
            return known
        if self._meter is not None:
            check_limit(file, self._meter)
        agent = _agent(file, made, self._meter)
        if self._tool_factory is not None:
            sampling = _sampling(file, made, self._meter)
            agent = equipped(agent, file, self._tool_factory, sampling)
        return _Entry(file=file, agent=agent, made=made)

    def _make(self, file: AgentFile, known: Mapping[ModelSpec, _Made]) -> dict[ModelSpec, _Made]:
        """Return what talks to the agent's models, what is known already as it is.

        Raises:
            ConfigError: A model cannot be used as it is configured.
        """
        made: dict[ModelSpec, _Made] = {}
        for field_name, model in models(file).items():
            script = _script_version(model, file.folder)
            if model in known and known[model].script == script:
                made[model] = known[model]
            else:
                provider = provider_for(file, field_name, model, self._make_provider)
                made[model] = _Made(provider=provider, script=script)
        return made

    def _report(self, shelf: _Shelf) -> ReloadReport:
        old, new = self._by_name, shelf.by_name
        return ReloadReport(
            added=tuple(sorted(new.keys() - old.keys())),
            changed=tuple(sorted(n for n in new.keys() & old.keys() if new[n] is not old[n])),
            removed=tuple(sorted(old.keys() - new.keys())),
            faults=shelf.all_faults,
        )


def _log(report: ReloadReport, known: Collection[Fault]) -> None:
    """Log what a reload found; the faults that are known stand in the log already."""
    logger.info(
        "agents loaded",
        extra={
            "agents_added": list(report.added),
            "agents_changed": list(report.changed),
            "agents_removed": list(report.removed),
        },
    )
    for fault in report.faults:
        if fault not in known:
            logger.warning("agent has a fault", extra={"fault": str(fault)})


class AgentFiles(DefaultFilter):
    """Leaves out what editors leave behind, and what an agent writes while it works."""

    def __init__(self, root: PurePath) -> None:
        super().__init__()
        self._depth = len(root.parts) + 1

    def __call__(self, change: Change, path: str) -> bool:
        """Return whether a change of `path` means that agents have to be read again."""
        below_agent = PurePath(path).parts[self._depth : self._depth + 1]
        return super().__call__(change, path) and not _WRITTEN_BY_AGENTS.intersection(below_agent)


async def open_library(
    agents_dir: Path,
    environ: Mapping[str, str],
    make_provider: MakeProvider,
    *,
    defaults: AgentDefaults | None = None,
    meter: Metering | None = None,
    tool_factory: ToolFactory | None = None,
    state: Path | None = None,
    declared: Sequence[DeclaredAgent] = (),
) -> AgentLibrary:
    """Load all agents of a folder: each sub-folder with an `agent.yaml` is one.

    What is wrong, also that the folder is missing, stands in `AgentLibrary.faults()`.

    Args:
        agents_dir: The folder.
        environ: The environment variables, for `${NAME}` in the files.
        make_provider: Makes what talks to an agent's model, given the model and the agent's
            folder; called in a thread, again only when the agent's model or script has changed.
        defaults: What holds for agents that do not say otherwise.
        meter: Counts and limits what the agents' models use; None = nobody does.
        tool_factory: Equips agents with tools; None = they have none, but for `recall_context`.
        state: The gateway's workspace, where there is no factory that knows it.
        declared: Agents that stand in no file; they come first where two have one name.
    """
    library = AgentLibrary(
        agents_dir,
        environ,
        make_provider,
        defaults or AgentDefaults(),
        meter,
        tool_factory,
        state,
        declared,
    )
    await library.reload()
    return library


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


def _script_version(model: ModelSpec, folder: Path) -> _Version:
    """Return what changes when the replies of a scripted model or fallback are written anew."""
    return tuple(_file_version(each, folder) for each in (model, *model.fallbacks))


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


def _twins(entries: Mapping[Path, _Entry], before: _Shelf) -> tuple[tuple[Path, _Entry], ...]:
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
