"""What the files of one session hold, good and bad."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from everturn_actors.errors import CorruptJournalError, UnknownFormatError
from everturn_actors.events import Event
from everturn_actors.gaps import Gap
from everturn_actors.journal.loading import decode_snapshot, read_optional
from everturn_actors.journal.log.archive import ArchiveRecord
from everturn_actors.journal.log.codec import BadLineError, decode, seed
from everturn_actors.journal.log.layout import SessionFiles
from everturn_actors.journal.snapshot.reader import BadSnapshotError, decode_header
from everturn_actors.state.apply import apply
from everturn_actors.state.session_state import SessionState


class LogLine(Struct, frozen=True, kw_only=True):
    """One line of a log or archive."""

    number: int
    raw: bytes
    event: Event | None
    "None = it is bad."
    why: str = ""
    has_end: bool = True
    "Whether a newline ends it."


class Stored(Struct, frozen=True, kw_only=True):
    """All that the files of a session hold, good and bad."""

    log: tuple[LogLine, ...]
    archive: tuple[LogLine, ...]
    snapshot: SessionState | None
    snapshot_fault: str
    record: ArchiveRecord | None
    "What the snapshot says of the archive."


def read_stored(files: SessionFiles) -> Stored:
    """Read all that is stored of a session, good and bad."""
    snapshot, fault, record = None, "", None
    saved = read_optional(files.state)
    if saved is not None:
        try:
            snapshot = decode_snapshot(files, saved)
            record = decode_header(saved).archive
        except (BadSnapshotError, CorruptJournalError) as error:
            fault = str(error)
    return Stored(
        log=_read_lines(files, files.log),
        archive=_read_lines(files, files.archive),
        snapshot=snapshot,
        snapshot_fault=fault,
        record=record,
    )


def _read_lines(files: SessionFiles, path: Path) -> tuple[LogLine, ...]:
    data = read_optional(path)
    if not data:
        return ()
    start = seed(files.session_id)
    lines: list[LogLine] = []
    pieces = data.removesuffix(b"\n").split(b"\n")
    for number, raw in enumerate(pieces, 1):
        try:
            lines.append(LogLine(number=number, raw=raw, event=decode(raw, start)))
        except BadLineError as error:
            has_end = number < len(pieces) or data.endswith(b"\n")
            why = str(error)
            lines.append(LogLine(number=number, raw=raw, event=None, why=why, has_end=has_end))
        except UnknownFormatError as error:
            message = f"line {number}: {error}"
            raise UnknownFormatError(message, path=path) from error
    return tuple(lines)


def good_lines(lines: tuple[LogLine, ...]) -> dict[int, LogLine]:
    """Return the good lines by number; the first one of each number counts."""
    good: dict[int, LogLine] = {}
    for line in lines:
        if line.event is not None:
            good.setdefault(line.event.seq, line)
    return good


class Usable(Struct, frozen=True, kw_only=True):
    """How far a session can be followed."""

    run: tuple[Event, ...]
    "The longest run of events that can follow the snapshot."
    state: SessionState | None
    "The state at its end."
    why: str
    "Why it ends there."


def usable_of(session: Stored) -> Usable:
    """Return what a session can be rebuilt from."""
    good = {**good_lines(session.log), **good_lines(session.archive)}
    state = session.snapshot
    run: list[Event] = []
    while True:
        number = (state.last_seq if state else 0) + 1
        line = good.get(number)
        if line is None or line.event is None:
            why = f"event {number} is missing or damaged"
            return Usable(run=tuple(run), state=state, why=why)
        try:
            state = apply(state, line.event)
        except CorruptJournalError as error:
            return Usable(run=tuple(run), state=state, why=str(error))
        run.append(line.event)


def told_gaps(record: ArchiveRecord) -> tuple[Gap, ...]:
    """Return the gaps that are no news: let go on purpose, or told of by a repair."""
    return tuple(gap for gap in record.gaps if gap.cause != "lost" or gap.is_reported)
