"""Makes the tools of agents from their plans; owns what outlives a version of an agent."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from anyio import to_thread

from everturn_actors.ports import Clock, Gate, Tool, ToolContext, ToolKind
from everturn_actors.supervisor import Supervisor
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.tools.cli import CliProgram, CliTool, discover
from everturn_gateway.tools.conversations import Delegate, SessionTool
from everturn_gateway.tools.files import file_tools, send_file_tool
from everturn_gateway.tools.mcp import McpServers, open_mcp
from everturn_gateway.tools.memory import memory_tools
from everturn_gateway.tools.plan import ToolPlan
from everturn_gateway.tools.policy import (
    AllowedWords,
    CallWatch,
    DescriptionGate,
    HeldFiles,
    JudgedWrites,
    Notifier,
    PolicyGate,
    guarded,
    open_notifier,
)
from everturn_gateway.tools.processes import BackgroundProcess, ProcessTable, open_processes
from everturn_gateway.tools.recall import RecallContext
from everturn_gateway.tools.reloading import ReloadTools
from everturn_gateway.tools.scheduling import ScheduleTool
from everturn_gateway.tools.shell import BashTool, Confinement
from everturn_gateway.tools.shell.trees import end_left
from everturn_gateway.tools.site import ServiceLink, ToolSite
from everturn_gateway.tools.skills import Skill, granted_patterns, load_skills, skill_tools
from everturn_gateway.tools.toolbox import Found, Toolbox
from everturn_gateway.tools.web import web_tools

logger = logging.getLogger(__name__)

_OWNERS = Confinement(sandbox="none")  # a program in a tools folder is its owner's
MCP_FOLDER = "mcp"  # in the gateway's workspace: how tools of MCP servers were allowed, by agent
_KINDS: Final[Mapping[ToolKind, str]] = {
    "builtin": "the built-in tool",
    "bash": "the built-in tool",
    "cli": "the program",
    "mcp": "the server's tool",
}
FILES_FOLDER = "files"  # in the gateway's workspace: a folder for each agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """What one version of an agent works with."""

    tools: Toolbox
    gate: Gate


class Workshop:
    """Equips agents. Made by `open_workshop`."""

    def __init__(
        self,
        *,
        state: Path,
        environ: Mapping[str, str],
        secrets: SecretRegistry,
        clock: Clock,
        link: ServiceLink,
        processes: ProcessTable,
        servers: McpServers,
        notifier: Notifier,
        hidden: tuple[Path, ...] = (),
        has_open_api: bool = False,
        watch: CallWatch | None = None,
    ) -> None:
        self.link = link
        "Where the service is connected, before the first turn."
        self.processes = processes
        self._state, self._environ, self._secrets = state, environ, secrets
        self._clock, self._servers, self._notifier = clock, servers, notifier
        self._hidden, self._has_open_api = hidden, has_open_api
        self._watch = watch
        self._held: dict[Path, HeldFiles] = {}
        self._words: dict[str, AllowedWords] = {}

    @property
    def state(self) -> Path:
        """The gateway's workspace."""
        return self._state

    def equip(
        self,
        plan: ToolPlan,
        *,
        agent: str,
        home: Path,
        files: Path | None,
        owner_texts: Sequence[str] = (),
    ) -> Equipment:
        """Return the tools of an agent and the gate before them; nothing is started.

        Resolves paths: not for the event loop.

        Args:
            plan: What it is given.
            agent: Its name.
            home: Its folder.
            files: Its workspace; None = a folder of its own in the gateway's.
            owner_texts: Its prompt, in which addresses may stand that it is to read.

        Raises:
            ToolSettingsError: A setting makes no sense; the text names it.
        """
        site = self.site(agent=agent, home=home, files=files)
        kit = _Kit(self, plan, site)
        own = kit.make(plan.found, plan.skills)
        connect = partial(self._servers.toolbox, site, plan.mcp, taken=tuple(own))
        kit.toolbox = Toolbox(
            own,
            look=kit.look,
            connect=connect if plan.mcp else None,
            guard=kit.guard,
            hidden=kit.hidden,
        )
        gate = PolicyGate(
            plan.policy,
            site.home,
            guards=plan.hooks.before,
            granted=kit.granted,
            owner_texts=owner_texts,
            workspace=site.files,
            writes=kit.judged,
        )
        return Equipment(tools=kit.toolbox, gate=DescriptionGate(gate, self._words_of(agent)))

    def _words_of(self, agent: str) -> AllowedWords:
        """Return how the tools of an agent were allowed, the same for all its versions."""
        if agent not in self._words:
            self._words[agent] = AllowedWords(self._state / MCP_FOLDER / f"{agent}.json")
        return self._words[agent]

    def site(self, *, agent: str, home: Path, files: Path | None) -> ToolSite:
        """Return where the tools of an agent work; the arguments are those of `equip`."""
        return ToolSite(
            agent=agent,
            home=home.absolute(),
            files=(files or self._state / FILES_FOLDER / agent).absolute(),
            state=self._state.absolute(),
            environ=self._environ,
            secrets=self._secrets,
            link=self.link,
        )

    def fixed(self, plan: ToolPlan, site: ToolSite, judged: JudgedWrites) -> Iterator[Tool]:
        """Yield the built-in tools of a plan; `judged` is what its gate notes of files."""
        if plan.recall_page_characters:
            yield RecallContext(page_characters=plan.recall_page_characters)
        if plan.memory:
            yield from memory_tools(site, clock=self._clock)
        if plan.files:
            yield from file_tools(site, read_only=plan.files_read_only, judged=judged)
        if plan.send_file:
            yield send_file_tool(site)
        if plan.bash is not None:
            confinement = self.confined(plan.bash.confinement)
            yield BashTool(site, confinement, timeout_s=plan.bash.timeout_s)
        if plan.processes is not None:
            confinement = self.confined(plan.processes.confinement)
            most = plan.processes.max_processes
            yield BackgroundProcess(site, self.processes, confinement, most)
        if plan.web is not None:
            web = plan.web
            yield from web_tools(
                site, fetch=web.fetch, search=web.search, allow_private=web.allow_private
            )
        if plan.session is not None:
            yield SessionTool(site, send_to=plan.session.send_to, read_from=plan.session.read_from)
        if plan.schedule is not None:
            yield ScheduleTool(
                site,
                self._clock,
                self.processes,
                max_jobs=plan.schedule.max_jobs,
                min_interval_s=plan.schedule.min_interval_s,
            )
        if plan.delegate is not None:
            yield Delegate(site, agents=plan.delegate.agents, max_depth=plan.delegate.max_depth)

    def confined(self, confinement: Confinement) -> Confinement:
        """Return a confinement in which the gateway's own secrets cannot be read."""
        return replace(confinement, hidden=self._hidden, has_open_api=self._has_open_api)

    def guarded(self, tool: Tool, plan: ToolPlan, site: ToolSite) -> Tool:
        """Return a tool behind the rules of its agent."""
        return guarded(
            tool,
            agent=site.agent,
            secrets=self._secrets,
            after=plan.hooks.after,
            policy=plan.policy,
            notifier=self._notifier,
            watch=self._watch,
            held=self.held(site),
        )

    def held(self, site: ToolSite) -> HeldFiles:
        """Return which files of a workspace open calls may run, for all agents that work there."""
        return self._held.setdefault(site.files, HeldFiles())

    def retire(self, agent: str) -> None:
        """Let go of what belongs to an agent that is gone."""
        self._servers.retire(agent)


