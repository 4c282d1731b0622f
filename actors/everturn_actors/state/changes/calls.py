"""Calls of the open step: asked about, begun, finished. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from everturn_actors.events import (
    ApprovalAsked,
    ApprovalDecided,
    CallFinished,
    CallsAnswered,
    CallsHandedOver,
    CallStarted,
    Event,
)
from everturn_actors.model import Approval, OpenStep, OpenTurn, Reply, Step, ToolCall, ToolResult
from everturn_actors.state.changes.messages import with_seen
from everturn_actors.state.changes.steps import advance, after, impossible, needed_turn
from everturn_actors.state.outbox import file_items, question_items
from everturn_actors.state.session_state import SessionState


def needed_calls(
    state: SessionState, event: Event, call_id: str
) -> tuple[OpenTurn, OpenStep, Reply]:
    """Return the running step, which must still wait for the result of `call_id`."""
    turn = needed_turn(state, event)
    step = turn.step
    if step is None or step.reply is None or call_id in step.results:
        raise impossible(event, f"call {call_id!r} does not wait for a result")
    if all(call.call_id != call_id for call in step.reply.calls):
        raise impossible(event, f"the reply makes no call {call_id!r}")
    return turn, step, step.reply


def apply_approval_asked(state: SessionState, event: Event, body: ApprovalAsked) -> SessionState:
    """Let a call wait for a person, who is to be asked."""
    turn, step, _ = needed_calls(state, event, body.call_id)
    started = step.started
    if body.call_id in started and body.inquiry is None:
        raise impossible(event, "the call has begun")
    if body.state:  # what it did so far is told in there: a restart loses nothing of it
        started = tuple(each for each in started if each != body.call_id)
    approval = Approval(
        call_id=body.call_id,
        arguments_hash=body.arguments_hash,
        expires_at=after(event, body.timeout_s),
        reason=body.reason,
        pattern=body.pattern,
        approvers=body.approvers,
        files=body.files,
        inquiry=body.inquiry,
        state=body.state,
        seq=event.seq,
    )
    approvals = {**step.approvals, body.call_id: approval}
    step = replace(step, approvals=approvals, started=started)
    outbox = (*state.outbox, *question_items(event, turn, body))
    return advance(state, event, open_turn=replace(turn, step=step), outbox=outbox)


def apply_approval_decided(
    state: SessionState, event: Event, body: ApprovalDecided
) -> SessionState:
    """Settle an approval."""
    turn, step, _ = needed_calls(state, event, body.call_id)
    approval = step.approvals.get(body.call_id)
    if approval is None or approval.resolution is not None:
        raise impossible(event, "no approval waits for a decision")
    resolution = replace(approval, resolution=body.decision, by=body.by, answer=body.answer)
    step = replace(step, approvals={**step.approvals, body.call_id: resolution})
    return advance(state, event, open_turn=replace(turn, step=step))


def apply_calls_handed_over(
    state: SessionState, event: Event, body: CallsHandedOver
) -> SessionState:
    """Let calls wait for what their caller says that they gave."""
    turn, step = needed_turn(state, event), None
    for call_id in body.call_ids:
        turn, step, _ = needed_calls(state, event, call_id)
        if call_id in step.started or call_id in step.handed_over:
            raise impossible(event, "a call of it has begun, or was handed over before")
    if step is None or body.turn != turn.number:
        raise impossible(event, "it names no call, or the number is wrong")
    until = after(event, body.timeout_s)
    step = replace(step, handed_over={**step.handed_over, **dict.fromkeys(body.call_ids, until)})
    return advance(state, event, open_turn=replace(turn, step=step))


def apply_calls_answered(state: SessionState, event: Event, body: CallsAnswered) -> SessionState:
    """Keep what the caller says, until each becomes the result in its place."""
    turn, step = needed_turn(state, event), None
    for answer in body.answers:
        turn, step, _ = needed_calls(state, event, answer.call_id)
        if answer.call_id not in step.handed_over or answer.call_id in step.answers:
            raise impossible(event, "a call of it was not handed over, or was answered before")
    if step is None or body.turn != turn.number:
        raise impossible(event, "it answers no call, or the number is wrong")
    answers = {**step.answers, **{each.call_id: each for each in body.answers}}
    return advance(
        state,
        event,
        open_turn=replace(turn, step=replace(step, answers=answers)),
        seen=with_seen(state, event, body.idempotency_key),
    )


def apply_call_started(state: SessionState, event: Event, body: CallStarted) -> SessionState:
    """Note that a call has begun: a crash from now on may have cut it short."""
    turn, step, _ = needed_calls(state, event, body.call_id)
    step = replace(step, started=(*step.started, body.call_id))
    return advance(state, event, open_turn=replace(turn, step=step))


def apply_call_finished(state: SessionState, event: Event, body: CallFinished) -> SessionState:
    """Add the result of a call; with the last one the step is closed."""
    turn, step, reply = needed_calls(state, event, body.call_id)
    call: ToolCall = next(c for c in reply.calls if c.call_id == body.call_id)
    outbox = (*state.outbox, *file_items(event, turn, body))
    if body.attachments:
        turn = replace(turn, sent_files=True)
    result = ToolResult(
        seq=event.seq,
        call_id=call.call_id,
        name=call.name,
        text=body.text,
        is_error=body.is_error,
        path=body.path,
        untrusted=body.untrusted,
        source=body.source,
        is_refused=body.is_refused,
        attachments=body.images,
    )
    results = {**step.results, body.call_id: result}
    if len(results) == len(reply.calls):
        done = Step(reply=reply, results=tuple(results[c.call_id] for c in reply.calls))
        turn = replace(turn, step=None, steps=(*turn.steps, done))
    else:
        turn = replace(turn, step=replace(step, results=results))
    return advance(
        state, event, open_turn=turn, logged_messages=state.logged_messages + 1, outbox=outbox
    )
