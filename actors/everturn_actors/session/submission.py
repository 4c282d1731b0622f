"""A message that is durable, and the way to its answer."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.errors import ActorStoppedError, CoreError, InvalidInputError
from everturn_actors.events import (
    AmbientStored,
    Announced,
    CallsAnswered,
    Received,
    SessionStarted,
    TurnStarted,
)
from everturn_actors.model import (
    Attachment,
    CallAnswer,
    IncomingMessage,
)
from everturn_actors.protocol.actors import Actors
from everturn_actors.protocol.commands import (
    Accepted,
    AnswerCalls,
    ClientDisconnected,
    Retry,
    Submit,
)
from everturn_actors.protocol.feed import Feed, Pieces, TakeDelta, TextDelta, Update
from everturn_actors.protocol.subscription import follow, log_of, next_events
from everturn_actors.session.message_events import MessageEvents, Taint
from everturn_actors.session.turn_result import TurnAnswer, TurnResult, held_result
from everturn_actors.state.session_state import SessionState

logger = logging.getLogger(__name__)

# A turn is known by its beginning where it is a retry, and by what it waited for.
_BEGINNINGS = (Received, TurnStarted, CallsAnswered)
_BESIDE = (AmbientStored, Announced)
_NOT_ANSWERED = "no turn answers what was not said to the agent"
_NO_LONGER_STORED = "this message was answered before, and its answer is no longer stored"


class Submission(Struct, kw_only=True):
    """A message that is durable, and the way to its answer where a turn has it as a message."""

    session_id: str
    attachments: tuple[Attachment, ...]
    "What was handed in with it; of a repeat, what the repeat came with."
    _accepted: Accepted
    _registry: Actors
    _feed: Feed
    _is_answered: bool

    @property
    def seq(self) -> int:
        """Its event; of a repeat from the session before, the first event of this one."""
        return self._accepted.seq

    @property
    def duplicate(self) -> bool:
        """The same idempotency key was seen before: this is the first message of that key."""
        return self._accepted.duplicate

    @property
    def accepted_at(self) -> datetime | None:
        """When it was accepted; None for a repeat, whose first event tells it."""
        return None if self.duplicate else self._accepted.at

    def updates(
        self, *, final: bool = False, take: TakeDelta | None = None
    ) -> AsyncGenerator[Update]:
        """Yield the message's event, then all of the turn that answers it, to its end.

        The last event may also be `Discarded` or `SessionEnded`: no turn answers it. Nothing is
        yielded for an old message whose events were discarded, and no more than its own event for
        one that no turn answers, see `IncomingMessage.waits`.

        Args:
            final: The caller cannot take back what it was given of a reply (see
                `TextDelta.offset`): a model call that breaks off after that is not tried again.
            take: Asked first for each piece of the reply, see `TakeDelta`.

        Raises:
            ActorFailedError: The session failed meanwhile; the turn goes on with its next message.
        """
        return self._follow("final" if final else "all", take=take)

    def nudge(self) -> None:
        """Let who waits for `result` look whether it is over."""
        self._feed.nudge()

    async def result(self, *, is_over: Callable[[], bool] | None = None) -> TurnResult:
        """Wait for the end of the turn that answers the message, or until its caller is needed.

        Where calls are handed over (`TurnResult.handed_over`) the turn waits for what they give,
        see `TurnService.answer_calls`; only a message whose `options` bring tools leads there.

        Args:
            is_over: Whether nobody waits any more, asked whenever there is nothing to read, and
                after `nudge`.

        Raises:
            InvalidInputError: The message is an old one, and its answer is no longer stored; or no
                turn answers it, see `IncomingMessage.waits`.
            ActorStoppedError: The service stops first, and the turn goes on at its next start; or
                the wait is over.
            ActorFailedError: The session failed meanwhile.
        """
        accepted = self._accepted
        if not self._is_answered:
            raise InvalidInputError(_NOT_ANSWERED)
        if accepted.held is not None:
            return held_result(self.session_id, accepted.held)
        taint = Taint(accepted)
        own = await self._own_events()
        if own is None:
            raise InvalidInputError(_NO_LONGER_STORED)
        answer = TurnAnswer(self.session_id, self.seq, taint, own)
        after, read_log = self.seq - 1, log_of(self._registry.store, self.session_id)
        feed, known = self._feed, accepted.last_seq
        feed.enter()
        try:
            while not own.is_over and (
                events := await next_events(feed, after, read_log, last_seq=known, is_over=is_over)
            ):
                after = events[-1].seq
                for event in events:
                    result = answer.take(event)
                    if result is not None:
                        return result
        finally:
            feed.leave()
        if self.duplicate and not answer.turn:
            raise InvalidInputError(_NO_LONGER_STORED)
        raise ActorStoppedError

    async def _follow(
        self, pieces: Pieces, *, take: TakeDelta | None = None
    ) -> AsyncGenerator[Update]:
        own = await self._own_events()
        if own is None:
            return

        def take_own(delta: TextDelta) -> bool:
            return delta.turn != own.turn or take is None or take(delta)

        followed = self._events(pieces, take=None if take is None else take_own)
        async with aclosing(followed) as updates:  # who left is no follower from then on
            async for update in updates:
                if isinstance(update, TextDelta):
                    if update.turn == own.turn:
                        yield update
                    continue
                if own.has(update):
                    yield update
                if own.is_over:
                    return

    def _events(self, pieces: Pieces, *, take: TakeDelta | None = None) -> AsyncGenerator[Update]:
        """Yield the session's updates from the message on."""
        return follow(
            self._feed,
            self.seq - 1,
            log_of(self._registry.store, self.session_id),
            last_seq=self._accepted.last_seq,
            pieces=pieces,
            take=take,
        )

    async def _own_events(self) -> MessageEvents | None:
        """Return what tells the message's updates from others; None where there are none."""
        # A turn that failed may be asked again just now: what tells of the message is the new one.
        accepted = self._accepted
        if not self._is_answered:
            is_known = not self.duplicate or await self._is_stored()
            return MessageEvents(self.seq, turn=0, goal=0, is_alone=True) if is_known else None
        goal, turn = accepted.open_turn if accepted.is_heard else 0, 0
        if self.duplicate and not await self._is_stored():
            # The log may have let go of the message while it waited, or while its turn ran.
            turn = goal
            if not turn and not self._accepted.waits:
                return None
        return MessageEvents(self.seq, turn=turn, goal=goal)

    async def _is_stored(self) -> bool:
        """Whether the log still holds the message; `compaction: discard` drops old ones.

        One of the session before, or that did not speak to the agent, is known by its key alone.
        """
        # One line of the log tells it.
        first = await self._registry.store.read(self.session_id, after=self.seq - 1, limit=1)
        kinds = _BEGINNINGS if self._is_answered else _BESIDE
        return bool(first) and first[0].seq == self.seq and isinstance(first[0].body, kinds)

    async def leave(self) -> None:
        """Say that the client went away: by the agent's setting its turn may be paused."""
        try:
            await self._registry.ask(self.session_id, ClientDisconnected(self.seq))
        except CoreError as error:
            logger.info(
                "a client left a session that is gone",
                extra={"session_id": self.session_id, "error": str(error)},
            )


