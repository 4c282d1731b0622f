"""Values as the columns hold them. Pure."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from pathlib import Path
from typing import Final

from msgspec.structs import asdict, replace

from everturn_actors.codec import Codec, encode
from everturn_actors.errors import CorruptJournalError, UnknownFormatError
from everturn_actors.events import Event, Labelled, SessionStarted
from everturn_actors.gaps import Gap
from everturn_actors.journal.log.codec import BadLineError, decode, seed
from everturn_actors.model import ConversationKey
from everturn_actors.ports import SessionSummary

_HARD: Final = re.compile("[\\\\\x00\ud800-\udfff]")
_SUMMARY: Final = Codec[SessionSummary](SessionSummary)
_GAPS: Final = Codec[tuple[Gap, ...]](tuple[Gap, ...])


def as_text(text: str) -> str:
    r"""Return a text as a column may hold it: `\` and what PostgreSQL refuses are escaped.

    >>> as_text("a\x00b"), as_text("plain")
    ('a\\0000b', 'plain')
    """
    return _HARD.sub(lambda found: f"\\{ord(found[0]):04x}", text)


def hash_of(key: ConversationKey) -> bytes:
    """Return by what a conversation is found."""
    return hashlib.sha256(key_bytes(key)).digest()


def key_bytes(key: ConversationKey) -> bytes:
    """Return a conversation as JSON."""
    return encode(asdict(key))


def begun(session_id: str, events: tuple[Event, ...]) -> SessionSummary | None:
    """Return the row of a session that begins with these events; None where none is told of."""
    first = events[0]
    if not isinstance(first.body, SessionStarted):
        return None
    return SessionSummary(
        session_id=session_id,
        key=first.body.key,
        status="active",
        created_at=first.at,
        updated_at=first.at,
        principal=first.body.principal,
    )


def activity(events: tuple[Event, ...]) -> datetime | None:
    """Return when something happened last; None where somebody only sorted the session."""
    return next((e.at for e in reversed(events) if not isinstance(e.body, Labelled)), None)


def summary_bytes(summary: SessionSummary) -> bytes:
    """Return a row of the list as JSON."""
    return encode(summary)


def summary_of(data: bytes, updated: datetime) -> SessionSummary:
    """Return a row of the list."""
    return replace(_SUMMARY.decode(data), updated_at=updated)


def gaps_bytes(gaps: tuple[Gap, ...]) -> bytes:
    """Return gaps as JSON."""
    return encode(gaps)


def gaps_of(data: bytes) -> tuple[Gap, ...]:
    """Return the gaps that JSON holds."""
    return _GAPS.decode(data)


def events_of(session_id: str, lines: list[tuple[int, bytes]], where: Path) -> tuple[Event, ...]:
    """Return the events of lines.

    Args:
        session_id: Whose.
        lines: Each with its number.
        where: The table, for people.

    Raises:
        CorruptJournalError: A line is damaged.
        UnknownFormatError: One is of another version.
    """
    start = seed(session_id)
    events: list[Event] = []
    for seq, line in lines:
        try:
            event = decode(line.removesuffix(b"\n"), start)
        except (BadLineError, UnknownFormatError) as error:
            is_other = isinstance(error, UnknownFormatError)
            kind = UnknownFormatError if is_other else CorruptJournalError
            msg = f"event {seq}: {error}"
            raise kind(msg, path=where) from error
        if event.seq != seq:
            msg = f"event {seq}: the line says that it is event {event.seq}"
            raise CorruptJournalError(msg, path=where)
        events.append(event)
    return tuple(events)
