"""Every error of the HTTP surface, as an RFC 9457 problem document.

All kinds of problems stand in one table here, and which errors of the core are of which kind in
another. Under `/v1`, where the clients are those of OpenAI, the same problems are written in the
shape that those clients read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import orjson
from msgspec import Struct, field
from msgspec.structs import replace
from starlette.responses import Response
from starlette.types import Scope

from everturn_actors.errors import (
    ActorFailedError,
    ActorStoppedError,
    ApprovalClosedError,
    CannotBranchError,
    ConflictError,
    ContextDoesNotFitError,
    CoreError,
    CorruptJournalError,
    FencedError,
    HomeElsewhereError,
    InvalidInputError,
    JournalError,
    JournalWriteError,
    LinkBrokenError,
    LinkRefusedError,
    MailboxFullError,
    ModelError,
    MovedError,
    NotAnApproverError,
    NothingToRetryError,
    OutOfFilesError,
    OwnerAwayError,
    QueueFullError,
    SessionEndedError,
    SessionQuarantinedError,
    StaleReadError,
    StoreAwayError,
    UnknownAgentError,
    UnknownApprovalError,
    UnknownFormatError,
    UnknownMessageError,
    UnknownRequestError,
    UnknownSessionError,
    UnusableModelError,
    WorkspaceLostError,
)
from everturn_actors.json_values import Json

MEDIA_TYPE = "application/problem+json"
OPENAI_PREFIX = "/v1/"
_PATH_SAFE = "/:@!$&'()*+,;="  # beside letters, digits and -._~ (RFC 3986, section 3.3)
_UNPROCESSABLE = 422
_URN = "urn:everturn:problem:"


class Problem(Struct, frozen=True, kw_only=True):
    """One error answer."""

    kind: str
    "Stable name of the kind of problem; the `type` is `urn:everturn:problem:<kind>`."
    title: str
    status: int
    detail: str
    extra: Mapping[str, Any] = field(default_factory=Json)
    "Further members of the document."
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def document(self, instance: str) -> Json:
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


class _Kind(NamedTuple):
    """What all problems of one kind have in common."""

    status: int
    title: str
    retry_after_s: int = 0


# A pause of one second is enough for a session to start afresh or a mailbox to move.
KINDS: Final[Mapping[str, _Kind]] = {
    "invalid-request": _Kind(400, "The request is not valid"),
    "malformed-body": _Kind(400, "The request body is not JSON"),
    "unauthorized": _Kind(401, "A valid token is needed"),
    "admin-closed": _Kind(403, "The administration is closed"),
    "editing-closed": _Kind(403, "Agents are not edited here"),
    "closed": _Kind(403, "Nobody may use this route"),
    "foreign-host": _Kind(403, "The request comes from elsewhere"),
    "insufficient-scope": _Kind(403, "The token is not for this"),
    "limited-to-agents": _Kind(403, "The token is limited to some agents"),
    "not-an-approver": _Kind(403, "This sender may not answer the approval"),
    "not-the-owner": _Kind(403, "The session is somebody else's"),
    "unknown-agent": _Kind(404, "There is no such agent"),
    "unknown-approval": _Kind(404, "No such call waits for an approval"),
    "unknown-checkpoint": _Kind(404, "There is no such checkpoint"),
    "unknown-channel": _Kind(404, "There is no such channel"),
    "unknown-file": _Kind(404, "There is no such file"),
    "unknown-media": _Kind(404, "There is no such file"),
    "unusable-model": _Kind(422, "That model cannot be used"),
    "unknown-pairing": _Kind(404, "There is no such pairing"),
    "unknown-prompt": _Kind(404, "There is no such prompt"),
    "unknown-message": _Kind(404, "There is no such message"),
    "unknown-request": _Kind(404, "There is no such request"),
    "unknown-result": _Kind(404, "There is no such result"),
    "unknown-schedule": _Kind(404, "There is no such scheduled job"),
    "unknown-session": _Kind(404, "There is no such session"),
    "approval-closed": _Kind(409, "The approval can no longer be answered so"),
    "cannot-fork": _Kind(409, "The session cannot be forked there"),
    "context-does-not-fit": _Kind(409, "The conversation does not fit the model's window"),
    "no-memory": _Kind(409, "The notes cannot be read or written"),
    "nothing-to-retry": _Kind(409, "There is nothing to ask again"),
    "schedule-fixed": _Kind(409, "The job is defined where it cannot be changed from here"),
    "schedule-taken": _Kind(409, "There is a job of this id"),
    "schedule-waits": _Kind(409, "The job cannot run now"),
    "session-ended": _Kind(409, "The session has ended"),
    "session-quarantined": _Kind(
        409, "The session failed again and again, and waits for somebody to cancel or reset it"
    ),
    "turn-cancelled": _Kind(409, "The turn was cancelled"),
    "file-changed": _Kind(412, "The file was changed meanwhile"),
    "content-too-large": _Kind(413, "The request body is too large"),
    "unsupported-media-type": _Kind(415, "The request body has to be JSON"),
    "idempotency-key-reused": _Kind(422, "The idempotency key belongs to another message"),
    "invalid-input": _Kind(422, "The input is not valid"),
    "version-missing": _Kind(428, "It has to be said which version is replaced"),
    "daily-cost-reached": _Kind(429, "The daily limit is used up"),
    "mailbox-full": _Kind(429, "The conversation has too many messages waiting", retry_after_s=1),
    "too-many-requests": _Kind(429, "Too many requests"),
    "internal": _Kind(500, "Something went wrong inside Everturn"),
    "journal-damaged": _Kind(500, "The journal is damaged"),
    "journal-failed": _Kind(500, "The session's journal cannot be used"),
    "journal-format": _Kind(500, "The session's journal was written by another version"),
    "not-installed": _Kind(501, "A package is not installed"),
    "server-failed": _Kind(502, "The MCP server gave no answer"),
    "model-failed": _Kind(502, "The model gave no reply"),
    "turn-failed": _Kind(502, "The turn failed"),
    "turn-interrupted": _Kind(502, "The turn was interrupted"),
    "channels-not-ready": _Kind(503, "A channel does not receive", retry_after_s=5),
    "fenced": _Kind(503, "Another writer changed the session", retry_after_s=1),
    "journal-not-writable": _Kind(503, "Messages cannot be kept", retry_after_s=5),
    "not-ready": _Kind(503, "The gateway is not ready", retry_after_s=5),
    "owner-away": _Kind(503, "The node that has the session cannot be asked", retry_after_s=1),
    "out-of-files": _Kind(
        503, "The gateway has too many files and connections open", retry_after_s=5
    ),
    "session-failed": _Kind(503, "The session failed", retry_after_s=1),
    "store-away": _Kind(503, "What is kept cannot be read now", retry_after_s=1),
    "stopping": _Kind(503, "The gateway is stopping", retry_after_s=5),
    "tasks-down": _Kind(503, "A part of the gateway is down", retry_after_s=5),
    "too-many-connections": _Kind(503, "Too many connections", retry_after_s=1),
    "too-many-followers": _Kind(503, "Too many followers", retry_after_s=5),
    "workspace-lost": _Kind(503, "The gateway no longer holds its workspace", retry_after_s=5),
    "timeout": _Kind(504, "It took too long"),
    "not-written": _Kind(507, "It could not be written to disk"),
}

_CORE: Final[Mapping[type[Exception], str]] = {
    InvalidInputError: "invalid-input",
    UnusableModelError: "unusable-model",
    UnknownAgentError: "unknown-agent",
    UnknownSessionError: "unknown-session",
    UnknownMessageError: "unknown-message",
    UnknownRequestError: "unknown-request",
    SessionEndedError: "session-ended",
    UnknownApprovalError: "unknown-approval",
    NotAnApproverError: "not-an-approver",
    ApprovalClosedError: "approval-closed",
    NothingToRetryError: "nothing-to-retry",
    MailboxFullError: "mailbox-full",
    QueueFullError: "mailbox-full",
    OwnerAwayError: "owner-away",
    HomeElsewhereError: "owner-away",
    MovedError: "owner-away",
    LinkBrokenError: "owner-away",
    LinkRefusedError: "owner-away",
    ActorStoppedError: "stopping",
    ActorFailedError: "session-failed",
    WorkspaceLostError: "workspace-lost",
    SessionQuarantinedError: "session-quarantined",
    OutOfFilesError: "out-of-files",
    JournalWriteError: "not-written",
    FencedError: "fenced",
    ConflictError: "fenced",
    StaleReadError: "store-away",
    StoreAwayError: "store-away",
    CorruptJournalError: "journal-damaged",
    UnknownFormatError: "journal-format",
    JournalError: "journal-failed",
    ContextDoesNotFitError: "context-does-not-fit",
    ModelError: "model-failed",
    CannotBranchError: "cannot-fork",
    CoreError: "internal",
}


def problem(
    kind: str,
    detail: str,
    *,
    extra: Mapping[str, object] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Problem:
    """Return a problem of one of `KINDS`; `detail` is for people."""
    status, title, retry_after_s = KINDS[kind]
    retry = {"Retry-After": str(retry_after_s)} if retry_after_s else {}
    return Problem(
        kind=kind,
        title=title,
        status=status,
        detail=detail,
        extra=extra or {},
        headers={**retry, **(headers or {})},
    )


def core_problem(error: CoreError) -> Problem:
    """Return the problem that answers an error of the core."""
    kind = next(_CORE[cls] for cls in type(error).__mro__ if cls in _CORE)
    return problem(kind, str(error))


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
    return problem("invalid-input", detail, extra={"errors": list(errors)} if errors else None)


STOPPING: Final = problem(
    "stopping",
    "the gateway is stopping, and whether this was done is not known; send it again in a moment,"
    " under the same Idempotency-Key",
)
INTERNAL: Final = problem(
    "internal", "the gateway failed while it handled this request; its log says why"
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


def openai_error(problem: Problem) -> dict[str, object]:
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
