"""The tasks that run beside the command loop of one actor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup

from everturn_actors.errors import ActorFailedError, ActorStoppedError, CoreError
from everturn_actors.faults import first_cause, is_cancelled
from everturn_actors.protocol.mailbox import Mailbox


class Background:
    """Starts them, and wakes the command loop whenever one ends: it may be time to rest."""

    def __init__(self, tasks: TaskGroup, mailbox: Mailbox) -> None:
        """Begin without any.

        Args:
            tasks: Where they run; one that fails ends all of them, and the actor.
            mailbox: The actor's.
        """
        self._tasks, self._mailbox = tasks, mailbox
        self.fault: BaseException | None = None
        "Why the first of them failed; the command loop is only told that it is called off."

    def start_soon(self, work: Callable[..., Awaitable[None]], *args: Any) -> None:  # noqa: ANN401
        """Start one."""
        self._tasks.start_soon(self._run, work, *args)

    def cancel(self) -> None:
        """Call all of them off."""
        self._tasks.cancel_scope.cancel()

    def reason(self, session_id: str, error: BaseException) -> CoreError:
        """Return what to tell callers whose commands a failure of the command loop took down."""
        if self.fault is not None:  # it called the command loop off, which failed of nothing
            error = self.fault
        elif not isinstance(error, Exception) and is_cancelled():
            return ActorStoppedError()
        cause = first_cause(error)
        return cause if isinstance(cause, CoreError) else ActorFailedError(session_id, cause)

    async def _run(self, work: Callable[..., Awaitable[None]], *args: object) -> None:
        try:
            await work(*args)
        except ActorStoppedError:
            pass  # the actor goes, and whoever waits for it is told why there
        except anyio.get_cancelled_exc_class() as cancelled:
            if is_cancelled():
                raise
            msg = "a task of the session was cancelled from inside"
            self.fault = self.fault or RuntimeError(msg)
            raise self.fault from cancelled
        except Exception as error:
            self.fault = self.fault or error
            raise
        finally:
            self._mailbox.nudge()
