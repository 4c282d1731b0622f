"""What a gateway's answers mean: values, updates of a conversation, and errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, NoReturn, TypeAlias, TypeVar
from urllib.parse import quote, unquote

import httpx2
import orjson

from everturn_actors.errors import (
    ApprovalClosedError,
    ContextDoesNotFitError,
    InvalidInputError,
    MailboxFullError,
    NothingToRetryError,
    SessionEndedError,
    UnknownApprovalError,
    UnknownFormatError,
    UnknownMessageError,
    UnknownRequestError,
    UnknownSessionError,
)
from everturn_actors.json_values import is_object
from everturn_actors.model import (
    Approval,
    Attachment,
    ConversationKey,
    FileDigest,
    Inquiry,
    Outage,
    Usage,
)
from everturn_actors.service import TextDelta, Update
from everturn_actors.state.serialization import from_record
from everturn_channels.errors import ClientError
from everturn_gateway.usage import NANODOLLARS

T = TypeVar("T")

Json: TypeAlias = Mapping[str, Any]
"""An object of an answer. What is read from it is believed to be what the API's document says;
`value_of` turns what is not into an error of its own."""

SESSIONS: Final = "/api/v1/sessions/"
_NO_SEGMENT: Final = re.compile(r"/|^\.\.?$")  # not one step of a path, however it is written
_USAGE_TOKENS: Final = ("input_tokens", "output_tokens", "cached_tokens", "cache_written_tokens")
_TRY_AGAIN: Final = frozenset({"stopping", "session-failed", "fenced", "too-many-connections"})
_FOREIGN: Final = (
    "the gateway's answer is not understood; is it another program, or another version?"
)


class TryAgainError(Exception):
    """The gateway cannot take it now and may soon."""


class FieldsRefusedError(InvalidInputError):
    """Fields of a body cannot be as they are.

    Attributes:
        fields: Each by its dotted name, `to.webhook`, with what is wrong.
    """

    def __init__(self, message: str, fields: Iterable[tuple[str, str]]) -> None:
        self.fields = tuple(fields)
        super().__init__(message)


def session_path(session_id: str) -> str:
    """Return the path of a session.

    Raises:
        UnknownSessionError: Nothing else has such an id: it would be another path.
    """
    if _NO_SEGMENT.search(session_id) or not session_id:
        raise UnknownSessionError(session_id)
    return f"{SESSIONS}{quote(session_id, safe='')}"


def refuse(response: httpx2.Response, content: bytes) -> NoReturn:
    """Raise what a problem document says.

    Raises:
        TryAgainError: The same request may be taken soon.
        CoreError: What is wrong with the request.
        ClientError: Anything else.
    """
    try:
        problem = document(content)
    except ClientError:
        problem = {}
    _raise(problem, f"the gateway answered with status {response.status_code}")


def _raise(problem: Json, otherwise: str) -> NoReturn:
    """Raise the error that a problem document tells of."""
    kind = str(problem.get("type", "")).rpartition(":")[2]
    detail = str(problem.get("detail") or otherwise)
    if kind in _TRY_AGAIN:
        raise TryAgainError(detail)
    if kind == "unauthorized":
        msg = (
            f"{detail}; set EVERTURN_TOKEN to one of yours, or server.api_token in everturn.yaml,"
            " or EVERTURN_API_TOKEN"
        )
        raise ClientError(msg)
    session_id = unquote(str(problem.get("instance", "")).removeprefix(SESSIONS).split("/")[0])
    match kind:
        case "invalid-input" | "content-too-large" | "schedule-taken":
            if fields := [*_fields(problem)]:
                raise FieldsRefusedError(detail, fields)
            raise InvalidInputError(detail)
        case "nothing-to-retry":
            raise NothingToRetryError(detail)
        case "mailbox-full":
            raise MailboxFullError(detail)
        case "unknown-session":
            raise UnknownSessionError(session_id)
        case "unknown-approval":
            raise UnknownApprovalError(_first_quoted(detail))
        case "approval-closed":
            raise ApprovalClosedError(_first_quoted(detail), detail.rpartition(": ")[2])
        case "unknown-request":
            seq = str(problem.get("instance", "")).rpartition("/")[2]
            raise UnknownRequestError(session_id, int(seq), detail.partition(": ")[2])
        case "unknown-message":
            seq = str(problem.get("instance", "")).rpartition("/")[2]
            raise UnknownMessageError(session_id, int(seq))
        case "context-does-not-fit":
            raise ContextDoesNotFitError(detail)
        case "session-ended":
            raise SessionEndedError(session_id, detail.partition("(")[2].partition(")")[0])
        case _:
            raise ClientError(detail)


def _fields(problem: Json) -> Iterable[tuple[str, str]]:
    """Yield the fields of a body that are at fault: `#/to/webhook` is `to.webhook`."""
    errors: list[dict[str, str]] = problem.get("errors") or []
    for each in errors:
        if "pointer" in each:
            yield (
                each["pointer"].removeprefix("#").removeprefix("/").replace("/", "."),
                each["detail"],
            )


def _first_quoted(text: str) -> str:
    """Return what stands between the first two quotes."""
    return text.partition("'")[2].partition("'")[0]


def approval_of(data: Json) -> Approval:
    """Return the approval that a session's document tells of."""
    return Approval(
        call_id=data["call_id"],
        arguments_hash=data["arguments_hash"],
        expires_at=datetime.fromisoformat(data["expires_at"]),
        reason=data["reason"],
        pattern=data["pattern"],
        approvers=tuple(data["approvers"]),
        files=tuple(FileDigest(path=path, digest="") for path in data["files"]),
        inquiry=_inquiry_of(data["inquiry"]),
    )