async def submit(
    message: IncomingMessage,
    session_id: str,
    registry: Actors,
    *,
    attachments: tuple[Attachment, ...] = (),
    begin_with: SessionStarted | None = None,
    passivate_at_once: bool = False,
) -> Submission:
    """Take what is said in one session; return when it is durable.

    What comes with it stands in `attachments`, and its bytes are kept by the session already. See
    `Actors.ask` for the other arguments and the errors.
    """
    # Their bytes are with the store already, and stay out of the mailbox.
    words = replace(message, attachments=()) if message.attachments else message
    feed = registry.feed(session_id)
    accepted = await registry.ask(
        session_id,
        Submit(words, attachments),
        begin_with=begin_with,
        passivate_at_once=passivate_at_once,
    )
    return Submission(
        session_id=session_id,
        attachments=attachments,
        _accepted=accepted,
        _registry=registry,
        _feed=feed,
        _is_answered=message.waits,
    )


async def retry(session_id: str, idempotency_key: str, registry: Actors) -> Submission:
    """Ask the newest turn again, which failed. Errors: `Actors.ask`, `NothingToRetryError`."""
    feed = registry.feed(session_id)
    accepted = await registry.ask(session_id, Retry(idempotency_key))
    return _submission(session_id, accepted, registry, feed)


async def answer_calls(
    session_id: str,
    answers: Sequence[CallAnswer],
    idempotency_key: str,
    registry: Actors,
) -> Submission:
    """Take what a caller's own tools gave. Errors: `Actors.ask`, `CallNotOpenError`."""
    feed = registry.feed(session_id)
    accepted = await registry.ask(session_id, AnswerCalls(tuple(answers), idempotency_key))
    return _submission(session_id, accepted, registry, feed)


def found(session_id: str, seq: int, state: SessionState, registry: Actors) -> Submission:
    """Return the way to the answer of a message that is durable as event `seq`."""
    # Nothing is asked of the actor, so none is started.
    accepted = Accepted.of(state, seq, duplicate=False)
    return _submission(session_id, accepted, registry, registry.feed(session_id))


def _submission(session_id: str, accepted: Accepted, registry: Actors, feed: Feed) -> Submission:
    return Submission(
        session_id=session_id,
        attachments=(),
        _accepted=accepted,
        _registry=registry,
        _feed=feed,
        _is_answered=True,
    )
