"""Tells in words, and by place, why a request was not understood. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from everturn_gateway.http.problems import Problem, invalid

_SHOWN = 3  # faults named in the sentence; all are in `errors`


def validation_problem(faults: Sequence[Mapping[str, Any]], content_type: str | None) -> Problem:
    """Return the problem of a request that breaks its schema.

    Args:
        faults: As pydantic reports them: `loc`, `msg`, `type`.
        content_type: The request's header.
    """
    for fault in faults:
        if fault["type"] == "json_invalid":
            return _malformed(f"{fault['ctx']['error']} at character {fault['loc'][-1]}")
        if tuple(fault["loc"]) == ("body",):
            return _no_object(fault, content_type)
    errors = [_field_error(fault) for fault in faults]
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
    return Problem(
        kind="malformed-body",
        title="The request body is not JSON",
        status=400,
        detail=f"the request body is not valid JSON: {why}",
    )


def _no_object(fault: Mapping[str, Any], content_type: str | None) -> Problem:
    if fault["type"] == "missing":
        detail = "the request has no body; send a JSON object"
        return invalid(detail, {"detail": detail, "pointer": "#"})
    media_type = (content_type or "").split(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        return Problem(
            kind="unsupported-media-type",
            title="The request body has to be JSON",
            status=415,
            detail=f"send the body as application/json, not as {media_type or 'nothing at all'}",
            headers={"Accept-Post": "application/json"},
        )
    detail = "the request body has to be a JSON object"
    return invalid(detail, {"detail": detail, "pointer": "#"})


def _field_error(fault: Mapping[str, Any]) -> dict[str, str]:
    where, *path = fault["loc"]
    detail = str(fault["msg"])
    if where == "body":
        steps = "".join(f"/{_escaped(step)}" for step in path)
        return {"detail": detail, "pointer": f"#{steps}"}
    return {"detail": detail, "parameter": ".".join(map(str, (where, *path)))}


def _escaped(step: object) -> str:
    """Return one step of a JSON pointer. Source: RFC 6901, section 3."""
    text = str(step).replace("~", "~0").replace("/", "~1")
    # The pointer goes into a document that is sent as UTF-8: a lone surrogate has no place in it.
    return json.dumps(text)[1:-1] if not text.isprintable() else text
