"""The tasks that run beside the command loop of one actor."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import ParamSpec, TypeAlias

import anyio
from anyio.abc import TaskGroup

from everturn_actors.errors import ActorFailedError, ActorStoppedError, CoreError
from everturn_actors.faults import first_cause, is_cancelled
from everturn_actors.protocol.mailbox import Mailbox

P = ParamSpec("P")

_Work: TypeAlias = Callable[[], Awaitable[None]]


class Background:
    """Starts them, and tells the mailbox whenever one ends: it may be time to be passivated.

    A task that is done waits for the next piece of work, one of them for each actor: to start a
    task costs several times what it costs to wake one, and every turn is such a piece.
    """

    def __init__(self, tasks: TaskGroup, mailbox: Mailbox) -> None:
        """Begin without any.

        Args:
            tasks: Where they run; one that fails ends all of them, and the actor.
            mailbox: The actor's.
        """
        self._tasks, self._mailbox = tasks, mailbox
        self._idle: asyncio.Future[_Work] | None = None
        "Where a task that is done waits for the next piece of work; None = none does."
        self.fault: BaseException | None = None
        "Why the first of them failed; the command loop is only told that it is called off."

    def start_soon(
        self, work: Callable[P, Awaitable[None]], *args: P.args, **named: P.kwargs
    ) -> None:
        """Start one."""
        piece = partial(work, *args, **named)
        idle, self._idle = self._idle, None
        if idle is not None and not idle.done():  # done = called off meanwhile
            idle.set_result(piece)
        else:
            self._tasks.start_soon(self._work, piece)

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

    async def _work(self, piece: _Work) -> None:
        """Do a piece of work, and then what else there is to do."""
        while True:
            goes_on = await self._is_done(piece)
            del piece  # while it waits, it keeps nothing of the last turn in memory
            if not goes_on or self._idle is not None:
                return
            self._idle = asyncio.get_running_loop().create_future()
            piece = await self._idle

    async def _is_done(self, piece: _Work) -> bool:
        """Do a piece of work; return whether the actor goes on."""
        try:
            await piece()
        except ActorStoppedError:
            return False  # the actor goes, and whoever waits for it is told why there
        except anyio.get_cancelled_exc_class() as cancelled:
            if is_cancelled():
                raise
            msg = "a task of the session was cancelled from inside"
            self.fault = self.fault or RuntimeError(msg)
            raise self.fault from cancelled
        except Exception as error:
            self.fault = self.fault or error
            raise
        else:
            return True
        finally:
            self._mailbox.work_ended()
