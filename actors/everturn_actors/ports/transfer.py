"""How all that a store keeps goes to another one, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from everturn_actors.model import ConversationKey

BlobKind: TypeAlias = Literal["result", "media"]
Blob: TypeAlias = tuple[BlobKind, str]
"A large result, or a file that came with a message, by its name."


class SessionBytes(Struct, frozen=True, kw_only=True):
    """What is kept of a session, as the files of a workspace hold it."""

    archive: bytes
    "Lines before those of the log; empty = there are none."
    log: bytes
    snapshot: bytes | None
    "None = there is none."


class Transfer(Protocol):
    """Reads and writes all that a store keeps, while nobody else uses it.

    What is written is durable when a method returns; written again, it is replaced. Every method
    may raise `JournalError`.
    """

    @property
    def place(self) -> str:
        """Where it is, for people; without what is secret."""
        ...

    async def sessions(self) -> Sequence[str]:
        """Return the ids of all sessions, sorted."""
        ...

    async def read(self, session_id: str) -> SessionBytes | None:
        """Return what is kept of a session; None where there is none.

        Raises:
            CorruptJournalError: It cannot be loaded as it stands.
        """
        ...

    async def write(self, session_id: str, data: SessionBytes) -> None:
        """Keep a session; its large results and files go where there were any."""
        ...

    async def delete(self, session_id: str) -> None:
        """Remove a session with all that belongs to it."""
        ...

    async def blobs(self, session_id: str) -> Sequence[Blob]:
        """Return what is kept beside the log of a session, the oldest first."""
        ...

    async def read_blob(self, session_id: str, blob: Blob) -> bytes | None:
        """Return one of them; None where there is none."""
        ...

    async def write_blob(self, session_id: str, blob: Blob, data: bytes) -> None:
        """Keep one as the newest; nothing goes for it, whatever the limits."""
        ...

    async def conversations(self) -> Mapping[ConversationKey, str]:
        """Return the current session of each conversation."""
        ...

    async def keep_conversations(self, current: Mapping[ConversationKey, str]) -> None:
        """Let these be all that are current."""
        ...

    async def keep_active(self, sessions: Sequence[str]) -> None:
        """Let these be all sessions that may have an open turn."""
        ...

    async def keys(self) -> Sequence[str]:
        """Return the keys of all values and lines that are kept beside sessions, sorted."""
        ...