def _inquiry_of(data: Json | None) -> Inquiry | None:
    if data is None:
        return None
    return Inquiry(
        text=data["text"],
        choices=tuple(data["choices"]),
        takes_text=data["takes_text"],
        default=data["default"],
    )


def outage_of(session: Json) -> Outage | None:
    """Return the outage that a session's document tells of."""
    turn: Json = session["open_turn"] or {}
    data: Json | None = turn.get("outage")
    if data is None:
        return None
    times = {
        name: datetime.fromisoformat(data[name])
        for name in ("since", "failed_at", "retry_at", "give_up_at")
    }
    return Outage(attempts=data["attempts"], error=data["error"], **times)


def document(content: bytes) -> dict[str, Any]:
    """Return the JSON object of an answer; an empty one where it has no content.

    Raises:
        ClientError: It is something else.
    """
    try:
        data: Any = orjson.loads(content) if content else {}
    except orjson.JSONDecodeError:
        data = None
    if not is_object(data):
        raise ClientError(_FOREIGN)
    return data


def value_of(build: Callable[[Json], T], data: Json) -> T:
    """Return the value of an answer.

    Raises:
        ClientError: It is that of another version.
    """
    try:
        return build(data)
    except (KeyError, TypeError, ValueError) as error:
        raise ClientError(_FOREIGN) from error


def attachments_of(data: Json) -> tuple[Attachment, ...]:
    """Return the files that came with a message."""
    return tuple(
        Attachment(**{name: value for name, value in each.items() if name != "url"})
        for each in data["attachments"]
    )


def key_of(data: Json) -> ConversationKey:
    """Return the conversation that a session belongs to."""
    return ConversationKey(
        channel=data["channel"],
        chat=data["chat"],
        agent=data["agent"],
        topic=data.get("topic", ""),
    )


def usage_of(data: Json) -> Usage:
    """Return the usage of a body."""
    tokens = {name: int(data[name]) for name in _USAGE_TOKENS}
    return Usage(**tokens, cost_nanodollars=round(data["cost_usd"] * NANODOLLARS))


def number_of(name: str) -> int:
    """Return the number in the name of a message or a turn: `m7`, `t2`."""
    return int(name[1:])


def update_of(event: str, data: str) -> Update | None:
    """Return the update that a message of the stream stands for."""
    if not data or event in {"status", "gap"}:
        return None  # how soon to connect again, or what is true for a moment
    record = document(data.encode())
    if event == "error":
        _raise(record, "the gateway failed while it sent the events")
    if event == "token":
        return TextDelta(
            turn=number_of(record["turn_id"]),
            step=record["step"],
            offset=record["offset"],
            text=record["text"],
        )
    try:
        return from_record(record)
    except UnknownFormatError as error:
        raise ClientError(str(error)) from error
