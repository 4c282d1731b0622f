"""The boundary around an observer: what it makes of what it is told never reaches a session."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType

from anyio import get_cancelled_exc_class

from everturn_actors.events import Event
from everturn_actors.ports import Agent, Observer
from everturn_actors.state.session_state import SessionState

logger = logging.getLogger(__name__)

_FAILED = "an observer failed; what it was told of goes on"


class GuardedObserver:
    """An `Observer` whose faults are logged, and end there."""

    def __init__(self, observer: Observer) -> None:
        """Guard an observer."""
        self._observer = observer

    def durable(
        self, before: SessionState | None, after: SessionState, events: Sequence[Event]
    ) -> None:
        """See `Observer.durable`."""
        try:
            self._observer.durable(before, after, events)
        except (Exception, get_cancelled_exc_class()):  # a boundary; nothing here waits
            logger.exception(_FAILED)

    def active(self, session_id: str) -> AbstractContextManager[None]:
        """See `Observer.active`."""
        return _Guarded(lambda: self._observer.active(session_id))

    def answering(
        self, state: SessionState, turn: int, agent: Agent | None
    ) -> AbstractContextManager[None]:
        """See `Observer.answering`."""
        return _Guarded(lambda: self._observer.answering(state, turn, agent))


class _Guarded:
    """A block of an observer, which is entered and left if that can be done."""

    __slots__ = ("_entered", "_make")

    def __init__(self, make: Callable[[], AbstractContextManager[None]]) -> None:
        self._make = make
        self._entered: AbstractContextManager[None] | None = None

    def __enter__(self) -> None:
        try:
            block = self._make()
            block.__enter__()
            self._entered = block
        except (Exception, get_cancelled_exc_class()):  # a boundary; nothing here waits
            logger.exception(_FAILED)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave it; what the block met goes on, whatever the observer makes of it."""
        if self._entered is None:
            return
        try:
            self._entered.__exit__(kind, error, traceback)
        except (Exception, get_cancelled_exc_class()) as failure:
            if failure is not error:
                logger.exception(_FAILED)
