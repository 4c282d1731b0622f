"""The schema of a tool's arguments, as an MCP server tells it: checked, and made to pass. Pure.

A model API refuses a whole request for one schema that it cannot read, so that one tool would
silence the agent. What stands here is checked for what breaks them: shapes that are no JSON Schema,
references that lead nowhere or in a circle, and sizes that no context can hold. Whether arguments
fit a schema is for the server to say.

Source: https://json-schema.org/draft/2020-12, which Anthropic's API checks schemas against; its
    words for what else it refuses are "input_schema does not support oneOf, allOf, or anyOf at the
    top level" and "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'" (2026-11).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from everturn_actors.json_values import Json, as_object, is_list, is_object

SCHEMA_BYTES: Final = 16 * 1024  # 4,000 tokens in every request; the large ones in use have 3 KiB
SCHEMA_DEPTH: Final = 32

_TYPES: Final = frozenset(("array", "boolean", "integer", "null", "number", "object", "string"))
_PROPERTY: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_SCHEMA: Final = frozenset(
    (
        "additionalProperties",
        "contains",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    )
)
_LIST: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_MAP: Final = frozenset(
    ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
)
_IN_PLACE: Final = frozenset(
    ("allOf", "anyOf", "dependentSchemas", "else", "if", "not", "oneOf", "then")
)
"Keywords whose schemas hold for the same value; a circle through them never ends."
_NUMBER: Final = frozenset(
    ("exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf")
)
_COUNT: Final = frozenset(
    (
        *("maxContains", "maxItems", "maxLength", "maxProperties"),
        *("minContains", "minItems", "minLength", "minProperties"),
    )
)
_FLAG: Final = frozenset(("deprecated", "readOnly", "uniqueItems", "writeOnly"))
_TEXT: Final = frozenset(
    ("$ref", "contentEncoding", "contentMediaType", "description", "format", "pattern")
)
_REFUSED: Final = frozenset(("$dynamicRef", "$recursiveRef", "dependencies"))
_NOISE: Final = frozenset(
    (
        *("$anchor", "$comment", "$dynamicAnchor", "$id", "$recursiveAnchor", "$schema"),
        *("$vocabulary", "id", "title"),
    )
)
"What says nothing to a model; generators write it everywhere."
_AT_THE_TOP: Final = frozenset(("$ref", "allOf", "anyOf", "enum", "not", "oneOf"))
"Keywords that some model APIs take inside a schema alone."


class SchemaError(ValueError):
    """The schema cannot be given to a model; the text says where, and why."""

    def __init__(self, *, at: str = "", what: str) -> None:
        super().__init__(f"{at or 'the schema'}: {what}")


def checked_schema(raw: object) -> dict[str, object]:
    """Return the schema of a tool's arguments as it may be given to a model.

    What says nothing to a model is left out, and what combines schemas at the top is folded into
    it; the server still holds the whole.

    Raises:
        SchemaError: It is no schema of an object, or one that a model API would refuse.
    """
    if not is_object(raw):
        raise SchemaError(what="is not an object")
    # Model APIs give arguments by name.
    if raw.get("type", "object") != "object":
        raise SchemaError(at="type", what="must be object: arguments have names")
    schema = _members({"type": "object", **raw}, "", 0)
    # Before anything follows them: a circle would never end.
    _References(schema).check()
    schema = _folded(schema)
    for name in as_object(schema.get("properties")):
        if not _PROPERTY.fullmatch(name):
            raise SchemaError(
                at=f"properties.{name[:100]}", what="is a name that model APIs refuse"
            )
    try:
        size = len(json.dumps(schema, ensure_ascii=False, allow_nan=False).encode())
    except (ValueError, RecursionError) as error:
        raise SchemaError(what="holds what JSON cannot say") from error
    # It stands in every request, and a stranger wrote it.
    if size > SCHEMA_BYTES:
        raise SchemaError(what=f"has {size} bytes, more than {SCHEMA_BYTES}")
    return schema


def _schema(value: object, place: str, depth: int) -> Json | bool:
    if isinstance(value, bool):
        return value
    if not is_object(value):
        raise SchemaError(at=place, what="is no schema: neither an object nor true or false")
    # Some APIs refuse so deep a schema, and with it the whole request.
    if depth > SCHEMA_DEPTH:
        raise SchemaError(at=place, what=f"is nested deeper than {SCHEMA_DEPTH} levels")
    return _members(value, place, depth)


def _members(schema: Json, place: str, depth: int) -> Json:
    if isinstance(schema.get("items"), list):
        # A list of schemas for the first items is called so since 2020.
        rest = {k: v for k, v in schema.items() if k not in {"items", "additionalItems"}}
        more = {"items": schema["additionalItems"]} if "additionalItems" in schema else {}
        schema = {**rest, "prefixItems": schema["items"], **more}
    return {
        name: _keyword(name, item, f"{place}.{name}" if place else name, depth)
        for name, item in schema.items()
        if name not in _NOISE
    }


def _keyword(name: str, value: object, place: str, depth: int) -> object:
    if name in _MAP:
        if not is_object(value):
            raise SchemaError(at=place, what="must be an object of schemas")
        items = value.items()
        return {key: _schema(item, f"{place}.{key[:100]}", depth + 1) for key, item in items}
    if name in _LIST:
        if not is_list(value) or not value:
            raise SchemaError(at=place, what="must be a list of schemas")
        each = enumerate(value)
        return [_schema(item, f"{place}[{number}]", depth + 1) for number, item in each]
    if name in _SCHEMA:
        return _schema(value, place, depth + 1)
    return _value(name, value, place)


def _value(name: str, value: object, place: str) -> object:
    """Return the value of a keyword that holds no schemas."""
    match name:
        case "required":
            return _texts(value, place)
        case "dependentRequired":
            if not is_object(value):
                raise SchemaError(at=place, what="must be an object of lists")
            items = value.items()
            return {key: _texts(item, f"{place}.{key[:100]}") for key, item in items}
        case "type":
            return _types(value, place)
        case _:
            if wrong := _wrong(name, value):
                raise SchemaError(at=place, what=wrong)
            return value


def _wrong(name: str, value: object) -> str:
    """Return what is wrong with a value; empty where nothing is."""
    # Better this tool is left out, with the reason, than each request refused.
    if name in _REFUSED:
        return "is not taken by model APIs"
    if name in _TEXT:
        return "" if isinstance(value, str) else "must be a text"
    if name in _FLAG:
        return "" if isinstance(value, bool) else "must be true or false"
    # In JSON true is no number; in Python it is one.
    if name in _COUNT:
        is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        return "" if is_count else "must be a count"
    if name in _NUMBER:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return "must be a number"
        return "must be more than 0" if name == "multipleOf" and value <= 0 else ""
    if name in {"enum", "examples"}:
        return "" if isinstance(value, list) else "must be a list of values"
    return ""


def _types(value: object, place: str) -> object:
    types = [value] if isinstance(value, str) else _texts(value, place)
    if not types or not _TYPES.issuperset(types):
        raise SchemaError(at=place, what=f"must be one of {', '.join(sorted(_TYPES))}")
    return types[0] if len(types) == 1 else types


def _texts(value: object, place: str) -> list[str]:
    items: list[object] = value if is_list(value) else [None]
    texts = [item for item in items if isinstance(item, str)]
    if len(texts) != len(items):
        raise SchemaError(at=place, what="must be a list of texts")
    # Generators repeat names, and some APIs refuse that.
    return list(dict.fromkeys(texts))


# --- references ----------------------------------------------------------------------------------


class _References:
    """The references of one schema.

    A schema may hold itself, as that of a tree of nodes does: each turn uses up a part of the
    value. A circle that holds for the same value uses up nothing, and whoever follows it never
    returns.
    """

    def __init__(self, root: dict[str, object]) -> None:
        self._root = root
        self._all = {id(schema): schema for schema in _schemas(root)}

    def check(self) -> None:
        """Refuse references that leave the schema, or lead nowhere or in a circle."""
        done: set[int] = set()
        for start in self._all.values():
            around: set[int] = set()
            todo = [(start, True)]
            while todo:
                schema, entering = todo.pop()
                # Left again: it may be met on another way without being a circle.
                if not entering:
                    around.discard(id(schema))
                    done.add(id(schema))
                elif id(schema) in around:
                    raise SchemaError(
                        at=str(schema.get("$ref", "$ref"))[:200], what="refers to itself"
                    )
                elif id(schema) not in done:
                    around.add(id(schema))
                    todo.append((schema, False))
                    todo += [(each, True) for each in self._for_the_same_value(schema)]

    def _for_the_same_value(self, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if "$ref" in schema and (target := self.target(schema["$ref"])) is not None:
            yield target
        for name in _IN_PLACE & schema.keys():
            yield from _inside(name, schema[name])

    def target(self, reference: str) -> dict[str, object] | None:
        """Return the schema that a reference names; None where that is true or false."""
        place = f"$ref {reference[:200]!r}"
        # Nothing is fetched to read a schema: its address is chosen by a stranger.
        if reference != "#" and not reference.startswith("#/"):
            raise SchemaError(at=place, what="leads out of the schema")
        found: object = self._root
        for step in reference.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if is_object(found) and name in found:
                found = found[name]
            elif is_list(found) and name.isdecimal():
                found = found[int(name)] if int(name) < len(found) else None
            else:
                raise SchemaError(at=place, what="leads nowhere")
        if isinstance(found, bool):
            return None
        # It names a text or a list: model APIs would fail on it in their own words.
        if id(found) not in self._all:
            raise SchemaError(at=place, what="leads to what is no schema")
        return self._all[id(found)]


def _schemas(schema: dict[str, object]) -> Iterator[dict[str, object]]:
    """Return a schema and all that stand in it."""
    yield schema
    for name, value in schema.items():
        for each in _inside(name, value):
            yield from _schemas(each)


def _inside(name: str, value: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - of any keyword
    """Return the schemas that stand under a keyword; true and false hold nothing."""
    if name in _MAP:
        found = list(value.values())
    elif name in _LIST:
        found = value
    else:
        found = [value] if name in _SCHEMA else []
    return [each for each in found if isinstance(each, dict)]


# --- what combines schemas at the top ------------------------------------------------------------


def _folded(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of an object that combines no others at the top.

    Their properties become its own; those are required that are so in all cases.
    """
    if not _AT_THE_TOP & schema.keys():
        return schema
    properties: dict[str, object] = {}
    required: dict[str, None] = {}
    references, seen = _References(schema), set[tuple[int, bool]]()
    todo = [(schema, True)]
    while todo:
        part, holds = todo.pop(0)
        if (id(part), holds) in seen:
            continue
        seen.add((id(part), holds))
        for name, item in part.get("properties", {}).items():
            properties.setdefault(name, item)
        required |= dict.fromkeys(part.get("required", []) if holds else [])
        if "$ref" in part and (target := references.target(part["$ref"])) is not None:
            todo.append((target, holds))
        for name in ("allOf", "anyOf", "oneOf"):
            todo += [
                (each, holds and name == "allOf") for each in _inside(name, part.get(name, []))
            ]
    kept = {k: v for k, v in schema.items() if k not in {*_AT_THE_TOP, "properties", "required"}}
    folded = {**kept, "properties": properties}
    return {**folded, "required": list(required)} if required else folded
