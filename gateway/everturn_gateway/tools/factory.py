"""Makes the tools of agents from their plans; owns what outlives a version of an agent."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from anyio import to_thread
from msgspec import Struct

from everturn_actors.context.estimation.windows import DEFAULT_WINDOW_TOKENS
from everturn_actors.ports import Clock, Gate, KeyedStore, Tool, ToolContext, ToolKind
from everturn_actors.supervisor import Supervisor
from everturn_actors.todo import TODO_TOOL
from everturn_gateway.config.links import NO_LINKS, Links
from everturn_gateway.late_loading import late
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.plugins import ToolSettingsError, ToolSetup, installed
from everturn_gateway.tools.browser.opening import BrowserPlace, open_browser_place
from everturn_gateway.tools.checkpoints import CheckpointedWorkspaces, Checkpoints
from everturn_gateway.tools.cli import CliProgram, CliTool, discover
from everturn_gateway.tools.config import ToolConfig, ToolUse, confinements
from everturn_gateway.tools.environment import ServiceLink, ToolEnvironment
from everturn_gateway.tools.files.workspace import closed_in, workspace_of
from everturn_gateway.tools.marks import MarkedWorkspaces
from everturn_gateway.tools.mcp import McpLogins, McpServers, SamplingModel, open_mcp
from everturn_gateway.tools.policy.held_files import HeldFiles
from everturn_gateway.tools.policy.judged_writes import JudgedWrites
from everturn_gateway.tools.policy.late_gate import LateGate
from everturn_gateway.tools.policy.notifying import Notifier, open_notifier
from everturn_gateway.tools.processes.table import ProcessTable, open_processes
from everturn_gateway.tools.reloading import Reloading
from everturn_gateway.tools.searching import ToolSearch
from everturn_gateway.tools.shell import Confinement
from everturn_gateway.tools.shell.settings import OutOfReach
from everturn_gateway.tools.shell.trees import end_left
from everturn_gateway.tools.skills import Skill, granted_patterns, load_skills, skill_tools
from everturn_gateway.tools.todo import TodoLists, TodoReminder
from everturn_gateway.tools.toolbox import Found, Toolbox

if TYPE_CHECKING:
    from everturn_gateway.tools.policy import descriptions, gate, guarding
    from everturn_gateway.tools.policy.descriptions import AllowedWords
    from everturn_gateway.tools.policy.guarding import CallWatch
else:
    descriptions = late("everturn_gateway.tools.policy.descriptions")
    gate = late("everturn_gateway.tools.policy.gate")
    guarding = late("everturn_gateway.tools.policy.guarding")

logger = logging.getLogger(__name__)

_OWNERS = Confinement(sandbox="none")  # a program in a tools folder is its owner's
_KINDS: Final[Mapping[ToolKind, str]] = {
    "builtin": "the built-in tool",
    "bash": "the built-in tool",
    "cli": "the program",
    "mcp": "the server's tool",
}
FILES_FOLDER = "files"  # in the gateway's workspace: a folder for each agent


class ToolSet(Struct, frozen=True, kw_only=True):
    """What one version of an agent works with."""

    tools: Toolbox
    gate: Gate


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTools:
    """What the tools of all agents share."""

    state: Path
    "The gateway's workspace."
    files: Path
    "Holds a folder for each agent."
    keyed: KeyedStore
    "Where it is kept how tools were allowed."
    environ: Mapping[str, str] = field(repr=False)
    secrets: SecretRegistry = field(repr=False)
    clock: Clock
    link: ServiceLink
    "Where the service is connected, before the first turn."
    processes: ProcessTable
    servers: McpServers
    browsers: BrowserPlace
    notifier: Notifier
    marks: MarkedWorkspaces
    beyond: OutOfReach
    watch: CallWatch | None
    "Is told of every call of a tool that runs."
    links: Links = NO_LINKS
    "Who is one person in several chats."


class ToolFactory:
    """Equips agents. Made by `open_tool_factory`."""

    def __init__(self, shared: SharedTools) -> None:
        self.shared = shared
        self.link = shared.link
        self.processes = shared.processes
        self._held: dict[Path, HeldFiles] = {}
        self._words: dict[str, AllowedWords] = {}
        self.todo_lists = TodoLists(shared.keyed)
        self.checkpoints = CheckpointedWorkspaces(shared.clock)

    @property
    def state(self) -> Path:
        """The gateway's workspace."""
        return self.shared.state

    def make_tools(
        self,
        config: ToolConfig,
        environment: ToolEnvironment,
        *,
        owner_texts: Sequence[str] = (),
        window_tokens: int = DEFAULT_WINDOW_TOKENS,
        sampling: Mapping[str, SamplingModel] = MappingProxyType({}),
    ) -> ToolSet:
        """Return the tools of an agent and the gate before them; nothing is started.

        Resolves paths: not for the event loop.

        Args:
            config: What it is given.
            environment: Whose they are, see `environment`.
            owner_texts: Its prompt, in which addresses may stand that it is to read.
            window_tokens: Of its model, of which the definitions of its tools take their share.
            sampling: The models that its MCP servers may use, by the server's name.

        Raises:
            ToolSettingsError: A setting makes no sense; the text names it.
        """
        maker = _ToolMaker(self, config, environment)
        own = maker.make(config.found, config.skills)
        search = ToolSearch(config.search, window_tokens=window_tokens, places=_places(config))
        taken = (*own, *(tool.definition.name for tool in search.tools))
        connect = partial(
            self.shared.servers.toolbox, environment, config.mcp, taken=taken, sampling=sampling
        )
        maker.toolbox = Toolbox(
            own,
            look=maker.look,
            connect=connect if config.mcp else None,
            guard=maker.guard,
            hidden=maker.hidden,
            search=search,
        )

        def make_gate() -> Gate:
            own_gate = gate.PolicyGate(
                config.policy,
                environment.home,
                guards=config.hooks.before,
                granted=maker.granted,
                owner_texts=owner_texts,
                workspace=environment.files,
                writes=maker.judged,
            )
            return descriptions.DescriptionGate(own_gate, self._words_of(environment.agent))

        return ToolSet(tools=maker.toolbox, gate=LateGate(make_gate))

    def _words_of(self, agent: str) -> AllowedWords:
        """Return how the tools of an agent were allowed, the same for all its versions."""
        # Gates are made in threads: of two at once, both get the same.
        return self._words.setdefault(agent, descriptions.AllowedWords(self.shared.keyed, agent))

    def environment(self, *, agent: str, home: Path, files: Path | None) -> ToolEnvironment:
        """Return where the tools of an agent work; the arguments are those of `make_tools`."""
        shared = self.shared
        workspace = (files or shared.files / agent).absolute()
        return ToolEnvironment(
            agent=agent,
            home=home.absolute(),
            files=workspace,
            state=shared.state.absolute(),
            environ=shared.environ,
            secrets=shared.secrets,
            link=shared.link,
            marks=shared.marks.of(workspace),
            links=shared.links,
        )

    def guarded(self, tool: Tool, config: ToolConfig, environment: ToolEnvironment) -> Tool:
        """Return a tool behind the rules of its agent."""
        return guarding.GuardedTool(
            tool,
            agent=environment.agent,
            secrets=self.shared.secrets,
            after=config.hooks.after,
            policy=config.policy,
            beside=guarding.Beside(
                notifier=self.shared.notifier,
                watch=self.shared.watch,
                held=self.held(environment),
                reminder=TodoReminder(self.todo_lists) if _keeps_todo(config) else None,
                checkpoints=self.checkpoints_of(environment),
            ),
        )

    def checkpoints_of(self, environment: ToolEnvironment) -> Checkpoints:
        """Return the checkpoints of an agent's workspace."""
        closed = partial(closed_in, environment)
        return self.checkpoints.of(environment, workspace_of(environment), closed)

    async def forget(self, session_id: str) -> None:
        """Keep nothing of what tools keep of a session that is deleted."""
        await self.todo_lists.forget(session_id)
        await self.processes.forget(session_id)

    def held(self, environment: ToolEnvironment) -> HeldFiles:
        """Return which files of a workspace open calls may run, for all agents that work there."""
        return self._held.setdefault(environment.files, HeldFiles())

    def retire(self, agent: str) -> None:
        """Let go of what belongs to an agent that is gone."""
        self.shared.servers.retire(agent)


