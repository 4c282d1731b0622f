"""What models were used for, kept in the workspace: `usage/2026-11.json`, a file for each month.

A call is counted at once and on disk a few seconds later, so that no turn waits for it. A process
that is killed loses what the last seconds counted; nothing else reads it than reports and the daily
limits. A write that fails is logged and tried again; a file that cannot be read is put aside.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final, TypeAlias

import anyio
import anyio.to_thread
import orjson

from everturn_actors.model import Usage
from everturn_actors.ports import Clock
from everturn_actors.supervisor import Supervisor
from everturn_channels.files import quarantine, replace_kept

logger = logging.getLogger(__name__)

VERSION: Final = 1
SAVE_EVERY_S = 5.0  # at most so much is lost in a crash
CLOSE_TIMEOUT_S = 2.0  # for the last save


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Calls that were answered, and what they used."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    "Of the input tokens."
    cache_written_tokens: int = 0
    "Of the input tokens."
    cost_nanodollars: int = 0
    "Of those calls whose cost is known."
    unpriced_calls: int = 0
    "Calls whose cost is not known; they are not in `cost_nanodollars`."

    @staticmethod
    def of(usage: Usage, *, priced: bool) -> Tally:
        """Return the tally of one call."""
        return Tally(
            calls=1,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
            cache_written_tokens=usage.cache_written_tokens,
            cost_nanodollars=usage.cost_nanodollars,
            unpriced_calls=0 if priced else 1,
        )

    @property
    def tokens(self) -> int:
        """All tokens, in and out."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cache_written_tokens=self.cache_written_tokens + other.cache_written_tokens,
            cost_nanodollars=self.cost_nanodollars + other.cost_nanodollars,
            unpriced_calls=self.unpriced_calls + other.unpriced_calls,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """What one agent used of one model on one day."""

    day: date
    "By UTC."
    agent: str
    model: str
    "As `provider/name`."
    tally: Tally


_Day: TypeAlias = dict[tuple[str, str], Tally]  # by agent and model
_Rows: TypeAlias = dict[date, _Day]


def total(tallies: Iterable[Tally]) -> Tally:
    """Return the sum."""
    return sum(tallies, Tally())


@dataclass(slots=True, kw_only=True)
class _Month:
    """One file, and what is known beyond it."""

    path: Path
    rows: _Rows = field(default_factory=dict[date, _Day])
    is_read: bool = False
    "Whether `rows` holds what the file held."
    is_stuck: bool = False
    "A file that can neither be read nor put aside stands there; nothing is written over it."
    changes: int = 0
    saved: int = 0


