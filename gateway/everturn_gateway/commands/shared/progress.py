"""Shows a person how far something is that takes a while."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final, NoReturn, TypeAlias

import anyio
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from everturn_gateway.commands.shared.errors import say

SHOWN_AFTER_S: Final = 2.0  # a person has not begun to wonder before
LINE_EVERY_S: Final = 10.0  # where lines are kept: few
_DRAWN_EVERY_S: Final = 0.2

Told: TypeAlias = Callable[[int, int | None], None]
"Is told that so much is done, of so much; None = nobody knows of how much."


@asynccontextmanager
async def slow_progress(
    what: str,
    *,
    console: Console | None = None,
    shown_after_s: float = SHOWN_AFTER_S,
    line: Callable[[str], None] = say,
) -> AsyncGenerator[Told]:
    """Show what is done, how far it is and what is left, on stderr, from two seconds on.

    At a terminal a bar, which goes when the block ends; elsewhere a line now and then. Of a block
    that never says how far it is, how long it takes.

        async with slow_progress("sessions") as told:
            for number, each in enumerate(sessions, 1):
                told(number, len(sessions))

    Args:
        what: What is done, as the bar says it.
        console: Where the bar is shown; by default stderr.
        shown_after_s: Sooner nothing is shown.
        line: Writes a line where there is no terminal.
    """
    shown = _Shown(what, console or Console(stderr=True), line)
    failed: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(shown.run, shown_after_s)
        try:
            yield shown.told
        except Exception as error:  # noqa: BLE001 - raised below: the task group would wrap it
            failed = error
        tasks.cancel_scope.cancel()
    if failed is not None:
        raise failed


class _Shown:
    """What is shown of one progress."""

    def __init__(self, what: str, console: Console, line: Callable[[str], None]) -> None:
        self._what, self._console, self._line = what, console, line
        self._done: tuple[int, int | None] = (0, None)
        self._began_s = anyio.current_time()

    def told(self, done: int, total: int | None) -> None:
        """See `Told`."""
        self._done = (done, total)

    async def run(self, after_s: float) -> None:
        """Show it from then on, until it is cancelled."""
        await anyio.sleep(after_s)
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            await self._draw()
        while True:
            self._line(self._text())
            await anyio.sleep(LINE_EVERY_S)

    async def _draw(self) -> NoReturn:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        counted = any(self._done)
        columns_now = columns if counted else (columns[0], TimeElapsedColumn())
        # Drawn from here: its own thread would be one more to end.
        bar = Progress(*columns_now, console=self._console, transient=True, auto_refresh=False)
        task = bar.add_task(self._what, total=None)
        with bar:
            while True:
                done, total = self._done
                bar.update(task, completed=done, total=total, refresh=True)
                await anyio.sleep(_DRAWN_EVERY_S)

    def _text(self) -> str:
        """Return a line: how far it is, and how long the rest takes at this rate."""
        (done, total), took_s = self._done, anyio.current_time() - self._began_s
        if not done:
            return f"{self._what}: {took_s:.0f} s so far"
        if total is None:
            return f"{self._what}: {done} after {took_s:.0f} s"
        left_s = took_s / done * max(0, total - done)
        return f"{self._what}: {done} of {total}, about {left_s:.0f} s left"
