"""The arguments of a tool, as values: their schema for the model, clear errors back to it."""

from __future__ import annotations

import json
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from everturn_actors.errors import ToolFailedError
from everturn_actors.model import ToolCall


class Arguments(BaseModel):
    """What a call may say; the docstring of a field is its description for the model."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
        defer_build=True,  # a gateway whose agents have none of the tools need not pay for them
    )


ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)


def parameters(model: type[Arguments]) -> dict[str, Any]:
    """Return the JSON Schema of the arguments, without what no model needs."""
    schema = cast("dict[str, Any]", _short(model.model_json_schema()))
    schema.pop("description", None)
    return schema


def read_arguments(call: ToolCall, model: type[ArgumentsT]) -> ArgumentsT:
    """Return the arguments of a call.

    Raises:
        ToolFailedError: They do not fit; the text names each field that is wrong.
    """
    try:
        return model.model_validate(json.loads(call.arguments or "{}"))
    except (ValueError, RecursionError) as error:
        if not isinstance(error, ValidationError):
            msg = f"the arguments are not JSON: {error}"
            raise ToolFailedError(msg) from error
        found = error.errors(include_url=False, include_context=False, include_input=False)
        wrong = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'arguments'}:"
            f" {each['msg'].removeprefix('Value error, ')}"
            for each in found
        )
        raise ToolFailedError(wrong) from error


def _short(value: object) -> object:
    """Return a schema without titles and defaults, and with optional fields as their own type."""
    if isinstance(value, list):
        return [_short(item) for item in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    schema = cast("dict[str, object]", value)
    options = schema.get("anyOf")
    if isinstance(options, list):
        some = [each for each in cast("list[object]", options) if each != {"type": "null"}]
        if len(some) == 1:
            rest = {k: v for k, v in schema.items() if k != "anyOf"}
            return _short({**cast("dict[str, object]", some[0]), **rest})
    properties = schema.get("properties")
    kept = {
        name: _short(item)
        for name, item in schema.items()
        if name not in {"title", "default", "additionalProperties", "properties"}
    }
    if isinstance(properties, dict):
        fields = cast("dict[str, object]", properties)
        kept["properties"] = {name: _short(item) for name, item in fields.items()}
    return kept
