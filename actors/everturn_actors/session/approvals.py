"""Who may still say what about a call that waits for a person. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import get_args

from everturn_actors.errors import (
    ApprovalClosedError,
    CoreError,
    NotAnApproverError,
    UnknownApprovalError,
)
from everturn_actors.model import OWNER_PREFIX, Approval, Decision, Resolution
from everturn_actors.protocol.commands import ResolveApproval
from everturn_actors.state.session_state import SessionState


def find_approval(state: SessionState, call_id: str) -> Approval | None:
    """Return the approval of a call of the open step, whether it is settled or not."""
    step = state.open_turn.step if state.open_turn else None
    return step.approvals.get(call_id) if step else None


def has_new_word(state: SessionState) -> bool:
    """Whether a person has decided about a call that has not begun since."""
    step = state.open_turn.step if state.open_turn else None
    return step is not None and any(
        each.resolution in get_args(Decision)
        and call_id not in step.started
        and call_id not in step.results
        for call_id, each in step.approvals.items()
    )


def why_settled(resolution: Resolution) -> str:
    """Return why an approval that is settled so cannot be answered any more."""
    return "it has expired" if resolution == "expired" else f"it was settled: {resolution}"


def _may_answer(approval: Approval, by: str) -> bool:
    """Return whether a sender, or whoever runs the gateway, is one of those who may answer.

    A platform, or a plug-in of one, may give its people any id: none of them makes an owner.
    """
    return not by or (not by.startswith(OWNER_PREFIX) and approval.may_answer(by))


def why_not(approval: Approval | None, command: ResolveApproval, now: datetime) -> CoreError | None:
    """Return why a person's word does not count; None where it does, or was given before."""
    call_id = command.call_id
    if approval is None:
        return UnknownApprovalError(call_id)
    if not command.may_always and not _may_answer(approval, command.by):
        return NotAnApproverError(call_id, command.by)
    if command.arguments_hash and command.arguments_hash != approval.arguments_hash:
        return ApprovalClosedError(call_id, "its arguments are not those that were decided about")
    if command.expires_at not in {None, approval.expires_at}:
        return ApprovalClosedError(call_id, "it is asked about anew")
    if approval.resolution is not None:
        same = approval.resolution == command.resolution
        return None if same else ApprovalClosedError(call_id, why_settled(approval.resolution))
    if now >= approval.expires_at:
        return ApprovalClosedError(call_id, "it has expired")
    if command.resolution == "allow_always" and not approval.pattern:
        return ApprovalClosedError(call_id, "it cannot be allowed for good, only this once")
    return None
