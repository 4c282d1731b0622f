"""Runs a coroutine of a suite in a loop of its own, whichever plug-ins of pytest are there."""

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
