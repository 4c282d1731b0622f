"""From the tools, skills, hooks and policy of an agent's folder to its `ToolConfig`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from everturn_actors.context.projection.markers import RECALL_TOOL
from everturn_actors.spec import AgentSpec
from everturn_gateway.errors import ConfigError, Fault
from everturn_gateway.plugins import (
    ToolEntry,
    ToolPlan,
    ToolPlugin,
    ToolRequest,
    installed,
)
from everturn_gateway.specs.plugin_settings import read_settings
from everturn_gateway.specs.settings.document import SpecSettings
from everturn_gateway.specs.settings.hooks import BeforeToolSettings, HooksSettings
from everturn_gateway.specs.settings.tools import CliToolSettings, McpSamplingEntry, McpToolSettings
from everturn_gateway.specs.values import one_model
from everturn_gateway.tools.cli import CliToolError, declared, discover
from everturn_gateway.tools.config import CliConfig, Hooks, ToolConfig, ToolUse
from everturn_gateway.tools.mcp import McpOAuthSettings, McpSamplingSettings, McpServerSettings
from everturn_gateway.tools.places import OpensConversations
from everturn_gateway.tools.policy import (
    AfterTool,
    DependsOn,
    Guard,
    Policy,
    SkipDuplicate,
    load_policy,
)
from everturn_gateway.tools.recall.plugin import plan_recall
from everturn_gateway.tools.recall.selection import is_recall_offered, recall_page
from everturn_gateway.tools.searching import ToolSearchConfig
from everturn_gateway.tools.shell.settings import read_confinement
from everturn_gateway.tools.skills import load_skills
from everturn_gateway.yaml_files import Document, FieldPath, SettingsModel

_TOOLS: Final = ("spec", "tools")
_MEMORY: Final = ("spec", "memory")


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What was read, and what is wrong with it."""

    config: ToolConfig = msgspec.field(default_factory=ToolConfig)
    faults: tuple[Fault, ...] = ()
    "With one of these the agent cannot be used."
    warnings: tuple[Fault, ...] = ()
    "Of tools and skills that are left out; the agent works without them."
    inactive: tuple[str, ...] = ()
    "What is named and has no effect, and why."


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPlace:
    """Where an agent stands, and what it is read with."""

    folder: Path
    "The agent's."
    state: Path | None
    "The gateway's workspace; None = there is none."
    environ: Mapping[str, str] = field(repr=False)


def read_uses(document: Document, place: AgentPlace) -> Planned:
    """Read which tools of plug-ins an agent is given; of all else that it has, nothing.

    Imports the plug-ins, and resolves paths: not for the event loop.
    """
    reader = _Reader(document, place)
    if document.at(_MEMORY) is not None:
        reader.remember()
    for number in range(len(document.items(_TOOLS))):
        at = (*_TOOLS, number)
        entry = document.section(at)
        kind, name = entry.get("type"), entry.get("name")
        # What else stands there is told by whoever checks the whole file, or read by `read_plan`.
        if kind in {"builtin", "plugin"} and isinstance(name, str):
            settings = {each: entry[each] for each in entry if each not in {"type", "name"}}
            plugin = reader.find(name, settings, at, is_own=kind == "builtin")
            if plugin is not None:
                reader.enter(plugin, name, settings, at)
    return reader.planned()


def read_plan(
    document: Document, spec: SpecSettings, planned: Planned, place: AgentPlace, policy: Policy
) -> Planned:
    """Read all that the agent in a folder works with.

    Reads files: not for the event loop.

    Args:
        document: Its `agent.yaml`, for the places of faults.
        spec: The values in it.
        planned: What `read_uses` found.
        place: Where it stands.
        policy: What rules its tools.
    """
    owners = _Owners(document, place)
    for number, section in enumerate(spec.tools):
        owners.read(section, number)
    folder = place.folder
    skills, skill_faults = load_skills(folder / spec.skills_dir)
    found = discover(folder) if place.state is None else discover(folder, place.state)
    named = {each.program.name for each in owners.cli}
    config = replace(
        planned.config,
        cli=tuple(owners.cli),
        found=tuple(each for each in found.programs if each.name not in named),
        mcp=tuple(owners.mcp),
        search=ToolSearchConfig(
            mode=spec.tool_search.mode,
            max_tools=spec.tool_search.max_tools,
            max_window_share=spec.tool_search.max_window_share,
        ),
        skills=skills,
        skills_folder=folder / spec.skills_dir,
        policy=policy,
        hooks=_hooks(spec.hooks),
    )
    return Planned(
        config=config,
        faults=(*planned.faults, *owners.faults, *_hook_faults(document, spec.hooks)),
        warnings=(*planned.warnings, *owners.warnings, *skill_faults, *found.faults),
        inactive=planned.inactive,
    )


