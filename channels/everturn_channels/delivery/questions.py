"""The questions of a session, and what became of them.

The state forgets a question with its step, sooner perhaps than its message can be changed. So
whoever delivers notes in time how each was resolved; after a restart that is known no longer.
"""

from __future__ import annotations

from msgspec import Struct

from everturn_actors.delivery.port import Outgoing
from everturn_actors.model import Approval, OutboxItem, Resolution, ToolCall
from everturn_actors.state.session_state import SessionState


class Question(Struct, frozen=True, kw_only=True):
    """A question as it stands now."""

    approval: Approval | None
    "None: it is not open any more."
    call: ToolCall | None
    "None: it is not known any more."

    @property
    def is_over(self) -> bool:
        """Whether nobody can answer it any more."""
        return self.approval is None or self.approval.resolution is not None


class Shown(Struct, frozen=True, kw_only=True):
    """A question that people see."""

    item: OutboxItem
    call: ToolCall | None
    "None: it was not known any more."
    platform_id: str
    "The message with the buttons."


class QuestionOutcome(Struct, frozen=True, kw_only=True):
    """What became of a question."""

    resolution: Resolution | None
    "None: it is over, and nobody knows any more how."
    by: str = ""
    answer: str = ""


_NOT_KNOWN = QuestionOutcome(resolution=None)
NONE = Question(approval=None, call=None)


class Questions:
    """Remembers how pending questions were resolved, and which of them are shown."""

    def __init__(self) -> None:
        self._outcomes: dict[tuple[int, str], QuestionOutcome] = {}
        self._shown: dict[int, Shown] = {}

    @property
    def shown(self) -> tuple[Shown, ...]:
        """The questions that people see; once the session has ended, those they saw until then."""
        return tuple(self._shown.values())

    async def watch(self, session: Outgoing) -> None:
        """Note what there is to note whenever the session changes, until cancelled."""
        while True:
            self.note(session.state)
            await session.until_changed()

    def note(self, state: SessionState) -> None:
        """Look at the state, which may forget soon; at its end a session forgets what it owes."""
        if state.status != "ended":
            self._shown = {
                item.seq: self._shown.get(item.seq)
                or Shown(
                    item=item,
                    call=question_of(state, item).call,
                    platform_id=item.chunks[-1].platform_id,
                )
                for item in state.outbox
                if item.kind == "approval" and item.chunks and item.chunks[-1].mark == "sent"
            }
        turn = state.open_turn
        if turn is None or turn.step is None:
            return
        for call_id, approval in turn.step.approvals.items():
            if approval.resolution is not None:
                self._outcomes[turn.number, call_id] = QuestionOutcome(
                    resolution=approval.resolution, by=approval.by, answer=approval.answer
                )
            else:  # asked anew: what was said before is not the answer to this question
                self._outcomes.pop((turn.number, call_id), None)

    def outcome(self, item: OutboxItem) -> QuestionOutcome:
        """Return how the question of an outbox item was resolved."""
        return self._outcomes.get((item.turn, item.call_id), _NOT_KNOWN)


def question_of(state: SessionState, item: OutboxItem) -> Question:
    """Return the question of an outbox item, whatever became of it."""
    if item.kind != "approval":
        return NONE
    turn = state.open_turn
    is_open = turn is not None and turn.number == item.turn
    approval = turn.step.approvals.get(item.call_id) if is_open and turn and turn.step else None
    if any(each.seq > item.seq and each.call_id == item.call_id for each in state.outbox):
        approval = None  # a later step asked about a call of the same name
    return Question(approval=approval, call=_call(state, item))


def _call(state: SessionState, item: OutboxItem) -> ToolCall | None:
    turn = state.open_turn
    if turn is not None and turn.number == item.turn:
        replies = [step.reply for step in turn.steps]
        if turn.step is not None and turn.step.reply is not None:
            replies.append(turn.step.reply)
    else:
        held = (each for each in state.held_turns if each.number == item.turn)
        replies = [step.reply for each in held for step in each.steps]
    made = [call for reply in replies if reply.seq < item.seq for call in reply.calls]
    return next((call for call in reversed(made) if call.call_id == item.call_id), None)
