"""Who may still say what about a call that waits for a person. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Final, get_args

from everturn_actors.errors import (
    ApprovalClosedError,
    CoreError,
    NotAnApproverError,
    UnknownApprovalError,
)
from everturn_actors.model import OWNER_PREFIX, Approval, Decision, Resolution
from everturn_actors.protocol.commands import ResolveApproval
from everturn_actors.state.session_state import SessionState

ANSWER_CHARACTERS: Final = 8_000  # of what a person answers to an inquiry


def find_approval(state: SessionState, call_id: str) -> Approval | None:
    """Return the approval of a call of the open step, whether it is resolved or not."""
    step = state.open_turn.step if state.open_turn else None
    return step.approvals.get(call_id) if step else None


def has_new_decision(state: SessionState) -> bool:
    """Whether a person has decided about a call that has not begun since."""
    step = state.open_turn.step if state.open_turn else None
    return step is not None and any(
        each.resolution in get_args(Decision)
        and call_id not in step.started
        and call_id not in step.results
        for call_id, each in step.approvals.items()
    )


def why_resolved(resolution: Resolution) -> str:
    """Return why an approval that is resolved so cannot be answered any more."""
    if resolution == "answer":
        return "it was answered"
    return "it has expired" if resolution == "expired" else f"it was settled: {resolution}"


def _may_answer(approval: Approval, by: str) -> bool:
    """Return whether a sender, or whoever runs the gateway, is one of those who may answer.

    A platform, or a plug-in of one, may give its people any id: none of them makes an owner.
    """
    return not by or (not by.startswith(OWNER_PREFIX) and approval.may_answer(by))


def _why_no_answer(approval: Approval, command: ResolveApproval) -> str:
    """Return why a decision does not fit what is asked; empty where it does."""
    inquiry, is_answer = approval.inquiry, command.resolution == "answer"
    if command.resolution == "deny":
        return ""
    if inquiry is None:
        return "it is asked whether the call may run; that takes no other answer" * is_answer
    if not is_answer:
        return "it is a question of the agent's, which takes an answer in words"
    if len(command.answer) > ANSWER_CHARACTERS:
        return f"an answer has at most {ANSWER_CHARACTERS:,} characters"
    if inquiry.read(command.answer) is None:
        listed = ", ".join(f"{n} ({choice})" for n, choice in enumerate(inquiry.choices, 1))
        return f"it takes one of: {listed}" if listed else "it takes an answer that is not empty"
    return ""


def why_not(approval: Approval | None, command: ResolveApproval, now: datetime) -> CoreError | None:
    """Return why a person's decision does not count; None where it does, or was given before."""
    call_id = command.call_id
    if approval is None:
        return UnknownApprovalError(call_id)
    if not command.may_always and not _may_answer(approval, command.by):
        return NotAnApproverError(call_id, command.by)
    if command.arguments_hash and command.arguments_hash != approval.arguments_hash:
        return ApprovalClosedError(call_id, "its arguments are not those that were decided about")
    if command.expires_at not in {None, approval.expires_at}:
        return ApprovalClosedError(call_id, "it is asked about anew")
    if wrong := _why_no_answer(approval, command):
        return ApprovalClosedError(call_id, wrong)
    if approval.resolution is not None:
        same = approval.resolution == command.resolution and (
            approval.inquiry is None or approval.inquiry.read(command.answer) == approval.answer
        )
        return None if same else ApprovalClosedError(call_id, why_resolved(approval.resolution))
    if now >= approval.expires_at:
        return ApprovalClosedError(call_id, "it has expired")
    if command.resolution == "allow_always" and not approval.pattern:
        return ApprovalClosedError(call_id, "it cannot be allowed for good, only this once")
    return None
