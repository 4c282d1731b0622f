"""What models were used for, kept by month: `usage/2026-11.json`.

A call is counted at once and on disk a few seconds later, so that no turn waits for it. A process
that is killed loses what the last seconds counted; nothing else reads it than reports and the daily
limits. Several processes may count in one store: each adds what is new, and knows of the others'
some seconds later. A write that fails is logged and tried again; damaged data are quarantined.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from datetime import date, timedelta
from typing import Final, TypeAlias

import anyio
from msgspec import Struct, field

from everturn_actors.codec import Count
from everturn_actors.documents import Document, Form, form_of, written_behind
from everturn_actors.errors import JournalError
from everturn_actors.model import Usage
from everturn_actors.ports import Clock, KeyedStore
from everturn_actors.supervisor import Supervisor

logger = logging.getLogger(__name__)

SAVE_EVERY_S = 5.0  # at most so much is lost in a crash
SAVE_TIMEOUT_S = 10.0  # for one save; a store that takes longer hangs
CLOSE_TIMEOUT_S = 2.0  # for the last save
_LOST: Final = "usage of this month is damaged, and is counted afresh"


class Tally(Struct, frozen=True, kw_only=True):
    """Calls that were answered, and what they used."""

    calls: Count = 0
    input_tokens: Count = 0
    output_tokens: Count = 0
    cached_tokens: Count = 0
    "Of the input tokens."
    cache_written_tokens: Count = 0
    "Of the input tokens."
    cost_nanodollars: Count = 0
    "Of those calls whose cost is known."
    unpriced_calls: Count = 0
    "Calls whose cost is not known; they are not in `cost_nanodollars`."
    saved_nanodollars: int = 0
    """What caches saved: so much more the same tokens would have cost without any.

    Below 0 where more was paid for writing to them than reading saved.
    """

    @staticmethod
    def of(usage: Usage, *, priced: bool, saved_nanodollars: int = 0) -> Tally:
        """Return the tally of one call."""
        return Tally(
            calls=1,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
            cache_written_tokens=usage.cache_written_tokens,
            cost_nanodollars=usage.cost_nanodollars,
            unpriced_calls=0 if priced else 1,
            saved_nanodollars=saved_nanodollars,
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
            saved_nanodollars=self.saved_nanodollars + other.saved_nanodollars,
        )


class UsageRow(Struct, frozen=True, kw_only=True):
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


class _Month(Struct, kw_only=True):
    """One month, and what is known beyond what is kept of it."""

    document: Document[_Rows]
    rows: _Rows = field(default_factory=dict[date, _Day])
    "What is kept, as far as it was read, and what is new."
    new: _Rows = field(default_factory=dict[date, _Day])
    "What was counted here and is not kept yet. Others may add theirs meanwhile."
    is_read: bool = False
    "Whether `rows` holds what is kept."
    is_failing: bool = False
    "Whether the last write failed: it was told of."


class UsageLedger:
    """Counts usage. Made by `open_ledger`; for the event loop alone."""

    def __init__(self, store: KeyedStore, folder: str, clock: Clock) -> None:
        """Know of nothing yet; `folder` is that of its keys."""
        self._store, self._folder, self._clock = store, folder, clock
        self._months: dict[date, _Month] = {}
        "By their first day."
        self._flushing = anyio.Lock()

    def add(
        self,
        agent: str,
        model: str,
        usage: Usage,
        *,
        priced: bool,
        saved_nanodollars: int = 0,
    ) -> None:
        """Count one call that was answered.

        Args:
            agent: Whose it was.
            model: The model that answered, as `provider/name`.
            usage: What it used.
            priced: Whether `usage` tells what it cost.
            saved_nanodollars: What caches saved of that.
        """
        day = self._today()
        month = self._month(day)
        tally = Tally.of(usage, priced=priced, saved_nanodollars=saved_nanodollars)
        place = (agent, model)
        for rows in (month.rows.setdefault(day, {}), month.new.setdefault(day, {})):
            rows[place] = rows.get(place, Tally()) + tally

    def today(self, agent: str) -> Tally:
        """Return what an agent has used since midnight, UTC."""
        return self.today_of(lambda who: who == agent)

    def today_of(self, is_wanted: Callable[[str], bool]) -> Tally:
        """Return what those have used together since midnight, UTC, whose names are wanted."""
        day = self._today()
        rows = self._month(day).rows.get(day, {})
        return total(tally for (who, _), tally in rows.items() if is_wanted(who))

    def first_day(self, days: int) -> date:
        """Return the first of the last `days` days, today included."""
        return _since(self._today(), days)

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
                held = await self._held(first)
                month = self._months.get(first)  # it may have been read meanwhile
                if month is None or not month.is_read:
                    found = _added(found, held)
            if month is not None:
                found = _added(found, month.rows)
        return _sorted(found, since, until, agent)

    async def load(self) -> None:
        """Read what was used this month before."""
        await self._read(self._month(self._today()))

    async def run(self) -> None:
        """Save what is new every few seconds, until cancelled."""
        while True:
            await self._clock.sleep(SAVE_EVERY_S)
            await self.flush()

    async def flush(self) -> None:
        """Add what is new to what is kept, and take over what others counted in this month.

        What fails may succeed the next time.
        """
        today = self._months.get(self._today().replace(day=1))
        async with self._flushing:
            for month in tuple(self._months.values()):
                if month.new:
                    await self._save(month)
                elif month is today:
                    await self._read(month)

    async def _save(self, month: _Month) -> None:
        new, month.new = month.new, {}
        try:
            # A write that was called off may be done all the same, and would count twice.
            with anyio.fail_after(SAVE_TIMEOUT_S, shield=True):
                if not month.is_read:  # what is damaged is put aside
                    await month.document.load(_LOST)
                kept = await month.document.change(lambda held: _added(held, new))
        except (JournalError, TimeoutError) as error:
            month.new = _added(new, month.new)
            if not month.is_failing:
                fields = {"place": month.document.place, "error": str(error)}
                logger.warning("what is new is not saved; it is tried again", extra=fields)
            month.is_failing = True
        else:
            month.rows, month.is_read = _added(kept, month.new), True
            month.is_failing = False

    async def _read(self, month: _Month) -> bool:
        """Add what is kept to what was counted since; return whether it could be read."""
        try:
            held = await month.document.load(_LOST)
        except JournalError as error:
            logger.warning(
                "usage of this month cannot be read, nor written before",
                extra={"place": month.document.place, "reason": str(error)},
            )
            return False
        month.rows, month.is_read = _added(held, month.new), True
        return True

    async def _held(self, first: date) -> _Rows:
        """Return what is kept of a month, for a report; nothing where it cannot be read."""
        document = _document(self._store, self._folder, first)
        try:
            return await document.read()
        except JournalError as error:
            logger.warning(
                "usage of a month cannot be read",
                extra={"place": document.place, "reason": str(error)},
            )
            return {}

    def _today(self) -> date:
        return self._clock.now().date()

    def _month(self, day: date) -> _Month:
        first = day.replace(day=1)
        found = self._months.get(first)
        if found is None:
            document = _document(self._store, self._folder, first)
            found = self._months[first] = _Month(document=document)
        return found


@asynccontextmanager
async def open_ledger(
    store: KeyedStore,
    folder: str,
    clock: Clock,
    *,
    supervisor: Supervisor | None = None,
    name: str = "usage",
) -> AsyncGenerator[UsageLedger]:
    """Open a ledger; at the end what is new is saved.

    Args:
        store: Where it is kept.
        folder: Of its keys, with a `/` at the end.
        clock: Says which day it is, and when to save.
        supervisor: Runs the task that saves; by default one of its own.
        name: Of that task.
    """
    ledger = UsageLedger(store, folder, clock)
    await ledger.load()
    runs = supervisor or Supervisor(clock)
    async with written_behind(ledger, runs, name, close_s=CLOSE_TIMEOUT_S):
        yield ledger


async def read_usage(
    store: KeyedStore, folder: str, *, until: date, days: int, agent: str = ""
) -> tuple[UsageRow, ...]:
    """Return what is kept of the `days` days up to `until`, oldest first.

    Needs no gateway; what a running one has just counted is there a few seconds later.

    Raises:
        JournalError: It cannot be read, or is damaged.
    """
    since = _since(until, days)
    found: _Rows = {}
    for first in _months(since, until):
        found |= await _document(store, folder, first).read()  # each holds the days of its month
    return _sorted(found, since, until, agent)


# --- what is kept ---


def _document(store: KeyedStore, folder: str, day: date) -> Document[_Rows]:
    return Document(store, f"{folder}{day:%Y-%m}.json", _FORM)


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
    days: _Days = {}
    for day in sorted(rows):
        for (agent, model), tally in sorted(rows[day].items()):
            days.setdefault(day, {}).setdefault(agent, {})[model] = tally
    return _DAYS.encode(days)


def _decoded(data: bytes) -> _Rows:
    return {
        day: {
            (agent, model): tally
            for agent, models in agents.items()
            for model, tally in models.items()
        }
        for day, agents in _DAYS.decode(data).items()
    }


_Days: TypeAlias = dict[date, dict[str, dict[str, Tally]]]  # by day, agent and model
_DAYS: Final = form_of("days", _Days, _Days())
_FORM: Final = Form[_Rows](encode=_encoded, decode=_decoded, empty={})
