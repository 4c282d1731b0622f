"""Job definitions that change while the gateway runs: taken over, or read again later."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from everturn_actors.ports import Clock
from everturn_gateway.scheduler.job_registry import AgentShelf, JobRegistry

logger = logging.getLogger(__name__)

AGAIN_S: Final = 30.0  # before definitions are read again that could not all be taken over


class DefinitionReload:
    """Reads the definitions again when they change."""

    def __init__(
        self,
        *,
        registry: JobRegistry,
        agents: AgentShelf,
        clock: Clock,
        beside: Callable[[str, Callable[[], Awaitable[None]]], None],
    ) -> None:
        """Read into `registry`; `beside` starts something under a name."""
        self._registry, self._agents, self._clock = registry, agents, clock
        self._beside = beside
        self._is_waiting = False
        self._unread = ""
        "Why definitions could not be read the last time."

    async def watch_agents(self) -> NoReturn:
        """Read again whenever the agents change; until cancelled."""
        version = self._agents.version
        while True:
            await self._agents.wait_beyond(version)
            version = self._agents.version
            await self.reload()

    async def reload(self) -> None:
        """Take over what changed; what cannot be read is logged, and read again later."""
        why = ""
        try:
            await self._registry.read()
        except OSError as error:
            why = str(error)
            if why != self._unread:  # a folder that is missing is looked for again and again
                logger.warning("scheduled jobs cannot be read", extra={"error": why})
        self._unread = why
        if not self._registry.is_current and not self._is_waiting:
            self._is_waiting = True
            self._beside("schedules", self._read_again)

    async def _read_again(self) -> None:
        await self._clock.sleep(AGAIN_S)
        self._is_waiting = False
        await self.reload()
