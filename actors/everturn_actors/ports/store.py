"""Where sessions live."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

from everturn_actors.events import Event
from everturn_actors.gaps import Gap
from everturn_actors.model import Compaction, ConversationKey, Labels, SessionStatus
from everturn_actors.state.session_state import SessionState


class Loaded(Struct, frozen=True, kw_only=True):
    """What a store holds of one session."""

    snapshot: SessionState | None
    "State at its last checkpoint; None where none was saved."
    events: tuple[Event, ...]
    "Events after the snapshot (all, where there is none), oldest first, without holes."
    repairs: tuple[str, ...] = ()
    "What was set right while loading, in words for the operator: a torn last line that was cut."
    losses: tuple[str, ...] = ()
    "What of the history before the snapshot is lost, in the same words; the session works without."


class SessionSummary(Struct, frozen=True, kw_only=True):
    """One row of the list of sessions."""

    session_id: str
    key: ConversationKey
    status: SessionStatus
    created_at: datetime
    updated_at: datetime
    "UTC. When something was last written for the session."
    principal: str = ""
    "Who began it; empty = a chat channel, or whoever runs the gateway."
    shared_with: tuple[str, ...] = ()
    "Who was given it besides, by name."
    labels: Labels = Labels()
    "How people sort it."

    @staticmethod
    def of(state: SessionState) -> SessionSummary:
        """Return the row of a session that is in memory."""
        return SessionSummary(
            session_id=state.session_id,
            key=state.key,
            status=state.status,
            created_at=state.created_at,
            updated_at=state.updated_at,
            principal=state.principal,
            shared_with=state.shared_with,
            labels=state.labels,
        )


Place: TypeAlias = tuple[datetime, str]
"Where a session stands in the order of activity: `updated_at` of its row, and its id."


class SessionFilter(Struct, frozen=True, kw_only=True):
    """Which sessions of a list are wanted."""

    seen_by: str = ""
    "Only those that this principal began or was given; empty = all."
    agents: frozenset[str] | None = None
    "Only those of these agents; None = of all."
    channel: str = ""
    "Only those of this channel; empty = of all."
    status: SessionStatus | None = None
    "Only those that stand so; None = all."
    pinned: bool | None = None
    "Only those that are pinned, or only those that are not; None = all."
    archived: bool | None = None
    "Only those that are archived, or only those that are not; None = all."

    def admits(self, summary: SessionSummary) -> bool:
        """Return whether a session is wanted."""
        if self.agents is not None and summary.key.agent not in self.agents:
            return False
        if self.channel and summary.key.channel != self.channel:
            return False
        if self.status is not None and summary.status != self.status:
            return False
        if self.pinned is not None and summary.labels.pinned != self.pinned:
            return False
        if self.archived is not None and summary.labels.archived != self.archived:
            return False
        viewers = (summary.principal, *summary.shared_with)
        return not self.seen_by or self.seen_by in viewers


ALL_SESSIONS: Final = SessionFilter()


class CommitStats(Struct, frozen=True, kw_only=True):
    """A group commit of a store, for whoever measures."""

    jobs: int
    "Appends and marks that shared it."
    size_bytes: int
    "Of the lines in it, also of those that could not be written."
    duration_s: float
    "From the first write to the last sync, the way to a thread and back included."


class SessionLogs(Protocol):
    """Keeps journals and snapshots."""

    async def load(self, session_id: str) -> Loaded | None:
        """Return what is stored, or None where there is no such session.

        A torn last line of the log (a write that a crash cut short, so nobody was told that it was
        accepted) is cut off, kept beside the log, and named in `Loaded.repairs`.

        Raises:
            CorruptJournalError: A hole in the numbers, a bad line with good ones after it, or a
                log or snapshot of another session. The files are left as they are.
            UnknownFormatError: Written by another version.
        """
        ...

    async def inspect(self, session_id: str) -> Loaded | None:
        """Return what `load` would, for reading alone: nothing is written, synced or repaired.

        `Loaded.repairs` names what a load would set right. May be called at any time by anybody;
        what another process left unsynced is shown as well.

        Raises:
            CorruptJournalError, UnknownFormatError: As `load` does.
        """
        ...

    async def append(self, session_id: str, events: Sequence[Event], *, expected_seq: int) -> None:
        """Append all `events` or none; return only when they survive a crash of the machine.

        `expected_seq` is the last seq the caller knows (0 = the session is new): compare, then
        append. The first append of a session creates it.

        Raises:
            FencedError: The stored log does not end at `expected_seq`. Nothing was written.
            JournalWriteError: Not written (disk full, read-only, failing). What was begun is
                undone, so that the log still ends at `expected_seq`; where even that fails, the
                next `load` finds a torn line and cuts it.
        """
        ...

    async def save_snapshot(self, state: SessionState, *, compaction: Compaction) -> None:
        """Replace the snapshot atomically; then let go of the log up to `state.last_seq`.

        archive: those lines move to the archive, archive first, then the log is rewritten.
        discard: they are dropped. disabled: the log keeps them. A crash at any point leaves a
        session that loads to the same state.

        Raises:
            JournalWriteError: Nothing is lost: the old log still stands, under the old snapshot
                or already under the new one.
            FencedError: The log ends before `state` does.
            UnknownSessionError: The session was never written, or deleted.
        """
        ...

    async def read(
        self, session_id: str, *, after: int, limit: int, at_least: int = 0
    ) -> tuple[Event, ...]:
        """Return up to `limit` events with a seq above `after`, oldest first, archive included.

        Events that were discarded are missing: the first one returned may then be later than
        `after + 1`. Unknown session: empty. Changes nothing: a torn last line is passed over.
        The same is true of events that were lost; `explain_gap` tells which they are.

        Args:
            session_id: Whose.
            after: The event before the first one wanted.
            limit: How many at most.
            at_least: The last event that the caller knows to be durable; 0 = it knows of none. What
                is not returned up to it is gone, and does not merely lag behind.

        Raises:
            StaleReadError: The log ends before `at_least`.
        """
        ...

    async def explain_gap(self, session_id: str, first: int, last: int) -> tuple[Gap, ...]:
        """Return why `read` does not give the events `first` to `last`, piece by piece, ascending.

        For runs that are known to be missing: whether they are is not looked at.
        """
        ...

    async def delete(self, session_id: str) -> None:
        """Remove a session and all that belongs to it; return when that is durable."""
        ...


class SessionIndex(Protocol):
    """Tells which sessions there are, and which of them are current or active.

    All of it can be made again from the journals.
    """

    async def sessions(
        self, *, after: str, limit: int, wanted: SessionFilter = ALL_SESSIONS
    ) -> tuple[SessionSummary, ...]:
        """Return up to `limit` wanted sessions with an id below `after`, newest first.

        `after` "" begins with the newest.
        A session that cannot be read is left out here; `doctor` reports it.
        """
        ...

    async def recent(
        self, *, before: Place | None, limit: int, wanted: SessionFilter = ALL_SESSIONS
    ) -> tuple[SessionSummary, ...]:
        """Return up to `limit` wanted sessions, the one in which something happened last first.

        `before` is the place of the last one of the page before, None = from the first. What
        changes between two pages may be seen twice, or moves to a page that was read.
        """
        ...

    async def summary(self, session_id: str) -> SessionSummary | None:
        """Return what a list says of one session; None where there is none, or it cannot be read.

        Costs the same however much is stored of it.
        """
        ...

    async def agents(self) -> tuple[str, ...]:
        """Return the names of the agents with sessions that have not ended, in any order."""
        ...

    def idle(self, agent: str, *, before: datetime) -> AsyncGenerator[SessionSummary]:
        """Yield the sessions of an agent in which nothing happened since `before`.

        Those that ended are left out. Takes as long as there are such sessions. What changes
        meanwhile may be seen or not.
        """
        ...

    async def bind(
        self, key: ConversationKey, session_id: str, *, instead_of: str | None = None
    ) -> str:
        """Make `session_id` the current session of `key`; return the current one when durable.

        Of callers that start from the same `instead_of` one wins, and all are told its session.

        Args:
            key: The conversation.
            session_id: Of a session, which need not exist yet.
            instead_of: What has to be current for it, as `bound` told it ("" = none); with another
                one nothing is changed. None = whatever is.
        """
        ...

    async def bound(self, key: ConversationKey) -> str:
        """Return the current session of `key`, "" where there is none. A hint, not the truth."""
        ...

    async def mark_active(self, session_id: str) -> None:
        """Remember durably that this session may have an open turn."""
        ...

    async def mark_passive(self, session_id: str) -> None:
        """Take the mark back: the session has no open turn. Need not be durable."""
        ...

    async def active(self) -> tuple[str, ...]:
        """Return every session that may have an open turn, without reading any session."""
        ...


class SessionBlobs(Protocol):
    """Keeps what is too large for a journal."""

    async def save_result(self, session_id: str, name: str, text: str) -> None:
        """Keep a text that is too large for the log, under `name`; return when it is durable.

        A text of the same name is replaced. `name` is letters, digits, `-`, `_` and dots inside,
        at most 100 of them. The oldest texts of the session go where all together exceed the
        store's limit; never the one just saved.

        Raises:
            JournalWriteError: It could not be written. A text that stood there before still does.
            InvalidInputError: The name is none.
            UnknownSessionError: The session was never written, or deleted.
        """
        ...

    async def read_result(self, session_id: str, name: str) -> str | None:
        """Return a text that was kept, or None where there is none (any more).

        Raises:
            JournalError: It is there and cannot be read.
        """
        ...

    async def save_media(self, session_id: str, name: str, data: bytes) -> None:
        """Keep a file that came with a message, under `name`; return when it is durable.

        What `save_result` says of names, of a file of the same name and of the oldest ones holds
        here too; the limit is one of its own.

        Raises:
            JournalWriteError: It could not be written. A file that stood there before still does.
            InvalidInputError: The name is none.
            UnknownSessionError: The session was never written, or deleted.
        """
        ...

    async def read_media(self, session_id: str, name: str) -> bytes | None:
        """Return a file that was kept, or None where there is none (any more).

        Raises:
            JournalError: It is there and cannot be read.
        """
        ...


class SessionStore(SessionLogs, SessionIndex, SessionBlobs, Protocol):
    """Keeps journals, snapshots, and the two small indexes that can be rebuilt from them.

    Every method may raise `JournalError`. Methods of different sessions may run at the same time;
    for one session, the one actor that owns it calls `append` and `save_snapshot` in order.
    """
