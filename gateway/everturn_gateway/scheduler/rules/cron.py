"""When wall clocks show what. Pure: no clock, no IO.

All instants are aware and UTC. Where a zone changes its clock, one of two rules holds for a cron
expression, as in Debian's cron:

- *Fixed*, where it names its hours (neither its minute nor its hour begins with `*`, and its hour
  is not all 24). Each of its times occurs once on each day. One that the clock leaves out occurs
  when the clock goes on; of one that the clock shows twice, the first counts.
- *In real time*, where it does not. It occurs whenever the clock shows a match: not at what the
  clock leaves out, and twice at what it shows twice.

A time zone is read from its file when it is first used, here or by `check_zone`, and is kept:
whoever checks a job before it gets here never waits for a disk here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import islice, pairwise
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from msgspec import Struct

from everturn_gateway.scheduler.jobs import Cron, QuietHours
from everturn_gateway.time_zones import check_zone

TICK: Final = timedelta(microseconds=1)
"The least time that lies between two instants."
SECOND: Final = timedelta(seconds=1)
_DAY: Final = timedelta(days=1)
_DAY_S: Final = 86_400
_HORIZON_YEARS: Final = 50  # a 29th of February on a given weekday is at most 40 years away
_SAMPLE: Final = 50  # dates of which the smallest distance is taken
_EXPRESSION_MOST: Final = 500  # characters; all minutes of an hour, in a list, take 169
_SHOWN: Final = 80  # characters of an expression in a message
_FIELDS: Final = (
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of the month", "1 to 31, L (the last) or LW (the last from Monday to Friday)"),
    ("month", "1 to 12, or jan to dec"),
    (
        "day of the week",
        "0 to 7 (0 and 7: Sunday), sun to sat, mon#2 (the second Monday) or 5L (the last Friday)",
    ),
)
"The fields of a cron expression: what people call them, and what may stand there."


class _Fields(Struct, frozen=True, kw_only=True):
    """A cron expression, taken apart."""

    seconds: tuple[int, ...]
    "Its times of day, in seconds after midnight, ascending."
    is_fixed: bool
    months: frozenset[int]
    has_day: Callable[[date], bool]
    "Whether it has times on a date, its month left out of account."


# --- wall clocks ------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _zone(name: str) -> ZoneInfo:
    return check_zone(name)


def _offset(local: datetime) -> timedelta:
    offset = local.utcoffset()
    assert offset is not None
    return offset


def _change(zone: ZoneInfo, begins: datetime, ends: datetime) -> datetime:
    """Return when in `(begins, ends]` a zone has given up the offset that it has at `begins`."""
    begins = begins.replace(microsecond=0)
    old = _offset(begins.astimezone(zone))
    seconds = range((ends - begins) // SECOND + 1)
    is_new = bisect_left(
        seconds, 1, key=lambda s: int(_offset((begins + s * SECOND).astimezone(zone)) != old)
    )
    return begins + is_new * SECOND


def _reached(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the first instant at which the clock of a zone shows `wall`, or more."""
    first = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if first.astimezone(zone).replace(tzinfo=None) == wall:
        return first
    return _change(zone, wall.replace(tzinfo=zone, fold=1).astimezone(UTC), first)


def local_time(wall: datetime, timezone: str) -> datetime:
    """Return when the clock of a zone shows `wall`, in UTC: the first of two times.

    Args:
        wall: Date and time without a zone.
        timezone: Name of an IANA zone.

    Raises:
        ValueError: There is no such zone, or its clock leaves this time out; the text is for
            people, and names the times beside it.
    """
    assert wall.tzinfo is None
    zone = _zone(timezone)
    try:
        scheduled_at = _reached(wall, zone)
        new = scheduled_at.astimezone(zone).replace(tzinfo=None)
        if new == wall:
            return scheduled_at
        old = (scheduled_at - SECOND).astimezone(zone).replace(tzinfo=None) + SECOND
    except OverflowError:
        msg = f"{wall.isoformat()} is too early or too late a date"
        raise ValueError(msg) from None
    msg = (
        f"{timezone} has no {wall:%H:%M} on {wall:%Y-%m-%d}: its clock goes from {old:%H:%M} to"
        f" {new:%H:%M}; the times nearest to it are {old - timedelta(minutes=1):%Y-%m-%dT%H:%M} and"
        f" {new:%Y-%m-%dT%H:%M}"
    )
    raise ValueError(msg)