def read_policy(
    folder: Path, *, state: Path | None, environ: Mapping[str, str]
) -> tuple[Policy, tuple[Fault, ...]]:
    """Return the policy of the agent in `folder`, and every fault of its files.

    Reads files: not for the event loop.
    """
    try:
        return load_policy(state, folder, environ), ()
    except ConfigError as error:
        return Policy(), error.faults


def recall_uses(spec: AgentSpec, uses: Sequence[ToolUse] = ()) -> tuple[ToolUse, ...]:
    """Return the use of `recall_context`, where an agent is offered it.

    Args:
        spec: Of the agent.
        uses: Its other tools: what `session` may read, a search may find.
    """
    plugin = installed().tools.get(RECALL_TOOL) if is_recall_offered(spec) else None
    if plugin is None:
        return ()
    sections = (use.plan.settings for use in uses)
    read_from = next(
        (each.read_from for each in sections if isinstance(each, OpensConversations)), ()
    )
    plan = plan_recall(recall_page(spec), read_from)
    return (ToolUse(plugin=plugin, plan=plan),)


class _Reader:
    """Reads entries that name plug-ins, one after the other."""

    def __init__(self, document: Document, place: AgentPlace) -> None:
        self._document, self._place = document, place
        self._entries: dict[str, list[ToolEntry]] = {}
        self._first: dict[str, tuple[ToolPlugin, FieldPath]] = {}
        self._named: dict[tuple[bool, str], Mapping[str, object]] = {}
        self._faults: list[Fault] = []
        self._warnings: list[Fault] = []

    def find(
        self, name: str, settings: Mapping[str, object], at: FieldPath, *, is_own: bool
    ) -> ToolPlugin | None:
        """Return the plug-in that an entry names; None where there is nothing to enter.

        A built-in tool that there is not is left out with a warning, as Duragent does: its agents
        name tools that came later, or are gone. A package that is missing is a fault.
        """
        tools = installed().tools
        kind = "builtin" if is_own else "plugin"
        if (first := self._named.get((is_own, name))) is not None:
            if first == settings:
                self._warnings.append(self._fault(at, f"{kind} {name} is there twice"))
            else:
                self._complain(at, f"{kind} {name} is there twice, with other settings")
            return None
        self._named[is_own, name] = settings
        plugin = tools.get(name) if tools.is_own(name) is is_own else None
        if plugin is not None and not plugin.given_by:
            return plugin
        why = _why_not(name, plugin, is_own=is_own)
        if is_own and plugin is None:
            self._warnings.append(self._fault((*at, "name"), f"{why}; it is left out"))
        else:
            self._complain((*at, "name"), why)
        return None

    def remember(self) -> None:
        """Read `spec.memory`, which gives the tools of its own plug-in."""
        plugin = installed().tools.get("memory")
        if plugin is None:
            self._complain(_MEMORY, str(installed().tools.fault("memory")))
        else:
            self.enter(plugin, plugin.name, self._document.section(_MEMORY), _MEMORY)

    def enter(
        self, plugin: ToolPlugin, name: str, data: Mapping[str, object], at: FieldPath
    ) -> None:
        """Read the settings of an entry."""
        settings, faults = read_settings(
            self._document, data, plugin.settings, at=at, ask=plugin.faults
        )
        self._faults += faults
        if settings is not None:
            self._first.setdefault(plugin.name, (plugin, at))
            entry = ToolEntry(name=name, settings=settings)
            self._entries.setdefault(plugin.name, []).append(entry)

    def planned(self) -> Planned:
        """Return what all entries give together."""
        uses: list[ToolUse] = []
        warnings = [*self._warnings]
        inactive: list[str] = []
        for name, (plugin, at) in self._first.items():
            entries = tuple(self._entries[name])
            plan = self._plan(plugin, entries, at)
            if plan is None:
                continue
            uses.append(ToolUse(plugin=plugin, entries=entries, plan=plan))
            self._faults += [self._fault((*at, *path), text) for path, text in plan.faults]
            warnings += [self._fault((*at, *path), text) for path, text in plan.warnings]
            inactive += plan.inactive
        return Planned(
            config=ToolConfig(uses=tuple(uses)),
            faults=tuple(self._faults),
            warnings=tuple(warnings),
            inactive=tuple(inactive),
        )

    def _plan(
        self, plugin: ToolPlugin, entries: tuple[ToolEntry, ...], at: FieldPath
    ) -> ToolPlan | None:
        place = self._place
        request = ToolRequest(
            entries=entries, home=place.folder, state=place.state, environ=place.environ
        )
        # A boundary: the code of others costs the agents that name it.
        try:
            return plugin.plan(request)
        except Exception as error:  # noqa: BLE001 - see above
            self._complain(at, f"its plug-in failed: {type(error).__name__}: {error}")
            return None

    def _complain(self, at: FieldPath, message: str) -> None:
        self._faults.append(self._fault(at, message))

    def _fault(self, at: FieldPath, message: str) -> Fault:
        return self._document.fault(at, message)


