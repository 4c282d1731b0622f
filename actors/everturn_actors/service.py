"""The one door: every caller submits here and reads the updates it yields.

HTTP, the terminal, channels and the scheduler differ in how a message arrives and how a reply
leaves; between the two there is only this.
"""

from __future__ import annotations

import logging
import random
import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from everturn_actors.errors import (
    ActorStoppedError,
    CoreError,
    InvalidInputError,
    SessionEndedError,
    UnknownSessionError,
)
from everturn_actors.events import (
    Body,
    CallFinished,
    Event,
    ModelReplied,
    Received,
    SessionEnded,
    SessionStarted,
    StepStarted,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.feed import Feed, Pieces, TextDelta, Update
from everturn_actors.ids import new_session_id
from everturn_actors.mailbox import Answer
from everturn_actors.model import (
    ConversationKey,
    EndReason,
    Inbound,
    Outcome,
    Turn,
    Usage,
)
from everturn_actors.ports import Agents, Clock, SessionStore, SessionSummary
from everturn_actors.registry import Registry
from everturn_actors.session import Accepted, Cancel, Command, End, Leave, Look, Runtime, Submit
from everturn_actors.state import SessionState
from everturn_actors.turn import Pace

__all__ = [
    "ServiceSettings",
    "Submission",
    "TextDelta",
    "TurnResult",
    "TurnService",
    "Update",
    "open_service",
]

logger = logging.getLogger(__name__)

TEXT_BYTES = (
    1024 * 1024
)  # the longest message; a person cannot type it, a program should send a file
KEY_CHARS = 255  # the longest idempotency key
RESUMES_AT_ONCE = 8  # sessions loaded side by side at start-up
SWEEP_PAGE = 500  # sessions looked at in one go for their expiry


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """Times of a service, in seconds."""

    idle_rest_s: float = 600
    "An idle actor goes to rest after this."
    leave_grace_s: float = 2
    "How long a client may be gone before its turn is paused."
    drain_s: float = 10
    "How long running turns may take to finish when the service stops."
    sweep_s: float = 3600
    "How often idle sessions are looked at for their expiry."
    resume: bool = True
    "Let turns that were open go on by themselves. Without it they wait for the next message."


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """How the turn that answers a message came out."""

    session_id: str
    turn: int
    message_seq: int
    "The event of the last reply; 0 where there was none."
    outcome: Outcome
    text: str
    error: str
    usage: Usage
    stop_reason: str = ""


@dataclass(slots=True, kw_only=True)
class Submission:
    """A message that is durable, and the way to its answer."""

    session_id: str
    seq: int
    "The event of the message."
    duplicate: bool
    "The same idempotency key was seen before: this is the first message of that key."
    _registry: Registry
    _store: SessionStore
    _feed: Feed
    _state: SessionState

    async def updates(self) -> AsyncGenerator[Update]:
        """Yield the message's event, then all of the turn that answers it, to its end.

        Nothing is yielded for an old message whose events were discarded.

        Raises:
            ActorFailedError: The session failed meanwhile; the turn goes on with its next message.
        """
        async for update in self._follow("all"):
            yield update

    async def result(self) -> TurnResult:
        """Wait for the end of the turn that answers the message.

        Raises:
            InvalidInputError: The message is an old one, and its answer is no longer stored.
            ActorStoppedError: The service stops first; the turn goes on at its next start.
            ActorFailedError: The session failed meanwhile.
        """
        held = self._held_turn()
        if held is not None:
            return _held_result(self.session_id, held)
        turn, reply, usage = 0, None, Usage()
        async for update in self._follow("none"):
            if isinstance(update, TextDelta):
                continue
            match update.body:
                case TurnStarted(turn=number):
                    turn = number
                case ModelReplied() as body:
                    reply, usage = (update.seq, body), usage + body.usage
                case TurnFinished() as body:
                    return _result(self.session_id, body, reply, usage)
                case SessionEnded(reason=reason):
                    body = TurnFinished(
                        turn=turn, outcome="cancelled", error=f"the session was ended ({reason})"
                    )
                    return _result(self.session_id, body, None, usage)
                case _:
                    pass
        if self.duplicate and not turn:
            msg = "this message was answered before, and its answer is no longer stored"
            raise InvalidInputError(msg)
        raise ActorStoppedError

    async def _follow(self, pieces: Pieces) -> AsyncGenerator[Update]:
        if self.duplicate and not await self._is_stored():
            return
        turn, last_seq = 0, self._state.last_seq
        async for update in _follow(
            self._feed, self._store, self.session_id, self.seq - 1, last_seq, pieces
        ):
            if isinstance(update, TextDelta):
                if update.turn == turn:
                    yield update
                continue
            body = update.body
            if isinstance(body, TurnStarted) and self.seq in body.received:
                turn = body.turn
            if turn or update.seq == self.seq or isinstance(body, SessionEnded):
                yield update
            if isinstance(body, TurnFinished) and body.turn == turn:
                return

    async def _is_stored(self) -> bool:
        """Whether the log still holds the message; `compaction: discard` drops old ones."""
        first = await self._store.read(self.session_id, after=self.seq - 1, limit=1)
        return bool(first) and first[0].seq == self.seq

    def _held_turn(self) -> Turn | None:
        """Return the turn that answered the message, where it was over and held from the start."""
        if not self.duplicate:
            return None
        turns = reversed(self._state.held_turns)
        return next((t for t in turns if any(user.seq == self.seq for user in t.users)), None)

    def _leave(self, answer: Answer[None]) -> Command:
        return Leave(self.seq, answer)

    async def leave(self) -> None:
        """Say that the client went away: by the agent's setting its turn may be paused."""
        try:
            await self._registry.ask(self.session_id, self._leave)
        except CoreError as error:
            logger.info(
                "a client left a session that is gone",
                extra={"session_id": self.session_id, "error": str(error)},
            )


async def _submit(
    inbound: Inbound,
    session_id: str,
    registry: Registry,
    store: SessionStore,
    *,
    begin_with: SessionStarted | None = None,
    rest_at_once: bool = False,
) -> Submission:
    def submit(answer: Answer[Accepted]) -> Command:
        return Submit(inbound, answer)

    feed = registry.feed(session_id)
    accepted = await registry.ask(
        session_id, submit, begin_with=begin_with, rest_at_once=rest_at_once
    )
    return Submission(
        session_id=session_id,
        seq=accepted.seq,
        duplicate=accepted.duplicate,
        _registry=registry,
        _store=store,
        _feed=feed,
        _state=accepted.state,
    )


def _look(answer: Answer[SessionState]) -> Command:
    return Look(resume=False, answer=answer)


def _look_and_resume(answer: Answer[SessionState]) -> Command:
    return Look(resume=True, answer=answer)


def _result(
    session_id: str, end: TurnFinished, reply: tuple[int, ModelReplied] | None, usage: Usage
) -> TurnResult:
    return TurnResult(
        session_id=session_id,
        turn=end.turn,
        message_seq=reply[0] if reply else 0,
        outcome=end.outcome,
        text=reply[1].text if reply else "",
        error=end.error,
        usage=usage,
        stop_reason=reply[1].stop_reason if reply else "",
    )


def _held_result(session_id: str, turn: Turn) -> TurnResult:
    reply = turn.steps[-1].reply if turn.steps else None
    return TurnResult(
        session_id=session_id,
        turn=turn.number,
        message_seq=reply.seq if reply else 0,
        outcome=turn.outcome,
        text=turn.text,
        error=turn.error,
        usage=turn.usage,
        stop_reason=reply.stop_reason if reply else "",
    )


async def _follow(
    feed: Feed, store: SessionStore, session_id: str, after: int, last_seq: int, pieces: Pieces
) -> AsyncGenerator[Update]:
    async def read_log(after: int, limit: int) -> tuple[Event, ...]:
        return await store.read(session_id, after=after, limit=limit)

    async for update in feed.follow(after, read_log, last_seq=last_seq, pieces=pieces):
        yield update


@dataclass(slots=True)
class _Bindings:
    """Which session a conversation is in, for sessions that are awake."""

    session_of: dict[ConversationKey, str] = field(default_factory=dict[ConversationKey, str])
    key_of: dict[str, ConversationKey] = field(default_factory=dict[str, ConversationKey])
    deciding: anyio.Lock = field(default_factory=anyio.Lock)

    def bind(self, key: ConversationKey, session_id: str) -> None:
        self.session_of[key] = session_id
        self.key_of[session_id] = key

    async def forget(self, session_id: str) -> None:
        key = self.key_of.pop(session_id, None)
        if key is not None and self.session_of.get(key) == session_id:
            del self.session_of[key]


class TurnService:
    """Sessions as callers see them."""

    def __init__(
        self,
        *,
        store: SessionStore,
        scratch: SessionStore,
        runtime: Runtime,
        registry: Registry,
        scratch_registry: Registry,
        bindings: _Bindings,
    ) -> None:
        """Only `open_service` makes one."""
        self._store = store
        self._scratch = scratch
        self._runtime = runtime
        self._registry = registry
        self._scratch_registry = scratch_registry
        self._bindings = bindings

    # --- messages ---

    async def submit(self, inbound: Inbound) -> Submission:
        """Accept a message; return when it is durable.

        It goes to `inbound.session_id`, or to the current session of `inbound.key`, which is
        started where there is none.

        Raises:
            InvalidInputError: Empty, too long, or not text.
            UnknownAgentError: No such agent.
            UnknownSessionError: No such session.
            SessionEndedError: The session named by id has ended.
            MailboxFullError: Too many messages wait in this conversation.
            ActorStoppedError: The service is stopping.
            ActorFailedError, JournalError: The session cannot be read or written. The message
                was not accepted.
        """
        _check(inbound)
        if inbound.session_id:
            return await self._submit_to(inbound, inbound.session_id, None)
        if inbound.key is None:
            msg = "a message needs a conversation or a session"
            raise InvalidInputError(msg)
        key = inbound.key
        self._runtime.agents.get(key.agent)
        ended = ""
        while True:
            session_id = await self._session_of(key, not_this=ended)
            try:
                return await self._submit_to(
                    inbound, session_id, SessionStarted(session_id=session_id, key=key)
                )
            except SessionEndedError:
                ended = session_id

    async def submit_once(
        self, *, agent: str, instructions: str, history: Sequence[Turn], text: str
    ) -> Submission:
        """Answer `text` in one turn after `history`; nothing of it is kept.

        Args:
            agent: Who answers.
            instructions: Instructions for this turn alone.
            history: Earlier turns, oldest first; their numbers do not matter.
            text: The newest user message.

        Raises:
            InvalidInputError: Empty, too long, or not text.
            UnknownAgentError: No such agent.
        """
        self._runtime.agents.get(agent)
        session_id = self._new_id()
        key = ConversationKey(channel="once", chat=session_id, agent=agent)
        inbound = Inbound(text=text, session_id=session_id)
        _check(inbound)
        begin = SessionStarted(session_id=session_id, key=key, instructions=instructions)
        now = self._runtime.now()
        bodies = [begin, *_replay(history)]
        events = [Event(seq=seq, at=now, body=body) for seq, body in enumerate(bodies, 1)]
        await self._scratch.append(session_id, events, expected_seq=0)
        return await _submit(
            inbound, session_id, self._scratch_registry, self._scratch, rest_at_once=True
        )

    async def _submit_to(
        self, inbound: Inbound, session_id: str, begin_with: SessionStarted | None
    ) -> Submission:
        return await _submit(
            inbound, session_id, self._registry, self._store, begin_with=begin_with
        )

    async def _session_of(self, key: ConversationKey, *, not_this: str) -> str:
        """Return the current session of `key`, bound durably; a new one instead of `not_this`."""
        known = self._bindings.session_of.get(key, "")
        if known and known != not_this:
            return known
        async with self._bindings.deciding:
            known = self._bindings.session_of.get(key, "") or await self._store.bound(key)
            if not known or known == not_this:
                known = self._new_id()
                await self._store.bind(key, known)
            self._bindings.bind(key, known)
            return known

    # --- sessions ---

    async def create(self, key: ConversationKey) -> str:
        """Start a new session of a conversation and return its id when it is durable.

        Raises:
            UnknownAgentError: No such agent.
        """
        self._runtime.agents.get(key.agent)
        session_id = self._new_id()
        async with self._bindings.deciding:
            await self._store.bind(key, session_id)
            self._bindings.bind(key, session_id)
        begin = SessionStarted(session_id=session_id, key=key)
        await self._registry.ask(session_id, _look, begin_with=begin)
        return session_id

    async def current(self, key: ConversationKey) -> str:
        """Return the id of the conversation's current session, "" where there is none."""
        session_id = self._bindings.session_of.get(key) or await self._store.bound(key)
        if not session_id:
            return ""
        try:
            state = await self.view(session_id)
        except UnknownSessionError:
            return ""
        return "" if state.status == "ended" else session_id

    async def view(self, session_id: str) -> SessionState:
        """Return the present state of a session.

        Raises:
            UnknownSessionError: There is none of this id.
            JournalError: It cannot be read.
        """
        return await self._registry.ask(session_id, _look)

    async def history(self, session_id: str, *, after: int, limit: int) -> tuple[Event, ...]:
        """Return up to `limit` events with a seq above `after` from the log, oldest first.

        What compaction archived is included, what it discarded is not.
        """
        return await self._store.read(session_id, after=after, limit=limit)

    async def sessions(self, *, after: str = "", limit: int = 50) -> tuple[SessionSummary, ...]:
        """Return sessions with an id below `after` ("" = from the newest), newest first."""
        return await self._store.sessions(after=after, limit=limit)

    async def follow(self, session_id: str, *, after: int) -> AsyncGenerator[Update]:
        """Yield all events with a seq above `after`, then what comes, to the end of the session.

        A turn that was paused because nobody waited for it goes on. Ends when the service stops.

        Raises:
            UnknownSessionError: There is no such session.
            ActorFailedError: It failed meanwhile.
        """
        feed = self._registry.feed(session_id)
        with feed.following():
            state = await self._registry.ask(session_id, _look_and_resume)
            if state.status == "ended" and after >= state.last_seq:
                return
            async for update in _follow(
                feed, self._store, session_id, after, state.last_seq, "live"
            ):
                yield update

    async def cancel(self, session_id: str) -> bool:
        """Close the open turn; return whether there was one, when that is durable.

        Raises:
            UnknownSessionError: There is no such session.
        """
        return await self._registry.ask(session_id, Cancel)

    async def reset(self, session_id: str) -> None:
        """End a session. Its conversation starts a new one with its next message."""
        await self._end(session_id, "reset")

    async def delete(self, session_id: str) -> None:
        """End a session and remove all that is stored of it; return when that is durable.

        Raises:
            UnknownSessionError: There is no such session.
        """
        await self._end(session_id, "deleted")
        await self._registry.gone(session_id)
        await self._store.delete(session_id)

    async def _end(self, session_id: str, reason: EndReason) -> None:
        def end(answer: Answer[None]) -> Command:
            return End(reason, answer)

        await self._registry.ask(session_id, end)

    def _new_id(self) -> str:
        return new_session_id(self._runtime.now(), secrets.token_hex(4))


@asynccontextmanager
async def open_service(
    *,
    store: SessionStore,
    scratch: SessionStore,
    agents: Agents,
    clock: Clock,
    settings: ServiceSettings | None = None,
) -> AsyncGenerator[TurnService]:
    """Open the door; turns that were open when the last process ended go on by themselves.

    When the block ends, running turns get `settings.drain_s` to finish; what is cut off then goes
    on at the next start.

    Args:
        store: Where sessions live.
        scratch: Where stateless turns run; nothing in it is worth keeping.
        agents: Who answers.
        clock: The time.
        settings: Times.
    """
    settings = settings or ServiceSettings()
    pace = Pace(clock=clock, jitter=random.random)
    bindings = _Bindings()

    def runtime(of: SessionStore) -> Runtime:
        return Runtime(
            store=of,
            agents=agents,
            pace=pace,
            idle_rest_s=settings.idle_rest_s,
            leave_grace_s=settings.leave_grace_s,
        )

    async with anyio.create_task_group() as actors:
        registry = Registry(runtime(store), actors, on_gone=bindings.forget)
        scratch_registry = Registry(runtime(scratch), actors, on_gone=scratch.delete)
        service = TurnService(
            store=store,
            scratch=scratch,
            runtime=runtime(store),
            registry=registry,
            scratch_registry=scratch_registry,
            bindings=bindings,
        )
        try:
            async with anyio.create_task_group() as upkeep:
                if settings.resume:
                    upkeep.start_soon(_resume_open_turns, store, registry)
                upkeep.start_soon(_end_expired, store, registry, agents, clock, settings.sweep_s)
                yield service
                upkeep.cancel_scope.cancel()
        finally:
            with anyio.move_on_after(settings.drain_s + 1, shield=True):
                async with anyio.create_task_group() as stopping:
                    stopping.start_soon(registry.stop, settings.drain_s)
                    stopping.start_soon(scratch_registry.stop, settings.drain_s)
            actors.cancel_scope.cancel()


async def _resume_open_turns(store: SessionStore, registry: Registry) -> None:
    """Wake every session that may have an open turn; those that have none rest again at once."""
    limiter = anyio.CapacityLimiter(RESUMES_AT_ONCE)

    async def wake(session_id: str) -> None:
        async with limiter:
            await _wake(registry, session_id)

    async with anyio.create_task_group() as tasks:
        for session_id in await store.awake():
            tasks.start_soon(wake, session_id)


async def _end_expired(
    store: SessionStore, registry: Registry, agents: Agents, clock: Clock, sweep_s: float
) -> None:
    """Every `sweep_s`, wake the sessions that are idle for longer than their agent allows.

    An actor that wakes ends an expired session by itself.
    """
    while True:
        await clock.sleep(sweep_s)
        after = ""
        while page := await store.sessions(after=after, limit=SWEEP_PAGE):
            after = page[-1].session_id
            for row in page:
                try:
                    hours = agents.get(row.key.agent).spec.session.ttl_hours
                except CoreError:
                    continue
                idle_s = (clock.now() - row.updated_at).total_seconds()
                if row.status != "ended" and 0 < hours * 3600 < idle_s:
                    await _wake(registry, row.session_id)


async def _wake(registry: Registry, session_id: str) -> None:
    try:
        await registry.ask(session_id, _look, rest_at_once=True)
    except CoreError as error:
        logger.warning(
            "a session could not be woken", extra={"session_id": session_id, "error": str(error)}
        )


def _check(inbound: Inbound) -> None:
    """Refuse what is not a message.

    Raises:
        InvalidInputError: With the reason.
    """
    if not inbound.text.strip():
        msg = "the message is empty"
        raise InvalidInputError(msg)
    if len(inbound.idempotency_key) > KEY_CHARS:
        msg = f"the idempotency key is longer than {KEY_CHARS} characters"
        raise InvalidInputError(msg)
    try:
        size_bytes = len(inbound.text.encode())
        (inbound.idempotency_key + inbound.sender).encode()
    except UnicodeEncodeError as error:
        msg = f"the message is not valid Unicode text at character {error.start}"
        raise InvalidInputError(msg) from error
    if size_bytes > TEXT_BYTES:
        msg = f"the message has {size_bytes} bytes; at most {TEXT_BYTES} are accepted"
        raise InvalidInputError(msg)


def _replay(history: Sequence[Turn]) -> list[Body]:
    """Return the events of a conversation that took place elsewhere."""
    bodies: list[Body] = []
    for number, turn in enumerate(history, 1):
        first = len(bodies) + 2  # after session_started
        bodies += [Received(text=user.text, sender=user.sender) for user in turn.users]
        received = tuple(range(first, first + len(turn.users)))
        bodies.append(TurnStarted(turn=number, received=received, window_messages=2000))
        for index, step in enumerate(turn.steps, 1):
            reply = step.reply
            bodies.append(StepStarted(turn=number, step=index, model=""))
            bodies.append(ModelReplied(text=reply.text, calls=reply.calls))
            bodies += [CallFinished(call_id=r.call_id, text=r.text) for r in step.results]
        bodies.append(TurnFinished(turn=number, outcome="answered"))
    return bodies
