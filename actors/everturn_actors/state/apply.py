"""`apply`: the one function that takes a session from one moment to the next. Pure.

The live path and the replay after a crash both call it, so what is recovered is what was running.
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from everturn_actors.events import (
    AmbientStored,
    Announced,
    ApprovalAsked,
    ApprovalDecided,
    Branched,
    CallFinished,
    CallsAnswered,
    CallsHandedOver,
    CallStarted,
    ChunkMarked,
    ContextReduced,
    DeliveryPlanned,
    Discarded,
    Edited,
    Event,
    Labelled,
    ModelCallFailed,
    ModelChosen,
    ModelReplied,
    NotesShown,
    OlderQuoted,
    Pinned,
    PreviewSent,
    PromptCounted,
    Received,
    ReplyBroken,
    SessionEnded,
    SessionShared,
    SessionStarted,
    Spoken,
    StatusChanged,
    Steered,
    StepStarted,
    Summarised,
    Transcribed,
    TurnFinished,
    TurnStarted,
    Unpinned,
)
from everturn_actors.state.changes.calls import (
    apply_approval_asked,
    apply_approval_decided,
    apply_call_finished,
    apply_call_started,
    apply_calls_answered,
    apply_calls_handed_over,
)
from everturn_actors.state.changes.deliveries import apply_delivered, apply_preview_sent
from everturn_actors.state.changes.messages import (
    apply_ambient_stored,
    apply_announced,
    apply_discarded,
    apply_edited,
    apply_received,
)
from everturn_actors.state.changes.notes import (
    apply_notes_shown,
    apply_older_quoted,
    apply_pinned,
    apply_unpinned,
)
from everturn_actors.state.changes.reductions import apply_context_reduced, apply_summarised
from everturn_actors.state.changes.steps import advance, impossible, with_checkpoint
from everturn_actors.state.changes.turns import (
    apply_model_call_failed,
    apply_model_replied,
    apply_prompt_counted,
    apply_reply_broken,
    apply_steered,
    apply_step_started,
    apply_turn_finished,
    apply_turn_started,
)
from everturn_actors.state.changes.voice import apply_spoken, apply_transcribed
from everturn_actors.state.session_state import SessionState


def apply(state: SessionState | None, event: Event) -> SessionState:
    """Return the state after `event`.

    Raises:
        CorruptJournalError: It cannot follow this state; no version could have written such a log.
    """
    body = event.body
    if state is None:
        return _begun(event)
    if event.seq != state.last_seq + 1:
        raise impossible(event, f"event {state.last_seq + 1} is missing")
    # People sort what is over, too; nothing else follows an end.
    if state.status == "ended" and not isinstance(body, Labelled):
        raise impossible(event, "the session has ended")
    # What every turn brings is looked for first: each case costs those behind it a look.
    match body:
        case Received():
            return apply_received(state, event, body)
        case TurnStarted():
            return apply_turn_started(state, event, body)
        case StepStarted():
            return apply_step_started(state, event, body)
        case ModelReplied():
            return apply_model_replied(state, event, body)
        case TurnFinished():
            return apply_turn_finished(state, event, body)
        case CallStarted():
            return apply_call_started(state, event, body)
        case CallFinished():
            return apply_call_finished(state, event, body)
        case AmbientStored():
            return apply_ambient_stored(state, event, body)
        case Announced():
            return apply_announced(state, event, body)
        case Edited():
            return apply_edited(state, event, body)
        case Discarded():
            return apply_discarded(state, event, body)
        case ReplyBroken():
            return apply_reply_broken(state, event, body)
        case ModelCallFailed():
            return apply_model_call_failed(state, event, body)
        case Steered():
            return apply_steered(state, event, body)
        case ApprovalAsked():
            return apply_approval_asked(state, event, body)
        case ApprovalDecided():
            return apply_approval_decided(state, event, body)
        case CallsHandedOver():
            return apply_calls_handed_over(state, event, body)
        case CallsAnswered():
            return apply_calls_answered(state, event, body)
        case PreviewSent():
            return apply_preview_sent(state, event, body)
        case DeliveryPlanned() | ChunkMarked():
            return apply_delivered(state, event, body)
        case ContextReduced():
            return apply_context_reduced(state, event, body)
        case Summarised():
            return apply_summarised(state, event, body)
        # That `rest` is all that is left is checked by its type.
        case rest:
            return _apply_to_whole(state, event, rest)


def _apply_to_whole(
    state: SessionState,
    event: Event,
    body: SessionStarted
    | Branched
    | SessionShared
    | Labelled
    | ModelChosen
    | StatusChanged
    | SessionEnded
    | NotesShown
    | OlderQuoted
    | Pinned
    | Unpinned
    | PromptCounted
    | Transcribed
    | Spoken,
) -> SessionState:
    """Apply what happens to the session as a whole, beside its messages and turns."""
    match body:
        case NotesShown():
            return apply_notes_shown(state, event, body)
        case OlderQuoted():
            return apply_older_quoted(state, event, body)
        case Pinned():
            return apply_pinned(state, event, body)
        case Unpinned():
            return apply_unpinned(state, event, body)
        case PromptCounted():
            return apply_prompt_counted(state, event, body)
        case Transcribed():
            return apply_transcribed(state, event, body)
        case Spoken():
            return apply_spoken(state, event, body)
        case SessionStarted():
            raise impossible(event, "the session has begun already")
        case Branched():
            return _branched(state, event, body)
        case SessionShared():
            return _shared(state, event, body)
        case Labelled():
            return _labelled(state, event, body)
        case ModelChosen(model=model):
            return advance(state, event, model=model)
        case StatusChanged():
            return _status_changed(state, event, body)
        case SessionEnded():
            return _ended(state, event, body)
        case _:
            assert_never(body)


def _begun(event: Event) -> SessionState:
    """Return the state with which a session begins."""
    body = event.body
    # A log whose beginning is gone cannot be replayed: what it says of itself would be wrong.
    if not isinstance(body, SessionStarted) or event.seq != 1:
        raise impossible(event, "a log begins with session_started, number 1")
    return SessionState(
        session_id=body.session_id,
        key=body.key,
        instructions=body.instructions,
        created_at=event.at,
        updated_at=event.at,
        last_seq=1,
        seen=dict.fromkeys(body.seen, 1),
        principal=body.principal,
        branch_of=body.branch_of,
        is_branching=bool(body.branch_of),
    )


def _branched(state: SessionState, event: Event, body: Branched) -> SessionState:
    """Begin to be a session of its own, with nothing left to deliver."""
    # A copy ends between turns: no reply may be pending in two sessions.
    if state.open_turn is not None or state.waiting:
        raise impossible(event, "something is not answered")
    # One that was copied tells of the session before, not of this one.
    is_branching = state.is_branching and body.of != state.branch_of
    # What was pending for the people of that channel is pending there.
    return advance(state, event, is_branching=is_branching, outbox=())


def _shared(state: SessionState, event: Event, body: SessionShared) -> SessionState:
    """Give somebody the session, or take it back."""
    others = {each for each in state.shared_with if each != body.principal}
    given = others if body.is_withdrawn else others | {body.principal}
    # With a snapshot, as its head is what the list of sessions goes by.
    return with_checkpoint(advance(state, event, shared_with=tuple(sorted(given))))


def _labelled(state: SessionState, event: Event, body: Labelled) -> SessionState:
    # Sorting is no activity: the session neither moves in a list nor lives longer for it.
    return with_checkpoint(replace(state, last_seq=event.seq, labels=body.labels))


def _status_changed(state: SessionState, event: Event, body: StatusChanged) -> SessionState:
    # Its reason belongs to it, and only that event has one.
    if body.status == "ended":
        raise impossible(event, "a session ends with session_ended")
    return with_checkpoint(advance(state, event, status=body.status))


def _ended(state: SessionState, event: Event, body: SessionEnded) -> SessionState:
    if state.open_turn is not None:
        raise impossible(event, "a turn is open")
    nothing: dict[str, object] = {"waiting": (), "ambient": (), "outbox": ()}
    return with_checkpoint(
        advance(state, event, status="ended", ended_reason=body.reason, **nothing)
    )