class _Kit:
    """Makes the tools of one version of an agent, and makes them again when they are reloaded."""

    toolbox: Toolbox

    def __init__(self, shop: Workshop, plan: ToolPlan, site: ToolSite) -> None:
        self._shop, self._plan, self._site = shop, plan, site
        self._skills = plan.skills
        self._hidden: tuple[str, ...] = ()
        self.judged = JudgedWrites(shop.held(site))

    def make(self, found: Sequence[CliProgram], skills: tuple[Skill, ...]) -> dict[str, Tool]:
        """Return all tools but those of MCP servers; of two with one name, the first."""
        shop, plan, site = self._shop, self._plan, self._site
        self._skills = skills
        tools: list[Tool] = [*shop.fixed(plan, site, self.judged), *skill_tools(skills)]
        tools += [
            CliTool(site, each.program, shop.confined(each.confinement), environ=each.environ)
            for each in plan.cli
        ]
        tools += [CliTool(site, each, _OWNERS) for each in found]
        if plan.reload:
            tools.append(ReloadTools(self._reload))
        made: dict[str, Tool] = {}
        hidden: list[str] = []
        for tool in tools:
            name = tool.definition.name
            if name in made:
                kinds = _KINDS[tool.traits.kind], _KINDS[made[name].traits.kind]
                hidden.append(f"{kinds[0]} {name} is hidden by {kinds[1]} of that name")
            else:
                made[name] = self.guard(tool)
        self._hidden = tuple(hidden)
        return made

    def hidden(self) -> tuple[str, ...]:
        """Return which of its own tools others of them hide, one line each."""
        return self._hidden

    def look(self) -> Found:
        """Look for programs and skills anew. Reads folders: not for the event loop."""
        named = {each.program.name for each in self._plan.cli}
        found = discover(self._site.home, self._site.state)
        folder = self._plan.skills_folder
        skills, faults = load_skills(folder) if folder is not None else ((), ())
        programs = [each for each in found.programs if each.name not in named]
        return self.make(programs, skills), (*found.faults, *faults)

    def guard(self, tool: Tool) -> Tool:
        """Return a tool behind the agent's rules."""
        return self._shop.guarded(tool, self._plan, self._site)

    def granted(self, context: ToolContext) -> tuple[str, ...]:
        """Return what skills allow that were read in this turn."""
        return granted_patterns(self._skills, context)

    async def _reload(self) -> str:
        return await self.toolbox.reload()


