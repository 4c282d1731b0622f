"""Calls of tools. Pure."""

from __future__ import annotations

from everturn_actors.events.body import EventBody
from everturn_actors.model import Attachment, CallAnswer, FileDigest, Inquiry, Resolution


class ApprovalAsked(EventBody, frozen=True, kw_only=True):
    """A call of the open step waits for a person."""

    call_id: str
    arguments_hash: str
    "Of the arguments it was asked for, and of `files`; see `ids.arguments_hash`."
    timeout_s: int
    "How long there is to answer, from this event on."
    reason: str = ""
    pattern: str = ""
    "What allow_always would allow from then on; empty = this cannot be allowed for good."
    approvers: tuple[str, ...] = ()
    "Who may answer; empty = all who may talk in this conversation."
    files: tuple[FileDigest, ...] = ()
    "Files of the workspace that the call names, as they stood: the decision holds for no others."
    inquiry: Inquiry | None = None
    "What the agent wants to know; None = it is asked whether the call may run."
    state: str = ""
    "What a call that ran goes on with when there is an answer: until then it has not begun again."


class ApprovalDecided(EventBody, frozen=True, kw_only=True):
    """What became of an approval that was asked for."""

    call_id: str
    decision: Resolution
    by: str = ""
    "Who decided; empty where nobody did."
    answer: str = ""
    "What they answered to an inquiry."


class CallsHandedOver(EventBody, frozen=True, kw_only=True):
    """Calls of tools that the caller runs were given to it; the turn waits for what they give."""

    turn: int
    call_ids: tuple[str, ...]
    timeout_s: int
    "How long there is to answer, from this event on."


class CallsAnswered(EventBody, frozen=True, kw_only=True):
    """The caller told what calls that were handed over gave."""

    turn: int
    answers: tuple[CallAnswer, ...]
    idempotency_key: str = ""


class CallStarted(EventBody, frozen=True, kw_only=True):
    """A tool is about to run: from here on its outcome is unknown until `CallFinished`."""

    call_id: str


class CallFinished(EventBody, frozen=True, kw_only=True):
    """The result of one call of the open step."""

    call_id: str
    text: str
    is_error: bool = False
    path: str = ""
    "Under the session's results, the file that holds the whole text; empty where this is it."
    untrusted: bool = False
    "Whether it holds text from outside that nobody vouches for."
    source: str = ""
    "untrusted: what that text is, in words; empty = not told."
    is_refused: bool = False
    "Whether the call did not run: the policy refuses it, or nobody allowed it in time."
    attachments: tuple[Attachment, ...] = ()
    "Files that the call sends to the people of the conversation; their bytes were kept before."
    images: tuple[Attachment, ...] = ()
    "Images that the model is shown with the result; their bytes were kept before."
