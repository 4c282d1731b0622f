"""What the cyclic garbage collector of a long-running process does not look at."""

from __future__ import annotations

import gc


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


def spare_the_collector() -> None:
    """Keep what is held for good out of the collector's rounds; blocks for a moment at most.

    Modules and agents never become garbage, but a full round walks all of them, and stops every
    conversation for it: `benchmarks/loop.py` shows it. Called again when a platform's library was
    loaded, which is more than all the rest. The little that is garbage by then is kept too: to find
    it would take a tenth of a second of the start.

    Source: https://docs.python.org/3/library/gc.html#gc.freeze (read 2026-11-22).
    """
    gc.freeze()
