"""Records as lines of a run log. Pure: bytes in, values out.

A line is a JSON object, `{"kind":"began","at":…,"scheduled_at":…,"crc":"89abcdef"}`. The checksum
is the CRC-32 of the bytes before `,"crc":`. Times are in UTC, fields that hold their default are
left out.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from typing import Final, NoReturn, TypeAlias, cast, get_args

import orjson

from everturn_actors.state.serialization import utc_text
from everturn_gateway.scheduler.jobs import JobState, Run, RunOutcome, Span
from everturn_gateway.scheduler.rules.records import (
    Accepted,
    Armed,
    Began,
    Cancelled,
    Draft,
    Finished,
    Kept,
    Line,
    Misfire,
    Paused,
    Rebased,
    Resumed,
)

ERROR_CHARACTERS: Final = 1000  # of an error in a log, which holds many of them
_CRC_FIELD: Final = b',"crc":"'
_CRC_BYTES: Final = len(_CRC_FIELD) + 8 + len(b'"}')
_WAY_OUT: Final = "use the version that wrote it, or a later one"


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


# --- writing -------------------------------------------------------------------------------------


def to_line(line: Line) -> bytes:
    """Return a record as a line, with its newline.

    Errors are shortened to `ERROR_CHARACTERS`, and what is no text in UTF-8 becomes question marks:
    what is kept in memory should come from `from_line`.
    """
    body = orjson.dumps({"kind": _NAMES[type(line)], **_plain(line)})[:-1]
    return b'%b%b%08x"}\n' % (body, _CRC_FIELD, zlib.crc32(body))


def _plain(value: Line | Run | Span | JobState) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, default in _FIELDS[type(value)]:
        each = getattr(value, name)
        if each != default:
            found[name] = _plain_value(name, each)
    return found


def _plain_value(name: str, value: object) -> object:
    match value:
        case str():
            text = value.encode("utf-8", "replace").decode()
            return _short(text) if name == "error" else text
        case datetime():
            return utc_text(value)
        case JobState():
            return _plain(value)
        case tuple():
            return [_plain(each) for each in cast("tuple[Run | Span, ...]", value)]
        case _:
            return value


def _short(error: str) -> str:
    return error if len(error) <= ERROR_CHARACTERS else error[: ERROR_CHARACTERS - 1] + "…"


# --- reading -------------------------------------------------------------------------------------


def from_line(data: bytes) -> Line:
    """Return the record of a line, with or without its newline.

    Raises:
        BadRecordError: It is cut short, damaged, or of another version.
    """
    data = data.removesuffix(b"\n")
    body = data[:-_CRC_BYTES]
    if data[len(body) :] != b'%b%08x"}' % (_CRC_FIELD, zlib.crc32(body)):
        if data.endswith(b'"}'):
            msg = "its checksum is wrong: it was changed"
        else:
            msg = "it is cut short or damaged"
        raise BadRecordError(msg)
    try:
        return _line_of(orjson.loads(data))  # an object, for it ends in a field and a brace
    except ValueError as error:
        raise BadRecordError(str(error), is_whole=True) from error


def _line_of(found: dict[str, object]) -> Line:
    """Return the record that stands in a JSON object.

    Raises:
        ValueError: There is none; the text says why.
    """
    kind = found.pop("kind", None)
    shape = _SHAPES.get(kind) if isinstance(kind, str) else None
    if shape is None:
        msg = f"it is of the kind {kind!r}, which this version does not know; {_WAY_OUT}"
        raise ValueError(msg)
    del found["crc"]
    try:
        return cast("Line", shape(found))
    except ValueError as error:
        raise ValueError(str(error).removeprefix(".")) from error


_Read: TypeAlias = Callable[[object], object]
"Makes a value of what stands in a field; raises ValueError, whose text goes behind its name."


def _text(value: object) -> str:
    if not isinstance(value, str):
        _refuse("a text")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        _refuse("a whole number of at least 0")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        _refuse("true or false")
    return value


def _instant(value: object) -> datetime:
    if isinstance(value, str):
        try:
            scheduled_at = datetime.fromisoformat(value)
        except ValueError:
            pass
        else:
            if scheduled_at.tzinfo is not None:
                return scheduled_at
    return _refuse("an instant with its time zone, as 2026-11-21T22:49:56.123456Z")


_OUTCOMES: Final = get_args(RunOutcome)


def _outcome(value: object) -> RunOutcome:
    if value not in _OUTCOMES:
        _refuse(f"one of {', '.join(_OUTCOMES)}, not {value!r}; {_WAY_OUT}")
    return cast("RunOutcome", value)


def _refuse(what: str) -> NoReturn:
    msg = f" must be {what}"
    raise ValueError(msg)


def _list_of(read_item: _Read) -> _Read:
    """Return what reads a list, of which each item is read by another."""

    def read(value: object) -> object:
        if not isinstance(value, list):
            _refuse("a list")
        items: list[object] = []
        for index, item in enumerate(cast("list[object]", value)):
            try:
                items.append(read_item(item))
            except ValueError as error:
                msg = f"[{index}]{error}"
                raise ValueError(msg) from error
        return tuple(items)

    return read


def _shape_of(cls: type[object], readers: Mapping[str, _Read]) -> _Read:
    """Return what reads the fields of a value; those that are left out hold their default."""
    needed = frozenset(name for name, default in _fields_of(cls) if default is MISSING)

    def read(value: object) -> object:
        if not isinstance(value, dict):
            _refuse("an object")
        data = cast("dict[str, object]", value)
        for name, found in data.items():
            reader = readers.get(name)
            if reader is None:
                msg = f".{name} is a field that this version does not know; {_WAY_OUT}"
                raise ValueError(msg)
            try:
                data[name] = reader(found)
            except ValueError as error:
                msg = f".{name}{error}"
                raise ValueError(msg) from error
        if not needed <= data.keys():
            msg = f".{min(needed - data.keys())} is missing"
            raise ValueError(msg)
        return cls(**data)

    return read


def _fields_of(cls: type[object]) -> tuple[tuple[str, object], ...]:
    """Return the names of the fields of a value, and their defaults."""
    return tuple((each.name, each.default) for each in fields(cast("type[Run]", cls)))


_INSTANT: Final[dict[str, _Read]] = {"at": _instant, "scheduled_at": _instant}
_RUN: Final = _shape_of(
    Run,
    {
        "scheduled_at": _instant,
        "started_at": _instant,
        "attempt": _number,
        "by_hand": _flag,
        "session_id": _text,
        "seq": _number,
        "outcome": _outcome,
        "turn": _number,
        "error": _text,
        "finished_at": _instant,
        "missed": _number,
        "first_missed": _instant,
    },
)
_SPAN: Final = _shape_of(Span, {"begins": _instant, "ends": _instant})
_STANDING: Final = _shape_of(
    JobState,
    {
        "schedule": _text,
        "anchor": _instant,
        "cursor": _instant,
        "armed": _instant,
        "skipped": _list_of(_SPAN),
        "left_out": _list_of(_SPAN),
        "settled": _list_of(_SPAN),
        "ran": _number,
        "open": _list_of(_RUN),
        "recent": _list_of(_RUN),
        "paused": _flag,
        "paused_in_file": _flag,
        "cancelled": _flag,
    },
)
_READERS: Final[dict[type[Line], dict[str, _Read]]] = {
    Armed: {"at": _instant, "schedule": _text, "since": _instant},
    Began: {**_INSTANT, "attempt": _number, "by_hand": _flag},
    Accepted: {**_INSTANT, "session_id": _text, "seq": _number},
    Finished: {**_INSTANT, "outcome": _outcome, "turn": _number, "error": _text},
    Misfire: {**_INSTANT, "first": _instant, "count": _number, "error": _text},
    Paused: {"at": _instant, "in_file": _flag},
    Resumed: {"at": _instant, "in_file": _flag},
    Cancelled: {"at": _instant},
    Rebased: {"at": _instant, "cursor": _instant, "anchor": _instant},
    Kept: {"at": _instant, "job_state": _STANDING},
}
_NAMES: Final = {cls: cls.__name__.lower() for cls in _READERS}
_SHAPES: Final = {_NAMES[cls]: _shape_of(cls, readers) for cls, readers in _READERS.items()}
_FIELDS: Final = {cls: _fields_of(cls) for cls in (*_READERS, Run, Span, JobState)}


# --- a whole log ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
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
