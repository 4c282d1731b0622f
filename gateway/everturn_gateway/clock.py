"""The machine's clock; the only place that asks for it."""

from __future__ import annotations

from datetime import UTC, datetime

import anyio


class SystemClock:
    """Tells the real time; see `everturn_actors.ports.Clock`."""

    def now(self) -> datetime:
        """Return the present instant, UTC."""
        return datetime.now(UTC)  # noqa: TID251 - this is the clock

    async def sleep(self, delay_s: float) -> None:
        """Wait."""
        await anyio.sleep(delay_s)
