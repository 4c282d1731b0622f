"""What is wrong with a reply: withheld, empty, calls that cannot be read, another form. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NoReturn, cast

from everturn_actors.codec import load_json
from everturn_actors.errors import InvalidInputError, ModelRefusedError
from everturn_actors.model import CallOptions, Reply, ToolCall

_SAID: Final = 3  # things that are wrong, told to the model; it sets the others right with them
_PLACE: Final = 200  # characters of one of them

# Stop reasons of a reply that was not given, in the words of the formats that are spoken here.
_WITHHELD: Final[Mapping[str, str]] = MappingProxyType(
    {
        "refusal": "the model declined to give one",
        "content_filter": "the content filter of the model's provider held it back",
    }
)


def check_withheld(reply: Reply) -> None:
    """Check that nobody held the whole answer back.

    Raises:
        ModelRefusedError: The model declined, or its provider's filter did, without a word. Asked
            again, it would do the same.
    """
    why = _WITHHELD.get(reply.stop_reason)
    if why and not (reply.calls or reply.images or has_words(reply.text)):
        msg = f"there is no answer: {why}"
        raise ModelRefusedError(msg)


def has_words(text: str) -> bool:
    """Whether a person who is shown this text sees anything."""
    return any(char.isprintable() and not char.isspace() for char in text)


def flaw_of(reply: Reply, options: CallOptions, *, sent_files: bool) -> str:
    """Return why a reply cannot be used; empty for one that can.

    One without calls ends the turn, so it has to say something, in the form that was asked for. A
    file that the turn has sent, or an image, is said enough: a model that ends such a turn without
    a word means it so. Text beside calls is not: it was written before the model knew what they
    give.
    """
    if not reply.calls:
        shows = sent_files or reply.images or reply.lost_images
        if not (shows or has_words(reply.text)):
            return _emptiness(reply)
        return why_not_in_form(reply.text, options)
    if reply.stop_reason == "length":
        return "it was cut off at the output limit before its calls were complete"
    ids = {call.call_id for call in reply.calls}
    if len(ids) < len(reply.calls) or "" in ids:
        return "its calls share an id or have none"
    return next((flaw for call in reply.calls if (flaw := _call_flaw(call))), "")


def _emptiness(reply: Reply) -> str:
    """Return what is wrong with a reply that neither says nor does anything."""
    if reply.stop_reason == "length":
        return "it reached the output limit before it said anything"
    if has_words(reply.reasoning):
        return "it was empty after its thinking"
    return "it was empty"


def _call_flaw(call: ToolCall) -> str:
    try:
        arguments = json.loads(call.arguments, parse_constant=_no_number)
    except ValueError as error:
        return f"the arguments of its call of {call.name!r} are not JSON: {error}"
    except RecursionError:
        return f"the arguments of its call of {call.name!r} are nested too deeply"
    if not isinstance(arguments, dict):
        return f"the arguments of its call of {call.name!r} are no JSON object"
    return ""


def _no_number(name: str) -> None:
    """Refuse what Python reads and JSON does not have: NaN and the infinities."""
    msg = f"{name} is no number in JSON"
    raise ValueError(msg)


# --- the form that its caller asked for ---


def check_form(options: CallOptions) -> None:
    """Refuse a form that no answer can be held against.

    Raises:
        InvalidInputError: With the reason.
    """
    schema = schema_of(options)
    if schema is not None:
        why_not_in_form("{}", options)


def asks_for_form(options: CallOptions) -> bool:
    """Whether an answer has to be JSON."""
    return bool(options.response_format.get("type", "text") != "text")


def schema_of(options: CallOptions) -> Mapping[str, object] | None:
    """Return the schema that an answer has to follow; None where there is none."""
    if options.response_format.get("type") != "json_schema":
        return None
    schema: object = options.response_format.get("json_schema", {}).get("schema")
    return cast("Mapping[str, object]", schema) if isinstance(schema, Mapping) else None


def why_not_in_form(text: str, options: CallOptions) -> str:
    """Return what is wrong with an answer, in words for the model; empty where nothing is.

    Raises:
        InvalidInputError: The schema is none.
    """
    if not asks_for_form(options):
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


def _wrong(schema: Mapping[str, object], answer: object) -> list[str]:
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
