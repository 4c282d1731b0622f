"""What comes in: whether it is a message, and a conversation that took place elsewhere. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from everturn_actors.context.summaries import FOCUS_CHARACTERS
from everturn_actors.errors import InvalidInputError
from everturn_actors.events import (
    Body,
    CallFinished,
    ModelReplied,
    Received,
    StepStarted,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.model import Inbound, Turn

TEXT_BYTES = 1024 * 1024  # the longest message: no person types it, a program should send a file
KEY_CHARS = 255  # the longest idempotency key


def check(inbound: Inbound) -> None:
    """Refuse what is not a message.

    Raises:
        InvalidInputError: With the reason.
    """
    if not inbound.text.strip():
        msg = "the message is empty"
        raise InvalidInputError(msg)
    if len(inbound.idempotency_key) > KEY_CHARS:
        msg = f"the idempotency key is longer than {KEY_CHARS} characters"
        raise InvalidInputError(msg)
    try:
        size_bytes = len(inbound.text.encode())
        (inbound.idempotency_key + inbound.sender).encode()
    except UnicodeEncodeError as error:
        msg = f"the message is not valid Unicode text at character {error.start}"
        raise InvalidInputError(msg) from error
    if size_bytes > TEXT_BYTES:
        msg = f"the message has {size_bytes} bytes; at most {TEXT_BYTES} are accepted"
        raise InvalidInputError(msg)


def check_focus(focus: str) -> None:
    """Refuse what no summary can keep above all.

    Raises:
        InvalidInputError: With the reason.
    """
    if len(focus) > FOCUS_CHARACTERS:
        msg = f"the focus has {len(focus):,} characters; at most {FOCUS_CHARACTERS:,} are accepted"
        raise InvalidInputError(msg)
    try:
        focus.encode()
    except UnicodeEncodeError as error:
        msg = f"the focus is not valid Unicode text at character {error.start}"
        raise InvalidInputError(msg) from error


def replay(history: Sequence[Turn]) -> list[Body]:
    """Return the events of a conversation that took place elsewhere."""
    bodies: list[Body] = []
    for number, turn in enumerate(history, 1):
        first = len(bodies) + 2  # after session_started
        bodies += [Received(text=user.text, sender=user.sender) for user in turn.users]
        received = tuple(range(first, first + len(turn.users)))
        bodies.append(TurnStarted(turn=number, received=received, window_messages=2000))
        for index, step in enumerate(turn.steps, 1):
            reply = step.reply
            bodies.append(StepStarted(turn=number, step=index, model=""))
            bodies.append(ModelReplied(text=reply.text, calls=reply.calls))
            bodies += [CallFinished(call_id=r.call_id, text=r.text) for r in step.results]
        bodies.append(TurnFinished(turn=number, outcome="answered"))
    return bodies
