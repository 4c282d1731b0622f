"""How late the event loop is: what keeps it from its next task keeps every conversation waiting."""

from __future__ import annotations

import time
from typing import Final, NoReturn

import anyio

from everturn_gateway.telemetry.instruments import Instruments

INTERVAL_S: Final = 0.25


async def watch_lag(instruments: Instruments) -> NoReturn:
    """Measure until cancelled."""
    while True:
        began_s = time.perf_counter()  # the loop's own clock counts whole milliseconds
        await anyio.sleep(INTERVAL_S)
        late_s = time.perf_counter() - began_s - INTERVAL_S
        instruments.loop_lag_seconds.add(max(late_s, 0.0))
