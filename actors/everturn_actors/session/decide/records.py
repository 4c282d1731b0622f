"""What is told beside the conversation: deliveries, summaries, approvals, labels. Pure."""

from __future__ import annotations

from everturn_actors.context.beside import PINNED_SHARE, pin_units
from everturn_actors.context.estimation.estimates import UNITS_PER_TOKEN
from everturn_actors.context.estimation.windows import DEFAULT_WINDOW_TOKENS
from everturn_actors.errors import (
    CallNotOpenError,
    CoreError,
    CorruptJournalError,
    InvalidInputError,
    SessionEndedError,
)
from everturn_actors.events import (
    ApprovalDecided,
    CallsAnswered,
    Labelled,
    ModelChosen,
    Pinned,
    StatusChanged,
    Unpinned,
)
from everturn_actors.model import ChosenModel, Labels, Pin
from everturn_actors.protocol.commands import (
    Accepted,
    AnswerCalls,
    ChooseModel,
    GetStatus,
    KnownStatus,
    Label,
    PinMessage,
    RecordDelivery,
    ResolveApproval,
    Summary,
    UnpinMessage,
)
from everturn_actors.session.approvals import find_approval, why_not
from everturn_actors.session.decide.decision import Draft, Later


def status(command: GetStatus, draft: Draft) -> KnownStatus:
    """Tell how the session stands."""
    state = draft.known
    return KnownStatus(
        status=state.status,
        ended_reason=state.ended_reason,
        is_known=bool(command.idempotency_key) and command.idempotency_key in state.seen,
    )


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


def answer_calls(command: AnswerCalls, draft: Draft) -> Accepted | CoreError:
    """Take what the caller's own tools gave, for calls that wait for it; once."""
    state = draft.known
    seen = state.seen.get(command.idempotency_key) if command.idempotency_key else None
    # An answer that was lost on its way back is given again, whatever stands open by now.
    if seen is not None:
        return draft.accepted(seen)
    error = draft.why_refused()
    if error is not None:
        return error
    turn = state.open_turn
    step = turn.step if turn else None
    for answer in command.answers:
        # All or none: half of the answers would leave the model with a guess.
        is_open = step is not None and answer.call_id in step.handed_over
        if step is None or not is_open or answer.call_id in {*step.answers, *step.results}:
            return CallNotOpenError(answer.call_id)
    assert turn is not None, "a call waits in it"
    if state.status == "paused":
        draft.add(StatusChanged(status="active"))
    draft.add(
        CallsAnswered(
            turn=turn.number, answers=command.answers, idempotency_key=command.idempotency_key
        )
    )
    return draft.accepted(None)


def resolve_approval(command: ResolveApproval, draft: Draft) -> CoreError | None:
    """Resolve an approval; a decision that is too late, or somebody else's, changes nothing."""
    state = draft.known
    approval = find_approval(state, command.call_id)
    error = None if command.own else why_not(approval, command, draft.now)
    if error is not None:
        return error
    # Said twice is once: the first answer stands.
    if approval is not None and approval.resolution is None:
        answer = approval.inquiry.read(command.answer) if approval.inquiry else None
        decided = ApprovalDecided(
            call_id=command.call_id,
            decision=command.resolution,
            by=command.by,
            answer=answer or "",
        )
        draft.add(decided)
        if state.status == "paused" and not command.own:
            draft.add(StatusChanged(status="active"))
    return None


def record_summary(command: Summary, draft: Draft) -> bool:
    """Add a summary that is ready; answer whether it is of use."""
    state, known = draft.known, draft.known.reductions.summary
    # It was made beside the session: a later one may have been faster.
    fits = state.status != "ended" and (known is None or command.body.last_turn >= known.last_turn)
    if fits:
        draft.add(command.body)
    return fits


def compact(draft: Draft) -> CoreError | Later:
    """Have older turns summarised, where somebody is there to do it."""
    return draft.why_refused() or Later.SUMMARISED


def pin(command: PinMessage, draft: Draft) -> tuple[Pin, ...] | CoreError:
    """Keep a message in sight; what is pinned together has to leave the window to the rest."""
    state, new = draft.known, command.pin
    if any(each.seq == new.seq for each in state.pins):
        return state.pins
    if (error := draft.why_refused()) is not None:
        return error
    window_tokens = draft.context.window_tokens() or DEFAULT_WINDOW_TOKENS
    most, needed = window_tokens // PINNED_SHARE, pin_units((*state.pins, new)) // UNITS_PER_TOKEN
    # Refused, not cut: what a person pinned is shown whole or they are told that it is not.
    if needed > most:
        msg = (
            f"pinned messages may take an eighth of the model's window, {most:,} tokens; with this"
            f" one they would have some {needed:,}: unpin another, or pin a shorter one"
        )
        return InvalidInputError(msg)
    draft.add(
        Pinned(message=new.seq, text=new.text, who=new.who, outside=new.outside, by=command.by)
    )
    return draft.known.pins


def unpin(command: UnpinMessage, draft: Draft) -> tuple[Pin, ...] | CoreError:
    """Take a pin off, where there is one."""
    state = draft.known
    if all(each.seq != command.message for each in state.pins):
        return state.pins
    if (error := draft.why_refused()) is not None:
        return error
    draft.add(Unpinned(message=command.message, by=command.by))
    return draft.known.pins


def label(command: Label, draft: Draft) -> Labels:
    """Sort the session, also after its end; what changes nothing is no event."""
    before = draft.known.labels
    after = Labels(
        title=before.title if command.title is None else command.title,
        pinned=before.pinned if command.pinned is None else command.pinned,
        archived=before.archived if command.archived is None else command.archived,
    )
    # A list that is opened sends what it shows; that must not write an event each time.
    if after != before:
        draft.add(Labelled(labels=after, by=command.by))
    return after


def choose_model(command: ChooseModel, draft: Draft) -> ChosenModel | CoreError | None:
    """Have another model answer from the next turn on; the same once more is no event."""
    if command.model == draft.known.model:
        return command.model
    # Where the model that was chosen cannot be used, this is the way out.
    if (error := draft.why_ended()) is not None:
        return error
    draft.add(ModelChosen(model=command.model, by=command.by))
    return command.model