class UsageLedger:
    """Counts usage. Made by `open_ledger`; for the event loop alone."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder, self._clock = folder, clock
        self._months: dict[date, _Month] = {}
        "By their first day."

    def add(self, agent: str, model: str, usage: Usage, *, priced: bool) -> None:
        """Count one call that was answered.

        Args:
            agent: Whose it was.
            model: The model that answered, as `provider/name`.
            usage: What it used.
            priced: Whether `usage` tells what it cost.
        """
        day = self._today()
        month = self._month(day)
        rows, place = month.rows.setdefault(day, {}), (agent, model)
        rows[place] = rows.get(place, Tally()) + Tally.of(usage, priced=priced)
        month.changes += 1

    def today(self, agent: str) -> Tally:
        """Return what an agent has used since midnight, UTC."""
        return self.today_of(lambda who: who == agent)

    def today_of(self, is_wanted: Callable[[str], bool]) -> Tally:
        """Return what those have used together since midnight, UTC, whose names are wanted."""
        day = self._today()
        rows = self._month(day).rows.get(day, {})
        return total(tally for (who, _), tally in rows.items() if is_wanted(who))

    async def rows(self, *, days: int, agent: str = "") -> tuple[UsageRow, ...]:
        """Return what was used in the last `days` days, today included, oldest first.

        `agent` "" = all. A month that cannot be read is left out and logged.
        """
        until = self._today()
        since = _since(until, days)
        found: _Rows = {}
        for first in _months(since, until):
            month = self._months.get(first)
            if month is None or not month.is_read:
                held = await anyio.to_thread.run_sync(_read_only, _path(self._folder, first))
                month = self._months.get(first)  # it may have been read meanwhile
                if month is None or not month.is_read:
                    found = _added(found, held)
            if month is not None:
                found = _added(found, month.rows)
        return _sorted(found, since, until, agent)

    async def load(self) -> None:
        """Read what was used this month before."""
        await self._read(self._month(self._today()))

    async def save_for_ever(self) -> None:
        """Save what is new every few seconds."""
        while True:
            await self._clock.sleep(SAVE_EVERY_S)
            await self.save()

    async def save(self, *, last: bool = False) -> None:
        """Write the months in which something is new. Where that fails, the next time may succeed.

        Only the last time a write may be left to itself: two at once would spoil each other.
        """
        for month in tuple(self._months.values()):
            if month.changes == month.saved or month.is_stuck:
                continue
            if not month.is_read:
                await self._read(month)
            changes, data = month.changes, _encoded(month.rows)
            try:
                await anyio.to_thread.run_sync(
                    replace_kept, month.path, data, abandon_on_cancel=last
                )
            except OSError as error:
                logger.warning(
                    "usage is not saved",
                    extra={"path": str(month.path), "reason": error.strerror or str(error)},
                )
            else:
                month.saved = changes

    async def _read(self, month: _Month) -> None:
        """Add what the file holds to what was counted since."""
        held = await anyio.to_thread.run_sync(_read_or_quarantine, month.path)
        month.is_read = True
        if held is None:
            month.is_stuck = True
        else:
            month.rows = _added(held, month.rows)

    def _today(self) -> date:
        return self._clock.now().date()

    def _month(self, day: date) -> _Month:
        first = day.replace(day=1)
        found = self._months.get(first)
        if found is None:
            found = self._months[first] = _Month(path=_path(self._folder, first))
        return found


@asynccontextmanager
async def open_ledger(
    folder: Path, clock: Clock, *, supervisor: Supervisor | None = None, name: str = "usage"
) -> AsyncGenerator[UsageLedger]:
    """Open the ledger of a workspace; at the end what is new is saved.

    Args:
        folder: Where its files are; created with the first of them.
        clock: Says which day it is, and when to save.
        supervisor: Runs the task that saves; by default one of its own.
        name: Of that task.
    """
    supervisor = supervisor or Supervisor(clock)
    ledger = UsageLedger(folder, clock)
    await ledger.load()
    try:
        async with anyio.create_task_group() as tasks:
            supervisor.start(tasks, name, ledger.save_for_ever)
            yield ledger
            tasks.cancel_scope.cancel()
    finally:
        with anyio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
            await ledger.save(last=True)


def read_usage(folder: Path, *, until: date, days: int, agent: str = "") -> tuple[UsageRow, ...]:
    """Return what the files say of the `days` days up to `until`, oldest first.

    Needs no gateway; what a running one has just counted is there a few seconds later. Reads files:
    not for the event loop.

    Raises:
        OSError: A file cannot be read.
        ValueError: A file is damaged.
    """
    since = _since(until, days)
    found: _Rows = {}
    for first in _months(since, until):
        path = _path(folder, first)
        try:
            found |= _decoded(path.read_bytes())  # each holds the days of its month
        except FileNotFoundError:
            continue
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            msg = f"{path} is damaged: {_why(error)}"
            raise ValueError(msg) from error
    return _sorted(found, since, until, agent)


# --- files ---


def _path(folder: Path, day: date) -> Path:
    return folder / f"{day:%Y-%m}.json"


def _months(since: date, until: date) -> Iterator[date]:
    """Yield the first days of all months from one day to another, oldest first."""
    day = since.replace(day=1)
    while day <= until:
        yield day
        day = (day + timedelta(days=31)).replace(day=1)


def _since(until: date, days: int) -> date:
    return until - timedelta(days=days - 1)


def _sorted(rows: _Rows, since: date, until: date, agent: str) -> tuple[UsageRow, ...]:
    return tuple(
        UsageRow(day=day, agent=who, model=model, tally=tally)
        for day in sorted(rows)
        if since <= day <= until
        for (who, model), tally in sorted(rows[day].items())
        if agent in {"", who}
    )


def _added(rows: _Rows, more: _Rows) -> _Rows:
    added = {day: dict(tallies) for day, tallies in rows.items()}
    for day, tallies in more.items():
        here = added.setdefault(day, {})
        for place, tally in tallies.items():
            here[place] = here.get(place, Tally()) + tally
    return added


def _encoded(rows: _Rows) -> bytes:
    days: dict[str, dict[str, dict[str, Tally]]] = {}
    for day in sorted(rows):
        for (agent, model), tally in sorted(rows[day].items()):  # orjson writes a Tally by itself
            days.setdefault(day.isoformat(), {}).setdefault(agent, {})[model] = tally
    return orjson.dumps({"version": VERSION, "days": days}, option=orjson.OPT_INDENT_2) + b"\n"


def _decoded(data: bytes) -> _Rows:
    held: Any = orjson.loads(data)
    if held["version"] != VERSION:
        msg = f"version {held['version']!r} is unknown to this version of Everturn"
        raise ValueError(msg)
    return {
        date.fromisoformat(day): {
            (agent, model): _tally(values)
            for agent, models in agents.items()
            for model, values in models.items()
        }
        for day, agents in held["days"].items()
    }


def _tally(values: Mapping[str, object]) -> Tally:
    counts: dict[str, int] = {}
    for name in (f.name for f in fields(Tally)):
        count = values[name]
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            msg = f"{name} {count!r} is not a count"
            raise ValueError(msg)
        counts[name] = count
    return Tally(**counts)


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _read_only(path: Path) -> _Rows:
    """Return what a file holds, for a report; nothing where it cannot be read."""
    try:
        return _decoded(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        logger.warning(
            "usage of a month cannot be read", extra={"path": str(path), "reason": _why(error)}
        )
        return {}


def _read_or_quarantine(path: Path) -> _Rows | None:
    """Return what a file holds; None where it can neither be read nor put aside."""
    try:
        return _decoded(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        aside = quarantine(path)
        logger.warning(
            "usage of this month cannot be read, and is counted afresh",
            extra={"path": str(aside), "reason": _why(error)},
        )
        return {} if aside != path else None
