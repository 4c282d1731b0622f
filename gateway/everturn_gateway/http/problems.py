"""Every error of the HTTP surface, as an RFC 9457 problem document.

Errors of the core are mapped to problems in one table here. Under `/v1`, where the clients are
those of OpenAI, the same problems are written in the shape that those clients read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import orjson
from starlette.responses import Response
from starlette.types import Scope

from everturn_actors.errors import (
    ActorFailedError,
    ActorStoppedError,
    ApprovalClosedError,
    ContextDoesNotFitError,
    CoreError,
    CorruptJournalError,
    FencedError,
    InvalidInputError,
    JournalError,
    JournalWriteError,
    MailboxFullError,
    ModelError,
    NotAnApproverError,
    NothingToRetryError,
    OutOfFilesError,
    SessionEndedError,
    SessionQuarantinedError,
    UnknownAgentError,
    UnknownApprovalError,
    UnknownFormatError,
    UnknownRequestError,
    UnknownSessionError,
    WorkspaceLostError,
)

MEDIA_TYPE = "application/problem+json"
OPENAI_PREFIX = "/v1/"
_PATH_SAFE = "/:@!$&'()*+,;="  # beside letters, digits and -._~ (RFC 3986, section 3.3)
_UNPROCESSABLE = 422
_URN = "urn:everturn:problem:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One error answer."""

    kind: str
    "Stable name of the kind of problem; the `type` is `urn:everturn:problem:<kind>`."
    title: str
    status: int
    detail: str
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    "Further members of the document."
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def document(self, instance: str) -> dict[str, Any]:
        """Return the RFC 9457 document; `instance` is the path that was asked for, encoded."""
        return {
            "type": _URN + self.kind,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "instance": instance,
            **self.extra,
        }


