"""Checks and repairs of sessions and of the index, as commands ask for them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from anyio import to_thread
from msgspec import Struct

from everturn_actors.errors import JournalError
from everturn_actors.journal.doctor.findings import Finding, check_with_mark
from everturn_actors.journal.doctor.formats import FormatOf, format_of, migrate
from everturn_actors.journal.doctor.repairs import repair_files
from everturn_actors.journal.files import FileStore
from everturn_actors.journal.index import entries as index
from everturn_actors.journal.log.layout import Layout
from everturn_actors.model import ConversationKey
from everturn_actors.state.recovery import recover
from everturn_actors.state.session_state import SessionState

_AT_A_TIME = 100  # sessions; as much as a person who interrupts it waits for


class IndexReport(Struct, frozen=True, kw_only=True):
    """What `rebuild_index` found."""

    sessions: int
    active: int
    "Sessions with something that was accepted, is not answered, and does not wait for its person."
    conversations: int
    "Conversations with a current session."
    unreadable: tuple[str, ...]
    "Sessions that could not be loaded; their marks were left as they are."


async def session_ids(workspace: Path) -> tuple[str, ...]:
    """Return the ids of all sessions of a workspace, newest first."""
    return tuple(await to_thread.run_sync(index.session_ids, Layout(workspace=workspace)))


async def check(workspace: Path, session_id: str) -> tuple[Finding, ...]:
    """Look at every line and the snapshot of a session. Changes nothing, needs no lock.

    Raises:
        UnknownSessionError: `session_id` is no session id.
    """
    layout = Layout(workspace=workspace)
    files = layout.session(session_id)
    return await to_thread.run_sync(check_with_mark, layout, files)


async def check_all(
    workspace: Path, session_ids: Sequence[str]
) -> AsyncGenerator[tuple[str, tuple[Finding, ...]]]:
    """Yield sessions and what is wrong with each, as `check` tells it.

    Many at a time: to go to a thread and back costs more than to look at a small session.
    """
    layout = Layout(workspace=workspace)

    def look(some: Sequence[str]) -> list[tuple[str, tuple[Finding, ...]]]:
        return [(each, check_with_mark(layout, layout.session(each))) for each in some]

    for begin in range(0, len(session_ids), _AT_A_TIME):
        for found in await to_thread.run_sync(look, session_ids[begin : begin + _AT_A_TIME]):
            yield found


async def formats_of(workspace: Path, session_ids: Sequence[str]) -> AsyncGenerator[FormatOf]:
    """Yield in which format the snapshot of each session stands. Changes nothing, needs no lock."""
    layout = Layout(workspace=workspace)

    def look(some: Sequence[str]) -> list[FormatOf]:
        return [format_of(layout.session(each)) for each in some]

    for begin in range(0, len(session_ids), _AT_A_TIME):
        for found in await to_thread.run_sync(look, session_ids[begin : begin + _AT_A_TIME]):
            yield found


async def migrate_session(store: FileStore, session_id: str, backup: Path) -> str:
    """Write the snapshot of a session in the format of this version; see `formats.migrate`."""
    files = store.layout.session(session_id)
    return await store.alone(session_id, lambda: migrate(files, backup))


async def repair(store: FileStore, session_id: str) -> tuple[str, ...]:
    """Rebuild a damaged session from what is good in its files; the damaged ones are kept.

    Returns:
        What was done and what was left out, in words; empty where nothing was wrong.

    Raises:
        CorruptJournalError: Nothing good reaches back to the beginning; no file was changed.
        UnknownFormatError: A file of another version; no file was changed.
        UnknownSessionError: `session_id` is no session id.
        JournalWriteError: The disk refused.
    """
    files = store.layout.session(session_id)
    return await store.alone(session_id, lambda: repair_files(files))


async def rebuild_index(store: FileStore) -> IndexReport:
    """Read every session: which are active, and which one each conversation has."""
    layout = store.layout
    await store.rebuild_list()
    ids = await session_ids(layout.workspace)
    current: dict[ConversationKey, str] = {}
    active, unreadable = 0, list[str]()
    for session_id in ids:  # newest first: the first one of a conversation is its latest
        state = await _state_of(store, session_id)
        if state is None:
            unreadable.append(session_id)
            continue
        if state.is_due:
            active += 1
            await store.mark_active(session_id)
        else:
            await store.mark_passive(session_id)
        current.setdefault(state.key, "" if state.status == "ended" else session_id)
    known = frozenset(ids)
    for session_id in await store.active():
        if session_id not in known:
            await store.mark_passive(session_id)
    await to_thread.run_sync(index.remove_stray_pointers, layout, known)
    for key, session_id in current.items():
        if session_id:
            await store.bind(key, session_id)
    return IndexReport(
        sessions=len(ids),
        active=active,
        conversations=sum(1 for session_id in current.values() if session_id),
        unreadable=tuple(unreadable),
    )


async def _state_of(store: FileStore, session_id: str) -> SessionState | None:
    try:
        loaded = await store.load(session_id)
        found = recover(loaded.snapshot, loaded.events) if loaded else None
    except JournalError:
        return None
    return found.state if found else None
