"""One desk for each session in use: its files, who is at it, and what is known of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio

from everturn_actors.journal.layout import SessionFiles
from everturn_actors.journal.logs import Tail
from everturn_actors.journal.results import Shelf

KEPT_MAX = 4096  # ends of logs kept in memory; beyond, they are read again from the file


class Desk:
    """A place for one: whoever sits here is the only one to touch the session's files."""

    __slots__ = ("files", "free", "media", "shelf", "tail", "users")

    def __init__(self, files: SessionFiles) -> None:
        self.files = files
        self.tail: Tail | None = None
        "Where the log ends; None = look."
        self.shelf: Shelf | None = None
        "Which large results there are; None = look."
        self.media: Shelf | None = None
        "Which files of messages there are; None = look."
        self.users = 0
        "Who sits here or waits to."
        self.free = anyio.Semaphore(1, max_value=1, fast_acquire=True)


class Desks:
    """Gives desks out. A desk that nobody uses is kept only for what it knows."""

    def __init__(self, files_of: Callable[[str], SessionFiles]) -> None:
        """Begin without a desk; `files_of` names the files of a session, or refuses its id."""
        self._files_of = files_of
        self._desks: dict[str, Desk] = {}

    async def take(self, session_id: str) -> Desk:
        """Wait for the session's desk. It must be given back, by whoever finishes the work.

        Raises:
            UnknownSessionError: It is no session id.
        """
        desk = self._desks.get(session_id)
        if desk is None:
            desk = self._desks[session_id] = Desk(self._files_of(session_id))
        desk.users += 1
        try:
            await desk.free.acquire()
        except BaseException:
            self._leave(desk)
            raise
        return desk

    def give_back(self, desk: Desk) -> None:
        """Let the next one sit down."""
        desk.free.release()
        self._leave(desk)

    @asynccontextmanager
    async def at(self, session_id: str) -> AsyncGenerator[Desk]:
        """Sit at the session's desk for a block."""
        desk = await self.take(session_id)
        try:
            yield desk
        finally:
            self.give_back(desk)

    def tail(self, session_id: str) -> Tail | None:
        """Return where the log of a session ends, if that is known."""
        desk = self._desks.get(session_id)
        return desk.tail if desk else None

    def forget(self, session_id: str) -> None:
        """Keep nothing of a session that went to rest."""
        desk = self._desks.get(session_id)
        if desk is not None:
            desk.tail = desk.shelf = desk.media = None
            self._tidy(desk)

    def _leave(self, desk: Desk) -> None:
        desk.users -= 1
        self._tidy(desk)

    def _tidy(self, desk: Desk) -> None:
        if desk.users == 0 and (desk.tail is None or len(self._desks) > KEPT_MAX):
            del self._desks[desk.files.session_id]
