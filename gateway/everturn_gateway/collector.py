"""What the cyclic garbage collector of a long-running process does not look at."""

from __future__ import annotations

import gc


def spare_the_collector() -> None:
    """Keep what is held for good out of the collector's rounds; blocks for a moment at most.

    Modules and agents never become garbage, but a full round walks all of them, and stops every
    conversation for it: `benchmarks/loop.py` shows it. Called again when a platform's library was
    loaded, which is more than all the rest.

    Source: https://docs.python.org/3/library/gc.html#gc.freeze (read 2026-11-22).
    """
    gc.freeze()
