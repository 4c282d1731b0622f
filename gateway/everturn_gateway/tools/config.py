"""Which tools an agent is given, as its owner wrote it down. Pure values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from everturn_actors.ports import Tool
from everturn_gateway.plugins import PluginToolSection, ToolPlugin
from everturn_gateway.tools.cli import CliProgram
from everturn_gateway.tools.mcp import McpServerSettings
from everturn_gateway.tools.policy import AfterTool, Guard, Policy, notes_on
from everturn_gateway.tools.shell import Confinement
from everturn_gateway.tools.shell.placing import is_sealed
from everturn_gateway.tools.skills import Skill
from everturn_gateway.tools.web import SearchSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class BashConfig:
    """`bash`."""

    confinement: Confinement
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessConfig:
    """`background_process`."""

    confinement: Confinement
    max_processes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WebConfig:
    """`web_fetch` and `web_search`."""

    fetch: bool = False
    search: SearchSettings | None = None
    allow_private: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """`session`."""

    send_to: tuple[str, ...] = ()
    read_from: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleConfig:
    """`schedule`."""

    max_jobs: int
    min_interval_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegateConfig:
    """`delegate`."""

    agents: tuple[str, ...]
    max_depth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CliConfig:
    """One tool that is a program of the owner's."""

    program: CliProgram
    confinement: Confinement
    environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    "What its owner gives it beside what every command gets."


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginToolConfig:
    """The tools of one plug-in."""

    plugin: ToolPlugin
    settings: PluginToolSection = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Guards that refuse a call, and notes that go with a result."""

    before: tuple[Guard, ...] = ()
    after: tuple[AfterTool, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolConfig:
    """All of them, and what rules them. What is None or empty, the agent does not have."""

    recall_page_characters: int = 0
    "`recall_context`: how much it answers at once; 0 = it is not offered."
    files: bool = False
    files_read_only: bool = False
    bash: BashConfig | None = None
    processes: ProcessConfig | None = None
    web: WebConfig | None = None
    session: SessionConfig | None = None
    schedule: ScheduleConfig | None = None
    delegate: DelegateConfig | None = None
    send_file: bool = False
    memory: bool = False
    reload: bool = False
    cli: tuple[CliConfig, ...] = ()
    plugins: tuple[PluginToolConfig, ...] = ()
    "Those that `agent.yaml` names."
    found: tuple[CliProgram, ...] = ()
    "Programs in `tools` folders; none of them has the name of a tool of `cli`."
    mcp: tuple[McpServerSettings, ...] = ()
    skills: tuple[Skill, ...] = ()
    skills_folder: Path | None = None
    "Where they were read, and are read again; None = nowhere."
    policy: Policy = field(default_factory=Policy)
    hooks: Hooks = field(default_factory=Hooks)
    own: tuple[Tool, ...] = ()
    "Tools that are objects of the program that embeds the gateway."


def tool_names(config: ToolConfig) -> tuple[str, ...]:
    """Return what an agent is given, as people call it; of an MCP server only its name is known."""
    named = {
        "recall_context": config.recall_page_characters > 0,
        "memory": config.memory,
        "files": config.files,
        "bash": config.bash is not None,
        "background_process": config.processes is not None,
        "web_fetch": config.web is not None and config.web.fetch,
        "web_search": config.web is not None and config.web.search is not None,
        "session": config.session is not None,
        "schedule": config.schedule is not None,
        "delegate": config.delegate is not None,
        "send_file": config.send_file,
        "reload_tools": config.reload,
    }
    return (
        *(name for name, is_there in named.items() if is_there),
        *(each.program.name for each in config.cli),
        *(f"plugin:{each.plugin.name}" for each in config.plugins),
        *(each.name for each in config.found),
        *(each.definition.name for each in config.own),
        *(f"mcp:{each.name}" for each in config.mcp),
    )


def policy_notes(config: ToolConfig) -> tuple[str, ...]:
    """Return what the agent's owner should know of its patterns for commands; see `notes_on`.

    Nothing where the agent runs no commands: patterns for all agents may speak of those.
    """
    confined = [each.confinement for each in (config.bash, config.processes) if each is not None]
    if not confined:
        return ()
    return tuple(notes_on(config.policy, runs_code=any(map(is_sealed, confined))))


def may_write(config: ToolConfig) -> bool:
    """Return whether the agent has a tool that writes files of its workspace."""
    writes = config.files and not config.files_read_only
    return writes or config.bash is not None or config.processes is not None
