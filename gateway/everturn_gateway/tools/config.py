"""Which tools an agent is given, as its owner wrote it down. Pure values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from everturn_actors.ports import Tool
from everturn_gateway.late_loading import late
from everturn_gateway.plugins import ToolEntry, ToolPlan, ToolPlugin, installed
from everturn_gateway.tools.cli import CliProgram
from everturn_gateway.tools.mcp import McpServerSettings
from everturn_gateway.tools.policy import AfterTool, Guard, Policy
from everturn_gateway.tools.searching import ToolSearchConfig
from everturn_gateway.tools.shell import Confinement
from everturn_gateway.tools.shell.placing import is_sealed
from everturn_gateway.tools.shell.settings import ConfinedConfig
from everturn_gateway.tools.skills import Skill

if TYPE_CHECKING:
    from everturn_gateway.tools.policy import advice
else:
    advice = late("everturn_gateway.tools.policy.advice")


@dataclass(frozen=True, slots=True, kw_only=True)
class CliConfig:
    """One tool that is a program of the owner's."""

    confinement: Confinement
    program: CliProgram
    environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    "What its owner gives it beside what every command gets."


class ToolUse(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of one plug-in, as an agent is given them."""

    plugin: ToolPlugin
    entries: tuple[ToolEntry, ...] = ()
    "What the agent's file says of it."
    plan: ToolPlan


class Hooks(msgspec.Struct, frozen=True, kw_only=True):
    """Guards that refuse a call, and notes that go with a result."""

    before: tuple[Guard, ...] = ()
    after: tuple[AfterTool, ...] = ()


class ToolConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All of them, and what rules them."""

    uses: tuple[ToolUse, ...] = ()
    "Those of plug-ins, Everturn's own among them."
    cli: tuple[CliConfig, ...] = ()
    found: tuple[CliProgram, ...] = ()
    "Programs in `tools` folders; none of them has the name of a tool of `cli`."
    mcp: tuple[McpServerSettings, ...] = ()
    search: ToolSearchConfig = ToolSearchConfig()
    skills: tuple[Skill, ...] = ()
    skills_folder: Path | None = None
    "Where they were read, and are read again; None = nowhere."
    policy: Policy = msgspec.field(default_factory=Policy)
    hooks: Hooks = msgspec.field(default_factory=Hooks)
    own: tuple[Tool, ...] = ()
    "Tools that are objects of the program that embeds the gateway."


_GROUPS: Final = frozenset(("files", "memory"))  # what their tools are called is another thing


def tool_names(config: ToolConfig) -> tuple[str, ...]:
    """Return what an agent is given, as people call it; of an MCP server only its name is known."""
    return (
        *(name for each in config.uses for name in _names(each)),
        *(each.program.name for each in config.cli),
        *(each.name for each in config.found),
        *(each.definition.name for each in config.own),
        *(f"mcp:{each.name}" for each in config.mcp),
    )


def _names(use: ToolUse) -> tuple[str, ...]:
    if use.plan.names:
        return use.plan.names
    name = use.plugin.name
    return (name if installed().tools.is_own(name) else f"plugin:{name}",)


def hidden_notes(config: ToolConfig) -> tuple[str, ...]:
    """Return which tools others hide that have their names, one line each.

    Those of MCP servers are known once they run; see `Toolbox.faults`.
    """
    named = [
        *(
            (name, "the built-in tool")
            for each in config.uses
            for name in _names(each)
            if name not in _GROUPS
        ),
        *((each.program.name, "the program") for each in config.cli),
        *((each.name, "the program") for each in config.found),
    ]
    holders: dict[str, str] = {}
    notes: list[str] = []
    for name, kind in named:
        if name in holders:
            notes.append(f"{kind} {name} is hidden by {holders[name]} of that name")
        holders.setdefault(name, kind)
    return tuple(notes)


def policy_notes(config: ToolConfig) -> tuple[str, ...]:
    """Return what the agent's owner should know of its patterns for commands; see `notes_on`.

    Nothing where the agent runs no commands: patterns for all agents may speak of those.
    """
    confined = tuple(_confinements(config.uses))
    if not confined:
        return ()
    return tuple(advice.notes_on(config.policy, runs_code=any(map(is_sealed, confined))))


def confinements(config: ToolConfig) -> tuple[Confinement, ...]:
    """Return how far each tool of an agent reaches that runs commands."""
    return (*_confinements(config.uses), *(each.confinement for each in config.cli))


def _confinements(uses: Sequence[ToolUse]) -> Iterator[Confinement]:
    for each in uses:
        if isinstance(each.plan.settings, ConfinedConfig):
            yield each.plan.settings.confinement


def may_read(config: ToolConfig) -> bool:
    """Return whether the agent has a tool that reads files of its workspace."""
    return any(each.plan.reads_workspace for each in config.uses)


def may_write(config: ToolConfig) -> bool:
    """Return whether the agent has a tool that writes files of its workspace."""
    return any(each.plan.writes_workspace for each in config.uses)


def reaches_out(config: ToolConfig) -> bool:
    """Return whether a call can have an effect beyond the agent's own files and conversations."""
    others = (config.mcp, config.cli, config.found)
    return any(others) or any(each.plan.reaches_out for each in config.uses)
