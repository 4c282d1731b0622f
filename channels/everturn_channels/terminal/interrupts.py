"""Signals of a terminal: Ctrl-C while no prompt reads the keys, and the end of the terminal."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskStatus

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Counts the Ctrl-C that came, for whoever waits for one."""

    def __init__(self) -> None:
        self._came = anyio.Event()
        self.at_prompt: Callable[[], None] = lambda: None
        "Called for each as well; the prompt sets it."
        self.ended = False
        "Whether the process was asked to end."

    def came(self) -> None:
        """Wake whoever waits."""
        self._came.set()
        self._came = anyio.Event()
        self.at_prompt()

    async def wait(self) -> None:
        """Wait for the next one."""
        await self._came.wait()


@asynccontextmanager
async def open_interrupts() -> AsyncGenerator[Interrupts]:
    """Take the signals over as long as the block runs.

    SIGTERM and SIGHUP cancel the block and set `Interrupts.ended`, so that the terminal is left
    in order.
    """
    interrupts = Interrupts()
    async with anyio.create_task_group() as tg:

        async def watch(*, task_status: TaskStatus[None]) -> None:
            with anyio.open_signal_receiver(*_SIGNALS) as signals:
                task_status.started()
                async for number in signals:
                    if number == signal.SIGINT:
                        interrupts.came()
                    else:
                        interrupts.ended = True
                        tg.cancel_scope.cancel()

        await tg.start(watch)
        yield interrupts
        tg.cancel_scope.cancel()
