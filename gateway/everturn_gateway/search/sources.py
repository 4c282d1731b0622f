"""What the index is made of: sessions of a store, and their events as its table has them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import Final

from anyio import to_thread
from msgspec.structs import replace

from everturn_actors.errors import JournalError, StoreAwayError
from everturn_actors.events import Event, SessionStarted
from everturn_actors.ports import Place, SessionStore, SessionSummary
from everturn_actors.ports.search import SearchRole
from everturn_actors.state.session_state import SessionState
from everturn_gateway.search.table import Batch, IndexedMessage, IndexedSession, MessageTable
from everturn_gateway.search.texts import file_of, says, sender_of, texts_of

SESSIONS_AT_ONCE: Final = 100  # of those used lately
LISTED_AT_ONCE: Final = 500  # of all


async def used_since(store: SessionStore, since: datetime) -> AsyncGenerator[SessionSummary]:
    """Yield the sessions in which something happened since an instant, the last one first."""
    place: Place | None = None
    while rows := await store.recent(before=place, limit=SESSIONS_AT_ONCE):
        for row in rows:
            if row.updated_at < since:
                return
            yield row
        place = rows[-1].updated_at, rows[-1].session_id


async def removed(store: SessionStore, table: MessageTable) -> AsyncGenerator[str]:
    """Yield the sessions that a table knows and a store has no more."""
    above, is_more = "", True
    while is_more:
        rows = await store.sessions(after=above, limit=LISTED_AT_ONCE)
        is_more = bool(rows)
        last = rows[-1].session_id if rows else ""
        known = await to_thread.run_sync(table.session_ids, last, above)
        for session_id in known - {row.session_id for row in rows}:
            # It may have begun since the list was read.
            if await store.summary(session_id) is None:
                yield session_id
        above = last


async def file_text(store: SessionStore, session_id: str, name: str) -> str:
    """Return what stands in a file beside a log; empty where it cannot be read.

    Raises:
        StoreAwayError: It may be there when the store is back.
    """
    try:
        return await store.read_result(session_id, name) or ""
    except StoreAwayError:
        raise
    except JournalError:
        return ""


def batch_of(
    session: IndexedSession, events: Sequence[Event], files: dict[tuple[str, str], str]
) -> Batch:
    """Return events of a session as they are put into the table.

    Args:
        session: Whose they are.
        events: Ascending; one at least.
        files: What stands in files beside the logs, by session and name.
    """
    found = (
        _message(event, files.get((session.session_id, file_of(event))))
        for event in filter(says, events)
    )
    return Batch(
        session=session,
        last_seq=events[-1].seq,
        messages=tuple(message for message in found if message),
    )


def _message(event: Event, whole: str | None) -> IndexedMessage | None:
    said: list[tuple[SearchRole, str]] = [
        (role, text) for role, text in texts_of(event) if text.strip()
    ]
    if not said:
        return None
    text = "\n".join(text for _, text in said)
    if whole:
        text = f"{text}\n{whole}" if said[0][0] == "summary" else whole
    return IndexedMessage(event.seq, event.at, said[0][0], sender_of(event), text)


def indexed(session: SessionState | SessionSummary) -> IndexedSession:
    """Return what the table knows of a session, by its state or its row in a list."""
    return IndexedSession(
        session_id=session.session_id,
        key=session.key,
        created_at=session.created_at,
        principal=session.principal,
        shared_with=session.shared_with,
    )


def with_key(session: IndexedSession, started: SessionStarted) -> IndexedSession:
    """Return a session by what its log says, which is believed over a list."""
    return replace(session, key=started.key, principal=started.principal)
