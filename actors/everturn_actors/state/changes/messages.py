"""Messages that came, were replaced, or went unanswered; and what was said beside them. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from everturn_actors.events import AmbientStored, Announced, Discarded, Edited, Event, Received
from everturn_actors.model import PendingAmbient, UserMessage
from everturn_actors.state.ambient import as_announced
from everturn_actors.state.changes.steps import (
    ANNOUNCED_S,
    advance,
    after,
    impossible,
    needed_messages,
)
from everturn_actors.state.outbox import announcement_items, drop_items
from everturn_actors.state.queue import WITHDRAWN, keep_ambient
from everturn_actors.state.session_state import SessionState

AMBIENT_S = 10 * 366 * 86_400  # the longest that one of them is kept, whatever it asks for


SEEN_KEYS = (
    1000  # idempotency keys a session remembers; a client repeats its latest, not its oldest
)


def apply_received(state: SessionState, event: Event, body: Received) -> SessionState:
    """Let a message to the agent wait."""
    message = UserMessage(
        seq=event.seq,
        text=body.text,
        sender=body.sender,
        attachments=body.attachments,
        untrusted=body.untrusted,
        reply_to=body.reply_to,
        joins=body.joins,
        ambient=body.ambient,
        retry_for_s=body.retry_for_s,
        options=body.options,
    )
    seen = with_seen(state, event, body.idempotency_key)
    return advance(state, event, waiting=(*state.waiting, message), seen=seen)


def apply_discarded(state: SessionState, event: Event, body: Discarded) -> SessionState:
    """Take messages back that waited; the first time in a turn, its people are told."""
    ambient = tuple([each for each in state.ambient if each.seq not in body.received])
    if len(ambient) < len(state.ambient):  # it was not said to the agent
        return advance(state, event, ambient=ambient)
    gone = needed_messages(state, event, body.received)
    waiting = tuple(message for message in state.waiting if message not in gone)
    turn = state.open_turn
    is_known = body.reason == WITHDRAWN or all(message.ambient for message in gone)
    if turn is None or turn.notified_of_drops or is_known:
        return advance(state, event, waiting=waiting)
    outbox = (*state.outbox, *drop_items(event, turn, body))
    turn = replace(turn, notified_of_drops=turn.delivers)
    return advance(state, event, waiting=waiting, open_turn=turn, outbox=outbox)


def with_seen(state: SessionState, event: Event, key: str) -> dict[str, int]:
    """Return the idempotency keys that are known, with one more; the oldest goes."""
    if not key:
        return state.seen
    seen = state.seen.copy()  # a seventh of what `{**...}` takes once the oldest keys have gone
    seen[key] = event.seq
    if len(seen) > SEEN_KEYS:
        del seen[next(iter(seen))]
    return seen


def apply_ambient_stored(state: SessionState, event: Event, body: AmbientStored) -> SessionState:
    """Keep a message that was not said to the agent, where the next turn is told of it."""
    seen = with_seen(state, event, body.idempotency_key)
    if not body.shown:
        return advance(state, event, seen=seen)
    heard = PendingAmbient(
        seq=event.seq,
        text=body.text,
        until=after(event, min(max(body.max_age_s, 0), AMBIENT_S)),
        sender=body.sender,
        untrusted=body.untrusted,
    )
    return advance(
        state, event, ambient=keep_ambient(state.ambient, heard, body.max_messages), seen=seen
    )


def apply_announced(state: SessionState, event: Event, body: Announced) -> SessionState:
    """Owe people what is said in the agent's name, and keep it for the next turn."""
    said = PendingAmbient(
        seq=event.seq,
        text=as_announced(body.title, body.text),
        until=after(event, ANNOUNCED_S),
        sender=body.sender,
        untrusted=body.untrusted,
        own=True,
    )
    return advance(
        state,
        event,
        ambient=keep_ambient(state.ambient, said),
        outbox=(*state.outbox, *announcement_items(event, state.turns, body)),
        seen=with_seen(state, event, body.idempotency_key),
    )


def apply_edited(state: SessionState, event: Event, body: Edited) -> SessionState:
    """Replace the text of a message that waits."""
    if all(message.seq != body.received for message in state.waiting):
        raise impossible(event, "the message does not wait")
    waiting = tuple(
        replace(message, text=body.text) if message.seq == body.received else message
        for message in state.waiting
    )
    return advance(state, event, waiting=waiting)
