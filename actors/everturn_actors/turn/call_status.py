"""What a running model call waits for, told by whoever holds it up to whoever shows the reply.

Between the two stand wrappers (fallbacks, meters) that have nothing to do with it, so it goes past
them in a context variable. Never journalled: it is true for a moment, and nothing depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Callable[[str], None]) -> Generator[None]:
    """Have `listener` told what the model call in this block waits for; empty = for nothing."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def waiting(reason: str) -> Generator[None]:
    """Say that the present model call waits for `reason` while the block runs.

    Where the wait is cut off, that stays the last word: it is why the call came to nothing.
    """
    listener = _listener.get()
    if listener is None:
        yield
        return
    listener(reason)
    yield
    listener("")
