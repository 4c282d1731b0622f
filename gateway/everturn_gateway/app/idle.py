"""What a gateway does when nothing is at work: memory goes back, and garbage is looked for."""

from __future__ import annotations

from everturn_actors.ports import Clock
from everturn_actors.service import TurnService
from everturn_gateway.gc_tuning import look_through_when_idle
from everturn_gateway.heap import trim_heap_after_work


async def trim_heap(service: TurnService, clock: Clock) -> None:
    """Give memory back to the system after work, until cancelled."""

    async def count_active() -> int:
        return (await service.activity.load()).active

    await trim_heap_after_work(count_active, clock.sleep)


async def collect(service: TurnService, clock: Clock) -> None:
    """Look through all of memory for garbage where nobody waits for it, until cancelled."""

    async def is_idle() -> bool:
        now = await service.activity.load()
        return not now.running and not now.commands

    await look_through_when_idle(is_idle, clock.sleep)
