"""The agents of a gateway, and their reload while it runs."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePath
from typing import NoReturn

import anyio
import anyio.to_thread
from anyio.abc import TaskStatus
from msgspec import Struct
from msgspec.structs import replace
from watchfiles import Change, DefaultFilter

from everturn_actors.errors import UnknownAgentError, UnusableModelError
from everturn_actors.model import ChosenModel
from everturn_actors.ports import Agent
from everturn_actors.spec import ModelSpec
from everturn_channels.settings import AccessRules
from everturn_gateway.errors import Fault, GatewayError, printable
from everturn_gateway.scheduler.jobs import Job
from everturn_gateway.specs.agent_files import AgentFolder
from everturn_gateway.specs.agent_reader import (
    AgentDefaults,
    AgentReader,
    LoadedAgent,
    LoadedAgents,
)
from everturn_gateway.specs.declared import DeclaredAgent
from everturn_gateway.specs.loading import AgentFile
from everturn_gateway.specs.models import (
    MakeProvider,
    Metering,
    models,
)
from everturn_gateway.specs.values import model_spec
from everturn_gateway.tools.factory import ToolFactory
from everturn_gateway.tools.mcp import Prompt, UnknownPromptError
from everturn_gateway.tools.memory.plugin import memory_settings
from everturn_gateway.tools.toolbox import Toolbox
from everturn_gateway.yaml_files.watching import POLL_MS, watch_folder

logger = logging.getLogger(__name__)

_CHOSEN_MAX = 64  # agents with models that were chosen for sessions, kept ready
_WRITTEN_BY_AGENTS = frozenset(("memory",))  # folders beside agent.yaml


class ReloadReport(Struct, frozen=True, kw_only=True):
    """What a reload changed."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    "Names of agents, sorted, in all three."
    faults: tuple[Fault, ...] = ()
    "All that is wrong now, whether it is new or not."


class AgentLibrary:
    """The agents in one folder; implements `Agents`. Made by `open_library`."""

    def __init__(
        self,
        reader: AgentReader,
    ) -> None:
        self._reader = reader
        self._loaded = LoadedAgents()
        self._by_name: Mapping[str, LoadedAgent] = {}
        self._chosen: dict[tuple[str, ChosenModel], tuple[LoadedAgent, Agent]] = {}
        "Agents with models that were chosen for sessions, each with what it was made from."
        self.version = 0
        "How many reloads found something changed: agents, or what is wrong with them."
        self._reloading = anyio.Lock()
        self._next = anyio.Event()

    def get(self, name: str) -> Agent:
        """Return the current version of an agent.

        Raises:
            UnknownAgentError: There is none of this name; says so where its folder has faults.
        """
        entry = self._by_name.get(name)
        return entry.agent if entry is not None else self._entry(name).agent

    def get_with(self, name: str, model: ChosenModel) -> Agent:
        """Return the current version of an agent with another model, as somebody chose it.

        Raises:
            UnknownAgentError: There is none of this name.
            UnusableModelError: The model cannot be used as it is configured; the text says why.
        """
        entry = self._entry(name)
        known = self._chosen.get((name, model))
        if known is not None and known[0] is entry:
            return known[1]
        spec = model_spec(model, entry.file.spec.model, self.models())
        try:
            agent = self._reader.with_model(entry, spec)
        except GatewayError as error:
            raise UnusableModelError(name, model.label, printable(str(error))) from error
        while len(self._chosen) >= _CHOSEN_MAX:
            del self._chosen[next(iter(self._chosen))]
        self._chosen[name, model] = entry, agent
        return agent

    def models(self) -> tuple[ModelSpec, ...]:
        """Return the models that agents name, fallbacks included, each once."""
        found = [
            each
            for name in self.names()
            for model in models(self._by_name[name].file).values()
            for each in (model, *model.fallbacks)
        ]
        return tuple({(each.provider, each.name): each for each in reversed(found)}.values())[::-1]

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
        folder = file.folder if file is not None else self._reader.agents_dir / name
        if folder in self._reader.declared or (file is None and folder not in self._loaded.faults):
            self._entry(name)
            raise UnknownAgentError(name, self.names(), why="it stands in no file")
        return AgentFolder(folder, self._reader.load_file, workspace=file.files if file else None)

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

    def idle_after_s(self, name: str) -> float | None:
        """Return how long a conversation with an agent is idle before it is asked for notes.

        None: it keeps none about whom it talks with, or is not there.
        """
        entry = self._by_name.get(name)
        memory = memory_settings(entry.file.tool_config) if entry is not None else None
        return None if memory is None or memory.notes == "off" else memory.notes_after_seconds

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
        return self._loaded.all_faults

    async def reload(self) -> ReloadReport:
        """Read the agents folder again.

        A bad agent is set aside and reported while the others work; one that was good before
        stays as it was.
        """
        async with self._reloading:
            # What has not changed is taken from before.
            loaded = await anyio.to_thread.run_sync(self._reader.read, self._loaded)
            report = _report(self._by_name, loaded)
            changed = bool(report.added or report.changed or report.removed)
            if changed or loaded.all_faults != self._loaded.all_faults:
                # Each fault once, however often the folder is read.
                _log(report, set(self._loaded.all_faults))
                self._loaded, self._by_name = loaded, loaded.by_name
                self.version += 1
                if self._reader.tool_factory is not None:
                    for name in report.removed:
                        # Its servers end when their last call is done.
                        self._reader.tool_factory.retire(name)
                self._next.set()
                self._next = anyio.Event()
            return report

    async def reconfigure(self, defaults: AgentDefaults) -> None:
        """Read the agents again with other defaults; they hear with what they heard with."""
        defaults = replace(defaults, voices=self._reader.defaults.voices)
        if defaults != self._reader.defaults:
            self._reader.defaults = defaults
            await self.reload()

    async def wait_beyond(self, version: int) -> None:
        """Wait until `version` has passed. The caller sets the deadline."""
        while self.version <= version:
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
            self._reader.agents_dir,
            self.reload,
            wanted=AgentFiles,
            poll_ms=poll_ms,
            task_status=task_status,
        )

    def _entry(self, name: str) -> LoadedAgent:
        if entry := self._by_name.get(name):
            return entry
        # Why it is not there helps more than that it is not.
        wrong = self._loaded.faults.get(self._reader.agents_dir / name, ())
        why = f"its folder has faults: {wrong[0]}" if wrong else ""
        raise UnknownAgentError(name, self.names(), why=why)


def _report(old: Mapping[str, LoadedAgent], loaded: LoadedAgents) -> ReloadReport:
    new = loaded.by_name
    return ReloadReport(
        added=tuple(sorted(new.keys() - old.keys())),
        # The reader gives the same value for the same files.
        changed=tuple(sorted(n for n in new.keys() & old.keys() if new[n] is not old[n])),
        removed=tuple(sorted(old.keys() - new.keys())),
        faults=loaded.all_faults,
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
    reader = AgentReader(
        agents_dir=agents_dir,
        environ=environ,
        make_provider=make_provider,
        defaults=defaults or AgentDefaults(),
        meter=meter,
        tool_factory=tool_factory,
        state=tool_factory.state if tool_factory is not None else state,
        declared={each.folder: each for each in declared},
    )
    library = AgentLibrary(reader)
    await library.reload()
    return library
