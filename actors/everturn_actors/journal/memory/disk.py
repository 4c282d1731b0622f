"""A disk that can be made to fail, or to lose its power."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import anyio
from msgspec import Struct, field

from everturn_actors.errors import JournalError
from everturn_actors.events import Event, Labelled
from everturn_actors.model import ConversationKey
from everturn_actors.state.session_state import SessionState

ALL = 1 << 62  # more sessions than any disk holds


class PowerLostError(JournalError):
    """The store is closed, or its disk lost its power; open a new one on the same disk."""

    def __init__(self) -> None:
        super().__init__("")


class Stored(Struct):
    """What a disk holds of one session."""

    log: list[Event] = field(default_factory=list[Event])
    archive: list[Event] = field(default_factory=list[Event])
    snapshot: SessionState | None = None
    results: dict[str, bytes] = field(default_factory=dict[str, bytes])
    "By name, in the order in which they were saved."
    media: dict[str, bytes] = field(default_factory=dict[str, bytes])
    "The same of files that came with messages."
    is_torn: bool = False
    "The log ends in half a line."
    first: Event | None = None
    "The event that started the session, also where it was discarded."
    last: Event | None = None
    updated_at: datetime | None = None
    "When something happened last; that somebody sorted it counts for nothing."

    @property
    def last_seq(self) -> int:
        """Where the log ends."""
        return self.last.seq if self.last else 0

    def write(self, events: Sequence[Event]) -> None:
        """Put events at the end of the log."""
        for event in events:
            self.first = self.first or event
            self.last = event
            if not isinstance(event.body, Labelled):
                self.updated_at = event.at
            self.log.append(event)


class Failure(Struct, frozen=True, kw_only=True):
    """What is to happen at one append, or one result, to come."""

    error: int = 0
    "The errno to fail with; 0 = the power goes."
    kept_events: int = 0
    "Events of that append which still reach the disk; of a result, 1 = it does."
    tear: bool = False
    "Whether half of the next line does as well."


class MemoryDisk:
    """Everything here is durable. At most one store uses it at a time."""

    def __init__(self) -> None:
        self.sessions: dict[str, Stored] = {}
        self.values: dict[str, bytes] = {}
        "What is kept beside sessions, by key."
        self.active: dict[str, None] = {}
        "Ids in the order in which they were marked."
        self.pointers: dict[ConversationKey, str] = {}
        self.appends = 0
        "Appends tried so far, those that failed included."
        self.failures: dict[int, Failure] = {}
        "By the number of the append."
        self.stalled: anyio.Event | None = None
        "Where there is one, appends wait for it, as on a disk that hangs."
        self.saved_results = 0
        "Results that were to be saved so far, those that failed included."
        self.result_failures: dict[int, Failure] = {}
        "By the number of the result."
        self.user: object = None
        "The store that uses it."

    def fail_append(self, error: int, *, nth: int = 1) -> None:
        """Let the n-th append from now fail with an errno; nothing of it is kept."""
        self.failures[self.appends + nth] = Failure(error=error)

    def lose_power_at_append(
        self, *, nth: int = 1, kept_events: int = 0, tear: bool = False
    ) -> None:
        """Let the power go during the n-th append from now.

        Args:
            nth: Which append; 1 = the next one.
            kept_events: How many of its events reach the disk before.
            tear: Whether half of the line after those does.
        """
        self.failures[self.appends + nth] = Failure(kept_events=kept_events, tear=tear)

    def fail_result(self, error: int, *, nth: int = 1) -> None:
        """Let the n-th result from now fail with an errno; what stood there before still does."""
        self.result_failures[self.saved_results + nth] = Failure(error=error)

    def lose_power_at_result(self, *, nth: int = 1, kept: bool = False) -> None:
        """Let the power go while the n-th result from now is saved; `kept`: just after that."""
        self.result_failures[self.saved_results + nth] = Failure(kept_events=int(kept))

    def lose_power(self) -> None:
        """End the store that uses this disk, now: what it had written stays, and it fails."""
        self.user = None

    def tear(self, session_id: str) -> None:
        """Leave half a line at the end of a session's log, as a crash during an append does."""
        self.sessions[session_id].is_torn = True