@asynccontextmanager
async def open_workshop(
    *,
    state: Path,
    environ: Mapping[str, str],
    secrets: SecretRegistry,
    clock: Clock,
    hidden: tuple[Path, ...] = (),
    has_open_api: bool = False,
    watch: CallWatch | None = None,
    supervisor: Supervisor | None = None,
) -> AsyncGenerator[Workshop]:
    """Open what the tools of all agents share; at the end no MCP server runs.

    The caller holds the workspace. What commands left running when its gateway was killed is ended.

    Background processes go on. Connect the service before the first turn, then call
    `processes.resume`.

    Args:
        state: The gateway's workspace.
        environ: The gateway's environment.
        secrets: What no result may show.
        clock: The time.
        hidden: Files with secrets, which no command of a model can read.
        has_open_api: Whether the gateway's HTTP API asks nobody for a token.
        watch: Is told of every call of a tool that runs.
        supervisor: Runs the tasks behind the tools; by default one of its own.

    Raises:
        OSError: The workspace cannot be used.
    """
    supervisor = supervisor or Supervisor(clock)
    link = ServiceLink()
    left = await to_thread.run_sync(end_left, state)
    if left:
        logger.warning("ended what a killed gateway had left running", extra={"processes": left})
    async with (
        open_processes(
            state, clock, link, environ=environ, secrets=secrets, supervisor=supervisor
        ) as processes,
        open_mcp(clock=clock) as servers,
        open_notifier(clock, secrets, supervisor=supervisor) as notifier,
    ):
        yield Workshop(
            state=state,
            environ=environ,
            secrets=secrets,
            clock=clock,
            link=link,
            processes=processes,
            servers=servers,
            notifier=notifier,
            hidden=hidden,
            has_open_api=has_open_api,
            watch=watch,
        )
