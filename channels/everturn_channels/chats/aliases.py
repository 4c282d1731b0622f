"""Chats that were given another id by their platform.

A group of Telegram that becomes a supergroup is a new chat to the platform and the same to people.
Here a chat keeps the first id that it was known by: conversations, jobs, routes and lists go on to
name it so, and what comes from it and goes to it is translated at the edge (`moving.py`).

Unlike a cursor this is the truth: nothing else knows it. So it is durable before it is used, and a
list that cannot be read stops the channel.
"""

from __future__ import annotations

import logging
from typing import Final, TypeAlias

import anyio

from everturn_actors.documents import Document, form_of
from everturn_actors.errors import JournalError
from everturn_actors.ports import KeyedStore
from everturn_channels.errors import SetupError

ALIASES_MAX: Final = 10_000  # moves of one bot; a group moves once
ALIASES_KEY: Final = "channels/{name}.aliases.json"
"Beside the channel's cursors."
_Moves: TypeAlias = dict[str, str]

logger = logging.getLogger(__name__)


class ChatAliases:
    """The ids of the chats of one channel that moved. `open_aliases` reads them."""

    def __init__(self, channel: str, document: Document[_Moves] | None = None) -> None:
        """Begin with none.

        Args:
            channel: For the log.
            document: Where they are kept; None = in memory alone.
        """
        self._channel, self._document = channel, document
        self._next: dict[str, str] = {}
        "An id -> the one that came after it."
        self._first: dict[str, str] = {}
        "An id -> the first that its chat had; only of chats that moved."
        self._adding = anyio.Lock()

    def first(self, chat: str) -> str:
        """Return the id by which a chat is known here."""
        return self._first.get(chat, chat)

    def current(self, chat: str) -> str:
        """Return the id by which its platform knows a chat now."""
        while chat in self._next:
            chat = self._next[chat]
        return chat

    def others(self, chat: str) -> tuple[str, ...]:
        """Return all other ids that a chat has or had, oldest first."""
        each = self.first(chat)
        found = [each]
        while each in self._next:
            each = self._next[each]
            found.append(each)
        return tuple(name for name in found if name != chat)

    @property
    def moves(self) -> dict[str, str]:
        """Return all ids that are no longer in use, with the one in use instead."""
        return {old: self.current(old) for old in self._next}

    async def add(self, old: str, new: str) -> bool:
        """Note that the chat `old` is `new` from now on; it is durable when this returns.

        Returns:
            Whether `new` is an id of that chat now. False where it is already one of another chat.

        Raises:
            JournalError: It could not be kept, and does not hold.
        """
        async with self._adding:
            if self.first(old) == self.first(new):
                return True  # told twice, or the wrong way round
            if new in self._next.values() or len(self._next) >= ALIASES_MAX:
                logger.error(
                    "a chat cannot become another one that moved itself",
                    extra={"channel": self._channel, "chat": old, "to": new},
                )
                return False
            after = {**self._next, self.current(old): new}
            if self._document is not None:
                await self._document.write(after)
            self._take(after)
        logger.warning(
            "a chat has another id from now on; what names the old one goes on to work",
            extra={"channel": self._channel, "chat": old, "to": new},
        )
        return True

    def _take(self, moves: dict[str, str]) -> None:
        """Hold these moves. A chat has one id after another, so their chains never meet."""
        self._next, self._first = moves, {}
        for start in moves.keys() - moves.values():
            each = start
            self._first[each] = start
            while each in moves:
                each = moves[each]
                self._first[each] = start

    async def load(self) -> None:
        """Take what is kept.

        Raises:
            JournalError: It cannot be read.
        """
        if self._document is not None:
            self._take(await self._document.read())


async def open_aliases(store: KeyedStore, channel: str) -> ChatAliases:
    """Return the aliases of a channel.

    Raises:
        SetupError: They are there and cannot be read.
    """
    aliases = ChatAliases(channel, Document(store, ALIASES_KEY.format(name=channel), _FORM))
    try:
        await aliases.load()
    except JournalError as error:
        msg = f"which chats have another id now: {error}"
        raise SetupError(msg) from error
    return aliases


def _ends(moves: dict[str, str]) -> bool:
    """Whether no chain of moves comes back to where it began."""
    starts = moves.keys() - moves.values()
    seen = 0
    for start in starts:
        each = start
        while each in moves:
            each = moves[each]
            seen += 1
    return seen == len(moves)


def _checked(moves: _Moves) -> _Moves:
    if len({*moves.values()}) != len(moves) or not _ends(moves):
        msg = "moves lead two chats to one, or a chat back to itself"
        raise ValueError(msg)
    return moves


_FORM: Final = form_of(
    "moves",
    _Moves,
    _Moves(),
    check=_checked,
    remedy="put a copy of it back, or remove it: then those chats begin anew under their new ids",
)
