"""Requests that wait for a conversation: who is waiting, until when, and why a wait ended early.

A turn belongs to its session, never to the request that asked for it: when a client leaves, a
deadline passes or the gateway stops, the wait ends here and the turn is dealt with by the core.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sized
from contextlib import AbstractContextManager
from math import inf
from types import TracebackType
from typing import Protocol, TypeVar

import anyio
from msgspec.structs import replace
from starlette.requests import Request
from starlette.types import Receive

from everturn_actors.errors import (
    ActorFailedError,
    ActorStoppedError,
    CoreError,
    JournalWriteError,
)
from everturn_actors.scopes import new_scope
from everturn_actors.service import Submission, TurnResult
from everturn_gateway.http.problems import Problem, ProblemError, core_problem, problem

T = TypeVar("T")

DEADLINE = "everturn.deadline"  # in the ASGI scope: when the request has to be answered, loop time
DEPARTURE = "everturn.departure"  # in the ASGI scope: a `Departure`, where the server knows of it
LEAVE_S = 5.0  # for telling a session that its client is gone


class ClientLeftError(Exception):
    """The client closed its connection; nobody reads an answer."""


class Ended(Protocol):
    """What can be ended from outside: a scope, or a wait that looks whether it is over."""

    def cancel(self) -> None:
        """End it."""
        ...


class OpenWaits:
    """The waits that are open now, so that a stopping server can end them.

    Followers of a session can come back at any time and are let go at once. Requests that wait
    for a turn are given time first.

    Followers stay for as long as they like, so they have a limit of their own: without one they
    would take, one by one, all connections that messages need.
    """

    def __init__(self, *, max_followers: int = 768) -> None:
        self._max_followers = max_followers
        self._followers: set[anyio.CancelScope] = set()
        self._background: set[anyio.CancelScope] = set()
        self._waiters: set[Ended] = set()
        self.stopping = False
        "Whether the server is going down."
        self._ending = False

    @property
    def followers(self) -> Sized:
        """Those there are now."""
        return self._followers

    def check_follower(self) -> None:
        """Refuse a follower for whom there is no room.

        Raises:
            ProblemError: There is none (503).
        """
        if len(self._followers) >= self._max_followers:
            raise ProblemError(_too_many_followers(self._max_followers))

    def follower(self) -> AbstractContextManager[anyio.CancelScope]:
        """Hold a scope for one more follower; it is cancelled when the server begins to stop.

        Raises:
            ProblemError: There is no room for one (503).
        """
        self.check_follower()  # before anything is sent: a refusal has to be a whole answer
        return self._open(self._followers, lambda: self.stopping)

    def background(self) -> AbstractContextManager[anyio.CancelScope]:
        """Hold a scope for work without a client; cancelled when the server begins to stop."""
        return self._open(self._background, lambda: self.stopping)

    def waiter(self) -> AbstractContextManager[anyio.CancelScope]:
        """Hold a scope that is cancelled when a stopping server waits no longer."""
        # These outlive followers: their turn may still end in time.
        return self._open(self._waiters, lambda: self._ending)

    def add(self, wait: Ended) -> None:
        """List a wait with those that `waiter` holds; `discard` takes it out."""
        self._waiters.add(wait)
        if self._ending:
            wait.cancel()

    def discard(self, wait: Ended) -> None:
        """Take a wait out."""
        self._waiters.discard(wait)

    def _open(
        self, scopes: set[anyio.CancelScope] | set[Ended], is_over: Callable[[], bool]
    ) -> AbstractContextManager[anyio.CancelScope]:
        return _Wait(scopes, is_over)

    def end_followers(self) -> None:
        """Let the followers go, and end what works without a client: the server begins to stop."""
        self.stopping = True
        # A copy: each that ends takes itself out.
        for scope in (*self._followers, *self._background):
            scope.cancel()

    def end_waiters(self) -> None:
        """End the waits for turns too."""
        self._ending = True
        for scope in tuple(self._waiters):
            scope.cancel()


class _Wait:
    """A block that is listed while it lasts. A class: as a generator it takes twice as long."""

    __slots__ = ("_is_over", "_scope", "_scopes")

    def __init__(
        self, scopes: set[anyio.CancelScope] | set[Ended], is_over: Callable[[], bool]
    ) -> None:
        self._scopes, self._is_over = scopes, is_over
        self._scope = new_scope()

    def __enter__(self) -> anyio.CancelScope:
        scope = self._scope.__enter__()
        self._scopes.add(scope)
        if self._is_over():  # it began between the call to stop and the end of the others
            scope.cancel()
        return scope

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        """Leave it; a cancellation by its own scope ends here."""
        self._scopes.discard(self._scope)
        return self._scope.__exit__(kind, error, traceback)


def _too_many_followers(most: int) -> Problem:
    return problem(
        "too-many-followers",
        f"{most} connections follow sessions, which is all that may (server.max_followers);"
        " try again later, or read `messages`",
    )


class Departure:
    """Whether the client of a connection is gone, and what ends with that.

    The server says it. Where nobody does, a task has to read the connection for as long as a
    request waits, and costs as much as all else of the wait.
    """

    __slots__ = ("_ends", "has_left")

    def __init__(self) -> None:
        self._ends: set[Ended] = set()
        self.has_left = False

    def left(self) -> None:
        """End what waits for the sake of the client."""
        self.has_left = True
        for scope in tuple(self._ends):
            scope.cancel()

    def add(self, wait: Ended) -> None:
        """End a wait when the client leaves; `discard` takes that back."""
        self._ends.add(wait)
        if self.has_left:
            wait.cancel()

    def discard(self, wait: Ended) -> None:
        """Let a wait be."""
        self._ends.discard(wait)

    async def ending(self, scope: anyio.CancelScope, work: Callable[[], Awaitable[T]]) -> T:
        """Return what `work` gives; its `scope` is cancelled when the client leaves."""
        self.add(scope)
        try:
            return await work()
        finally:
            self.discard(scope)


async def disconnected(receive: Receive) -> None:
    """Return when the client is gone."""
    # What else comes is of no interest any more.
    while (await receive())["type"] != "http.disconnect":
        pass


async def while_connected(request: Request, work: Callable[[], Awaitable[T]]) -> T:
    """Return what `work` gives, and end it where the client of the request leaves before.

    Raises:
        ClientLeftError: The client is gone; `work` was cancelled.
        CoreError: As `work` does.
    """
    departure: Departure | None = request.scope.get(DEPARTURE)
    if departure is not None:
        with anyio.CancelScope() as scope:
            return await departure.ending(scope, work)
        raise ClientLeftError
    done: list[T] = []  # a list tells no result from one that is None
    failure: CoreError | None = None
    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            await disconnected(request.receive)
            tasks.cancel_scope.cancel()

        tasks.start_soon(watch)
        try:
            done.append(await work())
        except CoreError as error:  # raised outside the group, which would wrap it
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    if not done:
        raise ClientLeftError
    return done[0]


async def wait_for_turn(
    request: Request,
    submission: Submission,
    waits: OpenWaits,
    *,
    answer: Callable[[], Awaitable[TurnResult]] | None = None,
) -> TurnResult:
    """Return how the turn that answers `submission` ended.

    Args:
        request: Who waits.
        submission: For what.
        waits: Where the wait is one of those that a stopping server ends.
        answer: Gives what is waited for; by default the end of the turn.

    Raises:
        ClientLeftError: The client is gone; its session was told.
        ProblemError: The request's deadline has passed, its session was told (504); or the
            gateway is stopping, and the turn goes on when it is started again (503); or the
            session failed.
    """
    results: list[TurnResult] = []  # none where the wait was ended
    departure: Departure | None = request.scope.get(DEPARTURE)
    deadline: float = request.scope.get(DEADLINE, inf)
    work = answer or submission.result
    try:
        if departure is not None and answer is None:
            # The usual way: without a scope, a task or a timer of its own.
            results += await _Watched(submission).result(waits, departure, deadline)
        else:
            with waits.waiter() as scope:
                scope.deadline = deadline
                if departure is None:
                    results.append(await while_connected(request, work))
                else:
                    results.append(await departure.ending(scope, work))
    except CoreError as error:
        # The message is accepted all the same, and the answer says where.
        raise ProblemError(accepted_problem(error, submission)) from error
    except ClientLeftError:
        await leave(submission)
        raise
    if results:
        return results[0]
    if departure is not None and departure.has_left:
        await leave(submission)
        raise ClientLeftError
    if waits.stopping:
        # Its turn goes on with the next start: nobody has left it.
        raise ProblemError(stopping_problem(submission))
    await leave(submission)
    raise ProblemError(_late_problem(submission))


class _Watched:
    """A wait for the end of a turn that looks by itself whether it is over.

    Every turn over HTTP waits here. A scope around it takes longer than all else of the wait.
    """

    __slots__ = ("_submission", "is_over")

    def __init__(self, submission: Submission) -> None:
        self._submission = submission
        self.is_over = False

    def cancel(self) -> None:
        """End it."""
        self.is_over = True
        self._submission.nudge()

    async def result(
        self, waits: OpenWaits, departure: Departure, deadline: float
    ) -> tuple[TurnResult, ...]:
        """Return how the turn ended; nothing where the wait was over before.

        Raises:
            CoreError: As `Submission.result` does.
        """
        timer = None
        if deadline != inf:
            # One timer, where a scope would be entered and left.
            timer = asyncio.get_running_loop().call_at(deadline, self.cancel)
        waits.add(self)
        departure.add(self)
        try:
            return (await self._submission.result(is_over=lambda: self.is_over),)
        except ActorStoppedError:
            if not self.is_over:
                raise
            return ()  # ended from here, not by the service
        finally:
            departure.discard(self)
            waits.discard(self)
            if timer is not None:
                timer.cancel()


async def leave(submission: Submission) -> None:
    """Tell the session that the client waits no longer."""
    with anyio.move_on_after(LEAVE_S, shield=True):  # whoever is told may be stopping as well
        await submission.leave()


def accepted_problem(error: CoreError, submission: Submission) -> Problem:
    """Return the problem of an error that came after the message was accepted."""
    if isinstance(error, JournalWriteError):
        # The problem of this error says that nothing was accepted, which is true of a submit.
        error = ActorFailedError(submission.session_id, error)
    problem = core_problem(error)
    return replace(problem, extra={**problem.extra, **_place(submission)})


def stopping_problem(submission: Submission) -> Problem:
    """Return the problem that a stopping gateway answers with, for a message it has accepted."""
    return problem(
        "stopping",
        "the gateway is stopping; the message is accepted, and its turn goes on by itself"
        " when the gateway is started again",
        extra=_place(submission),
    )


def _late_problem(submission: Submission) -> Problem:
    return problem(
        "timeout",
        "the turn was not done within the server's request timeout; the message is accepted:"
        " follow `events`, or send it again with the same Idempotency-Key to wait on",
        extra=_place(submission),
        headers={"Retry-After": "5"},
    )


def _place(submission: Submission) -> dict[str, str]:
    return {
        "session_id": submission.session_id,
        "message_id": f"m{submission.seq}",
        "events": events_path(submission.session_id, submission.seq),
    }


def events_path(session_id: str, after: int) -> str:
    """Return the path that follows a session from event `after` on."""
    return f"/api/v1/sessions/{session_id}/events?after={after}"
