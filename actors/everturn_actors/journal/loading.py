"""Loading one session: snapshot, log, archive, and what is set right on the way. Blocking.

All files are read and checked before anything is changed: a session that cannot be loaded is left
as it is.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from msgspec import Struct

from everturn_actors.errors import CorruptJournalError, UnknownFormatError
from everturn_actors.events import Event
from everturn_actors.journal.disk import (
    cut,
    open_for_writing,
    quarantine_path,
    replace_file,
    sync_directory,
    write_all,
    write_error,
)
from everturn_actors.journal.log.archive import ArchiveRecord, find_loss, look_at_ends
from everturn_actors.journal.log.files import (
    REPAIR_HINT,
    Log,
    Tail,
    parse_log,
    read_events,
    read_tail,
)
from everturn_actors.journal.log.layout import SessionFiles
from everturn_actors.journal.snapshot.reader import (
    BadSnapshotError,
    Header,
    decode_header,
    decode_state,
)
from everturn_actors.ports import Loaded
from everturn_actors.state.session_state import SessionState

logger = logging.getLogger(__name__)

REBUILT = "state.yaml is missing; the session was rebuilt from the archive"
ALL = 1 << 62  # more events than any log holds
_HEADER_BYTES = 16 * 1024  # longer only where a session has long instructions of its own


def load_session(files: SessionFiles) -> tuple[Loaded, Tail] | None:
    """Return what is stored of a session and where its log ends; None where there is no session.

    Raises:
        CorruptJournalError: The files do not fit together, or are damaged.
        UnknownFormatError: A file of another version.
        JournalWriteError: A torn line could not be cut off, or what is there not be made durable.
    """
    found = _read_session(files, read_optional(files.state))
    if found is None:
        return None
    repairs = _repair_log(files, found.log)  # only now, when all else has been read without fault
    _sync(files)  # what a process that was killed had written may be in memory alone
    if found.fault:
        repairs += (_quarantine_snapshot(files, found.fault),)
    elif found.is_rebuilt:
        repairs += (REBUILT,)
    if found.never_began:
        # The very first write of the session was cut short: nobody was told that there is one.
        logger.warning(
            "a session that never began was passed over",
            extra={"session_id": files.session_id, "repairs": repairs},
        )
        return None
    size = found.log.size_bytes + found.log.unterminated
    return (
        Loaded(snapshot=found.snapshot, events=found.events, repairs=repairs, losses=found.losses),
        Tail(last_seq=found.last_seq, size_bytes=size),
    )


def inspect_session(files: SessionFiles, *, with_snapshot: bool = True) -> Loaded | None:
    """Return what is stored of a session and change nothing; None where there is no session.

    Args:
        files: Of the session.
        with_snapshot: False = as it would be loaded if it had no snapshot.

    Raises:
        CorruptJournalError: The files do not fit together, or are damaged.
        UnknownFormatError: A file of another version.
    """
    found = _read_session(files, read_optional(files.state) if with_snapshot else None)
    if found is None or found.never_began:
        return None
    repairs: tuple[str, ...] = ()
    if found.log.torn:
        repairs += (f"{files.log.name}: the last line is not whole",)
    if found.fault:
        repairs += (f"state.yaml: {found.fault}",)
    elif found.is_rebuilt:
        repairs += (REBUILT,)
    return Loaded(
        snapshot=found.snapshot, events=found.events, repairs=repairs, losses=found.losses
    )


class _Found(Struct, frozen=True, kw_only=True):
    """What the files of a session hold, checked against each other."""

    snapshot: SessionState | None
    fault: str
    "What is wrong with the snapshot's file; empty = nothing."
    log: Log
    events: tuple[Event, ...]
    "Those after the snapshot."
    is_rebuilt: bool
    "There is no snapshot, and the log does not reach back: the archive does."
    losses: tuple[str, ...] = ()
    "What the archive no longer holds, in words; the session goes on without it."

    @property
    def never_began(self) -> bool:
        return self.snapshot is None and not self.events

    @property
    def last_seq(self) -> int:
        if self.events:
            return self.events[-1].seq
        return self.snapshot.last_seq if self.snapshot else 0


def _read_session(files: SessionFiles, saved: bytes | None) -> _Found | None:
    """Read and check the files of a session with this snapshot; None where it has none."""
    data = read_optional(files.log)
    if data is None:
        if saved is None and not files.archive.exists():
            return None
        message = f"the log is missing; `{REPAIR_HINT}` goes on from the snapshot"
        raise CorruptJournalError(message, path=files.log)
    snapshot, fault = _read_snapshot(files, saved)
    after = snapshot.last_seq if snapshot else 0
    log = parse_log(data, session_id=files.session_id, after=after, path=files.log)
    events = _archived(files, after=after, log=log, has_snapshot=snapshot is not None) + log.events
    _check_reach(files, events, log=log, after=after, fault=fault)
    return _Found(
        snapshot=snapshot,
        fault=fault,
        log=log,
        events=events,
        is_rebuilt=saved is None and bool(events) and log.first_seq != 1,
        losses=_find_losses(files, saved, snapshot, log),
    )


def _find_losses(
    files: SessionFiles, saved: bytes | None, snapshot: SessionState | None, log: Log
) -> tuple[str, ...]:
    """Return what the archive should hold and does not, by the two ends of it.

    Its inside is not read: that takes as long as the session is old, and `doctor` does it.
    """
    need = (log.first_seq or (snapshot.last_seq + 1 if snapshot else 1)) - 1
    if saved is None or snapshot is None or need == 0:
        return ()  # a session without a snapshot is rebuilt from the archive, or cannot be loaded
    record = decode_header(saved).archive
    if record is None:
        return ()
    try:
        loss = find_loss(files, record, look_at_ends(files), need)
    except OSError as error:  # the session does not need it
        loss = f"{files.archive.name} cannot be read ({error.strerror})"
    return (f"{loss}; the history has a gap there",) if loss else ()


def find_tail(files: SessionFiles) -> Tail:
    """Return where the log of a session ends, from its last line, or the snapshot's header.

    Raises:
        BadLineError: The log ends in a line that is not whole.
        BadSnapshotError: The log is empty and the snapshot cannot be read.
        UnknownFormatError: A file of another version.
    """
    tail = read_tail(files.log, files.session_id)
    if tail is not None:
        return tail
    header = read_header(files)
    return Tail(last_seq=header.last_seq if header else 0, size_bytes=0)


def read_header(files: SessionFiles) -> Header | None:
    """Return the header of a session's snapshot, or None where it has none.

    Raises:
        BadSnapshotError: It is damaged.
        UnknownFormatError: It is of another version.
    """
    try:
        with files.state.open("rb") as file:
            data = file.read(_HEADER_BYTES)
            try:
                return decode_header(data)
            except BadSnapshotError:
                rest = file.read()
                if not rest:
                    raise
                return decode_header(data + rest)  # a header of its own is longer than most
    except FileNotFoundError:
        return None


def read_record(files: SessionFiles) -> ArchiveRecord | None:
    """Return what a session's snapshot says of its archive; None where nothing is known."""
    try:
        header = read_header(files)
    except (BadSnapshotError, UnknownFormatError):
        return None
    return header.archive if header else None


