"""What the cyclic garbage collector of a long-running process does not look at."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NoReturn

YOUNG_ROUNDS: Final = 3  # after so many rounds over the young objects comes one over the old
LOOK_EVERY_S: Final = 600.0
MANY_OBJECTS: Final = 100_000  # set aside since the last look: what is worth a look through all


def begin_loading() -> None:
    """Look for no garbage while modules are loaded: it takes a tenth of a start, and finds none.

    Until `end_loading`. A command that never calls that is over soon.
    """
    gc.disable()


def end_loading() -> None:
    """Look for garbage from now on, among what is made from now on."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


@contextmanager
def loading() -> Generator[None]:
    """Look for no garbage for a block that loads modules, and keep those out of later rounds."""
    was_enabled = gc.isenabled()
    begin_loading()
    try:
        yield
    finally:
        if was_enabled:
            end_loading()


def tune_collector() -> None:
    """Keep what is held for good out of the collector's rounds; blocks for a moment at most.

    Modules and agents never become garbage, but a full round walks all of them, and stops every
    conversation for it: `benchmarks/loop.py` shows it. The little that is garbage by then is kept
    too: to find it would take a tenth of a second of the start.

    Source: https://docs.python.org/3/library/gc.html#gc.freeze (read 2026-11-22).
    """
    gc.freeze()


@contextmanager
def short_rounds() -> Generator[None]:
    """For a block, let no round of the collector look at what an earlier one found to be in use.

    A full round walks all that active conversations hold, and stops all of them for it: 140 ms
    with 200 long ones. What survives one is therefore set aside, as `tune_collector` does, and
    the next comes sooner, over what is new since. Nothing is kept by that: what nobody refers to
    any more leaves at once, as always; only a circle that forms among old objects waits for
    `look_through_when_idle`. For a process that serves, not for one that embeds a gateway.
    """
    first, second, third = gc.get_threshold()
    gc.callbacks.append(_set_aside)
    gc.set_threshold(first, second, YOUNG_ROUNDS)
    try:
        yield
    finally:
        gc.set_threshold(first, second, third)
        gc.callbacks.remove(_set_aside)


def _set_aside(phase: str, info: Mapping[str, Any]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()


@contextmanager
def no_rounds() -> Generator[None]:
    """For a block that loads modules, look for no garbage: most of it stays for good.

    In a process that serves, what was loaded is set aside, too: else the next round walks it.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if _set_aside in gc.callbacks:
            gc.freeze()
        gc.enable()


async def look_through_when_idle(
    is_idle: Callable[[], Awaitable[bool]],
    sleep: Callable[[float], Awaitable[None]],
    *,
    many_objects: int = MANY_OBJECTS,
) -> NoReturn:
    """Look for garbage among all that was set aside, while no turn runs.

    Does nothing outside of `short_rounds`. The first look finds what was garbage at the start, too.

    Args:
        is_idle: Returns whether nobody waits for anything.
        sleep: Waits so many seconds.
        many_objects: How many more than after the last look are worth another.
    """
    known = 0
    while True:
        await sleep(LOOK_EVERY_S)
        if _set_aside not in gc.callbacks:
            continue  # to count walks all that was set aside, which others than a server hold, too
        if gc.get_freeze_count() - known >= many_objects and await is_idle():
            gc.unfreeze()
            gc.collect()
            known = gc.get_freeze_count()
