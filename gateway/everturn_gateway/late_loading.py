"""Loads large libraries while the gateway works."""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from everturn_gateway.gc_tuning import no_rounds

_SWITCH_S: Final = 0.0005

_ONE_AT_A_TIME: Final = threading.RLock()


@contextmanager
def loading_late() -> Generator[None]:
    """Load modules for a block, in a thread, without keeping the event loop from its work.

    Python lets a thread run for 5 ms before another one gets its turn, and the event loop waits for
    that at each of its callbacks: a turn took ten times as long while FastAPI was loaded. For this
    block it is half a millisecond. The collector does not look through half-made modules either.

    Source: https://docs.python.org/3/library/sys.html#sys.setswitchinterval (read 2026-11-24).
    """
    # One at a time: modules that import each other are half made while that goes on.
    with _ONE_AT_A_TIME, no_rounds():
        usual_s = sys.getswitchinterval()
        sys.setswitchinterval(min(usual_s, _SWITCH_S))
        try:
            yield
        finally:
            sys.setswitchinterval(usual_s)
