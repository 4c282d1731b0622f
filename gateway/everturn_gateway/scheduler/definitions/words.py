"""Times in words, as people say them when they make a job: `tomorrow 9:00`, `in 10 minutes`. Pure.

What recurs (`every 90 minutes`, `@daily`) means the same whenever it is read, and may stand in a
file. What is counted from now means another time with each look: it becomes a date when the job is
made, and a file cannot hold it. The grammar is small on purpose: a time that was guessed runs at
the wrong hour. Everything here raises `ValueError` with a text for people.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, time, timedelta
from typing import Final

from msgspec import Struct

from everturn_gateway.late_loading import late_pattern
from everturn_gateway.scheduler.definitions.reading import NEEDS_ZONE, read_interval
from everturn_gateway.time_zones import check_zone

NICKNAMES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
"Names of cron expressions, as other programs know them."
EXAMPLES: Final = "2026-12-01T08:30, tomorrow 9:00 or in 10 minutes"

_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAYS: Final = {name[:size]: day for day, name in enumerate(_WEEKDAYS) for size in (3, len(name))}
_CLOCK = r"(?P<clock>noon|midnight|[0-9]{1,2}(?::[0-9]{2})?(?: ?[ap]m)?)"
_ON_A_DAY: Final = late_pattern(
    rf"(?:(?P<day>today|tomorrow|(?:on )?(?:{'|'.join(_DAYS)})),? )?(?:at )?{_CLOCK}"
)
_EACH_DAY: Final = late_pattern(rf"every (?P<day>day|weekday|{'|'.join(_DAYS)}) (?:at )?{_CLOCK}")
_NAMED: Final = {"noon": time(12), "midnight": time(0)}
_HALF_DAY_HOURS: Final = 12
_ONE: Final = late_pattern(r"(?:an?|one) (?=[a-z])")


class Recurring(Struct, frozen=True, kw_only=True):
    """What recurs: one of the two."""

    every: str = ""
    cron: str = ""


def recurring(text: str) -> Recurring | None:
    """Read what recurs; None where the text says something else.

    Raises:
        ValueError: It begins like that, and cannot be read.
    """
    words = _words(text)
    if words.startswith("@"):
        return Recurring(cron=cron_of(words))
    if found := _EACH_DAY.fullmatch(words):
        clock = _clock(found["clock"])
        day = {"day": "*", "weekday": "1-5"}.get(found["day"], found["day"][:3])
        return Recurring(cron=f"{clock.minute} {clock.hour} * * {day}")
    if not words.startswith("every "):
        return None
    span_s(words.removeprefix("every "))
    return Recurring(every=words.removeprefix("every "))


def cron_of(text: str) -> str:
    """Return a cron expression with its nickname, such as `@daily`, replaced.

    Raises:
        ValueError: There is no such nickname.
    """
    name = text.strip().lower()
    if not name.startswith("@"):
        return text
    if name not in NICKNAMES:
        msg = f"{name[:40]!r} is not known; there are: {', '.join(NICKNAMES)}"
        raise ValueError(msg)
    return NICKNAMES[name]


def span_s(text: object) -> int:
    """Read a span of time in whole seconds: a number, `90s`, `90 minutes`, `an hour`, `1d 2h`.

    Raises:
        ValueError: It is none, or shorter than a second, or longer than a year.
    """
    if not isinstance(text, str):
        return read_interval(text)
    words = _ONE.sub("1 ", _words(text).removeprefix("every "))
    return read_interval(f"1 {words}" if words.isalpha() else words)


def is_from_now(text: str) -> bool:
    """Return whether a text is an instant that is counted from now.

    Raises:
        ValueError: It begins like that, and cannot be read.
    """
    words = _words(text)
    if words.startswith("in "):
        span_s(words.removeprefix("in "))
        return True
    if found := _ON_A_DAY.fullmatch(words):
        _clock(found["clock"])
        return True
    return False


def from_now(text: str, *, now: datetime, zone: str) -> str:
    """Return what is counted from now as a date and a time; every other text as it is.

    A day is one of the zone's calendar; `in 1 day` is 24 hours. A time without a day is the next
    time at which the clock shows it, and a day of the week the next such day.

    Args:
        text: What was said.
        now: UTC.
        zone: The IANA name of the zone that is meant; empty = there is none.

    Raises:
        ValueError: It needs a zone, or it leads out of the calendar.
    """
    if not is_from_now(text):
        return text
    words = _words(text)
    if words.startswith("in "):
        seconds = math.ceil(now.timestamp()) + span_s(words.removeprefix("in "))
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    found = _ON_A_DAY.fullmatch(words)
    assert found is not None
    if not zone:
        raise ValueError(NEEDS_ZONE)
    here = now.astimezone(check_zone(zone)).replace(tzinfo=None)
    wall = datetime.combine(here.date(), _clock(found["clock"]))
    day = (found["day"] or "").removeprefix("on ")
    if day == "tomorrow":
        wall += timedelta(days=1)
    elif day in _DAYS:
        ahead = (_DAYS[day] - here.weekday()) % 7
        wall += timedelta(days=ahead or (7 if wall <= here else 0))
    elif not day and wall <= here:
        wall += timedelta(days=1)
    return wall.isoformat(timespec="minutes")


def _words(text: str) -> str:
    return " ".join(text.lower().split())


def _clock(text: str) -> time:
    if text in _NAMED:
        return _NAMED[text]
    digits, half = text.removesuffix("am").removesuffix("pm").strip(), text[-2:]
    hour, _, minute = digits.partition(":")
    hours, minutes = int(hour), int(minute or 0)
    is_half = half in {"am", "pm"}
    if not (minute or is_half):
        msg = f"{text!r} is no time of day; write it like {text}:00, or {text}am"
        raise ValueError(msg)
    if minutes > 59 or hours > 23 or (is_half and not 1 <= hours <= _HALF_DAY_HOURS):  # of a clock
        msg = f"there is no time of day {text!r}"
        raise ValueError(msg)
    if is_half:
        hours = hours % _HALF_DAY_HOURS + (_HALF_DAY_HOURS if half == "pm" else 0)
    return time(hours, minutes)
