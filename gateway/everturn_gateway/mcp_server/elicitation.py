"""Asks the person at a client about a call that waits, in the words of MCP: elicitation. Pure."""

from __future__ import annotations

from typing import Final

import msgspec
from mcp import MCPError
from mcp_types import (
    INVALID_PARAMS,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    InputResponses,
)

from everturn_actors.events import ApprovalAsked
from everturn_actors.model import Decision

QUESTION: Final = "approval"  # names the question among those of one answer
_FIELD: Final = "decision"
_ANSWER: Final = "answer"
_DECISIONS: Final[dict[str, Decision]] = {
    "allow_once": "allow_once",
    "allow_always": "allow_always",
    "deny": "deny",
}


class Round(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a request goes on that the client sends again with the answer to a question.

    The client keeps it between the two, and could change it: it names what the caller may do with
    its rights anyway, and grants nothing.
    """

    session: str
    seq: int
    "Of the message that is answered."
    seen_seq: int
    "Of the event up to which the client was told how the turn goes on."
    call_id: str
    arguments_hash: str
    dismissed: tuple[str, ...] = ()
    "Questions that the person did not want to answer: they are not asked again."


def schema(asked: ApprovalAsked, *, may_always: bool) -> dict[str, object]:
    """Return the form of the question: a decision, or the answer to what the agent asks."""
    if asked.inquiry is not None:
        answer: dict[str, object] = {"type": "string", "title": "Answer", "minLength": 1}
        if asked.inquiry.choices and not asked.inquiry.takes_text:
            answer = {"type": "string", "title": "Answer", "enum": [*asked.inquiry.choices]}
        return {"type": "object", "properties": {_ANSWER: answer}, "required": [_ANSWER]}
    words = [word for word in _DECISIONS if may_always or word != "allow_always"]
    decision = {"type": "string", "title": "Decision", "enum": words}
    return {"type": "object", "properties": {_FIELD: decision}, "required": [_FIELD]}


def decision_of(result: ElicitResult) -> tuple[Decision | None, str]:
    """Return what the person decided, None where they dismissed the question; and an answer."""
    if result.action == "decline":
        return "deny", ""
    if result.action == "cancel":
        return None, ""
    content = result.content or {}
    if _ANSWER in content:
        return "answer", str(content[_ANSWER])
    return _DECISIONS.get(str(content.get(_FIELD))), ""


def question_id(asked: ApprovalAsked) -> str:
    """Return what tells a question from the next one about the same call."""
    return f"{asked.call_id}:{asked.arguments_hash}"


def input_required(text: str, form: dict[str, object], state: Round) -> InputRequiredResult:
    """Return the answer that asks the client to send its request again, with the decision."""
    params = ElicitRequestFormParams(message=text, requested_schema=form)
    return InputRequiredResult(
        input_requests={QUESTION: ElicitRequest(params=params)},
        request_state=msgspec.json.encode(state).decode(),
    )


def round_of(request_state: str) -> Round:
    """Return where a request goes on.

    Raises:
        MCPError: The client changed what it was given.
    """
    try:
        return msgspec.json.decode(request_state, type=Round)
    except msgspec.DecodeError:
        raise MCPError(INVALID_PARAMS, "the requestState is not one of this server") from None


def answer_in(responses: InputResponses | None) -> ElicitResult | None:
    """Return the answer to the question, where there is one."""
    found = (responses or {}).get(QUESTION)
    return found if isinstance(found, ElicitResult) else None
