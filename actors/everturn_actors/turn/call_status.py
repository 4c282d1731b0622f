"""What a running model call waits for, told by whoever holds it up to whoever shows the reply.

Between the two stand wrappers (fallbacks, meters) that have nothing to do with it, so it goes past
them in a context variable. Never journalled: it is true for a moment, and nothing depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


class listening:  # noqa: N801 - used as a function: it is on the path of every turn
    """Have `listener` told what the model call in this block waits for; empty = for nothing."""

    __slots__ = ("_listener", "_token")

    def __init__(self, listener: Callable[[str], None]) -> None:
        self._listener = listener

    def __enter__(self) -> None:
        self._token = _listener.set(self._listener)

    def __exit__(self, *_: object) -> None:
        _listener.reset(self._token)


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
