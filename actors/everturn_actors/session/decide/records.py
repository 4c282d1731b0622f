"""What works beside the command loop tells of: deliveries, summaries, approvals. Pure."""

from __future__ import annotations

from everturn_actors.errors import CoreError, CorruptJournalError, SessionEndedError
from everturn_actors.events import ApprovalDecided, StatusChanged
from everturn_actors.protocol.commands import RecordDelivery, ResolveApproval, Summary
from everturn_actors.session.approvals import find_approval, why_not
from everturn_actors.session.decide.decision import Draft, Later


def record_delivery(command: RecordDelivery, draft: Draft) -> CoreError | None:
    """Add what a delivery port did; what cannot have happened is refused, and harms nobody."""
    state = draft.known
    if state.status == "ended":
        return SessionEndedError(draft.context.session_id, state.ended_reason)
    before = draft.mark()
    try:
        draft.add(*command.bodies)
    except CorruptJournalError as error:
        draft.go_back(before)
        return error
    return None


def resolve_approval(command: ResolveApproval, draft: Draft) -> CoreError | None:
    """Settle an approval; a word that comes too late, or from somebody else, changes nothing."""
    state = draft.known
    approval = find_approval(state, command.call_id)
    error = None if command.own else why_not(approval, command, draft.now)
    if error is not None:
        return error
    if approval is not None and approval.resolution is None:
        decided = ApprovalDecided(
            call_id=command.call_id, decision=command.resolution, by=command.by
        )
        draft.add(decided)
        if state.status == "paused" and not command.own:
            draft.add(StatusChanged(status="active"))
    return None


def record_summary(command: Summary, draft: Draft) -> bool:
    """Add a summary that is ready; answer whether it is of use."""
    state, known = draft.known, draft.known.reductions.summary
    fits = state.status != "ended" and (known is None or command.body.last_turn >= known.last_turn)
    if fits:
        draft.add(command.body)
    return fits


def compact(draft: Draft) -> CoreError | Later:
    """Have older turns summarised, where somebody is there to do it."""
    return draft.why_refused() or Later.SUMMARISED