# --- cron expressions -----------------------------------------------------------------------------


def check_cron(expression: str, timezone: str) -> None:
    """Refuse a cron expression that cannot be read or never fires, and an unknown zone.

    Raises:
        ValueError: The text is for people; it names the field and what stands there.
    """
    fields = _fields(expression)
    # 28 years have each date on each weekday.
    if next(_dates(fields, date(2000, 1, 1)), None) is None:
        raise ValueError(_never(expression))
    _zone(timezone)


def _never(expression: str) -> str:
    return f"{expression[:_SHOWN]!r} never fires: there is no such day"


def _parsed(expression: str) -> CronSim:
    """Read an expression.

    Raises:
        ValueError: It cannot be read.
    """
    shown, parts = expression[:_SHOWN], expression.split()
    if len(expression) > _EXPRESSION_MOST:
        msg = f"{shown!r}... is longer than {_EXPRESSION_MOST} characters"
        raise ValueError(msg)
    if len(parts) != len(_FIELDS):
        raise ValueError(_miscounted(shown, parts))
    start = datetime(2000, 1, 1)  # noqa: DTZ001 - a date on a wall
    try:
        return CronSim(expression, start)
    except CronSimError:
        pass
    for place, (name, allowed) in enumerate(_FIELDS):
        alone = ["*"] * len(_FIELDS)
        alone[place] = parts[place]
        try:
            CronSim(" ".join(alone), start)
        except CronSimError:
            msg = (
                f"{name}: {parts[place][:_SHOWN]!r} is wrong; it may be {allowed}, or *; lists"
                " (1,3), upward ranges (1-5) and steps (*/2) of these"
            )
            raise ValueError(msg) from None
    raise ValueError(_never(expression))  # each field can be, and the day is in none of the months


def _miscounted(shown: str, parts: list[str]) -> str:
    """Return what is wrong with an expression that has not five fields."""
    form = "minute, hour, day of the month, month and day of the week"
    if not parts:
        return f"needs five fields: {form}"
    more = "; it has no field for seconds or years" if len(parts) == len(_FIELDS) + 1 else ""
    return f"needs five fields ({form}), and {shown!r} has {len(parts)}{more}"


@lru_cache(maxsize=2048)
def _fields(expression: str) -> _Fields:
    cron = _parsed(expression)
    minute, hour = expression.split()[:2]
    is_hourly = hour.startswith("*") or len(cron.hours) == 24  # hours of a day
    return _Fields(
        seconds=tuple(
            [h * 3600 + m * 60 for h in sorted(cron.hours) for m in sorted(cron.minutes)]
        ),
        is_fixed=not is_hourly and not minute.startswith("*"),
        months=frozenset(cron.months),
        has_day=cron.match_day,
    )


def _dates(fields: _Fields, day: date) -> Iterator[date]:
    """Yield the dates of an expression from `day` on, up to the horizon."""
    last = day.year + _HORIZON_YEARS
    while day.year <= last:
        if day.month not in fields.months:
            day = (day.replace(day=1) + 32 * _DAY).replace(day=1)
            continue
        if fields.has_day(day):
            yield day
        day += _DAY


