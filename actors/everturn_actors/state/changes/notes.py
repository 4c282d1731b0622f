"""What the model is shown besides what is said: notes, quotes, pinned messages. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from everturn_actors.events import Event, NotesShown, OlderQuoted, Pinned, Unpinned
from everturn_actors.model import Pin, ShownNotes
from everturn_actors.state.changes.steps import OVERTAKEN, advance, impossible, needed_turn
from everturn_actors.state.session_state import SessionState


def apply_notes_shown(state: SessionState, event: Event, body: NotesShown) -> SessionState:
    """Let the prompt end with other notes; what was sent before is nothing to compare with."""
    fingerprint = replace(state.fingerprint, prefix="", messages=0)
    notes = ShownNotes(text=body.text, outside=body.outside)
    return advance(state, event, notes=notes, fingerprint=fingerprint)


def apply_older_quoted(state: SessionState, event: Event, body: OlderQuoted) -> SessionState:
    """Put what was quoted behind the question of the open turn, where it stays with it."""
    turn = needed_turn(state, event)
    if body.turn != turn.number or turn.steps or turn.quoted or not body.quoted:
        raise impossible(event, "the turn has quotes or an answer already, or nothing is quoted")
    *before, asked = turn.users
    asked = replace(asked, text=f"{asked.text}\n\n{body.text}")
    return advance(
        state,
        event,
        open_turn=replace(turn, users=(*before, asked), quoted=body.quoted),
    )


def apply_pinned(state: SessionState, event: Event, body: Pinned) -> SessionState:
    """Keep a message for the model, whatever is hidden."""
    if body.message >= event.seq or any(each.seq == body.message for each in state.pins):
        raise impossible(event, "the message is pinned already, or not yet said")
    pin = Pin(seq=body.message, text=body.text, who=body.who, outside=body.outside)
    return _with_pins(state, event, sorted((*state.pins, pin), key=lambda each: each.seq))


def apply_unpinned(state: SessionState, event: Event, body: Unpinned) -> SessionState:
    """Let a message be one among others again."""
    pins = [each for each in state.pins if each.seq != body.message]
    if len(pins) == len(state.pins):
        raise impossible(event, "the message is not pinned")
    return _with_pins(state, event, pins)


def _with_pins(state: SessionState, event: Event, pins: Iterable[Pin]) -> SessionState:
    """Return the state with other pins; a request that is on its way does not know of them."""
    step = state.open_turn.step if state.open_turn else None
    is_asked = step is not None and step.reply is None
    fingerprint = replace(state.fingerprint, prefix="", messages=OVERTAKEN if is_asked else 0)
    return advance(state, event, pins=tuple(pins), fingerprint=fingerprint)
