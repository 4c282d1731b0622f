"""Who may still say what about a call that waits for a person. Pure."""

from __future__ import annotations

from datetime import datetime

from everturn_actors.commands import Settle
from everturn_actors.errors import (
    ApprovalClosedError,
    CoreError,
    NotAnApproverError,
    UnknownApprovalError,
)
from everturn_actors.model import Approval
from everturn_actors.state import SessionState


def find_approval(state: SessionState, call_id: str) -> Approval | None:
    """Return the approval of a call of the open step, whether it is settled or not."""
    step = state.open_turn.step if state.open_turn else None
    return step.approvals.get(call_id) if step else None


def why_not(approval: Approval | None, command: Settle, now: datetime) -> CoreError | None:
    """Return why a person's word does not count; None where it does, or was given before."""
    call_id = command.call_id
    if approval is None:
        return UnknownApprovalError(call_id)
    if command.by and not approval.may_answer(command.by):
        return NotAnApproverError(call_id, command.by)
    if command.arguments_hash and command.arguments_hash != approval.arguments_hash:
        return ApprovalClosedError(call_id, "its arguments are not those that were decided about")
    if approval.settled is not None:
        same = approval.settled == command.settled
        why = (
            "it has expired"
            if approval.settled == "expired"
            else f"it was settled: {approval.settled}"
        )
        return None if same else ApprovalClosedError(call_id, why)
    if now >= approval.expires_at:
        return ApprovalClosedError(call_id, "it has expired")
    if command.settled == "allow_always" and not approval.pattern:
        return ApprovalClosedError(call_id, "it cannot be allowed for good, only this once")
    return None