class ProblemError(Exception):
    """A request ends with a problem.

    Attributes:
        problem: The answer.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(problem.detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """How one class of errors is answered."""

    kind: str
    title: str
    status: int
    retry_after_s: int = 0


# A pause of one second is enough for a session to start afresh or a mailbox to move.
_CORE: Final[Mapping[type[Exception], _Kind]] = {
    InvalidInputError: _Kind(kind="invalid-input", title="The input is not valid", status=422),
    UnknownAgentError: _Kind(kind="unknown-agent", title="There is no such agent", status=404),
    UnknownSessionError: _Kind(
        kind="unknown-session", title="There is no such session", status=404
    ),
    UnknownRequestError: _Kind(
        kind="unknown-request", title="There is no such request", status=404
    ),
    SessionEndedError: _Kind(kind="session-ended", title="The session has ended", status=409),
    UnknownApprovalError: _Kind(
        kind="unknown-approval", title="No such call waits for an approval", status=404
    ),
    NotAnApproverError: _Kind(
        kind="not-an-approver", title="This sender may not answer the approval", status=403
    ),
    ApprovalClosedError: _Kind(
        kind="approval-closed", title="The approval can no longer be answered so", status=409
    ),
    NothingToRetryError: _Kind(
        kind="nothing-to-retry", title="There is nothing to ask again", status=409
    ),
    MailboxFullError: _Kind(
        kind="mailbox-full",
        title="The conversation has too many messages waiting",
        status=429,
        retry_after_s=1,
    ),
    ActorStoppedError: _Kind(
        kind="stopping", title="The gateway is stopping", status=503, retry_after_s=1
    ),
    ActorFailedError: _Kind(
        kind="session-failed", title="The session failed", status=503, retry_after_s=1
    ),
    WorkspaceLostError: _Kind(
        kind="workspace-lost",
        title="The gateway no longer holds its workspace",
        status=503,
        retry_after_s=5,
    ),
    SessionQuarantinedError: _Kind(
        kind="session-quarantined",
        title="The session failed again and again, and waits for somebody to cancel or reset it",
        status=409,
    ),
    OutOfFilesError: _Kind(
        kind="out-of-files",
        title="The gateway has too many files and connections open",
        status=503,
        retry_after_s=5,
    ),
    JournalWriteError: _Kind(
        kind="not-written", title="The message could not be written to disk", status=507
    ),
    FencedError: _Kind(
        kind="fenced", title="Another writer changed the session", status=503, retry_after_s=1
    ),
    CorruptJournalError: _Kind(
        kind="journal-damaged", title="The session's journal is damaged", status=500
    ),
    UnknownFormatError: _Kind(
        kind="journal-format",
        title="The session's journal was written by another version",
        status=500,
    ),
    JournalError: _Kind(
        kind="journal-failed", title="The session's journal cannot be used", status=500
    ),
    ContextDoesNotFitError: _Kind(
        kind="context-does-not-fit",
        title="The conversation does not fit the model's window",
        status=409,
    ),
    ModelError: _Kind(kind="model-failed", title="The model gave no reply", status=502),
    CoreError: _Kind(kind="internal", title="Something went wrong inside Everturn", status=500),
}


def core_problem(error: CoreError) -> Problem:
    """Return the problem that answers an error of the core."""
    entry = next(_CORE[cls] for cls in type(error).__mro__ if cls in _CORE)
    headers = {"Retry-After": str(entry.retry_after_s)} if entry.retry_after_s else {}
    return Problem(
        kind=entry.kind,
        title=entry.title,
        status=entry.status,
        detail=str(error),
        headers=headers,
    )


def status_problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Problem:
    """Return the problem of a plain HTTP status, such as 404 for a path that is no route."""
    title = HTTPStatus(status).phrase
    return Problem(
        kind=title.lower().replace(" ", "-"),
        title=title,
        status=status,
        detail=detail,
        headers=headers or {},
    )


def invalid(detail: str, *errors: Mapping[str, str]) -> Problem:
    """Return the 422 problem of input that breaks a rule.

    Args:
        detail: What is wrong, in one sentence.
        errors: One for each fault: `detail`, and `pointer` (into the body) or `parameter`.
    """
    return Problem(
        kind="invalid-input",
        title="The input is not valid",
        status=422,
        detail=detail,
        extra={"errors": list(errors)} if errors else {},
    )


INTERNAL: Final = Problem(
    kind="internal",
    title="Something went wrong inside Everturn",
    status=500,
    detail="the gateway failed while it handled this request; its log says why",
)


def problem_response(problem: Problem, scope: Scope) -> Response:
    """Return `problem` as the answer to the request of `scope`."""
    path = quote(scope["path"], safe=_PATH_SAFE)
    headers = dict(problem.headers)
    if path.startswith(OPENAI_PREFIX):
        return Response(
            orjson.dumps(openai_error(problem)),
            # OpenAI's API knows no 422: its clients expect 400 for whatever is not valid.
            status_code=400 if problem.status == _UNPROCESSABLE else problem.status,
            headers=headers,
            media_type="application/json",
        )
    return Response(
        orjson.dumps(problem.document(path)),
        status_code=problem.status,
        headers=headers,
        media_type=MEDIA_TYPE,
    )


def openai_error(problem: Problem) -> dict[str, Any]:
    """Return `problem` in the shape of OpenAI's API: `{"error": {message, type, param, code}}`.

    Source: https://platform.openai.com/docs/guides/error-codes (read 2026-11).
    """
    status = problem.status
    by_status = {
        401: "authentication_error",
        403: "permission_error",
        429: "rate_limit_error",
    }
    default = "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else ""
    return {
        "error": {
            "message": problem.detail,
            "type": by_status.get(status) or default or "invalid_request_error",
            "param": _param(problem) or None,
            "code": _OPENAI_CODES.get(problem.kind) or problem.kind.replace("-", "_"),
        }
    }


def _param(problem: Problem) -> str | None:
    """Return the name of the parameter at fault, as OpenAI writes it: `messages.0.role`."""
    faults: Sequence[Mapping[str, str]] = problem.extra.get("errors", ())
    if faults:
        return faults[0].get("pointer", "#").removeprefix("#").removeprefix("/").replace("/", ".")
    return problem.extra.get("param")


_OPENAI_CODES: Final = {"unknown-agent": "model_not_found"}


def with_headers(problem: Problem, **headers: str) -> Problem:
    """Return `problem` with further headers; `_` in a name stands for `-`."""
    more = {name.replace("_", "-"): value for name, value in headers.items()}
    return replace(problem, headers={**problem.headers, **more})
