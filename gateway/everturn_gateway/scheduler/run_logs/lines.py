"""Records as lines of a run log. Pure: bytes in, values out.

A line is a JSON object, `{"kind":"began","at":…,"scheduled_at":…,"crc":"89abcdef"}`: the value as
`codec` writes it, with a checksum.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from everturn_actors.checksums import is_whole, sealed, unsealed, why_not_whole
from everturn_actors.codec import WAY_OUT, Codec, CodecError
from everturn_actors.codec import encode as encode_value
from everturn_gateway.scheduler.jobs import JobState
from everturn_gateway.scheduler.rules.records import Draft, Finished, Line, Misfire

ERROR_CHARACTERS: Final = 1000  # of an error in a log, which holds many of them
_LINE: Final = Codec[Line](Line)
_OF_BEFORE: Final = (
    (b'"outcome":"missed"', b'"outcome":"misfired"'),
    (b'"missed":', b'"misfired":'),
    (b'"first_missed":', b'"first_misfired":'),
)
"Words that logs were written with before, and those of now."


class BadRecordError(Exception):
    """A line that is no record; the text says why. Never leaves the scheduler.

    Attributes:
        reason: Why, without the place.
        is_whole: The line is as it was written, so that another version must have done that.
    """

    def __init__(self, reason: str, *, is_whole: bool = False) -> None:
        self.reason, self.is_whole = reason, is_whole
        super().__init__(reason)


class DamagedError(Exception):
    """A log that cannot be believed. Never leaves the scheduler.

    Attributes:
        line: The first bad one, counted from 1.
        reason: What is wrong with it.
    """

    def __init__(self, line: int, reason: str) -> None:
        self.line, self.reason = line, reason
        super().__init__(f"line {line}: {reason}")


def to_line(line: Line) -> bytes:
    """Return a record as a line, with its newline.

    Errors are shortened to `ERROR_CHARACTERS`: what is kept in memory should come from `from_line`.
    """
    if isinstance(line, (Finished, Misfire)) and len(line.error) > ERROR_CHARACTERS:
        line = replace(line, error=line.error[: ERROR_CHARACTERS - 1] + "…")
    return sealed(encode_value(line), 0)


def from_line(data: bytes) -> Line:
    """Return the record of a line, with or without its newline.

    Raises:
        BadRecordError: It is cut short, damaged, or of another version.
    """
    data = data.removesuffix(b"\n")
    if not is_whole(data, 0):
        raise BadRecordError(why_not_whole(data))
    plain = unsealed(data)
    try:
        return _LINE.decode(_in_words_of_now(plain) if b"missed" in plain else plain)
    except CodecError as error:
        msg = f"{error}; {WAY_OUT}"
        raise BadRecordError(msg, is_whole=True) from error


def _in_words_of_now(plain: bytes) -> bytes:
    """Return a line with the names of now; what stands in a text has its quotes escaped."""
    for before, now in _OF_BEFORE:
        plain = plain.replace(before, now)
    return plain


# --- a whole log ---------------------------------------------------------------------------------


class Story(Struct, frozen=True, kw_only=True):
    """What a log says."""

    job_state: JobState = field(default_factory=JobState)
    last_at: datetime | None = None
    "When its last line was written; None = it has none."
    lines: int = 0
    size_bytes: int = 0
    """How long it is when each of its lines ends as it should. The file is longer where a write was
    cut short, and one byte shorter where its last newline is missing."""


def read_log(data: bytes) -> Story:
    """Return what a log says.

    A last line that is cut short or damaged is left out: a write that a crash cut short, and whose
    caller was not told that it was done.

    Raises:
        DamagedError: A line before the last one is bad, or one is of another version.
    """
    *lines, rest = data.split(b"\n")
    if rest:
        lines.append(rest)
    draft, last_at, size, count = Draft(JobState()), None, 0, 0
    for number, each in enumerate(lines, 1):
        try:
            line = from_line(each)
        except BadRecordError as error:
            if error.is_whole or number != len(lines):
                raise DamagedError(number, error.reason) from error
            break
        draft.apply(line)
        last_at, size, count = line.at, size + len(each) + 1, number
    job_state = draft.result().job_state
    return Story(job_state=job_state, last_at=last_at, lines=count, size_bytes=size)


def encode(lines: Iterable[Line]) -> bytes:
    """Return the lines of records."""
    return b"".join(map(to_line, lines))
