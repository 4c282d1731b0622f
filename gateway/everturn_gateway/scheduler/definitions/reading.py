"""Instants, spans of time and texts, as people write them in a job. Pure.

Everything here raises `ValueError` with a text for people.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Final

from msgspec import Struct

from everturn_gateway.late_loading import late_pattern
from everturn_gateway.scheduler.rules.rules import local_time

MAX_TEXT_BYTES: Final = 64 * 1024  # of a message or a task, in UTF-8
MAX_INTERVAL_S: Final = 366 * 86_400
NEEDS_ZONE: Final = (
    "needs a time zone: set timezone, or write an offset from UTC behind it,"
    " or set schedules: {timezone: ...} in everturn.yaml"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_YEARS: Final = (1970, 9998)  # beyond, the hours of a zone would lead out of what Python counts

_WALL: Final = late_pattern(
    r"(?P<date>[0-9]{4}-[0-9]{1,2}-[0-9]{1,2})"
    r"(?:[Tt]|[ \t]+)"
    r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})"
    r"(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,9}))?)?"
    r"(?:[ \t]*(?P<offset>[Zz]|[+-][0-9]{1,2}(?::?[0-9]{2})?))?"
)
_DATE: Final = late_pattern(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}")
_OFFSET: Final = late_pattern(r"([+-])([0-9]{1,2})(?::?([0-9]{2}))?")
_OFFSET_HOURS: Final = 14  # the furthest from UTC that any place is
_INTERVAL: Final = late_pattern(
    r"(?:(?P<w>[0-9]{1,9}) ?w(?:eeks?)?)? ?(?:(?P<d>[0-9]{1,9}) ?d(?:ays?)?)?"
    r" ?(?:(?P<h>[0-9]{1,9}) ?h(?:ours?)?)? ?(?:(?P<m>[0-9]{1,9}) ?m(?:in(?:utes?)?)?)?"
    r" ?(?:(?P<s>[0-9]{1,9}) ?s(?:ec(?:onds?)?)?)?"
)
_UNITS_S: Final = {"w": 7 * 86_400, "d": 86_400, "h": 3600, "m": 60, "s": 1}
_CONTROL: Final = late_pattern("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"Everything but tabs and ends of lines: no chat shows it, and a YAML file has to escape it."
_CLOCK: Final = late_pattern(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")


class Written(Struct, frozen=True, kw_only=True):
    """An instant as it was written."""

    wall: datetime
    "Without a zone."
    offset: timezone | None
    "None: it is a time on the wall of a zone that is said elsewhere."

    def scheduled_at(self, zone: str) -> datetime:
        """Return it in UTC; `zone` is the IANA name of the zone it is in without an offset.

        Raises:
            ValueError: It needs a zone and there is none, or its zone's clocks leave it out.
        """
        if self.offset is not None:
            return self.wall.replace(tzinfo=self.offset).astimezone(UTC)
        if not zone:
            raise ValueError(NEEDS_ZONE)
        return local_time(self.wall, zone)


def read_written(text: str) -> Written:
    """Read a date and a time: `2026-12-01T08:30`, seconds and an offset from UTC if need be.

    Raises:
        ValueError: It is none, or there is no such date, time or offset.
    """
    text = text.strip()
    if _DATE.fullmatch(text):
        msg = f"{text} is a date; at which time? write {text}T08:30"
        raise ValueError(msg)
    found = _WALL.fullmatch(text)
    if found is None:
        msg = f"{text[:40]!r} is no date with a time; write it like 2026-12-01T08:30"
        raise ValueError(msg)
    year, month, day = (int(part) for part in found["date"].split("-"))
    if not _YEARS[0] <= year <= _YEARS[1]:
        msg = f"the year must be from {_YEARS[0]} to {_YEARS[1]}, not {year}"
        raise ValueError(msg)
    try:
        date(year, month, day)
    except ValueError as error:
        msg = f"there is no date {found['date']}: {error}"
        raise ValueError(msg) from None
    try:
        clock = time(
            int(found["hour"]),
            int(found["minute"]),
            int(found["second"] or 0),
            int((found["fraction"] or "").ljust(6, "0")[:6]),
        )
    except ValueError as error:
        msg = f"there is no such time of day: {error}"
        raise ValueError(msg) from None
    offset = _offset(found["offset"]) if found["offset"] else None
    return Written(wall=datetime.combine(date(year, month, day), clock), offset=offset)


def _offset(text: str) -> timezone:
    found = _OFFSET.fullmatch(text)
    if found is None:  # Z
        return UTC
    sign, hours, minutes = found[1], int(found[2]), int(found[3] or 0)
    if hours > _OFFSET_HOURS or minutes > 59:  # of an hour
        msg = f"{text} is no offset from UTC; they are -12:00 to +14:00"
        raise ValueError(msg)
    ahead = timedelta(hours=hours, minutes=minutes)
    return timezone(-ahead if sign == "-" else ahead)


def file_time(time_ns: int) -> datetime | None:
    """Return the time of a file in UTC, given as its system does; None where it is none."""
    try:
        return _EPOCH + timedelta(microseconds=time_ns // 1000)
    except OverflowError:
        return None


def read_interval(value: object) -> int:
    """Read a span of time in whole seconds: a number, or text like `90s`, `15m`, `6 hours`.

    Raises:
        ValueError: It is none, or shorter than a second, or longer than a year.
    """
    seconds: int | None = None
    match value:
        case bool():
            pass
        case int():
            seconds = value
        case float() if value.is_integer():
            seconds = int(value)
        case str():
            seconds = _interval(value.strip().lower())
        case _:
            pass
    if seconds is None:
        msg = "must be whole seconds, or a text like 15m, 6h or 1d"
        raise ValueError(msg)
    if not 1 <= seconds <= MAX_INTERVAL_S:
        msg = "must be at least a second, and at most a year"
        raise ValueError(msg)
    return seconds


def _interval(text: str) -> int | None:
    if text.isascii() and text.removeprefix("-").isdigit():
        return int(text[:10])  # of a longer number it is enough to know that it is too long
    found = _INTERVAL.fullmatch(text)
    if not text or found is None:
        return None
    return sum(int(found[unit] or 0) * seconds for unit, seconds in _UNITS_S.items())


def interval_text(seconds: int) -> str:
    """Return a span of time as people write it: 90000 is `1d1h`."""
    parts: list[str] = []
    for unit in ("d", "h", "m", "s"):
        count, seconds = divmod(seconds, _UNITS_S[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def read_clock(text: str) -> time:
    """Read a time of day, `22:00`.

    Raises:
        ValueError: It is none.
    """
    found = _CLOCK.fullmatch(text.strip())
    if found is None:
        msg = f"{text[:20]!r} is no time of day; write it like 22:00"
        raise ValueError(msg)
    return time(int(found[1]), int(found[2]))


def check_text(text: str) -> str:
    """Return a message or a task as it is.

    Raises:
        ValueError: There is nothing in it, it is too long, or it holds what is no text.
    """
    if not text.strip():
        msg = "must not be empty"
        raise ValueError(msg)
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        msg = "holds half a character (a lone surrogate)"
        raise ValueError(msg) from None
    if found := _CONTROL.search(text):
        msg = f"holds the control character 0x{ord(found[0]):02x}"
        raise ValueError(msg)
    if size > MAX_TEXT_BYTES:
        msg = f"has {size:,} bytes, and {MAX_TEXT_BYTES:,} are the most"
        raise ValueError(msg)
    return text


def check_line(text: str, most: int) -> str:
    """Return a text of one line without blanks around it.

    Raises:
        ValueError: It is empty, longer than `most` characters, or holds what cannot be shown.
    """
    text = text.strip()
    if not text:
        msg = "must not be empty"
        raise ValueError(msg)
    if len(text) > most:
        msg = f"has {len(text)} characters, and {most} are the most"
        raise ValueError(msg)
    if not text.isprintable():
        msg = "must be one line of characters that can be shown"
        raise ValueError(msg)
    return text
