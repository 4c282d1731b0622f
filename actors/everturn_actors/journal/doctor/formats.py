"""Snapshots of earlier versions, made into those of this one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from everturn_actors.errors import CorruptJournalError
from everturn_actors.journal.disk import (
    make_directory,
    replace_file,
    write_error,
)
from everturn_actors.journal.loading import inspect_session, read_optional, read_record
from everturn_actors.journal.log.archive import ArchiveRecord, look_at_ends
from everturn_actors.journal.log.layout import SessionFiles
from everturn_actors.journal.snapshot.reader import BadSnapshotError, decode_state
from everturn_actors.journal.snapshot.state_yaml import FORMAT, encode_state
from everturn_actors.state.recovery import recover

HowOld: TypeAlias = Literal["current", "before", "older", "newer", "unreadable"]

_HEAD_BYTES: Final = 4096
_FORMAT: Final = re.compile(rb"^format: *['\"]?(everturn/state-v([0-9]{1,4}))", re.MULTILINE)
_CURRENT: Final = int(FORMAT.rpartition("v")[2])


class FormatOf(Struct, frozen=True, kw_only=True):
    """In which format the snapshot of a session stands."""

    session_id: str
    format: str
    "As the file says; empty = it has no snapshot, or says nothing."
    how_old: HowOld


def format_of(files: SessionFiles) -> FormatOf:
    """Say in which format a snapshot stands, by the head of the file alone."""
    try:
        with files.state.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except FileNotFoundError:
        return FormatOf(session_id=files.session_id, format="", how_old="current")
    except OSError:
        return FormatOf(session_id=files.session_id, format="", how_old="unreadable")
    found = _FORMAT.search(head)
    if found is None:
        return FormatOf(session_id=files.session_id, format="", how_old="unreadable")
    return FormatOf(
        session_id=files.session_id, format=found[1].decode(), how_old=_how_old(int(found[2]))
    )


def _how_old(number: int) -> HowOld:
    if number > _CURRENT:
        return "newer"
    return "current" if number == _CURRENT else "before" if number == _CURRENT - 1 else "older"


def migrate(files: SessionFiles, backup: Path) -> str:
    """Write the snapshot of a session in the format of this version; the former one is kept.

    A snapshot of the format before is read and written anew. An older one is left out where the
    log and its archive hold all events, and another one is made from these. The copy is durable
    before anything is changed, and each file is replaced as a whole: cut off at any point, the
    session is as it was or as it will be, and the same call goes on.

    Args:
        files: Of the session, which nobody has open.
        backup: The folder for the former snapshot, as `SESSION/state.yaml`.

    Returns:
        What was done; empty = nothing was to be done.

    Raises:
        JournalError: It cannot be made anew; the session is as it was.
    """
    found = format_of(files)
    if found.how_old not in {"before", "older"}:
        return ""
    former = read_optional(files.state)
    if former is None:
        return ""
    try:
        place = backup / files.session_id
        make_directory(place)
        replace_file(place / files.state.name, former)
        return _write_anew(files, found, former)
    except OSError as error:
        raise write_error(error, files.folder) from error


def _write_anew(files: SessionFiles, found: FormatOf, former: bytes) -> str:
    """Write one of the format before, or take an older one away; return what was done."""
    if found.how_old == "before":
        try:
            state = decode_state(former)
        except BadSnapshotError as error:
            raise CorruptJournalError(str(error), path=files.state) from error
        replace_file(files.state, encode_state(state, read_record(files)))
        return f"{found.format} written as {FORMAT}"
    loaded = inspect_session(files, with_snapshot=False)
    now = recover(loaded.snapshot, loaded.events) if loaded else None
    if now is None:
        message = "its log does not reach back to its beginning"
        raise CorruptJournalError(message, path=files.folder)
    # Not before it is known that nothing is lost with it.
    ends = look_at_ends(files)
    record = ArchiveRecord(last_seq=ends.last_seq or 0, size_bytes=ends.size_bytes)
    replace_file(files.state, encode_state(now.state, record))
    return f"{found.format} left out, and the session made from its {now.state.last_seq} events"
