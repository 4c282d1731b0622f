"""What stands in `/openapi.json` beside the routes: problems, tokens, and the shapes of errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final, TypeAlias

from fastapi import Path
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.routing import BaseRoute

from everturn_gateway.http import problems as documents
from everturn_gateway.http.access.auth import Access
from everturn_gateway.http.access.scopes import rule_of
from everturn_gateway.http.schemas.errors import OpenAIErrorBody, ProblemBody
from everturn_gateway.http.schemas.schedules import JobTimes, NewJob
from everturn_gateway.scheduler.definitions.settings import RetriesSettings, ToSettings
from everturn_gateway.yaml_files.descriptions import describe_fields

SessionId: TypeAlias = Annotated[
    str, Path(description="Id of a session.", examples=["20261121T224956123-3f9a2c1b"])
]

Responses: TypeAlias = dict[int | str, dict[str, Any]]
"What a route may answer with, by status, as FastAPI takes it."
_REF: Final = "#/components/schemas/{model}"
_ERRORS: Final[tuple[type[BaseModel], ...]] = (ProblemBody, OpenAIErrorBody)
# What any request may meet: it is malformed, too large or too slow, or the gateway fails.
_ANY: Final = (400, 403, 413, 422, 500, 503, 504)
_CLOSED_TO_STRANGERS: Final = (401, 429)

# Each message of a stream; its data is a JSON object.
_EVENTS: Final = {
    "schema": {
        "type": "object",
        "properties": {
            "event": {"type": "string"},
            "id": {"type": "string"},
            "data": {"type": "string", "contentMediaType": "application/json"},
        },
        "required": ["data"],
    }
}
_DESCRIPTION: Final = """
Talk to agents over HTTP. A message is accepted when it is on disk; its turn is then finished and
answered once, whatever happens to the connection or to the process.

Errors are RFC 9457 problem documents (`application/problem+json`); under `/v1` they have the shape
that OpenAI's clients read. Ids of server-sent events are numbers of the session's events: send the
last one back as `Last-Event-ID`, and a broken stream goes on without a gap or a repeat.
"""
_TOKENS: Final = """
A token of a principal (`everturn token create`), or one of the configuration. Each operation names
the scope that it needs: `read`, `talk`, `approve`, `operate` or `admin`. `talk` and `approve`
include `read`; `operate` includes `talk`; `admin` includes all. Sessions of others are answered
like sessions that are not there.
"""


def problems(*statuses: int) -> Responses:
    """Return the OpenAPI responses of a route that may answer with these problems."""
    return _responses(statuses, documents.MEDIA_TYPE, ProblemBody)


def openai_errors(*statuses: int) -> Responses:
    """Return the same for a route under `/v1`."""
    return _responses(statuses, "application/json", OpenAIErrorBody)


def event_stream(description: str) -> Responses:
    """Return the OpenAPI response of a route that sends server-sent events."""
    return {200: {"description": description, "content": {"text/event-stream": _EVENTS}}}


def download(description: str, content: Mapping[str, object]) -> Responses:
    """Return the OpenAPI response of a route that gives a file: its media types, with schemas."""
    return {200: {"description": description, "content": content}}


def object_or_stream(description: str) -> Responses:
    """Return the OpenAPI response of a route that sends an object, or events where asked for."""
    content = {"application/json": {"schema": {"type": "object"}}, "text/event-stream": _EVENTS}
    return {200: {"description": description, "content": content}}


def _responses(statuses: Sequence[int], media_type: str, model: type[BaseModel]) -> Responses:
    schema = {"$ref": _REF.format(model=model.__name__)}
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {media_type: {"schema": schema}},
        }
        for status in statuses
    }


def describe(routes: Sequence[BaseRoute], *, version: str, access: Access) -> dict[str, object]:
    """Return the OpenAPI document of `routes`, in their order."""
    document = get_openapi(
        title="Everturn", version=version, description=_DESCRIPTION.strip(), routes=routes
    )
    for path, operations in document["paths"].items():
        is_openai = path.startswith(documents.OPENAI_PREFIX)
        shared = openai_errors if is_openai else problems
        for method, operation in operations.items():
            # The document writes a parameter that holds slashes as any other.
            route = path.replace("{path}", "{path:path}")
            rule = rule_of(method.upper(), route)
            needs_token = rule is None or rule.need != "open"
            statuses = (*_ANY, *_CLOSED_TO_STRANGERS) if needs_token else _ANY
            for parameter in operation.get("parameters", ()):
                _without_null(parameter["schema"])
            # FastAPI's own 422 names models that no answer of ours follows.
            if "HTTPValidationError" in str(operation["responses"].get("422", "")):
                del operation["responses"]["422"]
            for status, response in shared(*statuses).items():
                operation["responses"].setdefault(str(status), response)
            # OpenAPI 3.1: of a scheme without scopes of its own, the roles that are needed.
            scopes = [rule.need] if rule is not None else []
            security: list[dict[str, list[str]]] = [{"token": [*scopes]}] if needs_token else []
            operation["security"] = [{}, *security] if access.is_open_here else security
    components: dict[str, Any] = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for model in (NewJob, JobTimes, RetriesSettings, ToSettings):
        describe_fields(schemas[model.__name__], model)
    _, errors = models_json_schema(
        [(model, "serialization") for model in _ERRORS], ref_template=_REF
    )
    schemas.update(errors["$defs"])
    components["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": _TOKENS.strip()}
    }
    return document


def _without_null(schema: dict[str, Any]) -> None:
    """Take null out of what a parameter may be: one that is left out has no value to send."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]
    if len(kinds) == 1:
        del schema["anyOf"]
        schema.update(kinds[0])
