"""A line between two programs that a test cuts, silences, or lets carry one way alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal, TypeAlias

import anyio
from anyio.abc import ByteStream, SocketAttribute
from support.patience import WAIT_S

State: TypeAlias = Literal["open", "cut", "silent", "deaf"]
"""What passes.

cut: what is connected breaks, and nobody new gets in. silent: nothing, and nobody is told.
deaf: what is asked arrives, and what is answered does not.
"""
_ENDED = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


class Line:
    """A TCP proxy on loopback; made by `open_line`."""

    def __init__(self, target: int) -> None:
        """Lead to a port of this machine."""
        self.target = target
        "Where new connections lead."
        self.port = 0
        "Where it is entered."
        self._dropped = anyio.Event()
        "Set when an answer did not arrive."
        self._state: State = "open"
        self._losses = 0
        self._scopes = set[anyio.CancelScope]()

    def set(self, state: State) -> None:
        """Change what passes, from now on."""
        self._state = state
        if state == "cut":
            for scope in self._scopes:
                scope.cancel()

    def lose(self) -> None:
        """Let nothing pass of what is connected now, its end neither; who comes anew gets in."""
        self._losses += 1

    async def until_dropped(self) -> None:
        """Wait until an answer did not arrive."""
        with anyio.fail_after(WAIT_S):
            await self._dropped.wait()

    async def carry(self, here: ByteStream) -> None:
        """Carry one connection."""
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                async with here:
                    if self._state != "cut":
                        await self._between(here)
            except* OSError:  # nobody listens there, or it broke
                pass
            finally:
                self._scopes.discard(scope)

    async def _between(self, here: ByteStream) -> None:
        async with (
            await anyio.connect_tcp("127.0.0.1", self.target) as there,
            anyio.create_task_group() as ways,
        ):
            losses = self._losses

            async def way(source: ByteStream, goal: ByteStream, *, is_answer: bool) -> None:
                try:
                    while True:
                        data = await source.receive()
                        if self._losses > losses:
                            continue
                        if self._state == "open" or (self._state == "deaf" and not is_answer):
                            await goal.send(data)
                        elif is_answer:
                            self._dropped.set()
                except _ENDED:
                    if self._losses == losses or is_answer:
                        ways.cancel_scope.cancel()

            async def answers() -> None:
                await way(there, here, is_answer=True)

            ways.start_soon(answers)
            await way(here, there, is_answer=False)


@asynccontextmanager
async def open_line(target: int) -> AsyncGenerator[Line]:
    """Open a line to a port of this machine, for a block."""
    line = Line(target)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    line.port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - no SQL
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, line.carry)
        yield line
        tasks.cancel_scope.cancel()
