"""One handle for each session in use: its files, who is at it, and what is known of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from everturn_actors.journal.log.files import Tail
from everturn_actors.journal.log.layout import SessionFiles
from everturn_actors.journal.places import Places
from everturn_actors.journal.results import Shelf

KEPT_MAX = 4096  # ends of logs kept in memory; beyond, they are read again from the file


class SessionHandle:
    """A place for one: whoever holds it is the only one to touch the session's files."""

    __slots__ = ("files", "media", "seat", "shelf", "tail", "users")

    def __init__(self, files: SessionFiles) -> None:
        self.files = files
        self.tail: Tail | None = None
        "Where the log ends; None = look."
        self.shelf: Shelf | None = None
        "Which large results there are; None = look."
        self.media: Shelf | None = None
        "Which files of messages there are; None = look."
        self.users = 0
        "Who holds it or waits to."
        self.seat = Places(1)


class SessionHandles:
    """Gives handles out. A handle that nobody uses is kept only for what it knows."""

    def __init__(self, files_of: Callable[[str], SessionFiles]) -> None:
        """Begin without a handle; `files_of` names the files of a session, or refuses its id."""
        self._files_of = files_of
        self._handles: dict[str, SessionHandle] = {}

    async def take(self, session_id: str) -> SessionHandle:
        """Wait for the session's handle. It must be given back, by whoever finishes the work.

        Raises:
            UnknownSessionError: It is no session id.
        """
        handle = self._handles.get(session_id)
        if handle is None:
            handle = self._handles[session_id] = SessionHandle(self._files_of(session_id))
        handle.users += 1
        if handle.seat.free:
            handle.seat.free = 0
            return handle
        try:
            await handle.seat.wait()
        except BaseException:
            handle.users -= 1
            self._tidy(handle)
            raise
        return handle

    def give_back(self, handle: SessionHandle) -> None:
        """Let the next one sit down."""
        handle.seat.give_back()
        handle.users -= 1
        if handle.users == 0:
            self._tidy(handle)

    @asynccontextmanager
    async def at(self, session_id: str) -> AsyncGenerator[SessionHandle]:
        """Sit at the session's handle for a block."""
        handle = await self.take(session_id)
        try:
            yield handle
        finally:
            self.give_back(handle)

    def tail(self, session_id: str) -> Tail | None:
        """Return where the log of a session ends, if that is known."""
        handle = self._handles.get(session_id)
        return handle.tail if handle else None

    def forget(self, session_id: str) -> None:
        """Keep nothing of a session that was passivated."""
        handle = self._handles.get(session_id)
        if handle is not None:
            handle.tail = handle.shelf = handle.media = None
            self._tidy(handle)

    def _tidy(self, handle: SessionHandle) -> None:
        if handle.users == 0 and (handle.tail is None or len(self._handles) > KEPT_MAX):
            del self._handles[handle.files.session_id]
