"""Finds out which sessions are whose, where their ids alone do not say it."""

from __future__ import annotations

from everturn_actors.errors import UnknownSessionError
from everturn_actors.events import SessionStarted
from everturn_actors.ports import Ownership, SessionStore


async def place(
    ownership: Ownership,
    store: SessionStore,
    session_id: str,
    begin_with: SessionStarted | None = None,
) -> None:
    """Let `ownership` know which conversation a session is of, if it has to.

    Args:
        ownership: Asks for it where sessions of some agents or channels go with a seat.
        store: Has the session.
        session_id: The session.
        begin_with: How it begins, where it may not be there yet.

    Raises:
        UnknownSessionError: There is no such session, and it does not begin now.
        JournalError: The store cannot be asked.
    """
    if ownership.is_known(session_id):
        return
    if begin_with is not None:
        ownership.note_key(session_id, begin_with.key)
        return
    summary = await store.summary(session_id)
    if summary is None:
        raise UnknownSessionError(session_id)
    ownership.note_key(session_id, summary.key)
