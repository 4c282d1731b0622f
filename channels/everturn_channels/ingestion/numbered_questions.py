"""What numbers stand for where a platform has no buttons: a question is answered by a reply to it.

The newest questions outlive a restart, as cursors do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from everturn_channels.adapter import Button, InboundHandler

QUESTIONS: Final = "questions"
"The cursor with the choices of the newest questions, by the id of the message that asks each."
_VALUE_CHARS: Final = 4_000  # that a cursor holds


class NumberedQuestions:
    """The questions of one channel."""

    def __init__(self, handler: InboundHandler) -> None:
        self._handler = handler

    async def note(self, message_id: str, buttons: Sequence[Button]) -> None:
        """Remember what the choices of a question stand for."""
        asked = {**self._questions(), message_id: [(each.label, each.data) for each in buttons]}
        while len(text := msgspec.json.encode(asked).decode()) > _VALUE_CHARS:
            del asked[next(iter(asked))]
        await self._handler.keep_cursor(QUESTIONS, text)

    def choice_of(self, answered: Iterable[str], text: str) -> tuple[str, str]:
        """Return which question a reply answers, and what its choice carries; empty = none.

        The first line is the choice: its number, or its words.

        Args:
            answered: The messages that it may be a reply to.
            text: Of the reply.
        """
        asked = self._questions()
        first = text.strip().split("\n", 1)[0].strip(" \t.:)(*_#").casefold()
        for message_id in answered:
            for number, (label, data) in enumerate(asked.get(message_id, ()), start=1):
                if first in {str(number), label.casefold()}:
                    return message_id, data
        return "", ""

    def _questions(self) -> dict[str, list[tuple[str, str]]]:
        try:
            text = self._handler.cursor(QUESTIONS)
            return msgspec.json.decode(text, type=dict[str, list[tuple[str, str]]])
        except msgspec.DecodeError:
            return {}
