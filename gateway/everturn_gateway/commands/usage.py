"""`everturn usage`: what agents used of models. Reads what is kept; needs no gateway."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from msgspec import structs

from everturn_actors.errors import JournalError
from everturn_channels.money import dollars
from everturn_gateway.app import SPENDING_FOLDER, USAGE_FOLDER, open_keyed
from everturn_gateway.clock import SystemClock
from everturn_gateway.commands.shared.errors import EXIT_OK
from everturn_gateway.commands.shared.options import Options
from everturn_gateway.commands.shared.printing import print_json
from everturn_gateway.commands.shared.settings import load, run_async
from everturn_gateway.commands.shared.tables import print_table
from everturn_gateway.errors import GatewayError
from everturn_gateway.usage import NANODOLLARS, Tally, UsageRow, read_usage, spent_by, total

_NUMBERS = ("calls", "tokens in", "cached", "tokens out", "cost")
_UNKNOWN = "?"


def show_usage(
    options: Options, *, days: int, agent: str, as_json: bool, principal: str = ""
) -> int:
    """Print what was used in the last `days` days, by UTC; return the exit code.

    With `principal`, what the sessions used that it began. What a running gateway has just counted
    is in the files a few seconds later.

    Raises:
        GatewayError: A file cannot be read.
    """
    config = load(options)
    today = SystemClock().now().date()

    async def read() -> Sequence[UsageRow]:
        async with open_keyed(config, is_change=False) as keyed:
            if not principal:
                return await read_usage(keyed, USAGE_FOLDER, until=today, days=days, agent=agent)
            found = await read_usage(keyed, SPENDING_FOLDER, until=today, days=days)
            return spent_by(principal, found, agent=agent)

    try:
        rows = run_async(read)
    except JournalError as error:
        msg = f"usage cannot be read: {error}"
        raise GatewayError(msg) from error
    if as_json:
        print_json(_document(rows))
    elif rows:
        _print(rows)
    else:
        whose = "".join(f" {how} {who}" for how, who in (("by", agent), ("for", principal)) if who)
        sys.stdout.write(f"no model was called{whose} in the last {days} days\n")
    return EXIT_OK


def _document(rows: Sequence[UsageRow]) -> dict[str, object]:
    return {
        "rows": [
            {"day": row.day.isoformat(), "agent": row.agent, "model": row.model}
            | _values(row.tally)
            for row in rows
        ],
        "total": _values(total(row.tally for row in rows)),
    }


def _values(tally: Tally) -> dict[str, object]:
    values = structs.asdict(tally)
    cost, saved = values.pop("cost_nanodollars"), values.pop("saved_nanodollars")
    return {**values, "cost_usd": cost / NANODOLLARS, "saved_usd": saved / NANODOLLARS}


def _print(rows: Sequence[UsageRow]) -> None:
    everything = total(row.tally for row in rows)
    print_table(
        ("day", "agent", "model", *_NUMBERS),
        [
            *((row.day.isoformat(), row.agent, row.model, *_cells(row.tally)) for row in rows),
            ("total", "", "", *_cells(everything)),
        ],
        right=_NUMBERS,
    )
    if (saved := everything.saved_nanodollars) > 0:
        sys.stdout.write(f"\ncaches saved {dollars(saved)}\n")
    if count := everything.unpriced_calls:
        calls = f"{count:,} call{'s' if count > 1 else ''}"
        sys.stdout.write(
            f"\n{_UNKNOWN}  the cost of {calls} is not known; everturn.yaml can say the price\n"
        )


def _cells(tally: Tally) -> tuple[str, ...]:
    known = dollars(tally.cost_nanodollars)
    if tally.unpriced_calls:
        known = f"{known} + {_UNKNOWN}" if tally.cost_nanodollars else _UNKNOWN
    counts = (tally.calls, tally.input_tokens, tally.cached_tokens, tally.output_tokens)
    return (*(f"{count:,}" for count in counts), known)
