"""Finds the actor of a session, starts it, lets it rest, and deals with its failure.

Supervision: an actor that fails is closed, its callers and followers are told why, and the next
message starts a new one from the journal. Nobody else notices.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar, cast
from weakref import WeakValueDictionary

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from everturn_actors.commands import Command, Stop
from everturn_actors.errors import (
    ActorFailedError,
    ActorStoppedError,
    JournalError,
    UnknownSessionError,
)
from everturn_actors.events import SessionStarted
from everturn_actors.feed import Feed
from everturn_actors.mailbox import Answer, Mailbox
from everturn_actors.session import Runtime, SessionActor
from everturn_actors.state import SessionState

logger = logging.getLogger(__name__)

T = TypeVar("T")

LOADS_AT_ONCE = 500  # sessions that are looked at in one go; each takes a microsecond or two


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How much there is to do at one moment, in the sessions that are awake."""

    awake: int = 0
    "Sessions whose actor lives."
    running: int = 0
    "Open turns that are worked on."
    waiting: int = 0
    "Messages that wait for a turn."
    commands: int = 0
    "What waits in the mailboxes."
    approvals: int = 0
    "Calls that wait for a person."
    owed: int = 0
    "Parcels that are not delivered."

    def __add__(self, other: Load) -> Load:
        return Load(
            awake=self.awake + other.awake,
            running=self.running + other.running,
            waiting=self.waiting + other.waiting,
            commands=self.commands + other.commands,
            approvals=self.approvals + other.approvals,
            owed=self.owed + other.owed,
        )


@dataclass(slots=True)
class _Awake:
    """A session whose actor lives."""

    actor: SessionActor
    mailbox: Mailbox[Command]
    feed: Feed
    gone: anyio.Event = field(default_factory=anyio.Event)