def _why_not(name: str, plugin: ToolPlugin | None, *, is_own: bool) -> str:
    """Return why an entry cannot have a name."""
    tools = installed().tools
    if plugin is not None:
        return f"{name} is given by {plugin.given_by}"
    if not is_own and (fault := tools.fault(name)):
        return str(fault)
    there = (each for each in tools.names if tools.is_own(each) is is_own)
    usable = (each for each in there if (found := tools.get(each)) and not found.given_by)
    known = ", ".join(usable) or "none"
    if is_own:
        return f"must be one of {known}, not {name!r}"
    return f"{name!r} is not installed; there are: {known}"


class _Owners:
    """Reads the tools that are the owner's own: programs, and servers."""

    def __init__(self, document: Document, place: AgentPlace) -> None:
        self._document, self._place = document, place
        self._names: set[tuple[str, str]] = set()
        self.cli: list[CliConfig] = []
        self.mcp: list[McpServerSettings] = []
        self.faults: list[Fault] = []
        self.warnings: list[Fault] = []

    def read(self, section: SettingsModel, number: int) -> None:
        """Read an entry; those of plug-ins are passed over."""
        match section:
            case CliToolSettings():
                self._program(section, number)
            case McpToolSettings():
                self._server(section, number)
            case _:
                pass

    def _is_new(self, kind: str, name: str, number: int) -> bool:
        if (kind, name) in self._names:
            fault = self._document.fault((*_TOOLS, number), f"{kind} {name} is there twice")
            self.faults.append(fault)
            return False
        self._names.add((kind, name))
        return True

    def _program(self, section: CliToolSettings, number: int) -> None:
        if not self._is_new("cli", section.name, number):
            return
        at, place = (*_TOOLS, number), self._place
        try:
            program = declared(
                place.folder,
                name=section.name,
                command=section.command,
                description=section.description,
                readme=section.readme,
            )
        except CliToolError as error:
            self.warnings.append(self._document.fault(at, f"{error}; it is left out"))
            return
        read = read_confinement(section, folder=place.folder, state=place.state, is_owners=True)
        self.faults += [self._document.fault((*at, *path), text) for path, text in read.faults]
        self.warnings += [self._document.fault((*at, *path), text) for path, text in read.warnings]
        config = CliConfig(program=program, confinement=read.confinement, environ=section.env)
        self.cli.append(config)

    def _server(self, section: McpToolSettings, number: int) -> None:
        if not self._is_new("mcp", section.name, number):
            return
        self.mcp.append(
            McpServerSettings(
                name=section.name,
                command=section.command or "",
                args=section.args,
                env=section.env,
                url=section.url or "",
                headers=section.headers,
                include=section.include,
                trusted=section.trusted,
                timeout_s=section.timeout_seconds,
                send_images=section.send_images,
                sampling=_sampling(section.sampling),
                oauth=McpOAuthSettings(
                    client_id=section.oauth.client_id or "",
                    client_secret=section.oauth.client_secret or "",
                    client_metadata_url=section.oauth.client_metadata_url or "",
                    redirect_port=section.oauth.redirect_port,
                ),
            )
        )


def _sampling(section: bool | McpSamplingEntry) -> McpSamplingSettings | None:  # noqa: FBT001 - as it is written
    if section is False:
        return None
    if section is True:
        return McpSamplingSettings()
    model = one_model(section.model) if section.model is not None else None
    return McpSamplingSettings(
        max_calls=section.max_calls, max_tokens=section.max_tokens, model=model
    )


def _hooks(section: HooksSettings) -> Hooks:
    return Hooks(
        before=tuple(_guard(each) for each in section.before_tool),
        after=tuple(
            AfterTool(match=each.match, message=each.message, unless=each.unless)
            for each in section.after_tool
        ),
    )


def _guard(section: BeforeToolSettings) -> Guard:
    if section.type == "depends_on":
        return DependsOn(
            match=section.match, prior=section.prior or "", match_arg=section.match_arg or ""
        )
    return SkipDuplicate(match=section.match, match_args=section.match_args)


def _hook_faults(document: Document, section: HooksSettings) -> Iterator[Fault]:
    for number, each in enumerate(section.before_tool):
        if each.type == "depends_on" and not each.prior:
            place = ("spec", "hooks", "before_tool", number)
            yield document.fault(place, "depends_on needs prior: the call that comes before")
