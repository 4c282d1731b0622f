"""The JSON Schema of `agent.yaml`, made from the models that check it.

`python -m everturn_gateway.specs agents/agent.schema.json` writes it anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, cast

from everturn_gateway.plugins import Plugin, PolicyPlugin, installed
from everturn_gateway.specs.context import IDLE_NUMBERS
from everturn_gateway.specs.sections.context import DEFAULT_POLICY, ContextSection
from everturn_gateway.specs.sections.document import AgentDocument
from everturn_gateway.specs.sections.model import FallbackSection, ModelSection, SummarizerSection
from everturn_gateway.yaml_files.checking import Section
from everturn_gateway.yaml_files.descriptions import describe_fields

# Any value may come from the environment.
_VARIABLE: dict[str, object] = {"type": "string", "pattern": r"\$\{"}
_NOT_TEXT = {"integer", "number", "boolean"}


def agent_schema() -> dict[str, Any]:
    """Return the schema, for editors and other programs.

    Imports all plug-ins: not for the event loop.
    """
    made = AgentDocument.model_json_schema(by_alias=True)
    definitions = made["$defs"]
    describe_fields(made, AgentDocument)
    for section in _sections(Section):
        if section.__name__ in definitions:
            describe_fields(definitions[section.__name__], section)
    names = ", ".join(installed().providers.names)
    for section in (FallbackSection, ModelSection, SummarizerSection):
        provider = definitions[section.__name__]["properties"]["provider"]
        provider["description"] = f"One of {names}."
    _add_policies(definitions)
    _add_tools(definitions["PluginToolEntry"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Everturn agent",
        **cast("dict[str, Any]", _for_people(made)),
    }


def _add_tools(entry: dict[str, Any]) -> None:
    for plugin in installed().tools.all():
        made = plugin.settings.model_json_schema()
        then = {"properties": {"settings": made}}
        entry.setdefault("allOf", []).append({"if": _names("name", plugin.name), "then": then})


def _add_policies(definitions: dict[str, Any]) -> None:
    """Say which policies there are, and which numbers each of them has."""
    policies = installed().policies
    context = definitions[ContextSection.__name__]
    common = context["properties"]
    common["policy"]["enum"] = list(policies.names)
    del context["additionalProperties"]
    numbers = {plugin.name: _numbers(plugin, definitions) for plugin in policies.all()}
    for name, own in numbers.items():
        _where(context, _names("policy", name), dict.fromkeys(common, True), own)
    # An agent that names none has the default one; Duragent's numbers are passed over then.
    either = {**numbers[IDLE_NUMBERS], **numbers[DEFAULT_POLICY]}
    _where(context, {"not": {"required": ["policy"]}}, dict.fromkeys(common, True), either)


def _numbers(plugin: PolicyPlugin, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of each number of a policy, with the policy's own value."""
    fields: dict[str, Any] = _settings(plugin, definitions)["properties"]
    for name, value in asdict(plugin.policy.numbers).items():
        if name in fields and value is not None:
            fields[name]["default"] = value
    return fields


def _settings(plugin: Plugin, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a plug-in's settings; what it refers to is put beside all others."""
    prefix = f"{plugin.name}."
    template = f"#/$defs/{prefix}{{model}}"
    made = plugin.settings.model_json_schema(by_alias=True, ref_template=template)
    inner = {f"{prefix}{name}": schema for name, schema in made.pop("$defs", {}).items()}
    for section in _sections(Section):
        if (name := f"{prefix}{section.__name__}") in inner:
            describe_fields(inner[name], section)
    definitions |= inner
    describe_fields(made, plugin.settings)
    return made


def _names(field: str, name: str) -> dict[str, Any]:
    return {"properties": {field: {"const": name}}, "required": [field]}


def _where(definition: dict[str, Any], when: dict[str, Any], *fields: dict[str, Any]) -> None:
    """Let a section have these fields and no others, where `when` holds."""
    known = {name: schema for each in fields for name, schema in each.items()}
    then = {"properties": known, "additionalProperties": False}
    definition.setdefault("allOf", []).append({"if": when, "then": then})


def _sections(section: type[Section]) -> Iterator[type[Section]]:
    """Yield all kinds of sections."""
    for each in section.__subclasses__():
        yield each
        yield from _sections(each)


def schema_text() -> str:
    """Return the schema as the text of its file."""
    return json.dumps(agent_schema(), indent=2, ensure_ascii=False) + "\n"


def _for_people(node: object, *, named: bool = False) -> object:
    """Leave out what only repeats, and let variables stand for numbers and words.

    Args:
        node: A part of a schema.
        named: Its keys are names of fields or definitions, not words of JSON Schema.
    """
    if isinstance(node, list):
        return [_for_people(item) for item in cast("list[object]", node)]
    if not isinstance(node, dict):
        return node
    fields = cast("dict[str, object]", node)
    cleaned = {
        key: _for_people(value, named=not named and key in {"properties", "$defs"})
        for key, value in fields.items()
        if named or not (key == "title" or (key == "default" and not _is_worth_saying(value)))
    }
    if named or not (cleaned.get("type") in _NOT_TEXT or "enum" in cleaned):
        return cleaned
    around = {key: cleaned.pop(key) for key in ("description", "default") if key in cleaned}
    return around | {"anyOf": [cleaned, _VARIABLE]}


def _is_worth_saying(default: object) -> bool:
    return default is not None and not isinstance(default, dict | list | tuple)
