"""From an agent's folder to the values that the core works with."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.context.catalog import unsure_room
from everturn_actors.context.estimation.calibration import ModelStatistics
from everturn_actors.context.prompt import system_prompt
from everturn_actors.errors import ContextDoesNotFitError
from everturn_actors.json_values import Json
from everturn_actors.model import ToolDefinition
from everturn_actors.spec import AgentSpec, ContextPolicy, ModelSpec, PromptSpec
from everturn_channels.command_registry import CommandSpec
from everturn_channels.settings import AccessRules
from everturn_gateway.config.settings import SessionsConfig
from everturn_gateway.errors import ConfigError, Fault
from everturn_gateway.plugins import installed
from everturn_gateway.scheduler.definitions.reading import file_time
from everturn_gateway.scheduler.jobs import Job
from everturn_gateway.specs.context import CONTEXT, ReadContext, read_context
from everturn_gateway.specs.jobs import ReadJobs, read_jobs
from everturn_gateway.specs.prompts import read_prompt
from everturn_gateway.specs.reach import workspace_faults
from everturn_gateway.specs.settings.document import AgentDocument, SpecSettings
from everturn_gateway.specs.tooling import (
    AgentPlace,
    Planned,
    read_plan,
    read_policy,
    read_uses,
    recall_uses,
)
from everturn_gateway.specs.values import access_rules, agent_spec, own_commands, summarizer
from everturn_gateway.tools.config import ToolConfig
from everturn_gateway.tools.recall.selection import tools_for
from everturn_gateway.tools.skills import skills_index
from everturn_gateway.usage import DailyLimit
from everturn_gateway.yaml_files import Document, check, dotted, read_document

AGENT_FILE = "agent.yaml"
MODEL_FIELD = "spec.model"
SUMMARIZER_FIELD = dotted((*CONTEXT, "summarizer"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFile:
    """One agent as it stands in its folder."""

    spec: AgentSpec
    folder: Path
    source: Path | None = None
    "What faults say where they were found; None = its `agent.yaml`."
    summarizer: ModelSpec | None = None
    "Who writes the summaries; None = nobody."
    limit: DailyLimit = field(default_factory=DailyLimit)
    "What it may use in a day."
    access: AccessRules = field(default_factory=AccessRules)
    "Who may talk to it on a chat platform."
    policy_numbers: Mapping[str, object] = field(default_factory=dict[str, object])
    "Numbers of the context policy that its file sets, by name."
    tool_config: ToolConfig = field(default_factory=ToolConfig)
    "Which tools it is given, and what rules them."
    files: Path | None = None
    "Its workspace; None = a folder of its own in the gateway's."
    commands: tuple[CommandSpec, ...] = ()
    "Those that it adds, and its skills."
    placement: Literal["anywhere", "home"] | None = None
    "Whether any of several gateways works for it; None = as its tools need it."
    jobs: tuple[Job, ...] = ()
    "Its scheduled jobs, as they stand in `agent.yaml`, and then its heartbeat."
    warnings: tuple[Fault, ...] = ()
    "What is wrong with tools and skills that are left out, and why there is no heartbeat."
    unsure: Fault | None = None
    "One of them: that prompt and tools may leave no room, by what a model's name tells."
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    inactive: tuple[str, ...] = ()
    "What is set and has no effect, and why."
    document: Mapping[str, Any] = field(default_factory=Json, repr=False)
    "The data of `agent.yaml`, variables not expanded."
    text: str = field(default="", repr=False)
    "`agent.yaml` itself, variables not expanded."
    lines: Mapping[str, int] = field(default_factory=dict[str, int], repr=False)
    "Where fields stand, for what is found wrong with them later."

    def warnings_by(self, statistics: ModelStatistics | None) -> tuple[Fault, ...]:
        """Return what is wrong, by what was learnt of the model; None = nothing was."""
        if self.unsure is None or statistics is None:
            return self.warnings
        others = tuple(each for each in self.warnings if each is not self.unsure)
        system, tools = system_prompt(self.spec.prompt), _definitions(self.spec)
        text = unsure_room(self.spec, system, tools, statistics)
        return (*others, self.fault("spec.model", text)) if text else others

    def fault(self, field: str, message: str) -> Fault:
        """Return a fault that points to a field of `agent.yaml`, by its dotted name."""
        file = self.source or self.folder / AGENT_FILE
        return Fault(file=file, line=self.lines.get(field, 0), field=field, message=message)


def load_agent(
    folder: Path,
    *,
    environ: Mapping[str, str],
    sessions: SessionsConfig | None = None,
    state: Path | None = None,
    timezone: str = "",
    document: Document | None = None,
) -> AgentFile:
    """Read the agent in `folder`.

    Reads files: not for the event loop.

    Args:
        folder: Holds `agent.yaml` and the files it names.
        environ: The environment variables, for `${NAME}` in the file.
        sessions: What holds where the agent does not say otherwise; None = the defaults.
        state: The gateway's workspace, with policy, tools and directives of all agents; None =
            there is none.
        timezone: Of the workspace, for scheduled jobs that name none; empty = there is none.
        document: What stands in the place of `agent.yaml`; None = the file is read.

    Raises:
        ConfigError: With every fault of the folder.
    """
    try:
        os.fspath(folder).encode()  # it stands in prompts, and in the answers of this program
    except UnicodeEncodeError:
        message = "its name is not UTF-8; rename it"
        raise ConfigError(faults=[Fault(file=folder, message=message)]) from None
    try:
        read = document or read_document(folder / AGENT_FILE, environ)
        given = _Given(
            folder=folder,
            document=read,
            environ=environ,
            sessions=sessions or SessionsConfig(),
            state=state,
            timezone=timezone,
        )
        return _agent_file(given, _read(given))
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        place = folder if error.filename is None else Path(os.fsdecode(error.filename))
        raise ConfigError(faults=[Fault(file=place, message=message)]) from error


class _Given(Struct, frozen=True, kw_only=True):
    """What an agent is read from; see `load_agent`."""

    folder: Path
    document: Document
    environ: Mapping[str, str]
    sessions: SessionsConfig
    state: Path | None
    timezone: str


class _Parts(Struct, frozen=True, kw_only=True):
    """What was read, without a fault."""

    values: AgentDocument
    prompt: PromptSpec
    policy: ContextPolicy
    context: ReadContext
    planned: Planned
    timed: ReadJobs


def _read(given: _Given) -> _Parts:
    """Read all parts of an agent.

    Raises:
        ConfigError: With every fault of them.
    """
    document, folder, state = given.document, given.folder, given.state
    # Before it is read: a change meanwhile counts as a later one.
    written_at = _written_at(folder / AGENT_FILE)
    values, faults = check(document, AgentDocument)
    shared = None if state is None else state / "directives"
    prompt, prompt_faults = read_prompt(document, folder, shared=shared)
    policy, policy_faults = read_policy(folder, state=state, environ=given.environ)
    place = AgentPlace(folder=folder, state=state, environ=given.environ)
    context, uses = read_context(document), read_uses(document, place)
    faults += (*context.faults, *prompt_faults, *policy_faults)
    if values is None:
        faults += uses.faults  # the plan that tells of them cannot be made
        raise ConfigError(faults=_in_order(faults, document))
    spec = values.spec
    planned = read_plan(document, spec, uses, place, policy)
    timed = read_jobs(
        document,
        spec,
        folder,
        agent=values.metadata.name,
        timezone=given.timezone,
        written_at=written_at,
    )
    reach = workspace_faults(document, spec, planned.config, folder=folder, state=state)
    faults += (*planned.faults, *reach, *timed.faults)
    if faults or context.policy is None:
        raise ConfigError(faults=_in_order(faults, document))
    return _Parts(
        values=values,
        prompt=prompt,
        policy=context.policy,
        context=context,
        planned=planned,
        timed=timed,
    )


def _agent_file(given: _Given, parts: _Parts) -> AgentFile:
    """Return the agent.

    Raises:
        ConfigError: Its prompt and its tools leave no room in its model's window.
    """
    document, values, planned = given.document, parts.values, parts.planned
    plugin = installed().providers.get(values.spec.model.provider)
    # Of a provider that is not there nothing is known.
    can_call = plugin is None or plugin.calls_tools
    prompt = _told_of_tools(parts.prompt, planned.config) if can_call else parts.prompt
    spec = agent_spec(values, prompt, parts.policy, given.sessions)
    config = planned.config if can_call else ToolConfig()
    config = replace(config, uses=(*recall_uses(spec, config.uses), *config.uses))
    try:
        # Counted as they will be sent.
        why = unsure_room(spec, system_prompt(spec.prompt), _definitions(spec))
    except ContextDoesNotFitError as error:
        # Each turn would fail of it.
        raise ConfigError(faults=[document.fault(("spec", "model"), str(error))]) from None
    unsure = document.fault(("spec", "model"), why) if why else None
    usage = values.spec.usage
    return AgentFile(
        spec=spec,
        folder=given.folder,
        source=document.file,
        summarizer=summarizer(values.spec),
        limit=DailyLimit(cost_usd=usage.daily_cost_usd, tokens=usage.daily_tokens),
        access=access_rules(values.spec.access),
        tool_config=config,
        policy_numbers=parts.context.numbers,
        files=given.folder / values.spec.workspace if values.spec.workspace else None,
        commands=own_commands(values.spec, config.skills),
        placement=values.spec.placement,
        jobs=parts.timed.jobs,
        warnings=(
            *planned.warnings,
            *parts.timed.warnings,
            *((unsure,) if unsure is not None else ()),
        ),
        unsure=unsure,
        labels=dict(values.metadata.labels),
        inactive=(
            *parts.context.inactive,
            *planned.inactive,
            *([] if can_call else _inactive_tools(values.spec)),
        ),
        document=document.as_written(),
        text=document.text,
        lines={dotted(path): place.line for path, place in document.places.items()},
    )


def _definitions(spec: AgentSpec) -> tuple[ToolDefinition, ...]:
    return tuple(tool.definition for tool in tools_for(spec).values())


def _in_order(faults: Sequence[Fault], document: Document) -> list[Fault]:
    """Return faults as they stand in `agent.yaml`, and then those of other files."""
    own = document.file
    return sorted(faults, key=lambda each: (each.file != own, each.line if each.file == own else 0))


def _written_at(file: Path) -> datetime | None:
    try:
        return file_time(file.stat().st_mtime_ns)
    except OSError:
        return None  # reading it says what is wrong


def _told_of_tools(prompt: PromptSpec, config: ToolConfig) -> PromptSpec:
    """Return the prompt with what has to be known of tools and skills."""
    told = (use.plugin.directive() for use in config.uses)
    directives = (*prompt.directives, *(text for text in told if text))
    return replace(prompt, directives=directives, skills=skills_index(config.skills))


def _inactive_tools(spec: SpecSettings) -> Iterator[str]:
    if spec.tools or spec.memory is not None:
        yield f"spec.tools, spec.memory (models of provider {spec.model.provider} call no tools)"
