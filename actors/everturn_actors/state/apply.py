"""`apply`: the one function that takes a session from one moment to the next. Pure.

The live path and the replay after a crash both call it, so what is recovered is what was running.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from everturn_actors.events import (
    AmbientStored,
    Announced,
    ApprovalAsked,
    ApprovalDecided,
    Body,
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
    return CHANGES[type(body)](state, event, body)


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


def _begun_again(state: SessionState, event: Event, body: SessionStarted) -> SessionState:
    del state, body
    raise impossible(event, "the session has begun already")


def _model_chosen(state: SessionState, event: Event, body: ModelChosen) -> SessionState:
    return advance(state, event, model=body.model)


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


# Looked up by type: `match` asks one class after the other, and a replay does that for each event.
CHANGES: Final[Mapping[type[Body], Callable[[SessionState, Event, Any], SessionState]]] = {
    Received: apply_received,
    TurnStarted: apply_turn_started,
    StepStarted: apply_step_started,
    ModelReplied: apply_model_replied,
    TurnFinished: apply_turn_finished,
    CallStarted: apply_call_started,
    CallFinished: apply_call_finished,
    AmbientStored: apply_ambient_stored,
    Announced: apply_announced,
    Edited: apply_edited,
    Discarded: apply_discarded,
    ReplyBroken: apply_reply_broken,
    ModelCallFailed: apply_model_call_failed,
    Steered: apply_steered,
    ApprovalAsked: apply_approval_asked,
    ApprovalDecided: apply_approval_decided,
    CallsHandedOver: apply_calls_handed_over,
    CallsAnswered: apply_calls_answered,
    PreviewSent: apply_preview_sent,
    ContextReduced: apply_context_reduced,
    Summarised: apply_summarised,
    NotesShown: apply_notes_shown,
    OlderQuoted: apply_older_quoted,
    Pinned: apply_pinned,
    Unpinned: apply_unpinned,
    PromptCounted: apply_prompt_counted,
    Transcribed: apply_transcribed,
    Spoken: apply_spoken,
    DeliveryPlanned: apply_delivered,
    ChunkMarked: apply_delivered,
    SessionStarted: _begun_again,
    Branched: _branched,
    SessionShared: _shared,
    Labelled: _labelled,
    ModelChosen: _model_chosen,
    StatusChanged: _status_changed,
    SessionEnded: _ended,
}
"What each kind of event does to a session that has begun."