class _ToolMaker:
    """Makes the tools of one version of an agent, and makes them again when they are reloaded."""

    toolbox: Toolbox

    def __init__(self, shop: ToolFactory, config: ToolConfig, environment: ToolEnvironment) -> None:
        self._shop, self._config, self._environment = shop, config, environment
        self._skills = config.skills
        self._hidden: tuple[str, ...] = ()
        self.judged = JudgedWrites(shop.held(environment))
        parts = (
            environment,
            self.judged,
            shop.processes,
            shop.shared.beyond,
            shop.shared.browsers,
            Reloading(reload=self._reload),
            shop.todo_lists,
        )
        self._parts: Mapping[type, object] = {type(each): each for each in parts}

    def make(self, found: Sequence[CliProgram], skills: tuple[Skill, ...]) -> dict[str, Tool]:
        """Return all tools but those of MCP servers; of two with one name, the first."""
        config, environment = self._config, self._environment
        confined, self._skills = self._shop.shared.beyond.confined, skills
        environment.marks.look_at(_written_beside(config))
        tools: list[Tool] = [tool for use in config.uses for tool in self._of_plugin(use)]
        tools += skill_tools(skills)
        tools += [
            CliTool(environment, each.program, confined(each.confinement), environ=each.environ)
            for each in config.cli
        ]
        tools += [CliTool(environment, each, _OWNERS) for each in found]
        tools += config.own
        made: dict[str, Tool] = {}
        hidden: list[str] = []
        for tool in tools:
            name = tool.definition.name
            if name in made:
                kinds = _KINDS[tool.capabilities.kind], _KINDS[made[name].capabilities.kind]
                hidden.append(f"{kinds[0]} {name} is hidden by {kinds[1]} of that name")
            else:
                made[name] = self.guard(tool)
        self._hidden = tuple(hidden)
        return made

    def _of_plugin(self, use: ToolUse) -> tuple[Tool, ...]:
        """Return the tools of a plug-in.

        Raises:
            ToolSettingsError: It cannot make them; says why.
        """
        plugin, environment, shared = use.plugin, self._environment, self._shop.shared
        is_own = installed().tools.is_own(plugin.name)
        setup = ToolSetup(
            settings=use.plan.settings,
            agent=environment.agent,
            home=environment.home,
            files=environment.files,
            clock=shared.clock,
            environ=shared.environ,
            add_secret=shared.secrets.add,
            service=lambda: environment.link.service,
            parts=self._parts if is_own else {},
        )
        # A boundary: the code of others costs the agents that name it.
        try:
            for entry in use.entries:
                for secret in plugin.secrets(entry.settings):
                    shared.secrets.add(secret)
            return tuple(plugin.make(setup))
        except ToolSettingsError:
            raise
        except ModuleNotFoundError as error:
            msg = f"{plugin.name} needs {error.name}: pip install '{plugin.extra or error.name}'"
            raise ToolSettingsError(msg) from error
        except Exception as error:
            msg = f"the plug-in {plugin.name} failed: {type(error).__name__}: {error}"
            raise ToolSettingsError(msg) from error

    def hidden(self) -> tuple[str, ...]:
        """Return which of its own tools others of them hide, one line each."""
        return self._hidden

    def look(self) -> Found:
        """Look for programs and skills anew. Reads folders: not for the event loop."""
        named = {each.program.name for each in self._config.cli}
        found = discover(self._environment.home, self._environment.state)
        folder = self._config.skills_folder
        skills, faults = load_skills(folder) if folder is not None else ((), ())
        programs = [each for each in found.programs if each.name not in named]
        return self.make(programs, skills), (*found.faults, *faults)

    def guard(self, tool: Tool) -> Tool:
        """Return a tool behind the agent's rules."""
        return self._shop.guarded(tool, self._config, self._environment)

    def granted(self, context: ToolContext) -> tuple[str, ...]:
        """Return what skills allow that were read in this turn."""
        return granted_patterns(self._skills, context)

    async def _reload(self) -> str:
        return await self.toolbox.reload()


