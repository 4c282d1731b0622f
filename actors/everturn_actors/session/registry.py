"""Finds the actor of a session, starts and passivates it, and deals with its failure.

Supervision: an actor that fails is closed, its callers and followers are told why, each of them
once, and the next message starts a new one from the journal. One that fails again and again is not
started any more, see `quarantine`. Nobody else notices.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar
from weakref import WeakValueDictionary

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from everturn_actors.errors import (
    ActorFailedError,
    ActorStoppedError,
    CoreError,
    CorruptJournalError,
    JournalError,
    MovedError,
    PassivatedError,
    UnknownFormatError,
    UnknownSessionError,
)
from everturn_actors.events import SessionStarted
from everturn_actors.faults import first_cause, is_cancelled
from everturn_actors.model import ConversationKey
from everturn_actors.protocol.commands import Command, GetState
from everturn_actors.protocol.feed import Feed
from everturn_actors.protocol.mailbox import Mailbox
from everturn_actors.session.active import Active, make_room
from everturn_actors.session.actor import SessionActor, finished_turns
from everturn_actors.session.quarantine import ENDING, Quarantine, Revivals
from everturn_actors.session.runtime import Activation, Runtime
from everturn_actors.state.session_state import SessionState

logger = logging.getLogger(__name__)

T = TypeVar("T")
STARTS_OF_ONE_COMMAND = 3  # actors that were gone before they took it
HOLD_S = 5.0  # how long an idle actor may take to go away
LOADS_AT_ONCE = 500  # sessions that are looked at in one go; each takes a microsecond or two


class Registry:
    """All actors of one store, in one task group."""

    def __init__(
        self,
        runtime: Runtime,
        tasks: TaskGroup,
        on_gone: Callable[[str], Awaitable[None]],
        *,
        max_active: int = 0,
    ) -> None:
        """Begin without actors.

        Args:
            runtime: What the actors share.
            tasks: Where they run.
            on_gone: Called with the id of each session whose actor was passivated or failed.
            max_active: Beyond so many actors the ones that are idle longest are passivated; those
                that have work stay, however many there are. 0 = any number.
        """
        self._runtime = runtime
        self.store = runtime.store
        "Where its sessions live."
        self._tasks = tasks
        self._on_gone = on_gone
        self._active: OrderedDict[str, Active] = OrderedDict()
        "Those of whom nothing was asked for longest come first, but for those that have work."
        self.max_active = max_active
        self._leaving = set[str]()
        "Those who were told to make room."
        self._held: dict[str, anyio.Event] = {}
        "Sessions of which no actor may start; each is told when one may."
        self.watched: list[set[str]] = []
        "Each is told of the sessions of which an actor starts, for as long as it stands here."
        self._feeds: WeakValueDictionary[str, Feed] = WeakValueDictionary()
        self._quarantine = Quarantine()
        self._revivals = Revivals(runtime.timing, tasks, self._revive)
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
        active = self._active.get(session_id)
        return active.actor.known if active else None

    async def ask(
        self,
        session_id: str,
        command: Command[T],
        *,
        begin_with: SessionStarted | None = None,
        passivate_at_once: bool = False,
        is_new: bool = False,
    ) -> T:
        """Send a command to the session's actor; see `Actors.ask`.

        Raises:
            MovedError: This process does not work on the session, or no longer. Perhaps it was
                done: the next owner is asked under the same idempotency key.
            CoreError: As there.
        """
        starts = 0
        while True:
            active = self._active.get(session_id)
            if active is None or not active.actor.goes_on:
                self._quarantine.check(session_id, command)
            if active is None and (held := self._held.get(session_id)) is not None:
                await held.wait()
                continue
            if active is None:
                starts += 1  # it may be gone again before it takes the command
                active = self._start(
                    session_id,
                    begin_with,
                    command,
                    passivate_at_once=passivate_at_once,
                    is_new=is_new and starts == 1,
                )
                make_room(self._active, self._leaving, self.max_active)  # one more is in memory now
            else:
                self._active.move_to_end(session_id)
                self._leaving.discard(session_id)
            try:
                answer = active.mailbox.put(command)
                active.asked.add(answer.fail)
                try:
                    given = await answer.wait()
                finally:
                    active.asked.discard(answer.fail)
            except ActorStoppedError as error:
                if not isinstance(error, PassivatedError) and not active.leaves:
                    raise
                if starts == STARTS_OF_ONE_COMMAND:
                    raise ActorFailedError(session_id, error) from error
            except UnknownSessionError:
                # It was started by somebody who only looked, and there was no session yet.
                if begin_with is None or starts == STARTS_OF_ONE_COMMAND:
                    raise
            else:
                if isinstance(command, ENDING):
                    self.release(session_id)
                return given
            await active.released.wait()
            if not self._runtime.is_here(session_id):
                raise MovedError(session_id)
            await active.gone.wait()

    async def each_active(self) -> AsyncGenerator[tuple[SessionState | None, int]]:
        """See `Actors.each_active`; where many sessions are active, others go on meanwhile."""
        for number, active in enumerate(tuple(self._active.values()), 1):
            if number % LOADS_AT_ONCE == 0:
                await checkpoint()
            yield active.actor.known, active.mailbox.waiting

    @property
    def quarantined(self) -> int:
        """See `Actors.quarantined`."""
        return len(self._quarantine)

    def release(self, session_id: str) -> None:
        """Forget that a session failed: there is nothing left of it that could."""
        self._revivals.forget(session_id)
        self._quarantine.release(session_id)

    @asynccontextmanager
    async def held(self, session_id: str) -> AsyncGenerator[bool]:
        """Let no actor of a session live for a block; yields whether that is so.

        False = it has work, or somebody else holds it. Whoever asks it for something meanwhile
        waits until the block ends.
        """
        active, known = self._active.get(session_id), self.present(session_id)
        if session_id in self._held or (active is not None and not active.actor.passivate()):
            yield False
            return
        released = self._held[session_id] = anyio.Event()
        try:
            if active is None or known is None:
                yield active is None
                return
            with anyio.move_on_after(HOLD_S):  # it stays where somebody asked it meanwhile
                await active.gone.wait()
            yield session_id not in self._active and active.last_seq == known.last_seq
        finally:
            del self._held[session_id]
            released.set()

    async def gone(self, session_id: str) -> None:
        """Wait until the session's actor, if it has one, is gone."""
        active = self._active.get(session_id)
        if active is not None:
            await active.gone.wait()

    async def is_deleted_elsewhere(self, session_id: str) -> bool:
        """Leave a session to its caller: its actor is here."""
        del session_id
        return False

    def is_here(self, session_id: str, key: ConversationKey | None = None) -> bool:
        """Whether this process works on a session; `key` is its conversation, if at hand."""
        if key is not None:
            self._runtime.note_key(session_id, key)
        return self._runtime.is_here(session_id)

    async def let_go(self, is_leaving: Callable[[str], bool], drain_s: float) -> dict[str, int]:
        """Let the actors of sessions go that another process is to have.

        Commands that come meanwhile wait until they are gone, and are sent there. Running turns may
        finish; after `drain_s` what still runs is cut off, and goes on where the session is then.
        An actor may stay for as long as a store that is away holds its last write; nobody waits
        for that but the caller: whoever asked it asks the one who has the session.

        Returns:
            The sessions of those in which something is to go on, each with its last event.
        """
        found = {name: each for name, each in self._active.items() if is_leaving(name)}
        leaving = found.values()
        for active in leaving:
            active.leaves = active.actor.is_moving = True
            active.tell_to_stop(PassivatedError())
        with anyio.move_on_after(drain_s):
            for active in leaving:
                await active.gone.wait()
        for name, active in found.items():
            active.scope.cancel()
            active.let_callers_go(MovedError(name))
        for active in leaving:
            await active.gone.wait()
        return {name: active.last_seq for name, active in found.items() if active.is_due}

    def followed(self) -> tuple[Feed, ...]:
        """Return the feeds that somebody holds."""
        return tuple(self._feeds.values())

    async def stop(self, deadline_s: float) -> None:
        """Let running turns finish, put everything away, and let the actors go.

        After `deadline_s` what still runs is cut off; it goes on at the next start.
        """
        self._stopping = True
        for active in self._active.values():
            active.tell_to_stop(ActorStoppedError())
        with anyio.move_on_after(deadline_s):
            for active in tuple(self._active.values()):
                await active.gone.wait()
        for feed in tuple(self._feeds.values()):
            feed.close()

    def _start(
        self,
        session_id: str,
        begin_with: SessionStarted | None,
        command: Command[object],
        *,
        passivate_at_once: bool,
        is_new: bool,
    ) -> Active:
        """Start the session's actor for a command.

        Where that ends the open turn, the turn does not go on before.
        """
        if self._stopping:
            raise ActorStoppedError
        if not self._runtime.is_here(session_id):
            raise MovedError(session_id)
        mailbox, feed = Mailbox(), self.feed(session_id)
        feed.reopen()  # a failure told its followers so, and ended them
        is_quarantined = self._quarantine.why_not(session_id) is not None
        actor = SessionActor(
            session_id=session_id,
            activation=Activation(
                begin_with=begin_with,
                passivate_at_once=passivate_at_once,
                resumes=not is_quarantined and not isinstance(command, ENDING),
                is_new=is_new,
            ),
            mailbox=mailbox,
            feed=feed,
            runtime=self._runtime,
        )
        active = self._active[session_id] = Active(actor=actor, mailbox=mailbox, feed=feed)
        for each in self.watched:
            each.add(session_id)
        self._tasks.start_soon(self._live, session_id, active)
        return active

    async def _live(self, session_id: str, active: Active) -> None:
        """Let an actor live, and put away what belongs to it when it is gone."""
        with self._runtime.observer.active(session_id):
            await self._supervise(session_id, active)
        try:
            await self._on_gone(session_id)
        except Exception as error:
            logger.exception(
                "what belongs to a passive session could not be let go",
                extra={"session_id": session_id, "error": str(error)},
            )

    async def _supervise(self, session_id: str, active: Active) -> None:
        """Let an actor live; whatever it fails of ends here."""
        failure: Exception = ActorStoppedError()
        try:
            with active.scope:
                await anyio.sleep(self._quarantine.backoff_s(session_id, at=anyio.current_time()))
                await active.actor.run()
                self._revivals.forget(session_id)
                if active.actor.goes_on:
                    self._quarantine.release(session_id)
        except anyio.get_cancelled_exc_class() as cancelled:
            if is_cancelled():
                raise
            failure = self._failed(session_id, active, cancelled)
        except Exception as error:  # noqa: BLE001 - the boundary around one actor; logged there
            cause = first_cause(error)
            if not self._runtime.is_here(session_id):
                failure = MovedError(session_id)  # whatever it failed of is another one's matter
            elif isinstance(cause, UnknownSessionError):
                failure = cause
                await self._runtime.forget_mark(session_id)
            elif not (self._stopping and isinstance(cause, ActorStoppedError)):
                failure = self._failed(session_id, active, error)
        finally:
            del self._active[session_id]
            self._leaving.discard(session_id)
            for each in active.mailbox.close():
                each.answer.fail(failure)
            if (known := active.actor.known) is not None:
                active.last_seq, active.is_due = known.last_seq, known.is_due
            active.gone.set()
            active.released.set()
            active.actor.dispose()

    def _failed(self, session_id: str, active: Active, error: BaseException) -> Exception:
        """Log why an actor failed, tell its followers, and return what its callers are told."""
        cause = first_cause(error)
        failure = cause if isinstance(cause, JournalError) else ActorFailedError(session_id, cause)
        logger.error(
            "a session failed",
            extra={"session_id": session_id, "error": str(cause)},
            # What is wrong with a journal is said in full; where it was met helps nobody.
            exc_info=None if isinstance(cause, JournalError) else error,
        )
        actor = active.actor
        has_progressed = finished_turns(actor.known) > actor.finished_before
        if has_progressed or (self._quarantine.why_not(session_id) and actor.goes_on):
            self._quarantine.release(session_id)  # this is another matter
        # What the journal refuses, it may take the next time. Events that cannot stand in a log
        # that was read without fault are a fault of ours, and as durable as the log.
        is_ours = isinstance(cause, CorruptJournalError) and actor.known is not None
        self._quarantine.failed(
            session_id,
            cause,
            at=anyio.current_time(),
            counts=is_ours or not isinstance(cause, JournalError),
        )
        active.feed.fail(failure)
        is_due = not self._stopping and (actor.known is None or actor.known.is_due)
        if is_due and not isinstance(cause, CorruptJournalError | UnknownFormatError):
            # Nobody may come back to what was accepted: whoever wrote in a chat has been told so.
            self._revivals.later(session_id)
        return failure

    async def _revive(self, session_id: str) -> None:
        if session_id in self._active or not self._runtime.is_here(session_id):
            return  # somebody was faster, or has it now
        if self._stopping or self._quarantine.why_not(session_id) is not None:
            self._revivals.forget(session_id)
            return
        with suppress(CoreError):  # its failure is logged, and leads to the next try
            await self.ask(session_id, GetState(), passivate_at_once=True)
