"""Which of the messages that wait belong together. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Final

from everturn_actors.model import Overheard, UserMessage

_HEAD = "[Said here before, not to you:]"
_FOOT = "[Now to you:]"
_TITLE_CHARACTERS: Final = 80
_ROUND: Final = str.maketrans("[]", "()")
_BLANKS: Final = frozenset("\u034f\u115f\u1160\u2800\u3164\uffa0")  # letters that show nothing


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


def as_announced(title: str, text: str) -> str:
    """Return how a turn is told of an announcement: that it was said, and that the agent did.

    Lines in brackets are ours: one of the text that could pass for such a line gets a backslash.
    """
    shown = "".join(char for char in title if char.isprintable()).translate(_ROUND)
    name = " ".join(shown[:_TITLE_CHARACTERS].split())
    head = f"[{name} said here, in your name:]" if name else "[Said here, in your name:]"
    said = "\n".join(map(_guarded, text.splitlines()))
    return f"{head} {said}"


def _guarded(line: str) -> str:
    seen = (n for n, char in enumerate(line) if char.isprintable() and not _is_blank(char))
    start = next(seen, len(line))
    if line.startswith("[", start) and "]" in line:
        return f"{line[:start]}\\{line[start:]}"
    return line


def _is_blank(char: str) -> bool:
    return char.isspace() or char in _BLANKS
