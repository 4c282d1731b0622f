"""The JSON Schema of `agent.yaml`, made from the models that check it.

`python -m everturn_gateway.specs agents/agent.schema.json` writes it anew.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast

from everturn_actors.context.catalog import POLICIES
from everturn_gateway.plugins import Plugin, installed
from everturn_gateway.specs.settings import (
    AgentDocument,
    FallbackSection,
    ModelSection,
    SummarizerSection,
)
from everturn_gateway.yaml_files.checking import Section

# Any value may come from the environment.
_VARIABLE: dict[str, object] = {"type": "string", "pattern": r"\$\{"}
_NOT_TEXT = {"integer", "number", "boolean"}


def agent_schema() -> dict[str, Any]:
    """Return the schema, for editors and other programs."""
    made = AgentDocument.model_json_schema(by_alias=True)
    _describe(made, AgentDocument)
    for section in _sections(Section):
        if section.__name__ in made["$defs"]:
            _describe(made["$defs"][section.__name__], section)
    names = ", ".join(installed().providers.names)
    for section in (FallbackSection, ModelSection, SummarizerSection):
        provider = made["$defs"][section.__name__]["properties"]["provider"]
        provider["description"] = f"One of {names}."
    _name_plugins(made["$defs"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Everturn agent",
        **cast("dict[str, Any]", _for_people(made)),
    }


def _name_plugins(definitions: dict[str, Any]) -> None:
    """Say which tools and policies of plug-ins there are, and what each of them reads."""
    registry = installed()
    policy = definitions["SessionContextSection"]["properties"]
    policy["policy"]["enum"] = [*POLICIES, *registry.policies.names]
    tool = definitions["PluginToolEntry"]
    for policy_plugin in registry.policies.all():
        _where(definitions["SessionContextSection"], "policy", policy_plugin, "plugin_numbers")
    for tool_plugin in registry.tools.all():
        _where(tool, "name", tool_plugin, "settings")


def _where(definition: dict[str, Any], field: str, plugin: Plugin, settings: str) -> None:
    """Describe `settings` where `field` names the plug-in."""
    made = plugin.settings.model_json_schema()
    definition.setdefault("allOf", []).append(
        {
            "if": {"properties": {field: {"const": plugin.name}}, "required": [field]},
            "then": {"properties": {settings: made}},
        }
    )


def _sections(section: type[Section]) -> Iterator[type[Section]]:
    """Yield all kinds of sections."""
    for each in section.__subclasses__():
        yield each
        yield from _sections(each)


def _describe(schema: dict[str, Any], section: type[Section]) -> None:
    """Give the fields of a section the texts that stand under them in its source.

    The library can do so as well, but only when a class is made, at every start of a gateway.
    """
    described: dict[str, dict[str, Any]] = schema["properties"]
    for kind in section.__mro__:
        if not issubclass(kind, Section) or kind is Section:
            continue
        (made,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        for field, text in pairwise(cast("ast.ClassDef", made).body):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(words))),
                ):
                    key = kind.model_fields[name].alias or name
                    described[key].setdefault("description", inspect.cleandoc(words))
                    described[key] = dict(sorted(described[key].items()))
                case _:
                    pass


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
    return default is not None and not isinstance(default, dict | list)
