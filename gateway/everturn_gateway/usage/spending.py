"""What principals spend on models from day to day, and whether it is more than they may.

Who began a session pays for it. The numbers are kept in a ledger of their own, beside the one of
agents, so that a restart gives nobody another day.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, time, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.model import Usage
from everturn_actors.ports import Clock
from everturn_gateway.logs import present_whereabouts
from everturn_gateway.usage.ledger import Tally, UsageLedger, UsageRow
from everturn_gateway.usage.prices import NANODOLLARS

_MARK: Final = "/"  # between a principal and an agent; the names of neither have one


def next_midnight(now: datetime) -> datetime:
    """Return when the next day begins, by UTC."""
    return datetime.combine(now.date() + timedelta(days=1), time(), UTC)


class Spent(Struct, frozen=True, kw_only=True):
    """A principal has spent what it may in a day."""

    principal: str
    limit_usd: float
    spent_usd: float
    again_at: datetime
    "UTC."

    def __str__(self) -> str:
        """Say so in a sentence, without its end."""
        return (
            f"{self.principal} has used up its daily limit of ${self.limit_usd:g}"
            f" (${self.spent_usd:.4f} spent); it goes on at {self.again_at:%Y-%m-%d %H:%M} UTC"
        )


class Spending:
    """Counts what principals spend. For the event loop alone."""

    def __init__(
        self, ledger: UsageLedger, clock: Clock, limit_usd_of: Callable[[str], float | None]
    ) -> None:
        """Begin to count.

        Args:
            ledger: Keeps it; its rows are those of principals and agents together.
            clock: Says which day it is.
            limit_usd_of: What a principal may spend in a day; None = any amount.
        """
        self._ledger, self._clock, self._limit_usd_of = ledger, clock, limit_usd_of
        self.payer_of: Callable[[str], str] = lambda _: ""
        "Who pays for a session that is in memory, by its id; empty = whoever runs the gateway."

    def payer(self) -> str:
        """Return who pays for the work at hand; empty = whoever runs the gateway."""
        here = present_whereabouts()
        return self.payer_of(here.session_id) if here is not None else ""

    def add(self, principal: str, agent: str, model: str, usage: Usage, *, priced: bool) -> None:
        """Count one call that was answered; see `UsageLedger.add`."""
        self._ledger.add(f"{principal}{_MARK}{agent}", model, usage, priced=priced)

    def is_limited(self, principal: str) -> bool:
        """Return whether a principal may spend only so much in a day."""
        return self._limit_usd_of(principal) is not None

    def reached(self, principal: str) -> Spent | None:
        """Return that a principal has spent what it may today; None where it has not."""
        limit_usd = self._limit_usd_of(principal) if principal else None
        if limit_usd is None:
            return None
        begins = f"{principal}{_MARK}"
        used = self._ledger.today_of(lambda name: name.startswith(begins))
        spent_usd = used.cost_nanodollars / NANODOLLARS
        if spent_usd < limit_usd:
            return None
        return Spent(
            principal=principal,
            limit_usd=limit_usd,
            spent_usd=spent_usd,
            again_at=next_midnight(self._clock.now()),
        )

    def until_tomorrow_s(self) -> float:
        """Return how long today lasts, in seconds."""
        now = self._clock.now()
        return (next_midnight(now) - now).total_seconds()

    async def rows(self, principal: str, *, days: int, agent: str = "") -> tuple[UsageRow, ...]:
        """Return what a principal used in the last `days` days; see `UsageLedger.rows`."""
        return spent_by(principal, await self._ledger.rows(days=days), agent=agent)

    async def by_principal(self, *, days: int, agent: str = "") -> dict[str, Tally]:
        """Return what each principal used in the last `days` days, of one agent or (empty) all."""
        found: dict[str, Tally] = {}
        for row in await self._ledger.rows(days=days):
            principal, _, name = row.agent.partition(_MARK)
            if agent in {"", name}:
                found[principal] = found.get(principal, Tally()) + row.tally
        return found


def spent_by(principal: str, rows: Iterable[UsageRow], *, agent: str = "") -> tuple[UsageRow, ...]:
    """Return what a principal used, of the rows of the ledger of all; its rows name agents alone.

    Args:
        principal: Whose.
        rows: As the ledger has them.
        agent: Of one agent; empty = of all.
    """
    begins = f"{principal}{_MARK}"
    found = (
        replace(row, agent=row.agent.removeprefix(begins))
        for row in rows
        if row.agent.startswith(begins)
    )
    return tuple(row for row in found if agent in {"", row.agent})
