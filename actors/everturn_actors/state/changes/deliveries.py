"""What became of what is pending for people. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from everturn_actors.events import ChunkMarked, DeliveryPlanned, Event, PreviewSent
from everturn_actors.model import PendingAmbient
from everturn_actors.state.changes.steps import ANNOUNCED_S, advance, after, impossible
from everturn_actors.state.outbox import deliver, given_up, undelivered_note, with_undelivered
from everturn_actors.state.queue import keep_ambient
from everturn_actors.state.session_state import SessionState


def apply_preview_sent(state: SessionState, event: Event, body: PreviewSent) -> SessionState:
    """Note which message shows a reply as it comes."""
    turn = state.open_turn
    if not 0 < body.turn <= state.turns or body.step < 1:
        raise impossible(event, "it shows what was not begun")
    if (body.mark == "sent") != bool(body.platform_id):
        raise impossible(event, "a message has a name when it is there, and no sooner")
    if turn is not None and turn.number == body.turn and turn.delivers:
        begun = len(turn.steps) + (turn.step is not None)
        if body.step > begun:
            raise impossible(event, "it shows a step that was not begun")
        if body.step == begun and turn.step is not None and turn.step.reply is None:
            step = 0 if body.mark == "unsent" else body.step
            shown = replace(turn, preview_step=step, preview_id=body.platform_id)
            return advance(state, event, open_turn=shown)
    # The platform answered after the model did: the reply takes its place all the same.
    seq = _seq_of_reply(state, body.turn, body.step)
    unknown = body.step if body.mark == "sending" else 0
    outbox = tuple(
        replace(item, preview=body.platform_id, preview_step=unknown)
        if item.seq == seq and item.chunks is None
        else item
        for item in state.outbox
    )
    return advance(state, event, outbox=outbox)


def _seq_of_reply(state: SessionState, number: int, step: int) -> int:
    """Return the event of the reply of a step; 0 where there is none, or it is not held."""
    turn = state.open_turn
    if turn is not None and turn.number == number:
        running = turn.step.reply if turn.step is not None else None
        if running is not None and step == len(turn.steps) + 1:
            return running.seq
        steps = turn.steps
    else:
        held = reversed(state.held_turns)
        steps = next((each.steps for each in held if each.number == number), ())
    return steps[step - 1].reply.seq if step <= len(steps) else 0


def apply_delivered(
    state: SessionState, event: Event, body: DeliveryPlanned | ChunkMarked
) -> SessionState:
    """Note what became of a chunk; what is given up is told to people and to the model."""
    try:
        outbox = deliver(state.outbox, body)
    except ValueError as error:
        raise impossible(event, str(error)) from error
    lost = given_up(state.outbox, body)
    if lost is None:
        return advance(state, event, outbox=outbox)
    # Nothing is given up in silence: people get a word of it, and the model is told.
    heard = PendingAmbient(
        seq=event.seq, text=undelivered_note(lost), until=after(event, ANNOUNCED_S), own=True
    )
    return advance(
        state,
        event,
        outbox=with_undelivered(outbox, event, lost),
        ambient=keep_ambient(state.ambient, heard),
    )
