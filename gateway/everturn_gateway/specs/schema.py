"""The JSON Schema of `agent.yaml`, made from the models that check it.

`python -m everturn_gateway.specs agents/agent.schema.json` writes it anew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TypeAlias, cast

from everturn_actors.json_values import is_list, is_object
from everturn_gateway.plugins import Plugin, PolicyPlugin, installed
from everturn_gateway.specs.context import IDLE_NUMBERS
from everturn_gateway.specs.settings.context import DEFAULT_POLICY, ContextSettings
from everturn_gateway.specs.settings.document import AgentDocument, SpecSettings
from everturn_gateway.specs.settings.model import (
    FallbackSettings,
    ModelSettings,
    SummarizerSettings,
)
from everturn_gateway.specs.settings.tools import NamedToolSettings
from everturn_gateway.yaml_files.descriptions import described_schema

_Schema: TypeAlias = dict[str, Any]

# Any value may come from the environment.
_VARIABLE: dict[str, object] = {"type": "string", "pattern": r"\$\{"}
_NOT_TEXT = {"integer", "number", "boolean"}


def agent_schema() -> _Schema:
    """Return the schema, for editors and other programs.

    Imports all plug-ins: not for the event loop.
    """
    made = described_schema(AgentDocument)
    definitions = made["$defs"]
    names = ", ".join(installed().providers.names)
    for section in (FallbackSettings, ModelSettings, SummarizerSettings):
        provider = definitions[section.__name__]["properties"]["provider"]
        provider["description"] = f"One of {names}."
    _add_policies(definitions)
    _add_tools(definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Everturn agent",
        **cast("_Schema", _for_people(made)),
    }


def _add_tools(definitions: _Schema) -> None:
    """Say which tools there are, and what each of them reads beside its name."""
    tools = installed().tools
    entry = definitions[NamedToolSettings.__name__]
    del entry["additionalProperties"]
    common = dict.fromkeys(entry["properties"], True)
    own: list[str] = []
    for plugin in tools.all():
        made = _settings(plugin, definitions)
        if plugin.name == "memory":  # spec.memory gives it, too
            definitions[SpecSettings.__name__]["properties"]["memory"] = made
        if plugin.given_by:
            continue
        is_own = tools.is_own(plugin.name)
        own += plugin.names if is_own else ()
        when = {
            "properties": {
                "type": {"const": "builtin" if is_own else "plugin"},
                "name": {"anyOf": [{"const": name} for name in plugin.names]},
            }
        }
        _where(entry, when, common, made["properties"], required=made.get("required", ()))
    builtin = {"properties": {"type": {"const": "builtin"}}}
    then = {"properties": {"name": {"enum": own}}}
    entry["allOf"].append({"if": builtin, "then": then})


def _add_policies(definitions: _Schema) -> None:
    """Say which policies there are, and which numbers each of them has."""
    policies = installed().policies
    context = definitions[ContextSettings.__name__]
    common = context["properties"]
    common["policy"]["enum"] = list(policies.names)
    del context["additionalProperties"]
    numbers = {plugin.name: _numbers(plugin, definitions) for plugin in policies.all()}
    for name, own in numbers.items():
        _where(context, _names("policy", name), dict.fromkeys(common, True), own)
    # An agent that names none has the default one; Duragent's numbers are passed over then.
    either = {**numbers[IDLE_NUMBERS], **numbers[DEFAULT_POLICY]}
    _where(context, {"not": {"required": ["policy"]}}, dict.fromkeys(common, True), either)


def _numbers(plugin: PolicyPlugin, definitions: _Schema) -> _Schema:
    """Return the schema of each number of a policy, with the policy's own value."""
    fields: _Schema = _settings(plugin, definitions)["properties"]
    for name, value in asdict(plugin.policy.numbers).items():
        if name in fields and value is not None:
            fields[name]["default"] = value
    return fields


def _settings(plugin: Plugin, definitions: _Schema) -> _Schema:
    """Return the schema of a plug-in's settings; what it refers to is put beside all others."""
    prefix = f"{plugin.name}."
    made = described_schema(plugin.settings, ref_template=f"#/$defs/{prefix}{{model}}")
    definitions |= {f"{prefix}{name}": schema for name, schema in made.pop("$defs", {}).items()}
    return made


def _names(field: str, name: str) -> _Schema:
    return {"properties": {field: {"const": name}}, "required": [field]}


def _where(
    definition: _Schema,
    when: _Schema,
    *fields: _Schema,
    required: Sequence[str] = (),
) -> None:
    """Let a section have these fields and no others, where `when` holds."""
    known = {name: schema for each in fields for name, schema in each.items()}
    then: _Schema = {"properties": known, "additionalProperties": False}
    if required:
        then["required"] = list(required)
    definition.setdefault("allOf", []).append({"if": when, "then": then})


def schema_text() -> str:
    """Return the schema as the text of its file."""
    return json.dumps(agent_schema(), indent=2, ensure_ascii=False) + "\n"


def _for_people(node: object, *, named: bool = False) -> object:
    """Leave out what only repeats, and let variables stand for numbers and words.

    Args:
        node: A part of a schema.
        named: Its keys are names of fields or definitions, not words of JSON Schema.
    """
    if is_list(node):
        return [_for_people(item) for item in node]
    if not is_object(node):
        return node
    cleaned = {
        key: _for_people(value, named=not named and key in {"properties", "$defs"})
        for key, value in node.items()
        if named or not (key == "title" or (key == "default" and not _is_worth_saying(value)))
    }
    if named or not (cleaned.get("type") in _NOT_TEXT or "enum" in cleaned):
        return cleaned
    around = {key: cleaned.pop(key) for key in ("description", "default") if key in cleaned}
    return around | {"anyOf": [cleaned, _VARIABLE]}


def _is_worth_saying(default: object) -> bool:
    return default is not None and not isinstance(default, dict | list | tuple)
