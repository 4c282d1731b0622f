"""A gateway that is killed in the middle of a task: `python -m support.schedule_victim FOLDER`.

It says on its standard output when the model is asked; no answer ever comes.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from support.ticking import Live, World, at

from everturn_actors.journal.opening import open_file_store
from everturn_actors.testing import ManualClock
from everturn_gateway.channels.running import LaterDeliveryPort

DUE = at("2026-11-23T09:00:00+00:00")


@asynccontextmanager
async def open_gateway(place: Path) -> AsyncGenerator[tuple[World, Live]]:
    """Open a gateway on real files, at the instant at which its jobs are due."""
    async with open_file_store(place) as store:
        world = World(
            folder=place / "schedules",
            clock=ManualClock(DUE),
            store=store,
            delivery_ports={"test": LaterDeliveryPort()},
        )
        world.provider.hold()
        async with world.opened() as live:
            yield world, live


async def main(place: Path) -> None:
    """Begin what is due, and stay."""
    async with open_gateway(place) as (world, live):
        await live.runs("message", 1)
        await world.provider.until_called()
        print("asked", flush=True)  # noqa: T201 - this is how it is told
        await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
