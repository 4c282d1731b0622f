"""Check a document against a model, and say in plain words what is wrong."""

from __future__ import annotations

import builtins
import difflib
from collections.abc import Sequence
from inspect import isclass
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails

from everturn_actors.json_values import is_object
from everturn_gateway.errors import Fault
from everturn_gateway.yaml_files.places import Document, FieldPath

ModelT = TypeVar("ModelT", bound=BaseModel)

_SHOWN_CHARACTERS = 60  # of a value that is not understood
_SHOWN_NAMES = 12  # of known fields, where none is near

# What each kind of pydantic error means to the person who wrote the file; {} is what was found.
_KINDS = {
    "missing": "is required",
    "int_": "must be a whole number, not {}",
    "float_": "must be a number, not {}",
    "finite_number": "must be a number, not {}",
    "bool_": "must be true or false, not {}",
    "string_type": "must be a text, not {}",
    "list_": "must be a list, not {}",
    "tuple_": "must be a list, not {}",
    "dict_": "must be a section of fields, not {}",
    "model_": "must be a section of fields, not {}",
}
_LIMITS = {
    "greater_than": ("gt", "must be more than {}, not {}"),
    "greater_than_equal": ("ge", "must be at least {}, not {}"),
    "less_than": ("lt", "must be less than {}, not {}"),
    "less_than_equal": ("le", "must be at most {}, not {}"),
}


class SettingsModel(BaseModel):
    """A section of a file: unknown fields are refused, one without a value counts as left out.

    The texts under its fields are their descriptions in the schema, `specs/schema.py`.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        defer_build=True,  # a section is built once, with the document it is a part of
    )

    @model_validator(mode="before")
    @classmethod
    def _leave_out_empty(cls, data: object) -> object:
        if not is_object(data):
            return data
        known = field_names(cls)
        return {k: v for k, v in data.items() if v is not None or k not in known}


def field_names(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the names that the fields of a section have in the file."""
    return tuple(info.alias or name for name, info in model.model_fields.items())


def check(document: Document, model: type[ModelT]) -> tuple[ModelT | None, tuple[Fault, ...]]:
    """Check a document against a model.

    Returns:
        The values, None where there is a fault; and every fault, those of reading included, in the
        order of the lines.
    """
    value, found = check_part(document, document.data, model, at=())
    faults = sorted((*document.faults, *found), key=lambda fault: fault.line)
    return (None if faults else value), tuple(faults)


def check_part(
    document: Document, data: object, model: type[ModelT], *, at: FieldPath
) -> tuple[ModelT | None, tuple[Fault, ...]]:
    """Check a part of a document against a model of its own: the settings of a plug-in.

    Args:
        document: The whole of it, for the places of faults.
        data: The part.
        model: What it has to be.
        at: Where the part stands.

    Returns:
        The values, None where they cannot be read; and why not.
    """
    # A field whose variable is not set has no value: what is wrong with it has been said.
    said = {fault.field for fault in document.faults}
    try:
        return model.model_validate(data), ()
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        found = (
            _fault(document, model, details, at)
            for details in errors
            if not _only_follows(details, errors)
        )
        return None, tuple(fault for fault in found if fault.field not in said)


def _only_follows(details: ErrorDetails, errors: Sequence[ErrorDetails]) -> bool:
    """Whether a list is called too short since what is wrong in it was not counted."""
    place = details["loc"]
    return details["type"] == "too_short" and any(
        len(each["loc"]) > len(place) and each["loc"][: len(place)] == place for each in errors
    )


def _fault(
    document: Document, model: type[BaseModel], details: ErrorDetails, at: FieldPath
) -> Fault:
    path = _path(document, details, at)
    return document.fault(path, _message(document, model, path, details))


def _path(document: Document, details: ErrorDetails, path: FieldPath) -> FieldPath:
    """Return the error's place in the file: pydantic's, without the tags of its unions."""
    for part in details["loc"]:
        if (*path, part) in document.places:
            path = (*path, part)
    return (*path, details["loc"][-1]) if details["type"] == "missing" else path


def _message(
    document: Document, model: type[BaseModel], path: FieldPath, details: ErrorDetails
) -> str:
    kind, context = details["type"], details.get("ctx", {})
    found = _shown(document, path)
    if kind == "extra_forbidden":
        section = _section_at(model, details["loc"][:-1])
        hint = _name_hint(str(path[-1]), field_names(section) if section else ())
        return f"is not a known field{hint}"
    if kind == "literal_error":
        return f"must be {_bare(context['expected'])}, not {found}"
    if kind == "union_tag_invalid":
        field, tags = _bare(context["discriminator"]), _bare(context["expected_tags"])
        return f"{field} must be one of {tags}, not {context['tag']!r}"
    if kind == "union_tag_not_found":
        return f"needs a {_bare(context['discriminator'])}"
    if kind == "too_short":
        return f"needs {context['min_length']} or more, and has {context['actual_length']}"
    if kind in _LIMITS:
        name, message = _LIMITS[kind]
        return message.format(f"{context[name]:g}", found)
    for start, message in _KINDS.items():
        if kind.startswith(start):
            return message.format(found)
    return details["msg"].removeprefix("Value error, ")


def _shown(document: Document, path: FieldPath) -> str:
    """Return a value as it stands in the file: what a variable brought in is nobody's business."""
    place = document.places.get(path)
    if place is None or place.kind != "scalar":
        return f"a {place.kind}" if place else "nothing"
    written = place.written
    if len(written) > _SHOWN_CHARACTERS:
        written = f"{written[:_SHOWN_CHARACTERS]}..."
    return repr(written)


def _bare(text: str) -> str:
    return text.replace("'", "")


def _name_hint(name: str, known: Sequence[str]) -> str:
    """Return what to say of a name that nobody knows: one that is near, or those there are."""
    if near := nearest(name, known):
        return f"; did you mean {near}?"
    return f"; there are: {', '.join(known)}" if 0 < len(known) <= _SHOWN_NAMES else ""


def nearest(name: str, known: Sequence[str]) -> str:
    """Return which of the known names somebody may have meant; empty for none."""
    plain = {other.replace("_", "").lower(): other for other in known}
    wanted = name.replace("_", "").replace("-", "").lower()
    near = difflib.get_close_matches(wanted, plain, n=1)
    return plain[near[0]] if near else ""


def _section_at(model: type[BaseModel], loc: tuple[str | int, ...]) -> type[BaseModel] | None:
    """Return the model that pydantic was in at `loc`."""
    here: object = model
    for part in loc:
        here = next((found for option in _options(here) if (found := _step(option, part))), None)
    return next((option for option in _options(here) if _is_section(option)), None)


def _options(annotation: object) -> tuple[Any, ...]:
    """Return what an annotation allows, without `Annotated` and `None`."""
    if get_origin(annotation) is Annotated:
        return _options(get_args(annotation)[0])
    if get_origin(annotation) is Union or type(annotation).__name__ == "UnionType":
        return tuple(o for member in get_args(annotation) for o in _options(member))
    return (annotation,)


def _step(option: Any, part: str | int) -> object:  # any annotation
    if _is_section(option):
        for name, info in option.model_fields.items():
            if part == (info.alias or name):
                return info.annotation
        tag = option.model_fields.get("type")
        return option if tag and part in get_args(tag.annotation) else None
    match get_origin(option), get_args(option):
        case (builtins.dict, (_, inner)) | (builtins.tuple, (inner, *_)):
            return inner
        case _:
            return None


def _is_section(option: Any) -> bool:  # any annotation
    return isclass(option) and issubclass(option, BaseModel)
