"""What a store does beside a session's life: how much it keeps of it, and what of that goes."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from everturn_actors.events import Event
from everturn_actors.state.session_state import SessionState

Part: TypeAlias = Literal["media", "results", "archive"]
"""What may go while the session stays: files of messages, large results, events behind its
snapshot."""


class StoredSizes(Struct, frozen=True, kw_only=True):
    """How much is kept of a session, in bytes."""

    log: int = 0
    "Events and snapshot, without the archive."
    archive: int = 0
    results: int = 0
    media: int = 0

    @property
    def total(self) -> int:
        """All of it."""
        return self.log + self.archive + self.results + self.media

    def of(self, part: Part) -> int:
        """Return the size of a part."""
        return {"media": self.media, "results": self.results, "archive": self.archive}[part]


class Rewriting(Protocol):
    """What becomes of a session that is written anew. Pure, and called in a thread."""

    def event(self, event: Event) -> Event:
        """Return what stands for an event, with its number."""
        ...

    def state(self, state: SessionState) -> SessionState:
        """Return what stands for a snapshot."""
        ...

    def keeps_media(self, name: str) -> bool:
        """Say whether a file of a message stays."""
        ...

    def keeps_result(self, text: str) -> bool:
        """Say whether a large result stays."""
        ...


class Maintenance(Protocol):
    """Looks after what is stored of sessions that nobody uses meanwhile.

    The caller has made sure that no actor of the session lives. Every method may raise
    `JournalError`; of an unknown session nothing is kept, and nothing is done.
    """

    async def sizes(self, session_id: str) -> StoredSizes:
        """Return how much is kept of a session."""
        ...

    async def drop(self, session_id: str, *parts: Part) -> int:
        """Remove parts of a session; return how many bytes that were, when it is durable.

        Where the archive goes, its events are a gap in the history, written down as discarded on
        purpose. Without a snapshot it stays: the session could not be loaded without it. A crash
        in the middle leaves a session that loads to the same state.
        """
        ...

    async def rewrite(self, session_id: str, change: Rewriting) -> None:
        """Write a session anew, event by event; return when it is durable.

        After a crash in the middle some of it may be written already: with a change that may be
        done twice, it is done again.
        """
        ...
