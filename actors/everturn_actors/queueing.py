"""Which of the messages that wait belong together. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from everturn_actors.model import Overheard, UserMessage

_HEAD = "[Said here before, not to you:]"
_FOOT = "[Now to you:]"


def next_turn(waiting: Sequence[UserMessage]) -> tuple[UserMessage, ...]:
    """Return the messages that the next turn answers, oldest first; none = no turn begins.

    Messages that join others go together; one that wants a turn of its own gets it, with what was
    written in the same breath. Quiet ones go with whatever turn begins next.
    """
    taken: list[UserMessage] = []
    asked: UserMessage | None = None
    for message in waiting:
        if asked is not None and not _joins(asked, message):
            break
        taken.append(message)
        if asked is None and not message.quiet:
            asked = message
    return tuple(taken) if asked is not None else ()


def _joins(first: UserMessage, message: UserMessage) -> bool:
    if message.quiet:
        return True
    if message.joins == "burst":
        return message.sender == first.sender or first.joins == "all"
    return first.joins == "all" and message.joins == "all"


def steering(waiting: Sequence[UserMessage]) -> tuple[UserMessage, ...]:
    """Return those that a running turn may read before its next call, oldest first."""
    came = tuple(takewhile(lambda message: message.joins == "all", waiting))
    return came if any(not message.quiet for message in came) else ()


def with_overheard(
    users: tuple[UserMessage, ...], told: Sequence[Overheard]
) -> tuple[UserMessage, ...]:
    """Return the messages of a turn, the first of them with what was said before and not to it."""
    if not told:
        return users
    first = users[0]
    lines = "\n".join((_HEAD, *(each.text for each in told), _FOOT))
    text = f"{lines}\n{first.text}" if first.text else lines
    untrusted = first.untrusted or any(each.untrusted for each in told)
    return (replace(first, text=text, untrusted=untrusted), *users[1:])
