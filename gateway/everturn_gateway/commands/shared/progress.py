"""Shows a person how far something is that takes a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

SHOWN_AFTER_S: Final = 2.0  # a person has not begun to wonder before


class SlowProgress:
    """A bar on stderr, where that is a terminal, from two seconds on until the block ends."""

    def __init__(
        self,
        what: str,
        *,
        console: Console | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin to count the time.

        Args:
            what: What is done, as the bar says it.
            console: Where it is shown; by default stderr.
            clock_s: The time.
        """
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        console = console or Console(stderr=True)
        self._bar = Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        )
        self._task = self._bar.add_task(what, total=None)
        self._clock_s, self._began_s = clock_s, clock_s()
        self._is_shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def __call__(self, done: int, total: int | None) -> None:
        """Show that so much is done, of so much; None = nobody knows of how much."""
        self._bar.update(self._task, completed=done, total=total)
        if not self._is_shown and self._clock_s() - self._began_s >= SHOWN_AFTER_S:
            self._is_shown = True
            self._bar.start()
