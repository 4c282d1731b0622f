"""Runs a coroutine of a suite in a loop of its own, whatever plug-ins pytest has; names rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Final, ParamSpec

import anyio

P = ParamSpec("P")

DEADLINE_S: Final = 60.0
"How long one test of a suite may take."


def in_loop(test: Callable[P, Coroutine[object, object, None]]) -> Callable[P, None]:
    """Return a test that runs `test` to its end, within `DEADLINE_S`."""

    async def within_deadline(*args: P.args, **kwargs: P.kwargs) -> None:
        with anyio.fail_after(DEADLINE_S):
            await test(*args, **kwargs)

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        anyio.run(functools.partial(within_deadline, *args, **kwargs))

    return run


class Row:
    """What a row of a table is tried in: an error in it says which row it was."""

    def __init__(self, *values: object) -> None:
        """Begin to try the row.

        Args:
            values: What the row holds.
        """
        self._values = values

    def __enter__(self) -> None:
        """Have the row tried."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        """Name the row where it was wrong."""
        if error is not None:
            error.add_note(f"in the row {self._values!r:.200}")
