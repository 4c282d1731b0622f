"""Check a document against a model, and say in plain words what is wrong."""

from __future__ import annotations

import builtins
import difflib
from inspect import isclass
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails

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


class Section(BaseModel):
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
        if not isinstance(data, dict):
            return data
        known = field_names(cls)
        fields = cast("dict[str, object]", data)
        return {k: v for k, v in fields.items() if v is not None or k not in known}


def field_names(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the names that the fields of a section have in the file."""
    return tuple(info.alias or name for name, info in model.model_fields.items())


def check(document: Document, model: type[ModelT]) -> tuple[ModelT | None, tuple[Fault, ...]]:
    """Check a document against a model.

    Returns:
        The values, None where there is a fault; and every fault, those of reading included, in the
        order of the lines.
    """
    faults = list(document.faults)
    # A field whose variable is not set has no value: what is wrong with it has been said.
    said = {fault.field for fault in faults}
    value: ModelT | None = None
    try:
        value = model.model_validate(document.data)
    except ValidationError as error:
        found = [
            _fault(document, model, details)
            for details in error.errors(include_url=False, include_input=False)
        ]
        faults += [fault for fault in found if fault.field not in said]
    faults.sort(key=lambda fault: fault.line)
    return (None if faults else value), tuple(faults)


def _fault(document: Document, model: type[BaseModel], details: ErrorDetails) -> Fault:
    path = _path(document, details)
    return document.fault(path, _message(document, model, path, details))


def _path(document: Document, details: ErrorDetails) -> FieldPath:
    """Return the error's place in the file: pydantic's, without the tags of its unions."""
    path: FieldPath = ()
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
        return _unknown_field(str(path[-1]), _section_at(model, details["loc"][:-1]))
    if kind == "literal_error":
        return f"must be {_bare(context['expected'])}, not {found}"
    if kind == "union_tag_invalid":
        field, tags = _bare(context["discriminator"]), _bare(context["expected_tags"])
        return f"{field} must be one of {tags}, not {context['tag']!r}"
    if kind == "union_tag_not_found":
        return f"needs a {_bare(context['discriminator'])}"
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


def _unknown_field(name: str, section: type[BaseModel] | None) -> str:
    known = field_names(section) if section else ()
    plain = {other.replace("_", "").lower(): other for other in known}
    wanted = name.replace("_", "").replace("-", "").lower()
    if near := difflib.get_close_matches(wanted, plain, n=1):
        return f"is not a known field; did you mean {plain[near[0]]}?"
    if 0 < len(known) <= _SHOWN_NAMES:
        return f"is not a known field; there are: {', '.join(known)}"
    return "is not a known field"


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


def _step(option: Any, part: str | int) -> object:  # noqa: ANN401 - any annotation
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


def _is_section(option: Any) -> bool:  # noqa: ANN401 - any annotation
    return isclass(option) and issubclass(option, BaseModel)
