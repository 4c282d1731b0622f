"""What is done to the files of one session, in a thread."""

from __future__ import annotations

import shutil

from everturn_actors.errors import FencedError, JournalError, UnknownSessionError
from everturn_actors.events import Event
from everturn_actors.gaps import Gap, explain_gap
from everturn_actors.journal.compaction import save_snapshot
from everturn_actors.journal.disk import remove, sync_directory, write_error
from everturn_actors.journal.index import entries as index
from everturn_actors.journal.loading import find_tail, read_record
from everturn_actors.journal.log.codec import HEAD_BYTES, BadLineError, seq_of
from everturn_actors.journal.log.files import Tail, read_events
from everturn_actors.journal.log.layout import Layout, SessionFiles
from everturn_actors.journal.snapshot.reader import BadSnapshotError
from everturn_actors.model import Compaction
from everturn_actors.state.session_state import SessionState


def save_files(
    files: SessionFiles, state: SessionState, compaction: Compaction, known: Tail | None
) -> Tail:
    """Save a snapshot, and let go of the events that it makes needless."""
    if not files.log.exists():
        raise UnknownSessionError(files.session_id)
    return save_snapshot(files, state, compaction=compaction, tail=known or tail_of(files))


def tail_of(files: SessionFiles) -> Tail:
    """Return where a log ends.

    Raises:
        FencedError: It ends in a line that is not whole.
    """
    try:
        return find_tail(files)
    except (BadLineError, BadSnapshotError) as error:
        message = f"{error}; load the session again"
        raise FencedError(message, path=files.log) from error


def explain_files(files: SessionFiles, first: int, last: int) -> tuple[Gap, ...]:
    """Return why events are missing."""
    record = read_record(files)
    if record is None:
        return (Gap(first=first, last=last, cause="unknown"),)
    return explain_gap(first, last, record.gaps, "lost")


def read_files(
    files: SessionFiles, after: int, limit: int, end_bytes: int | None
) -> tuple[Event, ...]:
    """Return events of a log, those of its archive before them."""
    events: tuple[Event, ...] = ()
    try:
        # Opened before the archive is read: what moves there meanwhile is still in this file.
        with files.log.open("rb") as log:
            first_seq = seq_of(log.read(HEAD_BYTES))
            if (first_seq is None or first_seq > after + 1) and files.archive.exists():
                with files.archive.open("rb") as archive:
                    events = read_events(
                        archive, session_id=files.session_id, after=after, limit=limit
                    )
            rest = limit - len(events)
            return events + read_events(
                log,
                session_id=files.session_id,
                after=events[-1].seq if events else after,
                limit=rest,
                end_bytes=end_bytes,
                is_log=True,
            )
    except FileNotFoundError:
        return events


def delete_files(layout: Layout, session_id: str) -> None:
    """Remove all that is stored of a session."""
    files = layout.session(session_id)
    try:
        summary = index.summarise(files)
    except (BadLineError, BadSnapshotError, JournalError, OSError):
        summary = None  # its conversation may keep its pointer: to a session that is not there
    try:
        if summary is not None:
            index.unbind(layout, summary.key, session_id)
        marker = layout.marker(session_id)
        if marker.exists():
            remove(marker)
            sync_directory(layout.active)
        if files.folder.exists():
            gone = layout.deleted / session_id
            # One rename, so that a crash leaves the whole session or none of it.
            files.folder.rename(gone)
            sync_directory(layout.sessions)
            shutil.rmtree(gone)
    except OSError as error:
        raise write_error(error, files.folder) from error
