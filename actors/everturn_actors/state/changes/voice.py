"""What was heard of people who speak, and said to them. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from everturn_actors.events import Event, Spoken, Transcribed
from everturn_actors.model import OpenTurn, UserMessage
from everturn_actors.state.changes.steps import advance, impossible, needed_turn
from everturn_actors.state.outbox import file_items, line_items
from everturn_actors.state.session_state import SessionState


def apply_transcribed(state: SessionState, event: Event, body: Transcribed) -> SessionState:
    """Put words in the place of a file; where there are none, its sender is told why."""
    turn = needed_turn(state, event)
    message = next((user for user in turn.heard if user.seq == body.message), None)
    if body.turn != turn.number or message is None:
        raise impossible(event, "the number is wrong, or the turn has no such message")
    left = tuple([each for each in message.attachments if each.name != body.file])
    # What was erased has its file no more.
    if message.attachments and len(left) == len(message.attachments):
        raise impossible(event, "its message has no such file, or that was heard before")
    heard = replace(
        message,
        text=body.added_to(message.text),
        attachments=left,
        is_spoken=message.is_spoken or body.is_voice,
    )
    return advance(
        state,
        event,
        open_turn=_with(turn, heard),
        outbox=(*state.outbox, *line_items(event, turn, body)),
    )


def apply_spoken(state: SessionState, event: Event, body: Spoken) -> SessionState:
    """Owe people the sound of an answer; where there is none, they are told why."""
    turn = needed_turn(state, event)
    is_answered = turn.step is None and bool(turn.steps) and not turn.steps[-1].reply.calls
    if body.turn != turn.number or turn.is_spoken or not is_answered:
        raise impossible(event, "the number is wrong, or there is no answer, or it was spoken")
    items = (*file_items(event, turn, body), *line_items(event, turn, body))
    return advance(
        state,
        event,
        open_turn=replace(turn, is_spoken=True),
        outbox=(*state.outbox, *items),
    )


def _with(turn: OpenTurn, heard: UserMessage) -> OpenTurn:
    """Return the turn with a message in the place of the one that has its number."""

    def changed(users: tuple[UserMessage, ...]) -> tuple[UserMessage, ...]:
        return tuple([heard if user.seq == heard.seq else user for user in users])

    steered = tuple([replace(each, users=changed(each.users)) for each in turn.steered])
    return replace(turn, users=changed(turn.users), steered=steered)
