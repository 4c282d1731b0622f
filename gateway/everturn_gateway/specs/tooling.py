"""From the tools, skills, hooks and policy of an agent's folder to its `ToolConfig`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, assert_never

from pydantic import ValidationError

from everturn_gateway.errors import ConfigError, Fault
from everturn_gateway.plugins import installed
from everturn_gateway.specs.confining import read_confinement
from everturn_gateway.specs.sections.document import SpecSection
from everturn_gateway.specs.sections.tools import (
    BashToolSection,
    BeforeToolSection,
    CliToolSection,
    ConfinedSection,
    DelegateToolSection,
    FilesToolSection,
    HooksSection,
    McpToolSection,
    PlainToolSection,
    PluginToolEntry,
    ProcessToolSection,
    ScheduleToolSection,
    SearchProvider,
    SearchSection,
    SessionToolSection,
    ToolSection,
    WebToolSection,
)
from everturn_gateway.tools.cli import CliToolError, declared, discover
from everturn_gateway.tools.config import (
    BashConfig,
    CliConfig,
    DelegateConfig,
    Hooks,
    PluginToolConfig,
    ProcessConfig,
    ScheduleConfig,
    SessionConfig,
    ToolConfig,
    WebConfig,
)
from everturn_gateway.tools.mcp import McpServerSettings
from everturn_gateway.tools.policy import (
    AfterTool,
    DependsOn,
    Guard,
    Policy,
    SkipDuplicate,
    load_policy,
)
from everturn_gateway.tools.shell import Confinement
from everturn_gateway.tools.skills import load_skills
from everturn_gateway.tools.web import SearchSettings, ToolSettingsError
from everturn_gateway.tools.web.addresses import read_allowed
from everturn_gateway.yaml_files import Document

_TOOLS: Final = ("spec", "tools")
_SEARCH_KEYS: Final[tuple[tuple[SearchProvider, str], ...]] = (
    ("brave", "BRAVE_API_KEY"),
    ("tavily", "TAVILY_API_KEY"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What was read, and what is wrong with it."""

    config: ToolConfig = field(default_factory=ToolConfig)
    faults: tuple[Fault, ...] = ()
    "With one of these the agent cannot be used."
    warnings: tuple[Fault, ...] = ()
    "Of tools and skills that are left out; the agent works without them."
    inactive: tuple[str, ...] = ()
    "What is named and has no effect yet."


