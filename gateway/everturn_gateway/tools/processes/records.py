"""What is kept of a process, and the folder it is kept in. Blocking: call it in a worker thread.

`record.json` is the gateway's, and durable before the process begins; `exit.json` is the supervisor
process's (see `supervisor`), or the gateway's where a supervisor process ended without a
word.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from everturn_actors.codec import Codec, CodecError, encode
from everturn_actors.model import ConversationKey
from everturn_gateway.errors import GatewayError
from everturn_gateway.tools.processes.supervisor import folder as supervisor_folder

RECORD: Final = "record.json"
_FORMAT: Final = 1
_ERROR_BYTES: Final = 300

Status: TypeAlias = Literal["completed", "failed", "timed_out", "killed", "lost"]


class Ending(Struct, frozen=True, kw_only=True):
    """How a process ended."""

    status: Status
    exit_code: int | None = None
    "None where a signal ended it, or where it is not known."
    signal: str = ""
    "The signal that ended it, by name; empty = none."
    duration_s: float | None = None
    "None where it is not known."
    note: str = ""
    "What there is to add, in words."


class Watch(Struct, frozen=True, kw_only=True):
    """Somebody wants to know when the screen of a process stands still."""

    name: str
    "Names this watch among others of the process."
    quiet_s: float
    "How long nothing may be written for that."
    told: int = 0
    "How often it was told."
    screen: str = ""
    "A hash of the screen that was told last."


class ProcessRecord(Struct, frozen=True, kw_only=True):
    """What the gateway knows of a process, and has to know after a restart."""

    handle: str
    agent: str
    session_id: str
    "Where it was started, and where its end is told."
    key: ConversationKey
    command: str
    label: str
    workdir: str
    "Absolute."
    interactive: bool
    timeout_s: float
    began_at: datetime
    "UTC."
    files: str
    "The workspace in which it was started, absolute."
    since_ns: int
    "When it began, by the clock that stamps files."
    outside: tuple[str, ...]
    "The text from outside that is behind it, by source, as far as is known; see `MarkedFiles`."
    told: bool = False
    "Whether its end was told, or need not be."
    watch: Watch | None = None
    format: int = _FORMAT

    @property
    def untrusted(self) -> bool:
        """Whether what it prints may come from outside."""
        return bool(self.outside)


_RECORDS: Final = Codec[ProcessRecord](ProcessRecord)
_ENDINGS: Final = Codec[Ending](Ending)


class BadRecordError(GatewayError):
    """A record cannot be read; the message names the file and what is wrong."""


def create(folder: Path, record: ProcessRecord, start: supervisor_folder.Start) -> None:
    """Make the folder of a process that has not begun; return when its record is durable.

    Raises:
        OSError: It could not be written.
    """
    folder.mkdir(mode=0o700)
    for name in (supervisor_folder.ALIVE, supervisor_folder.CONTROL, supervisor_folder.INPUT):
        os.mkfifo(folder / name, 0o600)
    fd = os.open(folder / supervisor_folder.START, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as file:
        json.dump(start, file)
    write_record(folder, record)
    supervisor_folder.sync_folder(folder.parent)


def write_record(folder: Path, record: ProcessRecord) -> None:
    """Replace the record; return when that is durable.

    Raises:
        OSError: It could not be written; the old one stands.
    """
    supervisor_folder.replace_file(folder / RECORD, encode(record))


def read_record(folder: Path) -> ProcessRecord | None:
    """Return the record of a folder, None where it has none (its making was cut short).

    Raises:
        BadRecordError: It cannot be read, or another version wrote it.
    """
    path = folder / RECORD
    try:
        record = _RECORDS.decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, CodecError) as error:
        msg = f"{path}: {error}"
        raise BadRecordError(msg) from error
    if record.format != _FORMAT or record.handle != folder.name:
        msg = f"{path}: another version wrote it, or it is another process's"
        raise BadRecordError(msg)
    return record


def read_ending(folder: Path) -> Ending | None:
    """Return how the process ended, None where that is not recorded."""
    try:
        return _ENDINGS.decode((folder / supervisor_folder.ENDING).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, CodecError):
        return Ending(status="lost", note="the record of its end cannot be read")


def write_ending(folder: Path, ending: Ending) -> None:
    """Record an end that no supervisor process recorded; durable.

    Raises:
        OSError: It could not be written.
    """
    supervisor_folder.replace_file(folder / supervisor_folder.ENDING, encode(ending))


def give_up(folder: Path) -> bool:
    """Keep a process that has not begun from ever beginning; return whether it had not.

    A supervisor process takes `start.json` by renaming it as well: one of the two has it.
    """
    taken = folder / supervisor_folder.CLAIMED
    try:
        (folder / supervisor_folder.START).rename(taken)
    except FileNotFoundError:
        return False
    taken.unlink(missing_ok=True)
    return True


def read_pid(folder: Path) -> int | None:
    """Return the process id of the command, for people to look at; None where it is not known."""
    with suppress(OSError, ValueError, IndexError):
        return int((folder / supervisor_folder.PIDS).read_text().split()[0])
    return None


def last_words(folder: Path) -> str:
    """Return the last line that a supervisor process left about its own failure, if any."""
    try:
        lines = (folder / supervisor_folder.ERRORS).read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1][:_ERROR_BYTES] if lines else ""
