"""Where the browsers of a gateway are opened from; nothing of them is loaded before one is used."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from everturn_actors.ports import Clock

if TYPE_CHECKING:
    from everturn_gateway.tools.browser.browsers import Browsers
    from everturn_gateway.tools.web.reaching import Resolve


class BrowserPlace:
    """Holds the browsers of a gateway, once there are some; made by `open_browser_place`."""

    def __init__(
        self, environ: Mapping[str, str], clock: Clock, tasks: TaskGroup, find: Resolve | None
    ) -> None:
        self._environ, self._clock, self._tasks, self._find = environ, clock, tasks, find
        self._browsers: Browsers | None = None
        self._lock = anyio.Lock()

    async def browsers(self) -> Browsers:
        """Return them; the first time, what they need is loaded."""
        async with self._lock:
            if self._browsers is not None:
                return self._browsers
            name = "everturn_gateway.tools.browser.browsers"
            module = await anyio.to_thread.run_sync(import_module, name)
            made: Browsers = module.Browsers(self._environ, self._clock, self._tasks, self._find)
            self._browsers = made
            return made

    async def stop(self) -> None:
        """Close all of them."""
        if self._browsers is not None:
            await self._browsers.stop()


@asynccontextmanager
async def open_browser_place(
    environ: Mapping[str, str], clock: Clock, *, find: Resolve | None = None
) -> AsyncGenerator[BrowserPlace]:
    """Open the place of all browsers; at the end none runs.

    Names are looked up by `find`, by default as the system does it.
    """
    async with anyio.create_task_group() as tasks:
        place = BrowserPlace(environ, clock, tasks, find)
        try:
            yield place
        finally:
            with anyio.CancelScope(shield=True):
                await place.stop()
            tasks.cancel_scope.cancel()
