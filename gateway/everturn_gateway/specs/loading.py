"""From an agent's folder to the values that the core works with."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from everturn_actors.context.catalog import POLICIES, make_budget
from everturn_actors.context.estimation.budget import check_feasible
from everturn_actors.context.policy import Policy
from everturn_actors.context.prompt import system_prompt
from everturn_actors.errors import ContextDoesNotFitError
from everturn_actors.spec import AgentSpec, ContextSpec, ModelSpec, PromptSpec, SessionSpec
from everturn_channels.settings import AccessRules
from everturn_gateway.config.settings import SessionsConfig
from everturn_gateway.errors import ConfigError, Fault
from everturn_gateway.plugins import PolicyPlugin, installed
from everturn_gateway.scheduler.jobs import Job
from everturn_gateway.scheduler.reading import file_instant
from everturn_gateway.specs.access import access_rules
from everturn_gateway.specs.jobs import ReadJobs, read_jobs
from everturn_gateway.specs.prompts import read_prompt
from everturn_gateway.specs.reach import workspace_faults
from everturn_gateway.specs.settings import (
    AgentDocument,
    FallbackSection,
    ModelSection,
    OneModelSection,
    SessionContextSection,
    SessionSection,
    SpecSection,
)
from everturn_gateway.specs.tooling import Planned, read_plan, read_policy
from everturn_gateway.tools.config import ToolConfig
from everturn_gateway.tools.memory import memory_directive
from everturn_gateway.tools.recall.selection import (
    is_recall_offered,
    recall_page_characters,
    tools_for,
)
from everturn_gateway.tools.skills import skills_index
from everturn_gateway.usage import DailyLimit
from everturn_gateway.yaml_files import Document, check, dotted, field_names, read_document

AGENT_FILE = "agent.yaml"
_CONTEXT = ("spec", "session", "context")
MODEL_FIELD = "spec.model"
SUMMARIZER_FIELD = dotted((*_CONTEXT, "summarizer"))

# Fields whose feature is there. Every other field is checked, kept in the file, and listed as not
# active yet.
ACTIVE = frozenset(
    (
        "apiVersion",
        "kind",
        "metadata",
        "spec.model.provider",
        "spec.model.name",
        "spec.model.base_url",
        "spec.model.temperature",
        "spec.model.max_input_tokens",
        "spec.model.max_output_tokens",
        "spec.model.max_tokens",
        "spec.model.context_window",
        "spec.model.reasoning_effort",
        "spec.model.fallbacks",
        "spec.model.retry_for_seconds",
        "spec.soul",
        "spec.system_prompt",
        "spec.instructions",
        "spec.session.on_disconnect",
        "spec.session.max_tool_iterations",
        "spec.session.llm_timeout_seconds",
        "spec.session.turn_timeout_seconds",
        "spec.session.ttl_hours",
        "spec.session.compaction",
        "spec.session.steering",
        "spec.access",
        "spec.tools",
        "spec.skills_dir",
        "spec.hooks",
        "spec.memory",
        "spec.workspace",
        *(dotted((*_CONTEXT, name)) for name in field_names(SessionContextSection)),
        "spec.usage.daily_cost_usd",
        "spec.usage.daily_tokens",
        "spec.schedules",
        "spec.heartbeat",
    )
)
# Duragent's own. Its agents name no policy, and load whatever numbers ours has.
_DURAGENT_NUMBERS = frozenset(
    (
        "max_history_tokens",
        "max_tool_result_tokens",
        "tool_result_truncation",
        "tool_result_keep_first",
        "tool_result_keep_last",
    )
)


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
    tool_config: ToolConfig = field(default_factory=ToolConfig)
    "Which tools it is given, and what rules them."
    files: Path | None = None
    "Its workspace; None = a folder of its own in the gateway's."
    jobs: tuple[Job, ...] = ()
    "Its scheduled jobs, as they stand in `agent.yaml`, and then its heartbeat."
    warnings: tuple[Fault, ...] = ()
    "What is wrong with tools and skills that are left out, and why there is no heartbeat."
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    inactive: tuple[str, ...] = ()
    "Fields that are set, and files that are there, and that have no effect yet."
    document: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    "The data of `agent.yaml`, variables not expanded."
    text: str = field(default="", repr=False)
    "`agent.yaml` itself, variables not expanded."
    lines: Mapping[str, int] = field(default_factory=dict[str, int], repr=False)
    "Where fields stand, for what is found wrong with them later."

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
        return _load(folder, read, environ, sessions or SessionsConfig(), state, timezone)
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        place = folder if error.filename is None else Path(os.fsdecode(error.filename))
        raise ConfigError(faults=[Fault(file=place, message=message)]) from error


def _load(
    folder: Path,
    document: Document,
    environ: Mapping[str, str],
    sessions: SessionsConfig,
    state: Path | None,
    timezone: str,
) -> AgentFile:
    written_at = _written_at(folder / AGENT_FILE)
    values, faults = check(document, AgentDocument)
    shared = None if state is None else state / "directives"
    prompt, prompt_faults = read_prompt(document, folder, shared=shared)
    faults += prompt_faults
    policy, policy_faults = read_policy(folder, state=state, environ=environ)
    planned, timed = Planned(), ReadJobs()
    if values is not None:
        faults += tuple(_number_faults(document, values.spec.session.context))
        planned = read_plan(
            document, values.spec, folder, state=state, policy=policy, environ=environ
        )
        reach = workspace_faults(document, values.spec, planned.config, folder=folder, state=state)
        timed = read_jobs(
            document,
            values.spec.schedules,
            values.spec.heartbeat,
            folder,
            agent=values.metadata.name,
            timezone=timezone,
            written_at=written_at,
        )
        faults += (*planned.faults, *reach, *timed.faults)
    faults += policy_faults
    if values is None or faults:
        raise ConfigError(faults=faults)
    plugin = installed().providers.get(values.spec.model.provider)
    can_call = plugin is None or plugin.calls_tools
    if can_call:
        prompt = _told_of_tools(prompt, planned.config)
    spec = _agent_spec(values, prompt, sessions)
    page = recall_page_characters(spec) if is_recall_offered(spec) else 0
    config = replace(planned.config if can_call else ToolConfig(), recall_page_characters=page)
    try:
        tools = tuple(tool.definition for tool in tools_for(spec).values())
        check_feasible(make_budget(spec, system_prompt(spec.prompt), tools))
    except ContextDoesNotFitError as error:
        raise ConfigError(faults=[document.fault(("spec", "model"), str(error))]) from None
    lines = {dotted(path): place.line for path, place in document.places.items()}
    return AgentFile(
        spec=spec,
        folder=folder,
        source=document.file,
        summarizer=_summarizer(values.spec),
        limit=DailyLimit(
            cost_usd=values.spec.usage.daily_cost_usd, tokens=values.spec.usage.daily_tokens
        ),
        access=access_rules(values.spec.access),
        tool_config=config,
        files=folder / values.spec.workspace if values.spec.workspace else None,
        jobs=timed.jobs,
        warnings=(*planned.warnings, *timed.warnings),
        labels=dict(values.metadata.labels),
        inactive=(
            *_inactive(document.data),
            *_inactive_numbers(values.spec.session.context),
            *planned.inactive,
            *([] if can_call else _inactive_tools(values.spec)),
        ),
        document=document.as_written(),
        text=document.text,
        lines=lines,
    )


def _written_at(file: Path) -> datetime | None:
    try:
        return file_instant(file.stat().st_mtime_ns)
    except OSError:
        return None  # reading it says what is wrong


def _agent_spec(values: AgentDocument, prompt: PromptSpec, sessions: SessionsConfig) -> AgentSpec:
    return AgentSpec(
        name=values.metadata.name,
        description=values.metadata.description,
        version=values.metadata.version,
        model=_model_spec(values.spec.model),
        prompt=prompt,
        session=_session_spec(values.spec.session, sessions, values.spec.model),
    )


def _summarizer(spec: SpecSection) -> ModelSpec | None:
    context = spec.session.context
    if "summarizer" in context.model_fields_set:
        return None if context.summarizer is None else _model_spec(context.summarizer)
    plugin = installed().providers.get(spec.model.provider)
    writes = plugin is None or plugin.writes_summaries
    return _model_spec(spec.model) if writes else None


def _model_spec(model: OneModelSection) -> ModelSpec:
    spec = _one_model(model)
    if not isinstance(model, ModelSection):
        return spec
    return replace(spec, fallbacks=tuple(_fallback(each, spec) for each in model.fallbacks))


def _fallback(model: FallbackSection, own: ModelSpec) -> ModelSpec:
    """Return a fallback of `own`, which says what it does not say itself."""
    return ModelSpec(
        provider=model.provider,
        name=model.name,
        base_url=model.base_url or "",
        temperature=own.temperature if model.temperature is None else model.temperature,
        context_window=model.context_window,
        max_input_tokens=model.max_input_tokens,
        max_output_tokens=model.max_output_tokens or own.max_output_tokens,
        usual_window=_usual_window(model),
    )


def _one_model(model: OneModelSection) -> ModelSpec:
    return ModelSpec(
        provider=model.provider,
        name=model.name,
        base_url=model.base_url or "",
        temperature=model.temperature,
        context_window=model.context_window,
        max_input_tokens=model.max_input_tokens,
        max_output_tokens=model.max_output_tokens or model.max_tokens,
        reasoning_effort=model.reasoning_effort,
        usual_window=_usual_window(model),
    )


def _usual_window(model: OneModelSection | FallbackSection) -> int | None:
    plugin = installed().providers.get(model.provider)
    return plugin.window(model.name) if plugin is not None else None


def _session_spec(
    session: SessionSection, sessions: SessionsConfig, model: ModelSection
) -> SessionSpec:
    ttl = session.ttl_hours
    return SessionSpec(
        on_disconnect=session.on_disconnect,
        max_tool_iterations=session.max_tool_iterations,
        call_timeout_s=session.llm_timeout_seconds,
        model_retry_for_s=model.retry_for_seconds,
        turn_timeout_s=session.turn_timeout_seconds,
        ttl_hours=sessions.ttl_hours if ttl is None else ttl,
        compaction=session.compaction or sessions.compaction,
        steering=session.steering,
        context=ContextSpec(
            policy=session.context.policy,
            own_policy=_own_policy(session.context),
            numbers=_numbers(session.context),
            summary_timeout_s=session.context.summary_timeout_seconds,
            recall=session.context.recall,
        ),
    )


_IN_ORDER = (("summarize_keep", "summarize_trigger"), ("window_cut_to", "window_trigger"))
"Numbers of which the first has to be below the second, or every turn would be a cut."


def _policy(context: SessionContextSection) -> Policy[Any]:
    plugin = _policy_plugin(context)
    return POLICIES[context.policy] if plugin is None else plugin.policy


def _policy_plugin(context: SessionContextSection) -> PolicyPlugin | None:
    return None if context.policy in POLICIES else installed().policies.get(context.policy)


def _own_policy(context: SessionContextSection) -> object:
    """Return the policy of a plug-in, with the agent's numbers; None for one of the core's own."""
    plugin = _policy_plugin(context)
    if plugin is None:
        return None
    section = plugin.settings.model_validate(context.plugin_numbers)
    return plugin.policy.with_numbers(section.numbers())


def _policy_faults(document: Document, context: SessionContextSection) -> tuple[Fault, ...]:
    """Return why the policy that an agent names cannot be used, or not with its numbers."""
    policies, name = installed().policies, context.policy
    if name in POLICIES:
        given = (*_CONTEXT, "plugin_numbers")
        message = f"policy {name} comes with Everturn: its numbers stand beside its name"
        return (document.fault(given, message),) if context.plugin_numbers else ()
    plugin = policies.get(name)
    if plugin is None:
        return (document.fault((*_CONTEXT, "policy"), str(policies.fault(name))),)
    at = (*_CONTEXT, "plugin_numbers")
    # A boundary: models of others may raise whatever they like.
    try:
        _own_policy(context)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        return tuple(document.fault((*at, *each["loc"]), each["msg"]) for each in found)
    except Exception as error:  # noqa: BLE001 - see above
        told = f"its plug-in failed: {type(error).__name__}: {error}"
        return (document.fault(at, told),)
    return ()


def _numbers(context: SessionContextSection) -> dict[str, Any]:
    foreign = _foreign_numbers(context)
    return {name: value for name, value in context.numbers().items() if name not in foreign}


def _foreign_numbers(context: SessionContextSection) -> tuple[str, ...]:
    """Return the numbers that are set and that the policy does not have."""
    known = _policy(context).number_names()
    return tuple(name for name in context.numbers() if name not in known)


def _number_faults(document: Document, context: SessionContextSection) -> Iterator[Fault]:
    """Yield a fault for each number that would have no effect.

    Those of Duragent's, in an agent that names no policy as Duragent's do, are only said to have
    none.
    """
    faults = _policy_faults(document, context)
    if faults:
        yield from faults
        return
    is_chosen = "policy" in context.model_fields_set
    for name in _foreign_numbers(context):
        if is_chosen or name not in _DURAGENT_NUMBERS:
            known = ", ".join(_policy(context).number_names())
            message = f"is no number of policy {context.policy}, which has: {known}"
            yield document.fault((*_CONTEXT, name), message)
    numbers, given = _policy(context).numbers, context.numbers()
    for less, more in _IN_ORDER:
        low, high = (given.get(name, getattr(numbers, name, None)) for name in (less, more))
        if low is not None and high is not None and low >= high:
            name = less if less in given else more
            message = f"{less} ({low:g}) has to be below {more} ({high:g})"
            yield document.fault((*_CONTEXT, name), message)


def _told_of_tools(prompt: PromptSpec, config: ToolConfig) -> PromptSpec:
    """Return the prompt with what has to be known of memory and skills."""
    directives = prompt.directives
    if config.memory:
        directives = (*directives, memory_directive())
    return replace(prompt, directives=directives, skills=skills_index(config.skills))


def _inactive_tools(spec: SpecSection) -> Iterator[str]:
    if spec.tools or spec.memory:
        yield f"spec.tools, spec.memory (models of provider {spec.model.provider} call no tools)"


def _inactive(data: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for name, value in data.items():
        path = f"{above}{name}"
        if value is None or path in ACTIVE:
            continue
        if isinstance(value, dict) and any(active.startswith(f"{path}.") for active in ACTIVE):
            yield from _inactive(cast("dict[str, Any]", value), f"{path}.")
        else:
            yield path


def _inactive_numbers(context: SessionContextSection) -> Iterator[str]:
    for name in _foreign_numbers(context):
        yield f"{dotted((*_CONTEXT, name))} (is no number of policy {context.policy})"
