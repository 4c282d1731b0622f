"""From `spec.session.context` to the policy of an agent, with the agent's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from everturn_actors.context.policy import AnyPolicy
from everturn_actors.spec import ModelSpec
from everturn_gateway.errors import Fault
from everturn_gateway.plugins import PolicyPlugin, installed
from everturn_gateway.specs.plugin_settings import read_settings
from everturn_gateway.specs.settings.context import DEFAULT_POLICY, ContextSettings
from everturn_gateway.yaml_files import Document, dotted, field_names, nearest

CONTEXT: Final = ("spec", "session", "context")
_POLICY: Final = (*CONTEXT, "policy")
IDLE_NUMBERS: Final = "duragent"
"The policy whose numbers may stand in agents that name none: those are Duragent's, and load."


class ReadContext(Struct, frozen=True, kw_only=True):
    """What was read, and what is wrong with it."""

    policy: AnyPolicy | None = None
    "With the agent's numbers; None where there is a fault."
    numbers: Mapping[str, object] = field(default_factory=dict[str, object])
    "Those that the agent's file sets, by name."
    faults: tuple[Fault, ...] = ()
    inactive: tuple[str, ...] = ()
    "Numbers of Duragent's that stand there and have no effect."


def read_context(document: Document) -> ReadContext:
    """Return the policy of an agent, as its file names it and tunes it.

    What is wrong with the other fields of the section is told by whoever checks the whole file.
    Imports the policy: not for the event loop.
    """
    given = document.section(CONTEXT)
    name = given.get("policy") or DEFAULT_POLICY
    policies = installed().policies
    plugin = policies.get(str(name))
    if plugin is None:
        fault = policies.fault(str(name))
        return ReadContext(faults=(document.fault(_POLICY, str(fault)),) if fault else ())
    common, known = field_names(ContextSettings), field_names(plugin.settings)
    own = {each: value for each, value in given.items() if each in known}
    section, faults = read_settings(document, own, plugin.settings, at=CONTEXT, ask=plugin.faults)
    foreign = [each for each in given if each not in known and each not in common]
    idle = [] if given.get("policy") else _duragents(foreign)
    faults += tuple(
        document.fault((*CONTEXT, each), unknown_number(plugin, each))
        for each in foreign
        if each not in idle
    )
    if section is None:
        return ReadContext(faults=faults)
    numbers = section.numbers()
    try:
        policy = plugin.policy.with_numbers(numbers)
    except KeyError as error:
        message = f"its plug-in failed: the policy {plugin.name} has no number {error}"
        return ReadContext(faults=(*faults, document.fault(_POLICY, message)))
    if policy.compacts and (why := _does_not_compact(document)):
        return ReadContext(faults=(*faults, document.fault(_POLICY, why)))
    return ReadContext(
        policy=policy,
        numbers=numbers,
        faults=faults,
        inactive=tuple(
            f"{dotted((*CONTEXT, each))} (is no number of policy {plugin.name})" for each in idle
        ),
    )


def _does_not_compact(document: Document) -> str:
    """Return why the agent's provider makes no summaries of its own; empty where it does."""
    providers = installed().providers
    given = document.section(("spec", "model"))
    name, address = (str(given.get(each) or "") for each in ("provider", "base_url"))
    plugin = providers.get(name)
    model = ModelSpec(provider=name, name=str(given.get("name") or ""), base_url=address)
    if plugin is None or plugin.compacts(model):  # of one that is not there, its own field tells
        return ""
    others = ", or ".join(
        each.compacts_where or each.name
        for each in providers.all()
        if each.compacts_where or each.compacts(ModelSpec(provider=each.name, name=""))
    )
    return f"goes with a provider that makes summaries itself, which {name} does not: {others}"


def unknown_number(plugin: PolicyPlugin, name: str) -> str:
    """Return what to say of a number that a policy does not have."""
    known = field_names(plugin.settings)
    near = nearest(name, (*known, *field_names(ContextSettings)))
    others = f"; did you mean {near}?" if near else f", which has: {', '.join(known)}"
    return f"is no number of policy {plugin.name}{others}"


def _duragents(names: list[str]) -> list[str]:
    """Return which of the numbers are Duragent's."""
    plugin = installed().policies.get(IDLE_NUMBERS) if names else None
    return [name for name in names if plugin and name in field_names(plugin.settings)]
