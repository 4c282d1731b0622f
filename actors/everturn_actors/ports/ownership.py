"""Which process works on which session, where several share one store.

Sessions are parted by their ids; each partition has one owner at a time, by a lease that the store
grants. A lease avoids that work is done twice, and no more: what two owners write at once, the
store refuses (`SessionLogs.append`).
"""

from __future__ import annotations

from typing import Protocol

import anyio
from msgspec import Struct

from everturn_actors.model import ConversationKey


class Node(Struct, frozen=True, kw_only=True):
    """A process that shares a store with others."""

    name: str
    "No two that live have one name."
    address: str = ""
    "Where others reach it, as its configuration says; empty = it is alone."
    version: str = ""
    "Of Everturn."


class Ownership(Protocol):
    """Tells who works on what. All of it is what this process knows; nothing is waited for.

    A node that asks another one for something may be wrong about the owner, and the other one says
    so: it looks at `epoch`.
    """

    def partition(self, session_id: str, key: ConversationKey | None = None) -> int:
        """Return the partition of a session; below 0 where nobody said yet which one that is.

        Args:
            session_id: The session.
            key: Its conversation, where that is at hand: then it need not be known.
        """
        ...

    def is_known(self, session_id: str) -> bool:
        """Say whether `partition` can tell; else somebody has to look, and `note_key`."""
        ...

    def note_key(self, session_id: str, key: ConversationKey) -> None:
        """Note which conversation a session is of; that never changes."""
        ...

    def works_for(self, agent: str) -> bool:
        """Say whether what an agent's tools work on is here, if it is in one place alone."""
        ...

    def why_nobody(self, partition: int) -> str:
        """Return why nobody holds a partition for long; empty = it is on its way."""
        ...

    def holder(self, partition: int) -> Node | None:
        """Return who works on a partition, as far as is known; None = nobody now, or on its way.

        It is this process exactly where `epoch` is not None.
        """
        ...

    def epoch(self, partition: int) -> int | None:
        """Return the number of this process's lease of a partition; it grows with each new owner.

        None = nothing may be begun here: it is another one's, or the lease may have run out, or it
        is about to be given back.
        """
        ...

    @property
    def me(self) -> Node:
        """This process."""
        ...

    @property
    def fault(self) -> str:
        """Why it cannot be found out now who works on what; empty = it can."""
        ...

    def nodes(self) -> tuple[Node, ...]:
        """Return the processes that live, this one included, by name."""
        ...

    async def changed(self) -> None:
        """Return at the next change of a holder, an epoch or the nodes."""
        ...


class LocalOwnership:
    """`Ownership` of a process that is alone: everything is its own, for ever."""

    me = Node(name="local")
    "This process."
    fault = ""
    "Nobody has to be asked."

    def partition(self, session_id: str, key: ConversationKey | None = None) -> int:
        """Return the only partition."""
        del session_id, key
        return 0

    def is_known(self, session_id: str) -> bool:
        """Say that it is."""
        del session_id
        return True

    def note_key(self, session_id: str, key: ConversationKey) -> None:
        """Note nothing."""

    def works_for(self, agent: str) -> bool:
        """Say that it does."""
        del agent
        return True

    def why_nobody(self, partition: int) -> str:
        """Return nothing: somebody always does."""
        del partition
        return ""

    def holder(self, partition: int) -> Node:
        """Return this process."""
        del partition
        return self.me

    def epoch(self, partition: int) -> int:
        """Return the only lease there ever is."""
        del partition
        return 1

    def nodes(self) -> tuple[Node, ...]:
        """Return this process."""
        return (self.me,)

    async def changed(self) -> None:
        """Wait for ever."""
        await anyio.sleep_forever()
