"""The two small indexes: sessions that may have an open turn, and the session of a conversation.

Both can be rebuilt from the sessions and are never believed over them. Blocking.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Container
from datetime import UTC, datetime

from msgspec import structs

from everturn_actors.errors import JournalError
from everturn_actors.events import SessionStarted
from everturn_actors.ids import is_session_id
from everturn_actors.journal.disk import remove, replace_file, sync_directory, write_error
from everturn_actors.journal.loading import read_header, read_optional
from everturn_actors.journal.log.codec import BadLineError, decode, dump_json, load_json, seed
from everturn_actors.journal.log.layout import Layout, SessionFiles
from everturn_actors.journal.snapshot.reader import BadSnapshotError
from everturn_actors.model import ConversationKey
from everturn_actors.ports import ALL_SESSIONS, SessionFilter, SessionSummary

logger = logging.getLogger(__name__)

_BINDING = tuple(threading.Lock() for _ in range(64))
"""Keep threads apart that compare and set one pointer; the lock of the workspace keeps processes
apart. So many, that conversations which begin at once seldom wait for each other's syncs."""


def session_ids(layout: Layout) -> list[str]:
    """Return the ids of all sessions, newest first."""
    try:
        names = os.listdir(layout.sessions)  # names of thousands, no paths
    except FileNotFoundError:
        return []
    return sorted(filter(is_session_id, names), reverse=True)


def list_sessions(
    layout: Layout, *, after: str, limit: int, wanted: SessionFilter = ALL_SESSIONS
) -> tuple[SessionSummary, ...]:
    """Return up to `limit` sessions with an id below `after`; see `SessionStore.sessions`."""
    found: list[SessionSummary] = []
    for session_id in session_ids(layout):
        if len(found) >= limit:
            break
        if after and session_id >= after:
            continue
        try:
            summary = summarise(layout.session(session_id))
        except (BadLineError, BadSnapshotError, JournalError, OSError):
            continue
        if summary is not None and wanted.admits(summary):
            found.append(summary)
    return tuple(found)


def summarise(files: SessionFiles) -> SessionSummary | None:
    """Return the summary of one session, from the head of its snapshot, log or archive.

    None where neither says what is needed.

    Raises:
        BadLineError: The log's first line is not whole.
        BadSnapshotError: The snapshot cannot be read.
        UnknownFormatError: A file of another version.
        OSError: A file cannot be read.
    """
    header = read_header(files)
    if header is not None:
        if header.session_id != files.session_id:
            return None
        written = max(files.state.stat().st_mtime, files.log.stat().st_mtime)
        return SessionSummary(
            session_id=files.session_id,
            key=header.key,
            status=header.status,
            created_at=header.created_at,
            updated_at=datetime.fromtimestamp(written, UTC),
            principal=header.principal,
            shared_with=header.shared_with,
            labels=header.labels,
        )
    with files.log.open("rb") as log:
        line = log.readline()
        written = os.fstat(log.fileno()).st_mtime
    if not line and files.archive.exists():  # a snapshot was lost, and all else is there
        with files.archive.open("rb") as archive:
            line = archive.readline()
    event = decode(line[:-1], seed(files.session_id))
    if not isinstance(event.body, SessionStarted):
        return None
    return SessionSummary(
        session_id=files.session_id,
        key=event.body.key,
        status="active",
        created_at=event.at,
        updated_at=datetime.fromtimestamp(written, UTC),
        principal=event.body.principal,
    )


def bind(
    layout: Layout, key: ConversationKey, session_id: str, instead_of: str | None = None
) -> str:
    """Point a conversation to its current session, durably; see `SessionStore.bind`.

    Raises:
        JournalWriteError: The old pointer still stands.
    """
    path = layout.pointer(key)
    record = {"v": 1, "key": structs.asdict(key), "session": session_id}
    with _BINDING[hash(key) % len(_BINDING)]:
        if instead_of is not None and (current := bound(layout, key)) != instead_of:
            return current
        try:
            replace_file(path, dump_json(record) + b"\n")
        except OSError as error:
            raise write_error(error, path) from error
    return session_id


def bound(layout: Layout, key: ConversationKey) -> str:
    """Return the session that a conversation's pointer names, or "" where there is no good one."""
    path = layout.pointer(key)
    data = read_optional(path)
    if data is None:
        return ""
    try:
        record = load_json(data)
    except ValueError:
        record = None
    if isinstance(record, dict) and record.get("key") == structs.asdict(key):
        session_id = record.get("session")
        if isinstance(session_id, str) and is_session_id(session_id):
            return session_id
    logger.warning("a conversation pointer cannot be read", extra={"path": str(path)})
    return ""


def unbind(layout: Layout, key: ConversationKey, session_id: str) -> None:
    """Remove the pointer of a conversation if it names `session_id`, durably."""
    path = layout.pointer(key)
    if bound(layout, key) == session_id:
        remove(path)
        sync_directory(path.parent)


def remove_stray_pointers(layout: Layout, existing: Container[str]) -> int:
    """Remove the pointers that name no session of `existing`; return how many there were."""
    stray = 0
    for path in layout.conversations.glob("*.json"):
        try:
            record = load_json(path.read_bytes())
        except ValueError:
            record = None
        session_id = record.get("session") if isinstance(record, dict) else None
        if not isinstance(session_id, str) or session_id not in existing:
            remove(path)
            stray += 1
    if stray:
        sync_directory(layout.conversations)
    return stray


def active_ids(layout: Layout) -> tuple[str, ...]:
    """Return every session that is marked active, oldest first."""
    try:
        names = os.listdir(layout.active)  # only the names are needed
    except FileNotFoundError:
        return ()
    return tuple(sorted(filter(is_session_id, names)))


def mark_passive(layout: Layout, session_id: str) -> None:
    """Remove the marker of a session; not durable.

    Raises:
        JournalWriteError: The marker still stands.
    """
    path = layout.marker(session_id)
    try:
        remove(path)
    except OSError as error:
        raise write_error(error, path) from error
