"""What an answer tells of calls that wait to be allowed."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

from msgspec import Struct, field

from everturn_actors.events import ApprovalAsked, Event, ModelReplied
from everturn_actors.model import Approval, ToolCall, Usage
from everturn_actors.service import Submission, TextDelta, TurnResult
from everturn_gateway.http.openai.approvals import question
from everturn_gateway.principals import Principal


class Questions(Struct, frozen=True, kw_only=True):
    """How calls that wait are told of in an answer."""

    caller: Principal | None = None
    "Who is told; None = nobody."
    ends: bool = False
    """Whether the answer ends with a question. Where a page waits for its end, nobody could say
    anything to it otherwise; the turn waits for the word, which comes with the next message."""
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


class Reading(Struct, kw_only=True):
    """The events of one turn, as they come."""

    questions: Questions
    session_id: str
    calls: dict[str, ToolCall] = field(default_factory=dict[str, ToolCall])

    @property
    def ends(self) -> bool:
        """Whether the answer ends with a question."""
        return self.questions.ends

    def is_new(self, event: Event) -> bool:
        """Whether the client was not told of an event yet."""
        return event.seq > self.questions.after

    def read(self, event: Event) -> str:
        """Take the next event; return the question that it asks, as Markdown, empty = none."""
        body, caller = event.body, self.questions.caller
        if isinstance(body, ModelReplied):
            self.calls = {call.call_id: call for call in body.calls}
        if not isinstance(body, ApprovalAsked) or caller is None or not self.is_new(event):
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


def as_answer(submission: Submission, text: str, *, shown: bool = False) -> TurnResult:
    """Return a question as the answer for now.

    Args:
        submission: The message that it answers.
        text: The question.
        shown: Whether it was shown already.
    """
    return TurnResult(
        session_id=submission.session_id,
        turn=0,
        message_seq=submission.seq,
        outcome="answered",
        text="" if shown else text,
        error="",
        usage=Usage(),
    )


async def answer_or_question(submission: Submission, questions: Questions) -> TurnResult:
    """Return how a turn ends, or its next question where the answer ends with that.

    Raises:
        CoreError: See `Submission.result`.
    """
    if questions.ends:
        reading = questions.begin(submission.session_id)
        async with aclosing(submission.updates()) as updates:
            async for update in updates:
                if not isinstance(update, TextDelta) and (text := reading.read(update)):
                    return as_answer(submission, text)
    return await submission.result()
