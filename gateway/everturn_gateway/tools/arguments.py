"""The arguments of a tool, as values: their schema for the model, clear errors back to it."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import lru_cache
from typing import Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from everturn_actors.errors import ToolFailedError
from everturn_actors.json_values import as_object, is_list, is_object
from everturn_actors.model import ToolCall


class Arguments(BaseModel):
    """What a call may say; the description of a field is for the model."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        defer_build=True,  # a gateway whose agents have none of the tools need not pay for them
    )


_SCHEMAS: Final = 128  # kept: more than there are tools that come with the gateway

ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)


def parameters(model: type[Arguments]) -> dict[str, object]:
    """Return the JSON Schema of the arguments, without what no model needs."""
    return deepcopy(_schema(model))


@lru_cache(maxsize=_SCHEMAS)  # a millisecond for each tool, at each load of each agent
def _schema(model: type[Arguments]) -> dict[str, object]:
    schema = as_object(_short(model.model_json_schema()))
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
    if is_list(value):
        return [_short(item) for item in value]
    if not is_object(value):
        return value
    options = value.get("anyOf")
    if is_list(options):
        some = [each for each in options if each != {"type": "null"}]
        if len(some) == 1 and is_object(some[0]):
            rest = {k: v for k, v in value.items() if k != "anyOf"}
            return _short({**some[0], **rest})
    properties = value.get("properties")
    kept = {
        name: _short(item)
        for name, item in value.items()
        if name not in {"title", "default", "additionalProperties", "properties"}
    }
    if is_object(properties):
        kept["properties"] = {name: _short(item) for name, item in properties.items()}
    return kept
