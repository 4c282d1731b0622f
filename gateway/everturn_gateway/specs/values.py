"""From the sections of `agent.yaml` to the values that the core works with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import compress

from msgspec.structs import replace

from everturn_actors.model import ChosenModel
from everturn_actors.spec import (
    AgentSpec,
    ContextPolicy,
    ContextSpec,
    ModelSpec,
    PromptSpec,
    SessionSpec,
)
from everturn_channels.command_registry import (
    COMMANDS,
    DESCRIPTION_CHARACTERS,
    NAME_PATTERN,
    Argument,
    CommandSpec,
    plain_name,
)
from everturn_channels.languages import marked
from everturn_channels.settings import AccessRules, BufferRules, DmRules, GroupRules, QueueRules
from everturn_gateway.config.settings import SessionsConfig
from everturn_gateway.plugins import installed
from everturn_gateway.specs.settings.access import (
    AccessSettings,
    ContextBufferSettings,
    GroupsSettings,
    QueueSettings,
)
from everturn_gateway.specs.settings.document import AgentDocument, SpecSettings
from everturn_gateway.specs.settings.model import FallbackSettings, ModelSettings, OneModelSettings
from everturn_gateway.tools.skills import Skill


def agent_spec(
    values: AgentDocument, prompt: PromptSpec, policy: ContextPolicy, sessions: SessionsConfig
) -> AgentSpec:
    """Return what the core needs to know of an agent.

    Args:
        values: Its `agent.yaml`.
        prompt: Its texts.
        policy: With its numbers.
        sessions: What holds where the agent does not say otherwise.
    """
    return AgentSpec(
        name=values.metadata.name,
        description=values.metadata.description,
        version=values.metadata.version,
        language=values.spec.language or "",
        model=_model_spec(values.spec.model),
        prompt=prompt,
        session=_session_spec(values.spec, policy, sessions),
        spoken_replies=values.spec.voice.reply,
    )


def summarizer(spec: SpecSettings) -> ModelSpec | None:
    """Return who writes the summaries of an agent; None = nobody."""
    context = spec.session.context
    if "summarizer" in context.model_fields_set:
        return None if context.summarizer is None else _model_spec(context.summarizer)
    plugin = installed().providers.get(spec.model.provider)
    writes = plugin is None or plugin.is_model
    return _model_spec(spec.model) if writes else None


def _model_spec(model: OneModelSettings) -> ModelSpec:
    spec = one_model(model)
    if not isinstance(model, ModelSettings):
        return spec
    others = tuple(_fallback(each, spec) for each in model.fallbacks)
    tokenizer, makes_images = model.tokenizer or "", model.makes_images
    return replace(spec, fallbacks=others, tokenizer=tokenizer, makes_images=makes_images)


def _fallback(model: FallbackSettings, own: ModelSpec) -> ModelSpec:
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


def one_model(model: OneModelSettings) -> ModelSpec:
    """Return a model as a file names it."""
    spec = ModelSpec(
        provider=model.provider,
        name=model.name,
        base_url=model.base_url or "",
        temperature=model.temperature,
        context_window=model.context_window,
        max_input_tokens=model.max_input_tokens,
        max_output_tokens=model.max_output_tokens or model.max_tokens,
        reasoning_effort=model.reasoning_effort,
        usual_window=_usual_window(model),
        cache_life_s=_cache_life_s(model),
    )
    return replace(spec, compacts=compacts(spec))


def compacts(model: ModelSpec) -> bool:
    """Return whether the provider can put a summary of its own in the place of a conversation."""
    plugin = installed().providers.get(model.provider)
    return plugin is not None and plugin.compacts(model)


def _cache_life_s(model: OneModelSettings) -> float:
    plugin = installed().providers.get(model.provider)
    return plugin.cache_life_s if plugin is not None else 0


def _usual_window(model: OneModelSettings | FallbackSettings) -> int | None:
    plugin = installed().providers.get(model.provider)
    return plugin.window(model.name) if plugin is not None else None


def _session_spec(
    spec: SpecSettings, policy: ContextPolicy, sessions: SessionsConfig
) -> SessionSpec:
    session, context = spec.session, spec.session.context
    ttl = session.ttl_hours
    return SessionSpec(
        on_disconnect=session.on_disconnect,
        max_tool_iterations=session.max_tool_iterations,
        call_timeout_s=session.llm_timeout_seconds,
        model_retry_for_s=spec.model.retry_for_seconds,
        turn_timeout_s=session.turn_timeout_seconds,
        client_tool_timeout_s=session.client_tool_timeout_seconds,
        client_overrides=session.client_overrides,
        ttl_hours=sessions.ttl_hours if ttl is None else ttl,
        compaction=session.compaction or sessions.compaction,
        steering=session.steering,
        context=ContextSpec(
            policy=policy,
            summary_timeout_s=context.summary_timeout_seconds,
            recall=context.recall,
            auto_recall=context.auto_recall,
        ),
    )


def access_rules(section: AccessSettings) -> AccessRules:
    """Return who may talk to an agent, and how."""
    dm = DmRules(
        policy=section.dm.policy,
        allowlist=section.dm.allowlist,
        queue=_queue(section.dm.queue),
    )
    return AccessRules(dm=dm, groups=_groups(section.groups))


def _groups(section: GroupsSettings) -> GroupRules:
    return GroupRules(
        policy=section.policy,
        allowlist=section.allowlist,
        sender_default=section.sender_default,
        sender_overrides=tuple(section.sender_overrides.items()),
        activation=section.activation,
        context_buffer=_buffer(section.context_buffer),
        queue=_queue(section.queue),
    )


def _buffer(section: ContextBufferSettings) -> BufferRules:
    return BufferRules(
        mode=section.mode,
        max_messages=section.max_messages,
        max_age_s=section.max_age_hours * 3600,
    )


def _queue(section: QueueSettings) -> QueueRules:
    debounce = section.debounce
    return QueueRules(
        mode=section.mode,
        max_pending=section.max_pending,
        overflow=section.overflow,
        reject_message=section.reject_message or "",
        debounce_s=debounce.window_ms / 1000 if debounce.enabled else 0,
    )


def own_commands(spec: SpecSettings, skills: Sequence[Skill]) -> tuple[CommandSpec, ...]:
    """Return the commands that an agent adds: those of its file, and a command for each skill."""
    argument = Argument(name="text", what=marked("what it is about"))
    own = [
        CommandSpec(
            name=each.name,
            what=each.description,
            aliases=each.aliases,
            arguments=(argument,),
            prompt=each.prompt,
        )
        for each in spec.commands
    ]
    taken = {plain_name(name) for each in (*COMMANDS, *own) for name in each.names}
    of_skills = [
        CommandSpec(
            name=each.name,
            what=" ".join(each.description.split())[:DESCRIPTION_CHARACTERS],
            arguments=(argument,),
            prompt=f"Use your skill {each.name}.",
        )
        for each in skills
        if re.fullmatch(NAME_PATTERN, each.name) and plain_name(each.name) not in taken
    ]
    return (*own, *of_skills)


def model_spec(chosen: ChosenModel, own: ModelSpec, known: Sequence[ModelSpec]) -> ModelSpec:
    """Return a model that somebody chose for a conversation, as the agent would name it.

    Its address and its limits are those of an agent that names it; nobody chooses an address, as a
    key would be sent there.

    Args:
        chosen: Which one.
        own: The agent's own, whose temperature, reserve, cap and fallbacks hold.
        known: Those that agents name.
    """
    named = (own, *own.fallbacks, *known)
    is_named = ((each.provider, each.name) == (chosen.provider, chosen.name) for each in named)
    found = next(compress(named, is_named), None)
    address = next((each.base_url for each in named if each.provider == chosen.provider), "")
    section = OneModelSettings(provider=chosen.provider, name=chosen.name)
    is_own = (own.provider, own.name) == (chosen.provider, chosen.name)
    spec = replace(
        own,
        provider=chosen.provider,
        name=chosen.name,
        tokenizer=own.tokenizer if is_own else "",
        makes_images=own.makes_images and is_own,  # another may refuse to be asked for some
        base_url=address if found is None else found.base_url,
        context_window=found.context_window if found is not None else None,
        usual_window=_usual_window(section),
        cache_life_s=_cache_life_s(section),
    )
    return replace(spec, compacts=compacts(spec))
