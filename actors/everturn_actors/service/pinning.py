"""Which events can be pinned, and what is kept of them then. Pure."""

from __future__ import annotations

from everturn_actors.events import (
    AmbientStored,
    Announced,
    CallFinished,
    Event,
    ModelReplied,
    Received,
)
from everturn_actors.model import Pin
from everturn_actors.model.conversation import SAID_BY_MODEL
from everturn_actors.outside import one_source


def pin_of(event: Event) -> Pin | None:
    """Return what is kept of a message; None where the event is none, or has no text."""
    match event.body:
        case Received(text=text, sender=sender) | AmbientStored(text=text, sender=sender) as body:
            # Whoever calls themselves as the model is called is somebody else.
            who = sender if sender not in {"", SAID_BY_MODEL} else "user"
            outside = _outside(body, "what others said here")
        case ModelReplied(text=text) as body:
            outside, who = body.outside, SAID_BY_MODEL
        case Announced(text=text) as body:
            outside, who = _outside(body, "what a scheduled job said"), SAID_BY_MODEL
        case CallFinished(text=text) as body:
            outside = _outside(body, body.source or f"the result of {body.call_id}")
            who = f"result of the call {body.call_id}"
        case _:
            return None
    who = one_source(who)
    return Pin(seq=event.seq, text=text, who=who, outside=outside) if text.strip() else None


def _outside(
    body: Received | AmbientStored | Announced | CallFinished, source: str
) -> tuple[str, ...]:
    return (one_source(source),) if body.untrusted else ()
