"""Tells in words, and by place, why a request was not understood. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from everturn_gateway.http.problems import Problem, invalid, problem

_SHOWN = 3  # faults named in the sentence; all are in `errors`


def validation_problem(
    faults: Sequence[Mapping[str, Any]], content_type: str | None, body: object
) -> Problem:
    """Return the problem of a request that breaks its schema.

    Args:
        faults: As pydantic reports them: `loc`, `msg`, `type`.
        content_type: The request's header.
        body: What was sent, as far as it could be read.
    """
    for fault in faults:
        if fault["type"] == "json_invalid":
            return _malformed(f"{fault['ctx']['error']} at character {fault['loc'][-1]}")
        if tuple(fault["loc"]) == ("body",):
            return _no_object(fault, content_type)
    errors = [_field_error(fault, body) for fault in faults]
    named = [
        f"{error.get('pointer') or error.get('parameter')}: {error['detail']}" for error in errors
    ]
    more = f" (and {len(named) - _SHOWN} more)" if len(named) > _SHOWN else ""
    return invalid("; ".join(named[:_SHOWN]) + more, *errors)


def body_problem(cause: BaseException | None) -> Problem:
    """Return the problem of a body that could not even be read as text and JSON."""
    match cause:
        case UnicodeDecodeError():
            return _malformed(f"invalid UTF-8 at byte {cause.start}")
        case RecursionError():
            return _malformed("it is nested too deeply")
        case None:
            return _malformed("it cannot be read")
        case _:
            return _malformed(str(cause))


def _malformed(why: str) -> Problem:
    return problem("malformed-body", f"the request body is not valid JSON: {why}")


def _no_object(fault: Mapping[str, Any], content_type: str | None) -> Problem:
    match fault["type"]:
        case "missing":
            detail = "the request has no body; send a JSON object"
        case "string_unicode":
            detail = "a name in the request body is not valid Unicode text"
        case _ if not _is_json(content_type):
            return problem(
                "unsupported-media-type",
                f"send the body as application/json, not as {content_type or 'no type'}",
                headers={"Accept-Post": "application/json"},
            )
        case _:
            detail = "the request body has to be a JSON object"
    return invalid(detail, {"detail": detail, "pointer": "#"})


def _is_json(content_type: str | None) -> bool:
    media_type = (content_type or "").split(";")[0].strip().lower()
    return media_type == "application/json" or media_type.endswith("+json")


def _field_error(fault: Mapping[str, Any], body: object) -> dict[str, str]:
    where, *path = fault["loc"]
    detail = str(fault["msg"]).removeprefix("Value error, ")
    if where == "body":
        steps = "".join(f"/{_escaped(step)}" for step in _sent(path, body))
        return {"detail": detail, "pointer": f"#{steps}"}
    return {"detail": detail, "parameter": ".".join(map(str, (where, *path)))}


def _sent(path: Sequence[str | int], body: object) -> Iterator[str | int]:
    """Yield the steps of a place that the body has, and the name of the field that it lacks.

    Where a field may be one of several types, pydantic puts the name of the type into the place.
    """
    for number, step in enumerate(path):
        try:
            body = cast("Any", body)[step]
        except (LookupError, TypeError):
            if number < len(path) - 1 or not isinstance(body, dict):
                continue
        yield step


def _escaped(step: object) -> str:
    """Return one step of a JSON pointer. Source: RFC 6901, section 3."""
    return str(step).replace("~", "~0").replace("/", "~1")
