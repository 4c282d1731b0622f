"""Whether an answer has the form that its caller asked for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NoReturn

from everturn_actors.codec import load_json
from everturn_actors.errors import InvalidInputError
from everturn_actors.model import CallOptions

_SAID: Final = 3  # things that are wrong, told to the model; it sets the others right with them
_PLACE: Final = 200  # characters of one of them


def check_form(options: CallOptions) -> None:
    """Refuse a form that no answer can be held against.

    Raises:
        InvalidInputError: With the reason.
    """
    schema = schema_of(options)
    if schema is not None:
        why_not_in_form("{}", options)


def schema_of(options: CallOptions) -> Mapping[str, Any] | None:
    """Return the schema that an answer has to follow; None where there is none."""
    if options.response_format.get("type") != "json_schema":
        return None
    schema = options.response_format.get("json_schema", {}).get("schema")
    return schema if isinstance(schema, Mapping) else None


def why_not_in_form(text: str, options: CallOptions) -> str:
    """Return what is wrong with an answer, in words for the model; empty where nothing is.

    Raises:
        InvalidInputError: The schema is none.
    """
    kind = options.response_format.get("type", "text")
    if kind == "text":
        return ""
    try:
        answer = load_json(text.encode())
    except ValueError as error:
        return f"it has to be JSON alone; {error}"
    schema = schema_of(options)
    if schema is None:
        return "" if isinstance(answer, dict) else "it has to be a JSON object"
    wrong = _wrong(schema, answer)
    return f"it does not follow the JSON Schema: {'; '.join(wrong)}" if wrong else ""


def _wrong(schema: Mapping[str, Any], answer: object) -> list[str]:
    # In Rust: its patterns end, whatever a caller wrote, where those of Python may not.
    import jsonschema_rs  # noqa: PLC0415 - 30 ms, for the few that ask for a form

    try:
        validator = jsonschema_rs.validator_for(dict(schema), retriever=_fetch_nothing)
        found = zip(validator.iter_errors(answer), range(_SAID), strict=False)
        return [f"at {_place(each.instance_path)}: {each.message[:_PLACE]}" for each, _ in found]
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        msg = f"the JSON Schema of the answer cannot be used: {str(error).splitlines()[0]}"
        raise InvalidInputError(msg) from error


def _place(path: list[str | int]) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


def _fetch_nothing(uri: str) -> NoReturn:
    msg = f"nothing is fetched for a schema: {uri}"
    raise ValueError(msg)