def read_optional(path: Path) -> bytes | None:
    """Return the bytes of a file, or None where it is not there."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def decode_snapshot(files: SessionFiles, data: bytes) -> SessionState:
    """Return the state that `data` holds, if it is this session's.

    Raises:
        BadSnapshotError: It is damaged.
        CorruptJournalError: It is another session's.
        UnknownFormatError: It is of another version.
    """
    try:
        state = decode_state(data)
    except UnknownFormatError as error:
        # No damage: another version wrote it, and reads it.
        raise UnknownFormatError(str(error), path=files.state) from error
    if state.session_id != files.session_id:
        message = (
            f"the field 'session' names {state.session_id!r}: this is the snapshot of another "
            f"session; put the right file here, or let `{REPAIR_HINT}` set it aside"
        )
        raise CorruptJournalError(message, path=files.state)
    return state


def _read_snapshot(files: SessionFiles, data: bytes | None) -> tuple[SessionState | None, str]:
    """Return the snapshot, if there is one, and what is wrong with it."""
    if data is None:
        return None, ""
    try:
        return decode_snapshot(files, data), ""
    except BadSnapshotError as error:
        return None, str(error)  # the log may reach back far enough to do without it


def _archived(
    files: SessionFiles, *, after: int, log: Log, has_snapshot: bool
) -> tuple[Event, ...]:
    """Return the events between the snapshot and the log, where the log begins too late."""
    if log.first_seq == after + 1 or (has_snapshot and log.first_seq <= after):
        return ()
    try:
        with files.archive.open("rb") as archive:
            events = read_events(archive, session_id=files.session_id, after=after, limit=ALL)
    except FileNotFoundError:
        return ()
    before = log.first_seq or ALL  # what both have is read from the log
    return tuple(event for event in events if event.seq < before)


def _check_reach(
    files: SessionFiles, events: tuple[Event, ...], *, log: Log, after: int, fault: str
) -> None:
    """Check that the events follow the snapshot (or the beginning) and each other."""
    if log.last_seq and log.last_seq < after:
        why = f"the log ends at event {log.last_seq}, but state.yaml holds event {after} already"
        raise _corrupt(files.log, why)
    if fault and not events:
        raise _corrupt(files.state, fault)  # nothing else tells of the session
    expected = after
    for event in events:
        expected += 1
        if event.seq == expected:
            continue
        if fault:
            raise _corrupt(files.state, f"{fault}; and the log does not reach back to event 1")
        raise _corrupt(files.log, f"event {expected} is missing; the next one is {event.seq}")


def _corrupt(path: Path, why: str) -> CorruptJournalError:
    message = f"{why}. Nothing was changed; `{REPAIR_HINT}` rebuilds what can be rebuilt"
    return CorruptJournalError(message, path=path)


def _repair_log(files: SessionFiles, log: Log) -> tuple[str, ...]:
    path = files.log
    try:
        if log.torn:
            kept = quarantine_path(path, "torn")
            replace_file(kept, log.torn)  # kept first: a crash between the two loses nothing
            cut(path, log.size_bytes)
            text = (
                f"{path.name}: the last line was not whole (a write that a crash cut short); its "
                f"{len(log.torn)} bytes were cut off and are kept as {kept.name}"
            )
            return (text,)
        if log.unterminated:
            _terminate(path, log.size_bytes)  # the crash came between its last byte and its newline
            return (f"{path.name}: the last line is whole and got the newline that it lacked",)
    except OSError as error:
        raise write_error(error, path) from error
    return ()


def _sync(files: SessionFiles) -> None:
    """Make durable what is there, before anybody relies on it.

    A process that was killed leaves what it wrote, synced or not, and the names that it gave. That
    can be read, and is lost all the same when the machine loses power.
    """
    try:
        fd = os.open(files.log, os.O_RDONLY)  # for reading is enough to sync
        try:
            os.fdatasync(fd)
        finally:
            os.close(fd)
        sync_directory(files.folder)
    except OSError as error:
        raise write_error(error, files.log) from error


def _terminate(path: Path, size_bytes: int) -> None:
    fd = open_for_writing(path, create=False)
    try:
        write_all(fd, b"\n", size_bytes)
        os.fdatasync(fd)
    finally:
        os.close(fd)


def _quarantine_snapshot(files: SessionFiles, fault: str) -> str:
    try:
        kept = quarantine_path(files.state, "bad")
        files.state.rename(kept)
        sync_directory(files.folder)
    except OSError as error:
        raise write_error(error, files.state) from error
    return f"state.yaml: {fault}; it is kept as {kept.name}, the session was rebuilt from its log"
