"""Reading a log: whole, its end, or from a given number on. Reads only, and blocks.

A log may end in a line that a crash cut short; whoever reads decides what that means.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from everturn_actors.errors import CorruptJournalError, UnknownFormatError
from everturn_actors.events import Event, SessionStarted
from everturn_actors.journal.log.codec import (
    BadLineError,
    decode,
    owner_of,
    seed,
    seq_of,
    whole_seq,
)

REPAIR_HINT = "everturn doctor --repair"
_TAIL_BYTES = 16 * 1024  # read from the end of a log at first; most lines are far shorter
_BISECT_STOP_BYTES = 32 * 1024  # from here on reading line by line is as quick as bisecting


class Log(Struct, frozen=True, kw_only=True):
    """What a log file holds."""

    events: tuple[Event, ...] = ()
    "Those above the number asked for, oldest first, without holes."
    first_seq: int = 0
    "0 where the log is empty."
    last_seq: int = 0
    size_bytes: int = 0
    "Of the whole lines."
    torn: bytes = b""
    "What stands after them: a line that was cut short."
    unterminated: bool = False
    "The last line is whole, only its newline is missing."


class Tail(Struct, frozen=True, kw_only=True):
    """Where a log ends."""

    last_seq: int
    size_bytes: int


def corrupt(path: Path, line: int, why: str) -> CorruptJournalError:
    """Return the error of a bad line, with the way out."""
    return CorruptJournalError(
        f"line {line}: {why}. Nothing was changed; `{REPAIR_HINT}` sets the damaged file aside and "
        "rebuilds the session from what is good",
        path=path,
    )


def parse_log(data: bytes, *, session_id: str, after: int, path: Path) -> Log:
    """Check a log from its first line to its last and return the events above `after`.

    Raises:
        CorruptJournalError: A bad line that is not the last one, a hole, or another session's log.
        UnknownFormatError: A line of another version.
    """
    start = seed(session_id)
    lines = data.split(b"\n")
    unterminated = bool(lines[-1])
    if not unterminated:
        lines.pop()
    events: list[Event] = []
    first = last = size = 0
    for number, line in enumerate(lines, 1):
        # What a snapshot holds already is checked, but not decoded.
        seq = whole_seq(line, start) if after else None
        if seq is None or seq > after:
            try:
                event = decode(line, start)
            except BadLineError as error:
                _refuse_other_session(lines[0], session_id, path)
                if number < len(lines):
                    raise corrupt(path, number, str(error)) from error
                torn = data[size:]
                break
            except UnknownFormatError as error:
                message = f"line {number}: {error}"
                raise UnknownFormatError(message, path=path) from error
            _check_owner(event, session_id, path)
            events.append(event)
            seq = event.seq
        if last and seq != last + 1:
            raise corrupt(path, number, f"event {last + 1} is missing; event {seq} stands here")
        first, last, size = first or seq, seq, size + len(line) + 1
    else:
        torn = b""
    return Log(
        events=tuple(events),
        first_seq=first,
        last_seq=last,
        size_bytes=min(size, len(data)),
        torn=torn,
        unterminated=unterminated and not torn,
    )


def read_tail(path: Path, session_id: str) -> Tail | None:
    """Return where a log ends, from its last line alone; None where it is empty or not there.

    Raises:
        BadLineError: The last line is not whole.
        UnknownFormatError: It is of another version.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return None
    with file:
        size = file.seek(0, os.SEEK_END)
        if size == 0:
            return None
        window = _TAIL_BYTES
        while True:
            file.seek(max(size - window, 0))
            data = file.read(min(window, size))
            if not data.endswith(b"\n"):
                message = "the last line has no end"
                raise BadLineError(message)
            begin = data.rfind(b"\n", 0, -1)
            if begin >= 0 or window >= size:
                return Tail(
                    last_seq=decode(data[begin + 1 : -1], seed(session_id)).seq, size_bytes=size
                )
            window *= 4


def read_events(
    file: BinaryIO,
    *,
    session_id: str,
    after: int,
    limit: int,
    end_bytes: int | None = None,
    is_log: bool = False,
) -> tuple[Event, ...]:
    """Return up to `limit` events above `after`, found by bisection.

    Args:
        file: An open log or archive; what follows its last newline is passed over.
        session_id: Whose log it is.
        after: The number before the first one wanted.
        limit: How many at most.
        end_bytes: Read no further than this; None = to the end.
        is_log: A bad last line is one that a crash cut short: it is passed over, as a load would
            cut it off. One that only lacks its newline counts.

    Raises:
        CorruptJournalError: A bad line on the way.
        UnknownFormatError: A line of another version.
    """
    end = min(file.seek(0, os.SEEK_END), end_bytes if end_bytes is not None else 1 << 62)
    start, path = seed(session_id), Path(file.name)
    offset = find_offset(file, after=after, end_bytes=end)
    events: list[Event] = []
    file.seek(offset)
    while len(events) < limit and offset < end:
        line = file.readline()
        if not (is_log or line.endswith(b"\n")):
            break
        try:
            event = decode(line.removesuffix(b"\n"), start)
        except BadLineError as error:
            if is_log and offset + len(line) >= end:
                break
            raise corrupt(path, _line_number(file, offset), str(error)) from error
        except UnknownFormatError as error:
            message = f"line {_line_number(file, offset)}: {error}"
            raise UnknownFormatError(message, path=path) from error
        offset += len(line)
        if event.seq > after:
            events.append(event)
    return tuple(events)


def find_offset(file: BinaryIO, *, after: int, end_bytes: int) -> int:
    """Return where the first line with a number above `after` begins; `end_bytes` where none does.

    Numbers are read from the heads of the lines and believed. A line without one is where the
    search stops, so that whoever reads on from there meets it.
    """
    low, high = 0, end_bytes  # the answer lies between them; a line begins at `low`
    while high - low > _BISECT_STOP_BYTES:
        middle = (low + high) // 2
        file.seek(middle)
        begin = middle + len(file.readline())
        if begin >= high:
            break  # one long line: the rest is read in order
        seq = seq_of(file.readline())
        if seq is None:
            break
        if seq > after:
            high = begin
        else:
            low = begin
    file.seek(low)
    while low < high:
        line = file.readline()
        seq = seq_of(line)
        if seq is None or seq > after:
            break
        low += len(line)
    return min(low, end_bytes)


def _refuse_other_session(first_line: bytes, session_id: str, path: Path) -> None:
    owner = owner_of(first_line)
    if owner and owner != session_id:
        raise corrupt(path, 1, f"this is the log of session {owner!r}, not of {session_id!r}")


def _check_owner(event: Event, session_id: str, path: Path) -> None:
    body = event.body
    if isinstance(body, SessionStarted) and body.session_id != session_id:
        why = f"it starts session {body.session_id!r}, but stands in the log of {session_id!r}"
        raise corrupt(path, 1, why)


def _line_number(file: BinaryIO, offset: int) -> int:
    file.seek(0)
    return file.read(offset).count(b"\n") + 1
