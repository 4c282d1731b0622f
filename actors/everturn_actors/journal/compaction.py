"""Saving a snapshot, and letting go of the log behind it. Blocking.

The order makes every crash harmless: the snapshot stands before the log is touched, and what
leaves the log stands in the archive before it is gone from the log.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import BinaryIO

from msgspec.structs import replace

from everturn_actors.errors import CorruptJournalError, FencedError
from everturn_actors.gaps import Gap, with_gap, without
from everturn_actors.journal.disk import (
    cut,
    open_for_writing,
    replace_file,
    sync_directory,
    write_all,
    write_error,
)
from everturn_actors.journal.loading import read_record
from everturn_actors.journal.log.archive import (
    ArchiveRecord,
    end_of_lines,
    find_holes,
    find_loss,
    look_at_ends,
)
from everturn_actors.journal.log.codec import HEAD_BYTES, BadLineError, seq_of
from everturn_actors.journal.log.files import REPAIR_HINT, Tail, find_offset, read_tail
from everturn_actors.journal.log.layout import SessionFiles
from everturn_actors.journal.snapshot.state_yaml import encode_state
from everturn_actors.model import Compaction
from everturn_actors.state.session_state import SessionState

logger = logging.getLogger(__name__)

_COPY_BYTES = 1024 * 1024


def save_snapshot(
    files: SessionFiles, state: SessionState, *, compaction: Compaction, tail: Tail
) -> Tail:
    """Replace the snapshot, then let go of the log up to it; return where the log ends now.

    Raises:
        FencedError: The log ends before the state does.
        CorruptJournalError: The archive is damaged; the snapshot is saved, the log still whole.
        JournalWriteError: See `SessionStore.save_snapshot`.
    """
    if state.last_seq > tail.last_seq:
        message = f"the log ends at event {tail.last_seq}, the snapshot at {state.last_seq}"
        raise FencedError(message, path=files.log)
    with files.log.open("rb") as log:
        end = find_offset(log, after=state.last_seq, end_bytes=tail.size_bytes)
        record: ArchiveRecord | None
        try:
            # The snapshot names what the archive will hold, so that a loss is seen later.
            record = _foresee(files, state, log, end, compaction=compaction)
        except OSError:  # an archive that cannot be read: told below, when it is to be written
            record = read_record(files)
        try:
            # First of all: without it no event may leave the log.
            replace_file(files.state, encode_state(state, record))
        except OSError as error:
            raise write_error(error, files.state) from error
        if end == 0 or compaction == "disabled":
            return tail
        if compaction == "archive":
            try:
                # Before the log is cut: a crash between leaves events twice, never not at all.
                _archive(files, log, end)
            except OSError as error:
                raise write_error(error, files.archive) from error
        log.seek(end)
        kept = log.read(tail.size_bytes - end)
    try:
        # A new file under the same name: readers of the old one go on.
        replace_file(files.log, kept)
    except OSError as error:
        raise write_error(error, files.log) from error
    return Tail(last_seq=tail.last_seq, size_bytes=len(kept))


def _foresee(
    files: SessionFiles, state: SessionState, log: BinaryIO, end: int, *, compaction: Compaction
) -> ArchiveRecord:
    """Return what the archive will hold once the log up to offset `end` was let go.

    What it should hold already and does not is written down as lost.
    """
    log.seek(0)
    first = seq_of(log.read(HEAD_BYTES)) or state.last_seq + 1
    ends, before = look_at_ends(files), read_record(files)
    gaps = before.gaps if before else ()
    # Only a damaged archive, or one of which nothing is known, is read as a whole.
    if first > 1 and (before is None or find_loss(files, before, ends, first - 1)):
        gaps = _with_holes(files, gaps, first - 1, is_known=before is not None)
    record = ArchiveRecord(last_seq=ends.last_seq or 0, size_bytes=ends.size_bytes, gaps=gaps)
    if end == 0 or compaction == "disabled":
        return record
    if compaction == "discard":
        gap = Gap(first=first, last=state.last_seq, cause="discarded")
        return replace(record, gaps=with_gap(gaps, gap))
    if ends.size_bytes and ends.last_seq is None:
        return record  # nothing is put behind a bad line
    start = find_offset(log, after=record.last_seq, end_bytes=end)
    return ArchiveRecord(
        last_seq=max(record.last_seq, state.last_seq),
        size_bytes=record.size_bytes + end - start,
        gaps=without(gaps, max(record.last_seq + 1, first), state.last_seq),
    )


def _with_holes(
    files: SessionFiles, gaps: tuple[Gap, ...], need: int, *, is_known: bool
) -> tuple[Gap, ...]:
    """Return the gaps, and what the archive lacks up to event `need` beside them."""
    for first, last in find_holes(files, gaps, need):
        gap = Gap(first=first, last=last, cause="lost" if is_known else "unknown")
        gaps = with_gap(gaps, gap)
        if is_known:
            logger.warning(
                "a part of a session's history is lost",
                extra={"session_id": files.session_id, "what": gap.text},
            )
    return gaps


def _archive(files: SessionFiles, log: BinaryIO, end: int) -> None:
    """Append to the archive what the log holds up to `end` and the archive does not hold yet."""
    is_new = not files.archive.exists()
    last_seq = 0 if is_new else _end_of_archive(files)
    # What a crash had archived already is not archived twice.
    start = find_offset(log, after=last_seq, end_bytes=end)
    fd = open_for_writing(files.archive, create=is_new)
    try:
        before = offset = os.fstat(fd).st_size
        try:
            log.seek(start)
            while start < end:
                data = log.read(min(_COPY_BYTES, end - start))
                write_all(fd, data, offset)
                start, offset = start + len(data), offset + len(data)
            os.fdatasync(fd)
        except OSError:
            with suppress(OSError):  # a torn end is cut by the next archiving
                os.ftruncate(fd, before)
            raise
    finally:
        os.close(fd)
    if is_new:
        sync_directory(files.folder)


def _end_of_archive(files: SessionFiles) -> int:
    """Return the last number in the archive; cut off a line that a crash left without its end.

    The log still holds the event of such a line: it is let go only once the archive is durable.
    """
    path = files.archive
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        whole = end_of_lines(file, size)
    if whole < size:
        cut(path, whole)  # an archiving that a crash cut short
    try:
        tail = read_tail(path, files.session_id)
    except BadLineError as error:
        message = f"the last line: {error}. `{REPAIR_HINT}` sets the archive aside"
        raise CorruptJournalError(message, path=path) from error
    return tail.last_seq if tail else 0
