"""Lets what is being sent arrive before the connection that it takes is closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from everturn_actors.supervisor import attempt
from everturn_channels.errors import NotSentError

DRAIN_S: Final = 5.0  # a message takes a second; a platform that hangs is not waited for


class ConnectionDrain:
    """Counts the calls of a platform that are under way, and keeps their connection for them.

    A call that is cut off may have been done: whoever made it has to make it again, and to say that
    it may be a repeat. So a connection that is called off in order - the channel moves to another
    gateway, or logs in anew - stays until its calls have come back.

    Args:
        drain_s: How long it stays at the most.

    Example:
        with drain: await adapter.send(message)
        await drain.serve(lambda: adapter.serve(handler))
    """

    def __init__(self, drain_s: float = DRAIN_S) -> None:
        """Begin without a call."""
        self._drain_s = drain_s
        self._closes = False
        "Whether the connection waits to be closed: no call begins."
        self._calls = 0
        self._idle = anyio.Event()
        "Set when the last call came back, since somebody waits for that."

    def __enter__(self) -> None:
        """Begin a call.

        Raises:
            NotSentError: The connection is about to be closed; the call is made by the next one.
        """
        if self._closes:
            msg = "the connection is being closed"
            raise NotSentError(msg)
        self._calls += 1

    def __exit__(self, *_: object) -> None:
        """End a call."""
        self._calls -= 1
        if not self._calls:
            self._idle.set()

    async def serve(self, connection: Callable[[], Awaitable[None]]) -> None:
        """Run what holds a connection; called off, it goes on until no call is under way.

        What it raises passes.
        """
        scope, ended = anyio.CancelScope(shield=True), anyio.Event()
        failure: Exception | None = None

        async def run() -> None:
            nonlocal failure
            with scope:
                failure = await attempt(connection)
            ended.set()

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                try:
                    await ended.wait()
                finally:
                    self._closes = True
                    if self._calls and not ended.is_set():
                        self._idle = anyio.Event()
                        with anyio.move_on_after(self._drain_s, shield=True):
                            await self._idle.wait()
                    scope.cancel()
        finally:
            self._closes = False
        if failure is not None:
            raise failure  # and not in a group
