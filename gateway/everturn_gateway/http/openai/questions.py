"""What an answer tells of calls that wait to be allowed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from math import inf
from typing import Final

import anyio
from msgspec import Struct, field

from everturn_actors.events import ApprovalAsked, ApprovalDecided, Event, ModelReplied
from everturn_actors.model import Approval, ToolCall, Usage
from everturn_actors.service import Submission, TextDelta, TurnResult
from everturn_gateway.http.openai.approvals import question
from everturn_gateway.http.ports import HasConfig
from everturn_gateway.principals import Principal

APPROVAL_REQUIRED: Final = "approval_required"
"Why an answer ends that holds a question: the turn is not over."


class Questions(Struct, frozen=True, kw_only=True):
    """How calls that wait are told of in an answer."""

    caller: Principal | None = None
    "Who is told; None = nobody."
    ends_after_s: float | None = None
    """After how long a question that nobody has answered ends the answer; None = it does not.

    Whoever waits for the end of the answer could say nothing to it otherwise. The turn waits for
    the decision, which comes with the next message."""
    after: int = 0
    "The last event that the client was told of."
    steps: int = 0
    "How many steps of the turn it was shown the text of."

    def is_shown(self, delta: TextDelta) -> bool:
        """Whether the client has a piece of text already."""
        return delta.step <= self.steps

    def begin(self, session_id: str) -> Reading:
        """Begin to read the events of a turn."""
        return Reading(questions=self, session_id=session_id)


SILENT: Final = Questions()


def patience_s(
    gateway: HasConfig, *, is_page: bool, streams: bool | None, refuses: bool = False
) -> float | None:
    """Return after how long a question ends an answer; None = it does not.

    Args:
        gateway: Whose settings hold.
        is_page: Whether a chat page waits, which lets nobody write before the end.
        streams: Whether the question is seen at once; then somebody else may answer it, too.
        refuses: Whether a streamed question is the refusal of the whole answer.
    """
    if is_page or (streams and refuses):
        return 0
    return None if streams else gateway.config.openai_api.approval_wait_s


class Reading(Struct, kw_only=True):
    """The events of one turn, as they come."""

    questions: Questions
    session_id: str
    calls: dict[str, ToolCall] = field(default_factory=dict[str, ToolCall])

    @property
    def ends(self) -> bool:
        """Whether the answer ends with a question."""
        return self.questions.ends_after_s is not None

    def is_new(self, event: Event) -> bool:
        """Whether the client was not told of an event yet."""
        return event.seq > self.questions.after

    def read(self, event: Event) -> str:
        """Take the next event; return the question that it asks, as Markdown, empty = none.

        Also one that the client was told of, see `is_new`.
        """
        body, caller = event.body, self.questions.caller
        if isinstance(body, ModelReplied):
            self.calls = {call.call_id: call for call in body.calls}
        if not isinstance(body, ApprovalAsked) or caller is None:
            return ""
        approval = Approval(
            call_id=body.call_id,
            arguments_hash=body.arguments_hash,
            expires_at=event.at,
            approvers=body.approvers,
        )
        is_caller = caller.may("approve") and (caller.may_claim or approval.may_answer(caller.name))
        call = self.calls.get(body.call_id)
        return question(body, event.at, call, self.session_id, is_caller=is_caller)


def as_answer(submission: Submission, text: str = "") -> TurnResult:
    """Return a question as the answer for now.

    Args:
        submission: The message that it answers.
        text: The question; empty where a stream has shown it, and ends like any other: clients
            know no second way.
    """
    return TurnResult(
        session_id=submission.session_id,
        turn=0,
        message_seq=submission.seq,
        outcome="answered",
        text=text,
        error="",
        usage=Usage(),
        stop_reason=APPROVAL_REQUIRED if text else "",
    )


async def answer_or_question(
    submission: Submission,
    questions: Questions,
    note: Callable[[Event, str], None] | None = None,
) -> TurnResult:
    """Return how a turn ends, or a question of it where the answer ends with that.

    Args:
        submission: The message that is answered.
        questions: How calls that wait are told of.
        note: Called for each event that the client was not told of, with the question that it asks.

    Raises:
        CoreError: See `Submission.result`.
    """
    reading, text = questions.begin(submission.session_id), ""
    if reading.ends or note is not None:
        with anyio.CancelScope() as unanswered:
            async with aclosing(submission.updates()) as updates:
                async for update in updates:
                    if isinstance(update, TextDelta):
                        continue
                    asked, is_new = reading.read(update), reading.is_new(update)
                    if note is not None and is_new:
                        note(update, asked)
                    if asked and is_new and questions.ends_after_s is not None:
                        text = asked
                        if not questions.ends_after_s:
                            return as_answer(submission, text)
                        unanswered.deadline = anyio.current_time() + questions.ends_after_s
                    elif isinstance(update.body, ApprovalDecided):
                        unanswered.deadline = inf  # who else may answer did
        if unanswered.cancelled_caught:
            return as_answer(submission, text)
    return await submission.result()