def read_plan(
    document: Document,
    spec: SpecSection,
    folder: Path,
    *,
    state: Path | None,
    policy: Policy,
    environ: Mapping[str, str],
) -> Planned:
    """Read which tools the agent in `folder` is given.

    Reads files: not for the event loop.

    Args:
        document: Its `agent.yaml`, for the places of faults.
        spec: The values in it.
        folder: The agent's folder.
        state: The gateway's workspace; None = there is none.
        policy: What rules them.
        environ: The environment variables: a key in them chooses who searches the web.
    """
    reader = _Reader(document, folder, state, environ)
    for number, section in enumerate(spec.tools):
        reader.read(section, number)
    skills, skill_faults = load_skills(folder / spec.skills_dir)
    found = discover(folder) if state is None else discover(folder, state)
    named = {each.program.name for each in reader.cli}
    others = tuple(each for each in found.programs if each.name not in named)
    config = replace(
        reader.config,
        memory=spec.memory is not None,
        cli=tuple(reader.cli),
        plugins=tuple(reader.plugins),
        found=others,
        mcp=tuple(reader.mcp),
        skills=skills,
        skills_folder=folder / spec.skills_dir,
        policy=policy,
        hooks=_hooks(spec.hooks),
    )
    return Planned(
        config=config,
        faults=(*reader.faults, *_hook_faults(document, spec.hooks)),
        warnings=(*reader.warnings, *skill_faults, *found.faults),
        inactive=tuple(reader.inactive),
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


@dataclass(slots=True)
class _Reader:
    """Reads `spec.tools`, one entry after the other."""

    document: Document
    folder: Path
    state: Path | None
    environ: Mapping[str, str]
    config: ToolConfig = field(default_factory=ToolConfig)
    "What was read so far."
    cli: list[CliConfig] = field(default_factory=list[CliConfig])
    mcp: list[McpServerSettings] = field(default_factory=list[McpServerSettings])
    plugins: list[PluginToolConfig] = field(default_factory=list[PluginToolConfig])
    faults: list[Fault] = field(default_factory=list[Fault])
    warnings: list[Fault] = field(default_factory=list[Fault])
    inactive: list[str] = field(default_factory=list[str])
    _names: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def read(self, section: ToolSection, number: int) -> None:
        kind = (section.type, section.name)
        if kind in self._names:
            self._complain(number, f"{section.type} {section.name} is there twice")
            return
        self._names.add(kind)
        match section:
            case BashToolSection():
                confinement = self._confinement(section, number)
                bash = BashConfig(confinement=confinement, timeout_s=section.timeout_seconds)
                self.config = replace(self.config, bash=bash)
            case ProcessToolSection():
                confinement = self._confinement(section, number)
                processes = ProcessConfig(
                    confinement=confinement, max_processes=section.max_processes
                )
                self.config = replace(self.config, processes=processes)
            case FilesToolSection(read_only=read_only):
                self.config = replace(self.config, files=True, files_read_only=read_only)
            case WebToolSection():
                self._web(section, number)
            case SessionToolSection(send_to=send_to, read_from=read_from):
                session = SessionConfig(send_to=send_to, read_from=read_from)
                self.config = replace(self.config, session=session)
            case DelegateToolSection(agents=agents, max_depth=max_depth):
                delegate = DelegateConfig(agents=agents, max_depth=max_depth)
                self.config = replace(self.config, delegate=delegate)
            case PlainToolSection(name="reload_tools"):
                self.config = replace(self.config, reload=True)
            case PlainToolSection():
                self.config = replace(self.config, send_file=True)
            case ScheduleToolSection():
                self._schedule(section)
            case CliToolSection():
                self._program(section, number)
            case McpToolSection():
                self._server(section)
            case PluginToolEntry():
                self._plugin(section, number)
            case _:
                assert_never(section)

    def _confinement(self, section: ConfinedSection, number: int) -> Confinement:
        """Return how far a tool reaches; a program of the owner's may run as the gateway does."""
        is_owners = isinstance(section, CliToolSection) and section.run_as is None
        if section.run_as is not None and section.sandbox != "plain":
            self._complain(number, "run_as needs sandbox: plain; in the sandbox nobody else is")
        if section.sandbox == "plain" and section.run_as is None and not is_owners:
            message = (
                "sandbox: plain runs nothing without run_as, another user than the gateway's own:"
                " that one can read its tokens and write this agent's policy"
            )
            self.warnings.append(self.document.fault((*_TOOLS, number, "sandbox"), message))
        confinement, faults = read_confinement(section, folder=self.folder, state=self.state)
        for fault in faults:
            self._complain(number, fault)
        is_unconfined = section.sandbox == "plain" and is_owners
        return replace(confinement, sandbox="none") if is_unconfined else confinement

    def _schedule(self, section: ScheduleToolSection) -> None:
        """Give the tool; of several names for it, each number that is written counts, the last."""
        numbers = {"max_jobs": section.max_jobs, "min_interval_s": section.min_interval_seconds}
        written = {name.replace("_seconds", "_s") for name in section.model_fields_set}
        before = self.config.schedule
        config = (
            ScheduleConfig(**numbers)
            if before is None
            else replace(before, **{name: numbers[name] for name in numbers if name in written})
        )
        self.config = replace(self.config, schedule=config)

    def _web(self, section: WebToolSection, number: int) -> None:
        config = self.config.web or WebConfig()
        search = config.search
        if section.name != "web_fetch":
            search = self._search(section.search) or search
            if search is None:
                needs = "needs search: a provider to ask, or a key of one in the environment"
                self.inactive.append(f"spec.tools: web_search ({needs})")
        web = WebConfig(
            fetch=config.fetch or section.name != "web_search",
            search=search,
            allow_private=(*config.allow_private, *section.allow_private),
        )
        try:
            read_allowed(web.allow_private)
        except ToolSettingsError as error:
            self._complain(number, str(error))
        self.config = replace(self.config, web=web)

    def _search(self, section: SearchSection | None) -> SearchSettings | None:
        """Return who searches: as it is set, or whose key is there."""
        if section is not None:
            return SearchSettings(
                provider=section.provider,
                base_url=section.base_url or "",
                api_key=section.api_key or "",
            )
        for provider, variable in _SEARCH_KEYS:
            if self.environ.get(variable):
                return SearchSettings(provider=provider)
        return None

    def _program(self, section: CliToolSection, number: int) -> None:
        try:
            program = declared(
                self.folder,
                name=section.name,
                command=section.command,
                description=section.description,
                readme=section.readme,
            )
        except CliToolError as error:
            self._complain(number, str(error))
            return
        confinement = self._confinement(section, number)
        config = CliConfig(program=program, confinement=confinement, environ=section.env)
        self.cli.append(config)

    def _server(self, section: McpToolSection) -> None:
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
            )
        )

    def _plugin(self, section: PluginToolEntry, number: int) -> None:
        tools = installed().tools
        plugin = tools.get(section.name)
        if plugin is None:
            known = ", ".join(tools.names) or "none"
            fault = tools.fault(section.name)
            told = str(fault) if fault else f"{section.name!r} is not installed; there are: {known}"
            self._complain(number, told)
            return
        # A boundary: models of others may raise whatever they like.
        try:
            settings = plugin.settings.model_validate(section.settings)
            told_faults = tuple(plugin.faults(settings))
        except ValidationError as error:
            for each in error.errors(include_url=False, include_input=False):
                path = (*_TOOLS, number, "settings", *each["loc"])
                self.faults.append(self.document.fault(path, each["msg"]))
            return
        except Exception as error:  # noqa: BLE001 - see above
            self._complain(number, f"its plug-in failed: {type(error).__name__}: {error}")
            return
        for told in told_faults:
            self._complain(number, told)
        self.plugins.append(PluginToolConfig(plugin=plugin, settings=settings))

    def _complain(self, number: int, message: str) -> None:
        self.faults.append(self.document.fault((*_TOOLS, number), message))


def _hooks(section: HooksSection) -> Hooks:
    return Hooks(
        before=tuple(_guard(each) for each in section.before_tool),
        after=tuple(
            AfterTool(match=each.match, message=each.message, unless=each.unless)
            for each in section.after_tool
        ),
    )


def _guard(section: BeforeToolSection) -> Guard:
    if section.type == "depends_on":
        return DependsOn(
            match=section.match, prior=section.prior or "", match_arg=section.match_arg or ""
        )
    return SkipDuplicate(match=section.match, match_args=section.match_args)


def _hook_faults(document: Document, section: HooksSection) -> Iterator[Fault]:
    for number, each in enumerate(section.before_tool):
        if each.type == "depends_on" and not each.prior:
            place = ("spec", "hooks", "before_tool", number)
            yield document.fault(place, "depends_on needs prior: the call that comes before")
