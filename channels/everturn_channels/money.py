"""What something cost, as people read it. Pure."""

from __future__ import annotations

from typing import Final

_NANODOLLARS: Final = 1_000_000_000  # in a dollar
_SMALLEST_USD: Final = 0.0001  # of what is shown


def dollars(nanodollars: int) -> str:
    """Return a cost as people read it: `$12.34`, and of small ones more places, `$0.0012`."""
    usd = nanodollars / _NANODOLLARS
    if 0 < usd < _SMALLEST_USD:
        return f"under ${_SMALLEST_USD}"
    return f"${usd:,.2f}" if usd >= 1 or not usd else f"${usd:.4f}"