def _times_on(cron: Cron, day: date) -> tuple[datetime, tuple[int, ...]]:
    """Return an instant, and in seconds after it those of an expression on one of its dates.

    They ascend. No clock is turned back over midnight (that of St. John's was, until 2011), so
    that those of one date are older than those of the next.
    """
    midnight = datetime.combine(day, time(), _zone(cron.timezone))
    old, new = _offset(midnight), _offset((midnight + _DAY).replace(fold=1))
    begins = midnight.replace(tzinfo=UTC) - old
    if old == new:
        return begins, _fields(cron.expression).seconds
    return begins, _times_over_change(cron, begins, (new - old) // SECOND)


@lru_cache(maxsize=128)
def _times_over_change(cron: Cron, begins: datetime, forward: int) -> tuple[int, ...]:
    """Return the times of a day on which the clock is put forward by so many seconds, or back."""
    fields, width = _fields(cron.expression), abs(forward) * SECOND
    change = _change(_zone(cron.timezone), begins - width, begins + _DAY + width)
    at = (change - begins) // SECOND
    before = [second for second in fields.seconds if second < at]
    if fields.is_fixed:
        rest = [max(second - forward, at) for second in fields.seconds if second >= at]
    else:
        rest = [second - forward for second in fields.seconds if second - forward >= at]
    return tuple(dict.fromkeys(before + rest))


def cron_after(cron: Cron, after: datetime) -> datetime | None:
    """Return the first instant of an expression after `after`."""
    fields, zone = _fields(cron.expression), _zone(cron.timezone)
    for day in _dates(fields, after.astimezone(zone).date()):
        midnight, seconds = _times_on(cron, day)
        place = bisect_right(seconds, (after - midnight) // SECOND)
        if place < len(seconds):
            return midnight + seconds[place] * SECOND
    return None


def cron_between(
    cron: Cron, begins: datetime, ends: datetime, most: int
) -> tuple[list[datetime], int]:
    """Return the newest instants in `(begins, ends]`, newest first, and how many there are."""
    fields, zone = _fields(cron.expression), _zone(cron.timezone)
    day, last = ends.astimezone(zone).date(), begins.astimezone(zone).date()
    found: list[datetime] = []
    count = 0
    while day >= last:
        if day.month in fields.months and fields.has_day(day):
            midnight, seconds = _times_on(cron, day)
            low = bisect_right(seconds, (begins - midnight) // SECOND)
            high = bisect_right(seconds, (ends - midnight) // SECOND)
            newest = seconds[max(low, high - most + len(found)) : high]
            found += [midnight + second * SECOND for second in reversed(newest)]
            if low < high:
                count += high - low
                # What the clock leaves out before midnight is due at the first instant of this day.
                ends = midnight + seconds[low] * SECOND - TICK
        day -= _DAY
    return found, count


def cron_minimum_s(expression: str) -> float | None:
    """Return the least time between two instants of an expression, where no clock is changed.

    Returns:
        Seconds; None where there are no two. The first 50 dates from 2000 on are looked at.

    Raises:
        ValueError: It cannot be read.
    """
    fields = _fields(expression)
    days = pairwise(islice(_dates(fields, date(2000, 1, 1)), _SAMPLE))
    spread = fields.seconds[-1] - fields.seconds[0]
    gaps = [later - sooner for sooner, later in pairwise(fields.seconds)]
    gaps += [(later - sooner).days * _DAY_S - spread for sooner, later in days]
    return float(min(gaps)) if gaps else None


# --- quiet hours ----------------------------------------------------------------------------------


def _quiet_on(quiet: QuietHours, day: date) -> tuple[datetime, datetime]:
    """Return the quiet period that begins on a date; its end is not in it."""
    zone = _zone(quiet.timezone)
    last = day if quiet.begins < quiet.ends else day + _DAY
    return (
        _reached(datetime.combine(day, quiet.begins), zone),
        _reached(datetime.combine(last, quiet.ends), zone),
    )


def quiet_until(quiet: QuietHours, scheduled_at: datetime) -> datetime | None:
    """Return the end of the quiet period that an instant is in; None where it is in none."""
    today = scheduled_at.astimezone(_zone(quiet.timezone)).date()
    for day in (today, today - _DAY):
        begins, ends = _quiet_on(quiet, day)
        if begins <= scheduled_at < ends:
            return ends
    return None


def loud(
    quiet: QuietHours | None, begins: datetime, ends: datetime
) -> Iterator[tuple[datetime, datetime]]:
    """Yield what is left of `(begins, ends]` without the quiet periods, newest first."""
    if quiet is not None:
        day = ends.astimezone(_zone(quiet.timezone)).date()
        while begins < ends:
            quiet_from, quiet_to = _quiet_on(quiet, day)
            if quiet_to <= ends:
                yield max(begins, quiet_to - TICK), ends
            ends = min(ends, quiet_from - TICK)
            day -= _DAY
    elif begins < ends:
        yield begins, ends