class Registry:
    """All actors of one store, in one task group."""

    def __init__(
        self, runtime: Runtime, tasks: TaskGroup, on_gone: Callable[[str], Awaitable[None]]
    ) -> None:
        """Begin without actors.

        Args:
            runtime: What the actors share.
            tasks: Where they run.
            on_gone: Called with the id of each session whose actor went to rest or failed.
        """
        self._runtime = runtime
        self._tasks = tasks
        self._on_gone = on_gone
        self._awake: dict[str, _Awake] = {}
        self._feeds: WeakValueDictionary[str, Feed] = WeakValueDictionary()
        self._stopping = False

    def feed(self, session_id: str) -> Feed:
        """Return the feed of a session; it lives as long as somebody holds it."""
        feed = self._feeds.get(session_id)
        if feed is None:
            feed = self._feeds[session_id] = Feed()
            if self._stopping:
                feed.close()
        return feed

    def waiting_for(self, session_id: str) -> str:
        """Return what the session's model call waits for; empty = for nothing, or there is none."""
        feed = self._feeds.get(session_id)
        return feed.waiting_for if feed is not None else ""

    def present(self, session_id: str) -> SessionState | None:
        """Return the durable state of a session whose actor lives; None where none has loaded."""
        awake = self._awake.get(session_id)
        return awake.actor.known if awake is not None else None

    async def ask(
        self,
        session_id: str,
        make: Callable[[Answer[T]], Command],
        *,
        begin_with: SessionStarted | None = None,
        rest_at_once: bool = False,
    ) -> T:
        """Send a command to the session's actor, starting it where it rests; return its answer.

        Args:
            session_id: The session.
            make: Builds the command around its answer.
            begin_with: How the session begins, where the store knows nothing of it.
            rest_at_once: An actor started for this goes to rest as soon as it can.

        Raises:
            MailboxFullError: Too many commands are waiting.
            ActorStoppedError: The service is stopping.
            CoreError: Whatever the actor answers or fails with.
        """
        while True:
            awake = self._awake.get(session_id)
            if awake is None:
                awake = self._start(session_id, begin_with, rest_at_once=rest_at_once)
            answer: Answer[T] = Answer()
            try:
                awake.mailbox.put(make(answer))
                return await answer.wait()
            except ActorStoppedError:
                if self._stopping:
                    raise
            except UnknownSessionError:
                if begin_with is None:
                    raise
            # It went to rest in this moment and had not taken the command, or it was started by
            # somebody who only looked, and there was no session yet: the next one takes it.
            await awake.gone.wait()

    async def load(self) -> Load:
        """Return how much there is to do; where many sessions are awake, others go on meanwhile."""
        running = waiting = commands = approvals = owed = 0
        all_awake = tuple(self._awake.values())
        for number, awake in enumerate(all_awake, 1):
            if number % LOADS_AT_ONCE == 0:
                await checkpoint()
            commands += awake.mailbox.waiting
            state = awake.actor.known
            if state is not None:
                running += state.open_turn is not None and state.status == "active"
                waiting += len(state.waiting)
                approvals += len(state.open_approvals)
                owed += len(state.owed)
        return Load(
            awake=len(all_awake),
            running=running,
            waiting=waiting,
            commands=commands,
            approvals=approvals,
            owed=owed,
        )

    async def gone(self, session_id: str) -> None:
        """Wait until the session's actor, if it has one, is gone."""
        awake = self._awake.get(session_id)
        if awake is not None:
            await awake.gone.wait()

    async def stop(self, deadline_s: float) -> None:
        """Let running turns finish, put everything away, and let the actors go.

        After `deadline_s` what still runs is cut off; it goes on at the next start.
        """
        self._stopping = True
        for awake in self._awake.values():
            awake.mailbox.refuse()
            with suppress(ActorStoppedError):  # it is on its way out already
                awake.mailbox.put(Stop(Answer()), own=True)
        with anyio.move_on_after(deadline_s):
            for awake in tuple(self._awake.values()):
                await awake.gone.wait()
        for feed in tuple(self._feeds.values()):
            feed.close()

    def _start(
        self, session_id: str, begin_with: SessionStarted | None, *, rest_at_once: bool
    ) -> _Awake:
        if self._stopping:
            raise ActorStoppedError
        mailbox, feed = Mailbox[Command](), self.feed(session_id)
        feed.reopen()
        actor = SessionActor(
            session_id=session_id,
            begin_with=begin_with,
            mailbox=mailbox,
            feed=feed,
            runtime=self._runtime,
            rest_at_once=rest_at_once,
        )
        awake = self._awake[session_id] = _Awake(actor=actor, mailbox=mailbox, feed=feed)
        self._tasks.start_soon(self._live, session_id, awake)
        return awake

    async def _live(self, session_id: str, awake: _Awake) -> None:
        with self._runtime.observer.awake(session_id):
            await self._supervise(session_id, awake)

    async def _supervise(self, session_id: str, awake: _Awake) -> None:
        failure: Exception = ActorStoppedError()
        try:
            await awake.actor.run()
        except Exception as error:  # the boundary around one actor
            cause = _first_cause(error)
            if isinstance(cause, UnknownSessionError):
                failure = cause
                await self._forget(session_id)
            elif not isinstance(cause, ActorStoppedError):
                logger.exception(
                    "a session failed", extra={"session_id": session_id, "error": str(cause)}
                )
                failure = (
                    cause
                    if isinstance(cause, JournalError)
                    else ActorFailedError(session_id, cause)
                )
                awake.feed.fail(failure)
        finally:
            del self._awake[session_id]
            for command in awake.mailbox.close():
                command.answer.fail(failure)
            awake.gone.set()
        await self._on_gone(session_id)

    async def _forget(self, session_id: str) -> None:
        """Take back the mark of a session that is not there."""
        try:
            await self._runtime.store.mark_resting(session_id)
        except JournalError as error:
            logger.warning(
                "the mark of an unknown session stays",
                extra={"session_id": session_id, "error": str(error)},
            )


def _first_cause(error: Exception) -> Exception:
    """Return the first failure of what may be a group; that an actor stopped is never the cause."""
    if isinstance(error, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", error)
        causes = [_first_cause(leaf) for leaf in group.exceptions]
        return next((c for c in causes if not isinstance(c, ActorStoppedError)), causes[0])
    return error
