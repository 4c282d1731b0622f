"""Saving a snapshot, and letting go of the log behind it. Blocking.

The order makes every crash harmless: the snapshot stands before the log is touched, and what
leaves the log stands in the archive before it is gone from the log.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import BinaryIO

from everturn_actors.errors import CorruptJournalError, FencedError
from everturn_actors.journal.codec import BadLineError
from everturn_actors.journal.disk import (
    cut,
    open_for_writing,
    replace_file,
    sync_directory,
    write_all,
    write_error,
)
from everturn_actors.journal.layout import SessionFiles
from everturn_actors.journal.logs import REPAIR_HINT, Tail, find_offset, read_tail
from everturn_actors.journal.snapshot import encode_state
from everturn_actors.model import Compaction
from everturn_actors.state import SessionState

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
    try:
        replace_file(files.state, encode_state(state))
    except OSError as error:
        raise write_error(error, files.state) from error
    if compaction == "disabled":
        return tail
    with files.log.open("rb") as log:
        end = find_offset(log, after=state.last_seq, end_bytes=tail.size_bytes)
        if end == 0:
            return tail
        if compaction == "archive":
            try:
                _archive(files, log, end)
            except OSError as error:
                raise write_error(error, files.archive) from error
        log.seek(end)
        kept = log.read(tail.size_bytes - end)
    try:
        replace_file(files.log, kept)
    except OSError as error:
        raise write_error(error, files.log) from error
    return Tail(last_seq=tail.last_seq, size_bytes=len(kept))


def _archive(files: SessionFiles, log: BinaryIO, end: int) -> None:
    """Append to the archive what the log holds up to `end` and the archive does not hold yet."""
    is_new = not files.archive.exists()
    last_seq = 0 if is_new else _end_of_archive(files)
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
        whole = _end_of_lines(file, size)
    if whole < size:
        cut(path, whole)
    try:
        tail = read_tail(path, files.session_id)
    except BadLineError as error:
        message = f"the last line: {error}. `{REPAIR_HINT}` sets the archive aside"
        raise CorruptJournalError(message, path=path) from error
    return tail.last_seq if tail else 0


def _end_of_lines(file: BinaryIO, size: int) -> int:
    """Return the offset behind the last newline."""
    end = size
    while end > 0:
        begin = max(end - _COPY_BYTES, 0)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0
