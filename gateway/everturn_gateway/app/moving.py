"""Moves all that a gateway keeps from one store to another; `everturn move`.

Each session is read again where it was written, and compared byte for byte. What is equal already
is passed over, so that a move which was cut short goes on. A note in each store keeps gateways from
one that is half filled, and from one that was left (`storage.check_not_moved`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from msgspec import Struct

from everturn_actors.documents import Document
from everturn_actors.errors import JournalError
from everturn_actors.ports import KeyedStore
from everturn_actors.ports.transfer import SessionBytes, Transfer
from everturn_gateway.app.storage import (
    MOVE_FORM,
    MOVE_KEY,
    MoveNote,
    check_not_moved,
    plugin_of,
    setup_of,
)
from everturn_gateway.clock import SystemClock
from everturn_gateway.config.settings import Config
from everturn_gateway.config.stores import StoreConfig
from everturn_gateway.errors import GatewayError
from everturn_gateway.plugins import OpenedStore
from everturn_gateway.scheduler.definitions import kept_jobs
from everturn_gateway.scheduler.definitions.kept_jobs import KeptJobs
from everturn_gateway.scheduler.scheduler import FOLDER as SCHEDULES_FOLDER

_NOT_MOVED: Final = (MOVE_KEY, kept_jobs.BEGUN, kept_jobs.FOLDER)
"""Keys, or beginnings of them. Jobs of programs are files beside the store as well, and are taken
from those by the first gateway that needs them in it."""


class Moved(Struct, kw_only=True):
    """What a move did."""

    sessions: int = 0
    written: int = 0
    "Of them, those that were not there already."
    values: int = 0
    place: str = ""
    "Where all of it is now."


async def move(
    source: OpenedStore, target: OpenedStore, now: datetime, told: Callable[[int, int], None]
) -> Moved:
    """Move all from one open store to another; return what was done.

    Args:
        source: Is left as it is, but for a note that it was left.
        target: Empty, or filled so far by an earlier move from the same store, or left by one.
        now: For the notes.
        told: Told how many sessions are done, and how many there are.

    Raises:
        GatewayError: One of them cannot be moved, or the target holds something else.
        JournalError: Something cannot be read, or does not come back as it was written. A further
            move goes on from there.
    """
    if source.transfer is None or target.transfer is None:
        msg = "only a folder (type: file) and a PostgreSQL database (type: postgres) can be moved"
        raise GatewayError(msg)
    reads, writes = source.transfer(), target.transfer()
    left, begun = (
        Document(source.keyed, MOVE_KEY, MOVE_FORM),
        Document(target.keyed, MOVE_KEY, MOVE_FORM),
    )
    await check_not_moved(source.keyed)
    sessions = await reads.sessions()
    await _check_target(writes, await begun.read(), reads.place)
    await begun.write(MoveNote(state="begun", other=reads.place, at=now))
    done = Moved()
    for session_id in set(await writes.sessions()) - set(sessions):
        await writes.delete(session_id)
    for session_id in sessions:
        done.written += await _move_session(reads, writes, session_id)
        done.sessions += 1
        told(done.sessions, len(sessions))
    current = await reads.conversations()
    await writes.keep_conversations(current)
    if await writes.conversations() != current:
        msg = f"the conversations of {writes.place} are not those that were written"
        raise JournalError(msg)
    await writes.keep_active(await source.store.active())
    done.values = await _move_values(source.keyed, target.keyed, reads, writes)
    done.place = writes.place
    await left.write(MoveNote(state="left", other=writes.place, at=now))
    await target.keyed.delete(MOVE_KEY)
    return done


async def _check_target(writes: Transfer, note: MoveNote, place: str) -> None:
    """Refuse to write over what no move has written there.

    Raises:
        GatewayError: There is something.
    """
    if note.state == "left" or (note.state == "begun" and note.other == place):
        return
    if note.state == "begun":
        msg = f"{writes.place} holds a part of what is moved from {note.other}; finish that first"
        raise GatewayError(msg)
    if await writes.sessions():
        msg = f"{writes.place} holds sessions already; move to an empty workspace, or schema"
        raise GatewayError(msg)


async def _move_session(reads: Transfer, writes: Transfer, session_id: str) -> bool:
    """Move one session; return whether something had to be written.

    Raises:
        JournalError: It cannot be read, or does not come back as it was written.
    """
    data = await reads.read(session_id)
    if data is None:  # its very first write was cut short: nobody was told that there is one
        return False
    is_there = await _found(writes, session_id) == data
    if not is_there:
        await writes.write(session_id, data)
        if await writes.read(session_id) != data:
            msg = f"session {session_id} does not come back from {writes.place} as it was written"
            raise JournalError(msg)
    blobs = await reads.blobs(session_id)
    if is_there and await _holds(reads, writes, session_id):
        return False
    for blob in blobs:
        content = await reads.read_blob(session_id, blob)
        if content is None:
            continue
        await writes.write_blob(session_id, blob, content)
        if await writes.read_blob(session_id, blob) != content:
            msg = f"{blob[1]} of session {session_id} does not come back as it was written"
            raise JournalError(msg)
    return True


async def _found(writes: Transfer, session_id: str) -> SessionBytes | None:
    """Return what the target holds; None also where that cannot be read."""
    try:
        return await writes.read(session_id)
    except JournalError:
        return None


async def _holds(reads: Transfer, writes: Transfer, session_id: str) -> bool:
    """Whether the target holds the same results and files, in the same order."""
    blobs = await reads.blobs(session_id)
    if list(await writes.blobs(session_id)) != list(blobs):
        return False
    for blob in blobs:
        if await writes.read_blob(session_id, blob) != await reads.read_blob(session_id, blob):
            return False
    return True


async def _move_values(
    source: KeyedStore, target: KeyedStore, reads: Transfer, writes: Transfer
) -> int:
    """Move what is kept beside sessions; return how many keys."""
    keys = _wanted(await reads.keys())
    for key in set(_wanted(await writes.keys())) - set(keys):
        await target.delete(key)
    for key in keys:
        if key.endswith(".json"):
            value, there = await source.get(key), await target.get(key)
            if value is not None and (there is None or there.data != value.data):
                await target.put(key, value.data)
            continue
        lines, found = await _lines(source, key), await _lines(target, key)
        if lines != found:
            await target.rewrite(key, lines, expected_bytes=len(found))
    return len(keys)


async def _lines(store: KeyedStore, key: str) -> bytes:
    (lines,) = await store.read([key])
    if isinstance(lines, JournalError):
        raise lines
    return lines


def _wanted(keys: Sequence[str]) -> list[str]:
    return [key for key in keys if not key.startswith(_NOT_MOVED)]


async def move_store(config: Config, to: StoreConfig, told: Callable[[int, int], None]) -> Moved:
    """Move all that a gateway keeps to another store; return what was done.

    Args:
        config: Names the store that is left; no gateway may use it.
        to: The other one.
        told: Told how many sessions are done, and how many there are.

    Raises:
        WorkspaceLockedError: A gateway uses one of them.
        JournalError: One of them cannot be used, or a part of it not be read.
        GatewayError: They cannot be moved so.
    """
    target = replace(config, store=to)
    from_plugin, to_plugin = await plugin_of(config), await plugin_of(target)
    if from_plugin.name == to_plugin.name:
        msg = f"store.type is {from_plugin.name} already: there is nothing to move"
        raise GatewayError(msg)
    async with (
        from_plugin.open(setup_of(config, is_change=True)) as source,
        to_plugin.open(setup_of(target, is_change=True)) as opened,
    ):
        if source.keeps_jobs:  # their files are what is left of them in a folder
            folder = config.workspace / SCHEDULES_FOLDER
            await KeptJobs(folder, source.keyed, timezone=config.schedules.timezone).read()
        return await move(source, opened, SystemClock().now(), told)
