"""Schemas of MCP tools: what a model API takes is passed on, what it refuses is left out."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tables import table

from everturn_gateway.tools.mcp.schemas import SCHEMA_DEPTH, SchemaError, checked_schema


def test_a_schema_comes_through_as_it_is_without_what_says_nothing_to_a_model() -> None:
    """Also one without a type, and one that holds itself."""
    # A property may be called like a keyword, and is not one.
    schema = checked_schema(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": "searchArguments",
            "type": "object",
            "properties": {
                "title": {"title": "Title", "type": "string", "description": "Of the page."},
                "id": {"type": ["integer", "null", "integer"], "default": None, "minimum": 1},
                "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
                "size": {"type": "array", "items": [{"type": "number"}], "additionalItems": False},
            },
            "required": ["title", "title"],
            "additionalProperties": False,
            "x-mcp-header": {"kept": True},
        }
    )

    assert schema == {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "Of the page."},
            "id": {"type": ["integer", "null"], "default": None, "minimum": 1},
            "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            "size": {"type": "array", "prefixItems": [{"type": "number"}], "items": False},
        },
        "required": ["title"],
        "additionalProperties": False,
        "x-mcp-header": {"kept": True},
    }

    # A schema without a type is one of an object. Tools without arguments are often told so.
    assert checked_schema({}) == {"type": "object"}

    # A schema may hold itself. Trees are described so; each turn uses up a part of the value.
    tree = {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/node"}},
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            }
        },
    }

    assert checked_schema(tree) == tree


@table(
    ("schema", "why"),
    [
        (None, "the schema: is not an object"),
        ([], "the schema: is not an object"),
        ({"type": "string"}, "type: must be object"),
        ({"type": ["object", "null"]}, "type: must be object"),
        ({"properties": {"a": 1}}, "properties.a: is no schema"),
        ({"properties": []}, "properties: must be an object of schemas"),
        ({"properties": {"a": {"type": "text"}}}, "properties.a.type: must be one of array,"),
        ({"properties": {"a": {"type": []}}}, "properties.a.type: must be one of"),
        ({"properties": {"a": {"type": 5}}}, "properties.a.type: must be a list of texts"),
        ({"properties": {"a": {"required": True}}}, "properties.a.required: must be a list"),
        ({"properties": {"a": {"enum": "x"}}}, "properties.a.enum: must be a list of values"),
        ({"properties": {"a": {"anyOf": []}}}, "properties.a.anyOf: must be a list of schemas"),
        ({"properties": {"a": {"minimum": "1"}}}, "properties.a.minimum: must be a number"),
        ({"properties": {"a": {"exclusiveMinimum": True}}}, "must be a number"),
        ({"properties": {"a": {"multipleOf": 0}}}, "properties.a.multipleOf: must be more than 0"),
        ({"properties": {"a": {"maxLength": -1}}}, "properties.a.maxLength: must be a count"),
        ({"properties": {"a": {"uniqueItems": 1}}}, "uniqueItems: must be true or false"),
        ({"properties": {"a": {"description": None}}}, "description: must be a text"),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "'#/$defs/b': leads nowhere"),
        ({"properties": {"a": {"$ref": "http://x/y.json"}}}, "leads out of the schema"),
        ({"properties": {"a": {"$ref": "#/required"}}, "required": []}, "leads to what is no"),
        ({"properties": {"a": {"$ref": "#/properties/a"}}}, "#/properties/a: refers to itself"),
        ({"allOf": [{"$ref": "#"}]}, "refers to itself"),
        ({"properties": {"a": {"$dynamicRef": "#x"}}}, "is not taken by model APIs"),
        ({"properties": {"$filter": {}}}, "properties.$filter: is a name that model APIs refuse"),
        ({"properties": {"a": {"default": float("inf")}}}, "holds what JSON cannot say"),
        ({"description": "\ud800"}, "holds what JSON cannot say"),
        ({"description": "x" * 16_400}, "bytes, more than 16384"),
    ],
)
def test_a_schema_that_breaks_requests_is_refused_with_the_place(schema: object, why: str) -> None:
    """The line in the log is for whoever wrote the server."""
    with pytest.raises(SchemaError) as refused:
        checked_schema(schema)

    assert why in str(refused.value)


def test_a_schema_without_end_is_refused() -> None:
    """Following it would take the stack."""
    # A schema nested without end is refused. Following it would take the stack.
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(1000):
        schema = {"type": "object", "properties": {"a": schema}}

    with pytest.raises(SchemaError, match=f"is nested deeper than {SCHEMA_DEPTH} levels"):
        checked_schema(schema)

    # Circles are found through everything that holds for the same value. A circle in two steps,
    # through a list of alternatives, is one all the same.
    schema = {
        "properties": {"a": {"$ref": "#/$defs/one"}},
        "$defs": {
            "one": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/two"}]},
            "two": {"if": {"$ref": "#/$defs/one"}},
        },
    }

    with pytest.raises(SchemaError, match="refers to itself"):
        checked_schema(schema)


def test_what_combines_schemas_at_the_top_is_folded_into_it() -> None:
    """In no more time than it takes to read."""
    # Some model APIs refuse a request for it; the server still judges by the whole.
    schema = checked_schema(
        {
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "required": ["a"],
            "allOf": [{"$ref": "#/$defs/both"}],
            "oneOf": [
                {"properties": {"b": {"type": "integer"}}, "required": ["b"]},
                {"properties": {"a": {"type": "null"}, "c": {"type": "integer"}}},
                False,
            ],
            "not": {"required": ["z"]},
            "$defs": {"both": {"properties": {"d": {"type": "boolean"}}, "required": ["d"]}},
        }
    )

    assert schema == {
        "type": "object",
        "$defs": {"both": {"properties": {"d": {"type": "boolean"}}, "required": ["d"]}},
        "properties": {
            "a": {"type": "string"},
            "d": {"type": "boolean"},
            "b": {"type": "integer"},
            "c": {"type": "integer"},
        },
        "required": ["a", "d"],
    }

    # Folding takes no longer for schemas that multiply. Sixty levels of two references to the next
    # would be followed for ever.
    defs = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(60)
    }
    schema = {
        "allOf": [{"$ref": "#/$defs/d0"}],
        "$defs": {**defs, "d60": {"properties": {"a": {}}}},
    }

    assert checked_schema(schema)["properties"] == {"a": {}}


# --- against the reference implementation ---------------------------------------------------------

_LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-2, 3), st.sampled_from(["a", "object"]))
_KEYWORDS = st.sampled_from(
    [
        *("type", "properties", "required", "items", "enum", "anyOf", "allOf", "not", "$defs"),
        *("minimum", "maxLength", "multipleOf", "uniqueItems", "description", "pattern", "const"),
        *("additionalProperties", "prefixItems", "dependentRequired", "if", "then", "a", "format"),
    ]
)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYWORDS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(_KEYWORDS, _VALUES, max_size=5))
def test_what_passes_is_a_schema_by_the_reference_implementation(raw: dict[str, Any]) -> None:
    """What is checked here by hand must not be weaker than what model APIs check with."""
    before = copy.deepcopy(raw)
    try:
        schema = checked_schema(raw)
    except SchemaError:
        return
    finally:
        assert raw == before

    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert {"anyOf", "allOf", "oneOf", "not", "enum", "$ref"}.isdisjoint(schema)
    assert checked_schema(schema) == schema


_TYPES = st.sampled_from([{"type": name} for name in ("string", "integer", "boolean", "null")])
_SENSIBLE = st.recursive(
    _TYPES,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries(
            {
                "type": st.just("object"),
                "properties": st.dictionaries(st.sampled_from("abc"), inner),
                "required": st.lists(st.sampled_from("abc"), unique=True),
            }
        ),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"enum": st.lists(st.integers(), min_size=1)}),
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from("abcdef"), _SENSIBLE))
def test_a_sensible_schema_is_never_refused(properties: dict[str, Any]) -> None:
    """A tool that is left out for nothing is a tool that the agent does not have."""
    schema = {"type": "object", "properties": properties}

    assert checked_schema(schema) == schema