def _places(config: ToolConfig) -> tuple[str, ...]:
    """Return where tools that may be searched come from, as the agent's files say it."""
    servers = (f"the MCP server {each.name}" for each in config.mcp)
    return (*servers, *(("programs of the owner",) if config.cli or config.found else ()))


def _keeps_todo(config: ToolConfig) -> bool:
    return any(use.plugin.name == TODO_TOOL for use in config.uses)


def _written_beside(config: ToolConfig) -> Iterator[Path]:
    """Yield the folders beside the workspace that commands of an agent may write."""
    for each in confinements(config):
        yield from (place.expanduser().absolute() for place in each.writable)


class FactorySettings(Struct, frozen=True, kw_only=True):
    """Where the tools of all agents work, and what is kept of them."""

    state: Path
    "The gateway's workspace."
    keyed: KeyedStore
    "Where it is kept how tools were allowed."
    environ: Mapping[str, str]
    "The gateway's environment."
    files: Path | None = None
    "Holds a folder for each agent; None = `files` in the workspace."
    beyond: OutOfReach = OutOfReach()
    "What no command of a model can reach."
    links: Links = NO_LINKS
    "Who is one person in several chats."


@asynccontextmanager
async def open_tool_factory(
    settings: FactorySettings,
    *,
    secrets: SecretRegistry,
    clock: Clock,
    watch: CallWatch | None = None,
    supervisor: Supervisor | None = None,
) -> AsyncGenerator[ToolFactory]:
    """Open what the tools of all agents share; at the end no MCP server runs.

    The caller holds the workspace. What commands left running when its gateway was killed is ended.

    Background processes go on. Connect the service before the first turn, then call
    `processes.resume`.

    Args:
        settings: Where they work, and what is kept of them.
        secrets: What no result may show.
        clock: The time.
        watch: Is told of every call of a tool that runs.
        supervisor: Runs the tasks behind the tools; by default one of its own.

    Raises:
        OSError: The workspace cannot be used.
    """
    supervisor = supervisor or Supervisor(clock)
    state, keyed, environ = settings.state, settings.keyed, settings.environ
    link, marks = ServiceLink(), MarkedWorkspaces(state)
    left = await to_thread.run_sync(end_left, state)
    if left:
        logger.warning("ended what a killed gateway had left running", extra={"processes": left})
    async with (
        open_processes(
            state,
            clock,
            link,
            environ=environ,
            secrets=secrets,
            marks=marks,
            supervisor=supervisor,
        ) as processes,
        open_mcp(clock=clock, logins=McpLogins(keyed, clock, secrets)) as servers,
        open_browser_place(environ, clock) as browsers,
        open_notifier(clock, secrets, supervisor=supervisor) as notifier,
    ):
        shared = SharedTools(
            state=state,
            files=settings.files or state / FILES_FOLDER,
            keyed=keyed,
            environ=environ,
            secrets=secrets,
            clock=clock,
            link=link,
            processes=processes,
            servers=servers,
            browsers=browsers,
            notifier=notifier,
            marks=marks,
            beyond=settings.beyond,
            watch=watch,
            links=settings.links,
        )
        yield ToolFactory(shared)
