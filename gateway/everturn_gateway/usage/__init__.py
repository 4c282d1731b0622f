"""What models are used for, by agent and day: counted, priced, limited, and kept.

- `ledger`: what models were used for, kept by month: `usage/2026-11.json`
- `metering`: counts what an agent's model calls use, and refuses more than its owner wants for a
  day
- `price_table`: prices of well-known models, in US dollars for a million tokens: what the vendors
  publish
- `prices`: what a model call costs
- `spending`: what principals spend on models from day to day, and whether it is more than they may
"""

from __future__ import annotations

from everturn_gateway.usage.ledger import (
    Tally,
    UsageLedger,
    UsageRow,
    open_ledger,
    read_usage,
    total,
)
from everturn_gateway.usage.metering import DailyLimit, Meter, UsageLimitError
from everturn_gateway.usage.prices import NANODOLLARS, Price, PriceList, Rates, model_label
from everturn_gateway.usage.spending import Spending, Spent, next_midnight, spent_by

__all__ = [
    "NANODOLLARS",
    "DailyLimit",
    "Meter",
    "Price",
    "PriceList",
    "Rates",
    "Spending",
    "Spent",
    "Tally",
    "UsageLedger",
    "UsageLimitError",
    "UsageRow",
    "model_label",
    "next_midnight",
    "open_ledger",
    "read_usage",
    "spent_by",
    "total",
]
