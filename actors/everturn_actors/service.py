"""The one entry point: every caller submits here and reads the updates it yields.

HTTP, the terminal, channels and the scheduler differ in how a message arrives and how a reply
leaves; between the two there is only this.
"""

from __future__ import annotations

import logging
import random
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TypeVar

import anyio
from anyio import to_thread

from everturn_actors.context.estimation.windows import hint_notes, input_window
from everturn_actors.context.explain import Explanation
from everturn_actors.context.render import render
from everturn_actors.context.report import ContextReport, context_report
from everturn_actors.delivery.port import DeliveryPort
from everturn_actors.errors import (
    ActorFailedError,
    ApprovalClosedError,
    InvalidInputError,
    JournalError,
    SessionEndedError,
    UnknownAgentError,
    UnknownApprovalError,
    UnknownRequestError,
    UnknownSessionError,
)
from everturn_actors.events import ApprovalDecided, Event, SessionStarted
from everturn_actors.gaps import Gap, jumps
from everturn_actors.ids import new_session_id
from everturn_actors.model import (
    AmbientMessage,
    Announcement,
    Attachment,
    ConversationKey,
    Decision,
    EndReason,
    Inbound,
    Resolution,
    Turn,
    Upload,
)
from everturn_actors.ports import (
    ALL_SESSIONS,
    Agents,
    Clock,
    ModelStatisticsStore,
    NullObserver,
    Observer,
    SessionFilter,
    SessionStore,
    SessionSummary,
)
from everturn_actors.protocol.commands import (
    Cancel,
    Compact,
    Compacted,
    Edit,
    End,
    GetState,
    ResolveApproval,
    Resume,
    Share,
    StoreAmbient,
    Tick,
)
from everturn_actors.protocol.feed import TextDelta, Update
from everturn_actors.protocol.subscription import follow_feed
from everturn_actors.session.bindings import Bindings
from everturn_actors.session.maintenance import end_expired, resume_open_turns
from everturn_actors.session.registry import Registry, RuntimeStats
from everturn_actors.session.runtime import Runtime
from everturn_actors.session.submission import (
    AnnouncementReceipt,
    Submission,
    TurnResult,
    announce,
    retry,
    submit,
)
from everturn_actors.state.recovery import is_expired, recover
from everturn_actors.state.session_state import SessionState
from everturn_actors.state.validation import (
    attachment_of,
    check,
    check_announcement,
    check_focus,
    check_text,
    check_uploads,
    replay,
    type_of,
)
from everturn_actors.supervisor import TRANSIENT, Supervisor
from everturn_actors.turn.approvals import why_settled
from everturn_actors.turn.model_call import Pace
from everturn_actors.turn.model_statistics import InMemoryModelStatistics
from everturn_actors.turn.observer_boundary import GuardedObserver
from everturn_actors.turn.replay import RequestReplay

__all__ = [
    "AnnouncementReceipt",
    "Compacted",
    "RuntimeStats",
    "ServiceSettings",
    "Submission",
    "TextDelta",
    "TurnResult",
    "TurnService",
    "Update",
    "open_service",
]

logger = logging.getLogger(__name__)

T = TypeVar("T")

SHARES_MAX = 100  # principals that a session is shared with
SEEN_BEFORE = 200  # idempotency keys that a session knows from the one before it
EXPLAIN_PAGE_EVENTS = 1000  # some 50 ms of a thread: what a client that left can still cost
LOOK_BACK_EVENTS = 500  # in which a word that comes too late finds out why


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """Times of a service, in seconds."""

    passivate_after_s: float = 600
    "An idle actor is passivated after this."
    max_active: int = 2000
    "Beyond so many actors the ones that are idle longest are passivated at once; 0 = any number."
    leave_grace_s: float = 2
    "How long a client may be gone before its turn is paused."
    drain_s: float = 10
    "How long running turns may take to finish when the service stops."
    sweep_s: float = 3600
    "How often idle sessions are looked at for their expiry."
    resume: bool = True
    "Let turns that were open go on by themselves. Without it they wait for the next message."


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
        bindings: Bindings,
        on_delete: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """Only `open_service` makes one."""
        self._on_delete = on_delete
        self._store = store
        self._scratch = scratch
        self._runtime = runtime
        self._registry = registry
        self._scratch_registry = scratch_registry
        self._bindings = bindings

    # --- messages ---

    async def submit(self, inbound: Inbound) -> Submission:
        """Accept a message; return when it is durable, and the files that come with it are.

        It goes to `inbound.session_id`, or to the current session of `inbound.key`, which is
        started where there is none.

        Raises:
            InvalidInputError: Empty, too long, or not text; or a file that is refused.
            UnknownAgentError: No such agent.
            UnknownSessionError: No such session.
            SessionEndedError: The session named by id has ended.
            MailboxFullError: Too many messages wait in this conversation.
            QueueFullError, BusyError: By `inbound.queueing` it is not taken now.
            ActorStoppedError: The service is stopping.
            ActorFailedError, JournalError: The session cannot be read or written. The message
                was not accepted.
        """
        check(inbound)
        if inbound.session_id:
            return await self._submit_to(inbound, inbound.session_id, None)
        if inbound.key is None:
            msg = "a message needs a conversation or a session"
            raise InvalidInputError(msg)
        submit_to = partial(self._submit_to, inbound)
        return await self._in_current(inbound.key, submit_to, principal=inbound.principal)

    async def announce(self, announcement: Announcement) -> AnnouncementReceipt:
        """Say something in the agent's name, without a turn; return when it is durable.

        It is owed to the people of the session's channel, and the next turn is told of it. It may
        be said while a turn is open, and while the session is paused, which it stays.

        It goes to `announcement.session_id`, or to the current session of `announcement.key`,
        which is started where there is none.

        Raises:
            InvalidInputError: Empty, too long, or not text.
            UnknownAgentError: No such agent.
            UnknownSessionError: No such session.
            SessionEndedError: The session named by id has ended.
            MailboxFullError: Too many commands wait in this conversation.
            ActorStoppedError: The service is stopping.
            ActorFailedError, JournalError: The session cannot be read or written. Nothing was
                said.
        """
        check_announcement(announcement)

        async def say(session_id: str, begin_with: SessionStarted | None) -> AnnouncementReceipt:
            return await announce(announcement, session_id, self._registry, begin_with=begin_with)

        if announcement.session_id:
            return await say(announcement.session_id, None)
        if announcement.key is None:
            msg = "an announcement needs a conversation or a session"
            raise InvalidInputError(msg)
        return await self._in_current(announcement.key, say, principal=announcement.principal)

    async def store_ambient(self, message: AmbientMessage) -> bool:
        """Keep a message that did not speak to the agent; return whether it is a new one.

        Returns when it is durable. It begins no turn; the next one is told of it, where `shown`.

        Raises:
            InvalidInputError: Too long, or not text.
            UnknownAgentError: No such agent.
            ActorStoppedError: The service is stopping.
            ActorFailedError, JournalError: The session cannot be read or written.
        """
        check_text(message.text, message.idempotency_key, message.sender)

        async def keep(session_id: str, begin_with: SessionStarted) -> bool:
            return await self._registry.ask(
                session_id, StoreAmbient(message), begin_with=begin_with
            )

        return await self._in_current(message.key, keep)

    async def edit(self, key: ConversationKey, idempotency_key: str, text: str) -> bool:
        """Replace the text of a message that waits; return whether it still did.

        One whose turn has begun stays as it is, and so does one that is not known.

        Raises:
            InvalidInputError: Empty, too long, or not text.
            ActorStoppedError: The service is stopping.
            ActorFailedError, JournalError: The session cannot be read or written.
        """
        check(Inbound(text=text, key=key))

        command = Edit(idempotency_key, text)
        session_id = await self.current(key)
        try:
            return bool(session_id) and await self._registry.ask(session_id, command)
        except UnknownSessionError:  # it was deleted in this moment
            return False

    async def flush(self, key: ConversationKey) -> None:
        """Let a turn begin that is held for more messages of its senders.

        Raises:
            ActorStoppedError: The service is stopping.
            ActorFailedError, JournalError: The session cannot be read or written.
        """
        session_id = await self.current(key)
        if session_id:
            with suppress(UnknownSessionError):  # it was deleted in this moment
                await self._registry.ask(session_id, Tick(release=True))

    async def _in_current(
        self,
        key: ConversationKey,
        act: Callable[[str, SessionStarted], Awaitable[T]],
        *,
        principal: str = "",
    ) -> T:
        """Act on the current session of a conversation; where it has ended, on a new one.

        That one belongs to `principal`, or else to whom the one before belonged.
        """
        self._runtime.agents.get(key.agent)
        key = self._bindings.known_as(key)
        ended = ""
        seen: tuple[str, ...] = ()
        while True:
            session_id = await self._session_of(key, not_this=ended)
            try:
                begin = SessionStarted(
                    session_id=session_id, key=key, seen=seen, principal=principal
                )
                return await act(session_id, begin)
            except SessionEndedError:
                ended = session_id
                seen, began_by = await self._left_by(ended)
                principal = principal or began_by

    async def _left_by(self, session_id: str) -> tuple[tuple[str, ...], str]:
        """Return the newest idempotency keys of a session that has ended, and who began it.

        A platform, or a program of the gateway, may hand in again what was accepted right before
        the end.
        """
        try:
            state = await self.view(session_id)
        except UnknownSessionError:
            return (), ""
        return tuple(state.seen)[-SEEN_BEFORE:], state.principal

    async def submit_once(
        self,
        *,
        agent: str,
        instructions: str,
        history: Sequence[Turn],
        text: str,
        attachments: Sequence[Upload] = (),
        shown_before: Sequence[Upload] = (),
        retry_for_s: int | None = None,
        principal: str = "",
        sender: str = "",
    ) -> Submission:
        """Answer `text` in one turn after `history`; nothing of it is kept.

        Args:
            agent: Who answers.
            instructions: Instructions for this turn alone.
            history: Earlier turns, oldest first; their numbers do not matter.
            text: The newest user message.
            attachments: What comes with it.
            shown_before: The files that the messages of `history` name.
            retry_for_s: See `Inbound.retry_for_s`.
            principal: Who asks, and pays for it.
            sender: See `Inbound.sender`.

        Raises:
            InvalidInputError: Empty, too long, or not text; or a file that is refused.
            UnknownAgentError: No such agent.
        """
        self._runtime.agents.get(agent)
        session_id = self._new_id()
        key = ConversationKey(channel="once", chat=session_id, agent=agent)
        inbound = Inbound(
            text=text,
            session_id=session_id,
            sender=sender,
            attachments=tuple(attachments),
            retry_for_s=retry_for_s,
        )
        check(inbound)
        for upload in shown_before:  # in all they are bounded by whoever took them in
            check_uploads([upload])
        begin = SessionStarted(
            session_id=session_id, key=key, instructions=instructions, principal=principal
        )
        now = self._runtime.now()
        bodies = [begin, *replay(history)]
        events = [Event(seq=seq, at=now, body=body) for seq, body in enumerate(bodies, 1)]
        await self._scratch.append(session_id, events, expected_seq=0)
        await _save(self._scratch, session_id, shown_before, await _named(shown_before))
        attached = await _named(inbound.attachments)
        await _save(self._scratch, session_id, inbound.attachments, attached)
        return await submit(
            inbound,
            session_id,
            self._scratch_registry,
            self._scratch,
            attachments=attached,
            passivate_at_once=True,
        )

    async def _submit_to(
        self, inbound: Inbound, session_id: str, begin_with: SessionStarted | None
    ) -> Submission:
        attachments = await self._keep_files(inbound, session_id, begin_with)
        return await submit(
            inbound,
            session_id,
            self._registry,
            self._store,
            attachments=attachments,
            begin_with=begin_with,
        )

    async def _keep_files(
        self, inbound: Inbound, session_id: str, begin_with: SessionStarted | None
    ) -> tuple[Attachment, ...]:
        """Keep what comes with a message, durably, before the event that names it is written.

        A crash in between leaves files that nothing names: they go with the session, or with the
        oldest.
        """
        if not inbound.attachments:
            return ()
        attachments = await _named(inbound.attachments)
        is_again = False
        while True:
            # A file belongs to a session: it has to be there first.
            state = await self._registry.ask(session_id, GetState(), begin_with=begin_with)
            if inbound.idempotency_key and inbound.idempotency_key in state.seen:
                return attachments  # they were kept with the first one
            if state.status == "ended":
                raise SessionEndedError(session_id, state.ended_reason)
            try:
                await _save(self._store, session_id, inbound.attachments, attachments)
            except UnknownSessionError:  # it was deleted in this moment
                if begin_with is None or is_again:
                    raise
                is_again = True
            else:
                return attachments

    async def _session_of(self, key: ConversationKey, *, not_this: str) -> str:
        """Return the current session of `key`, bound durably; a new one instead of `not_this`."""
        known = self._bindings.session_of(key)
        if known and known != not_this:
            return known
        async with self._bindings.deciding(key):
            known = self._bindings.session_of(key) or await self._store.bound(key)
            if not known or known == not_this:
                return await self._bind_new(key)
            self._bindings.bind(key, known)
            return known

    # --- sessions ---

    async def create(self, key: ConversationKey, *, principal: str = "") -> str:
        """Start a new session of a conversation and return its id when it is durable.

        Args:
            key: The conversation.
            principal: Whom it belongs to; empty = nobody.

        Raises:
            UnknownAgentError: No such agent.
        """
        self._runtime.agents.get(key.agent)
        key = self._bindings.known_as(key)
        async with self._bindings.deciding(key):
            session_id = await self._bind_new(key)
        await self._begin(session_id, key, principal)
        return session_id

    async def open(self, key: ConversationKey, *, principal: str = "") -> tuple[str, bool]:
        """Return the current session of a conversation, and whether it was started for this.

        Args:
            key: The conversation.
            principal: Whom one that is started belongs to; empty = nobody.

        Raises:
            UnknownAgentError: No such agent.
            JournalError: It cannot be read or written.
        """
        key = self._bindings.known_as(key)
        async with self._bindings.deciding(key):
            session_id = self._bindings.session_of(key) or await self._store.bound(key)
            if session_id:
                with suppress(UnknownSessionError):  # it is bound, and its first event is to come
                    if not self._is_over(await self.view(session_id)):
                        return session_id, False
                    session_id = ""
            self._runtime.agents.get(key.agent)
            session_id = session_id or await self._bind_new(key)
            await self._begin(session_id, key, principal)  # before anybody else finds it
            return session_id, True

    async def _bind_new(self, key: ConversationKey) -> str:
        session_id = self._new_id()
        await self._store.bind(key, session_id)
        self._bindings.bind(key, session_id)
        return session_id

    async def _begin(self, session_id: str, key: ConversationKey, principal: str) -> None:
        begin = SessionStarted(session_id=session_id, key=key, principal=principal)
        await self._registry.ask(session_id, GetState(), begin_with=begin)

    async def current(self, key: ConversationKey) -> str:
        """Return the id of the conversation's current session, "" where there is none.

        One that is idle for longer than its agent allows is none, whoever ends it. Wakes nobody.
        """
        key = self._bindings.known_as(key)
        session_id = self._bindings.session_of(key) or await self._store.bound(key)
        if not session_id:
            return ""
        try:
            state = await self.view(session_id)
        except UnknownSessionError:
            return ""
        return "" if self._is_over(state) else session_id

    def _is_over(self, state: SessionState) -> bool:
        """Whether a session has ended, or would with its next message."""
        if state.status == "ended":
            return True
        if state.outbox and state.key.channel in self._runtime.delivery_ports:
            return False
        try:
            hours = self._runtime.agents.get(state.key.agent).spec.session.ttl_hours
        except UnknownAgentError:
            return False
        return is_expired(state, hours, self._runtime.now())

    async def view(self, session_id: str) -> SessionState:
        """Return the present state of a session. Nobody wakes for it, and nothing is written.

        One that rests is shown as its files have it: a turn that a crash cut short as open, and a
        session that nobody ended as not ended, however long ago it was used.

        Raises:
            UnknownSessionError: There is none of this id.
            JournalError: It cannot be read.
        """
        state = self._registry.present(session_id)
        if state is not None:
            return state
        loaded = await self._store.inspect(session_id)
        # It may have woken, and gone on, while its files were read.
        state = self._registry.present(session_id)
        if state is not None:
            return state
        recovered = loaded and recover(loaded.snapshot, loaded.events)
        if not recovered:
            raise UnknownSessionError(session_id)
        return recovered.state

    def present(self, session_id: str) -> SessionState | None:
        """Return the state of a session that is in memory; None where it is not.

        One of a stateless call counts too. Looks into memory alone.
        """
        return self._registry.present(session_id) or self._scratch_registry.present(session_id)

    async def summary(self, session_id: str) -> SessionSummary | None:
        """Return what a list says of a session; None where there is none, or it cannot be read.

        Costs the same however much is stored of it. Nobody wakes for it.
        """
        state = self._registry.present(session_id)
        if state is None:
            return await self._store.summary(session_id)
        return SessionSummary(
            session_id=session_id,
            key=state.key,
            status=state.status,
            created_at=state.created_at,
            updated_at=state.updated_at,
            principal=state.principal,
            shared_with=state.shared_with,
        )

    def waiting_for(self, session_id: str) -> str:
        """Return what a session's model call waits for, in words, before it is made.

        Empty where it waits for nothing, and where no call is under way. Looks into memory alone.
        """
        own, scratch = self._registry, self._scratch_registry
        return own.waiting_for(session_id) or scratch.waiting_for(session_id)

    async def history(self, session_id: str, *, after: int, limit: int) -> tuple[Event, ...]:
        """Return up to `limit` events with a seq above `after` from the log, oldest first.

        What compaction archived is included, what it discarded is not: numbers may jump, see
        `explain_gaps`.
        """
        return await self._store.read(session_id, after=after, limit=limit)

    async def explain_gaps(
        self, session_id: str, runs: Sequence[tuple[int, int]]
    ) -> tuple[Gap, ...]:
        """Return why events are missing where the numbers of a history jump, ascending.

        Args:
            session_id: The session.
            runs: First and last number of each run that is missing, see `gaps.jumps`.

        Raises:
            JournalError: It cannot be read.
        """
        gaps: list[Gap] = []
        for first, last in runs:
            gaps += await self._store.explain_gap(session_id, first, last)
        return tuple(gaps)

    async def media(self, session_id: str, name: str) -> tuple[Attachment, bytes] | None:
        """Return a file that came with a message, and what is known of it; None where it is gone.

        Raises:
            UnknownSessionError: There is no such session.
            JournalError: It cannot be read.
        """
        state = await self.view(session_id)
        data = await self._store.read_media(session_id, name)
        if data is None:
            return None
        turn = state.open_turn
        users = (
            *state.waiting,
            *(turn.heard if turn else ()),
            *(user for each in reversed(state.held_turns) for user in each.heard),
        )
        known = (each for user in users for each in user.attachments if each.name == name)
        unheld = Attachment(name=name, media_type=type_of(name), size_bytes=len(data))
        return next(known, unheld), data

    async def sessions(
        self, *, after: str = "", limit: int = 50, wanted: SessionFilter = ALL_SESSIONS
    ) -> tuple[SessionSummary, ...]:
        """Return wanted sessions with an id below `after` ("" = from the newest), newest first."""
        return await self._store.sessions(after=after, limit=limit, wanted=wanted)

    async def share(
        self, session_id: str, principal: str, *, by: str = "", is_withdrawn: bool = False
    ) -> tuple[str, ...]:
        """Give a principal a session, or take it back; return who has it when that is durable.

        Args:
            session_id: The session.
            principal: Who is given it.
            by: Who gives it.
            is_withdrawn: Whether it is taken back.

        Raises:
            UnknownSessionError: There is no such session.
            SessionEndedError: It has ended.
            InvalidInputError: So many have it that nobody is added.
        """
        if not is_withdrawn and len((await self.view(session_id)).shared_with) >= SHARES_MAX:
            msg = f"the session is shared with {SHARES_MAX}, which is as many as may be"
            raise InvalidInputError(msg)
        command = Share(principal=principal, by=by, is_withdrawn=is_withdrawn)
        shared_with = await self._registry.ask(session_id, command)
        # Answered behind the snapshot that follows: from then on lists go by it.
        await self._registry.ask(session_id, GetState())
        return shared_with

    async def watch(self, session_id: str, *, after: int) -> AsyncGenerator[Update]:
        """Yield all events with a seq above `after`, then what comes, to the end of the session.

        Looking on changes nothing: no session wakes, a paused turn stays paused (see `resume`), and
        one that nobody else waits for is paused all the same. Ends when the service stops.

        Raises:
            UnknownSessionError: There is no such session.
            ActorFailedError: It failed meanwhile.
            JournalError: It cannot be read.
        """
        feed = self._registry.feed(session_id)
        state = await self.view(session_id)
        if state.status == "ended" and after >= state.last_seq:
            return
        followed = follow_feed(
            feed, self._store, session_id, after, state.last_seq, "live", waits=False
        )
        async with aclosing(followed) as updates:
            async for update in updates:
                yield update

    async def resume(self, session_id: str) -> bool:
        """Let a paused turn go on; return whether there was one, when that is durable.

        Raises:
            UnknownSessionError: There is no such session.
        """
        return await self._registry.ask(session_id, Resume())

    async def cancel(self, session_id: str, *, by: str = "") -> bool:
        """Close the open turn; return whether there was one, when that is durable.

        Args:
            session_id: The session.
            by: Who wants it, for the log; empty = not known.

        Raises:
            UnknownSessionError: There is no such session.
        """
        return await self._registry.ask(session_id, Cancel(by))

    async def retry(self, session_id: str, *, idempotency_key: str = "") -> Submission:
        """Ask the newest turn again, which failed; return when that is durable.

        The new turn takes the place of the one that failed: it answers the same messages, and what
        its tools have done is not done again. The log keeps both.

        Args:
            session_id: The session.
            idempotency_key: The same key is the same wish, also after a restart; empty = a new one.

        Raises:
            UnknownSessionError: There is no such session.
            NothingToRetryError: The newest turn did not fail, or something is under way.
            SessionEndedError: It has ended.
            UnknownAgentError: Its agent is gone.
            ActorStoppedError: The service is stopping.
            ActorFailedError, JournalError: The session cannot be read or written.
        """
        return await retry(session_id, idempotency_key, self._registry, self._store)

    async def decide(
        self,
        session_id: str,
        call_id: str,
        decision: Decision,
        *,
        by: str = "",
        may_always: bool = False,
        arguments_hash: str = "",
        expires_at: datetime | None = None,
    ) -> None:
        """Answer the approval of a call; return when the word is durable.

        The same word again changes nothing. A paused turn goes on.

        Args:
            session_id: The session.
            call_id: The call that waits.
            decision: The word.
            by: Who gives it, as a sender id of the channel; empty = whoever runs the gateway.
            may_always: Whether `by` runs the gateway, or owns the agent, and need not stand among
                those who may. The caller has made sure.
            arguments_hash: What was shown to them, see `Approval`; empty = not compared.
            expires_at: Of the question that was shown to them: one about the same call that is
                asked later has another. None = not compared.

        Raises:
            UnknownSessionError: There is no such session.
            UnknownApprovalError: No call of this id waits.
            NotAnApproverError: `by` is none of those who may answer.
            ApprovalClosedError: It has expired, was answered otherwise, or was for other arguments.
        """
        command = ResolveApproval(
            call_id=call_id,
            resolution=decision,
            by=by,
            may_always=may_always,
            arguments_hash=arguments_hash,
            expires_at=expires_at,
        )
        try:
            await self._registry.ask(session_id, command)
        except UnknownApprovalError:
            before = await self._decided_before(session_id, call_id)
            if before is None:
                raise
            if before != decision:
                raise ApprovalClosedError(call_id, why_settled(before)) from None

    async def _decided_before(self, session_id: str, call_id: str) -> Resolution | None:
        """Return what became of an approval whose step is over; None where none is near."""
        state = await self.view(session_id)
        after = max(0, state.last_seq - LOOK_BACK_EVENTS)
        events = await self._store.read(session_id, after=after, limit=LOOK_BACK_EVENTS)
        decided = (e.body for e in reversed(events) if isinstance(e.body, ApprovalDecided))
        return next((body.decision for body in decided if body.call_id == call_id), None)

    @property
    def quarantined(self) -> int:
        """How many sessions failed again and again: they wait to be cancelled, reset or deleted."""
        return self._registry.quarantined

    async def awaiting_approval(self) -> tuple[SessionState, ...]:
        """Return the sessions in which a call waits for a person, in no order.

        Those that were open before a restart are among them once they have been resumed. Sessions
        that failed again and again, and stateless calls, are not: nobody can answer there.
        """
        return await self._registry.awaiting_approval()

    async def load(self) -> RuntimeStats:
        """Return how much there is to do now, in the active sessions."""
        return await self._registry.load() + await self._scratch_registry.load()

    # --- what the model sees ---

    async def context(self, session_id: str) -> ContextReport:
        """Return what a session's next request would hold, and what is hidden from it.

        Raises:
            UnknownSessionError: There is no such session.
            UnknownAgentError: Its agent is gone.
            ContextDoesNotFitError: No request would fit; the text names the parts.
            JournalError: It cannot be read.
        """
        state = await self.view(session_id)
        agent = self._runtime.agents.get(state.key.agent)
        statistics = self._runtime.model_statistics.of(agent.spec.model)
        now = self._runtime.now()

        def report() -> ContextReport:
            conversation, model = state.conversation, agent.spec.model
            rendered = render(conversation, agent.spec, agent.offered(statistics), statistics)
            notes = hint_notes(model, statistics)
            if statistics.limit_tokens and rendered.budget.window_tokens > input_window(
                model, statistics
            ):
                notes += ("prompt and tools alone are larger, so requests are made without it",)
            return context_report(
                rendered,
                conversation,
                statistics=statistics,
                cache_misses=state.cache_misses,
                now=now,
                has_summariser=agent.summariser is not None,
                notes=notes,
            )

        return await to_thread.run_sync(report)

    async def explain(self, session_id: str, seq: int) -> Explanation:
        """Return why a past request was as it was: the one at event `seq` or next in its turn.

        Reads the log of the session up to there, page by page; a caller that is cancelled waits
        for the page that is being read and for no other.

        Raises:
            UnknownSessionError: There is no such session.
            UnknownRequestError: There is no request there, or events before it are missing.
            UnknownAgentError: Its agent is gone.
            ContextDoesNotFitError: The agent of today has no room for it.
            JournalError: The log cannot be read.
        """
        state = await self.view(session_id)
        agent = self._runtime.agents.get(state.key.agent)
        statistics = self._runtime.model_statistics.of(agent.spec.model)
        replay = RequestReplay(session_id, seq)
        after, is_found = 0, False
        while not is_found and after < state.last_seq:
            limit = min(EXPLAIN_PAGE_EVENTS, state.last_seq - after)
            events = await self._store.read(session_id, after=after, limit=limit)
            gone = jumps((event.seq for event in events), after=after)
            if not events:
                gone = [(after + 1, state.last_seq)]
            before = [event for event in events if not gone or event.seq < gone[0][0]]
            is_found = await to_thread.run_sync(replay.read, before)
            if gone and not is_found:
                gaps = await self.explain_gaps(session_id, gone[:1])
                why = "; ".join(gap.text for gap in gaps)
                which = f"{why}. No request after them can be made again"
                raise UnknownRequestError(session_id, seq, which)
            after = events[-1].seq if events else state.last_seq
        return await to_thread.run_sync(
            replay.explanation, agent.spec, agent.offered(statistics), statistics
        )

    async def compact(self, session_id: str, focus: str = "") -> Compacted:
        """Have older turns summarised now; return when that is done, or found to be needless.

        Args:
            session_id: The session.
            focus: What the summary should keep above all; empty for nothing in particular.

        Raises:
            InvalidInputError: The focus is too long, or not text.
            UnknownSessionError: There is no such session.
            SessionEndedError: It has ended.
            UnknownAgentError: Its agent is gone.
            JournalError: The summary cannot be kept.
        """
        check_focus(focus)
        return await self._registry.ask(session_id, Compact(focus))

    async def reset(self, session_id: str, *, by: str = "") -> None:
        """End a session. Its conversation starts a new one with its next message.

        Args:
            session_id: The session.
            by: Who wants it, for the log; empty = not known.
        """
        await self._end(session_id, "reset", by)

    async def delete(self, session_id: str) -> None:
        """End a session and remove all that is stored of it; return when that is durable.

        One that cannot be read or written, or that fails, is removed as it is.

        Raises:
            UnknownSessionError: There is no such session.
            JournalWriteError: It cannot be removed.
        """
        try:
            await self._end(session_id, "deleted", "")
        except (ActorFailedError, JournalError) as error:
            logger.warning(
                "a session that cannot be ended is deleted as it is",
                extra={"session_id": session_id, "error": str(error)},
            )
        await self._registry.gone(session_id)
        if self._on_delete is not None:
            await self._on_delete(session_id)
        await self._store.delete(session_id)
        self._registry.release(session_id)

    async def _end(self, session_id: str, reason: EndReason, by: str) -> None:
        await self._registry.ask(session_id, End(reason, by))

    def _new_id(self) -> str:
        return new_session_id(self._runtime.now(), secrets.token_hex(4))


async def _named(uploads: Sequence[Upload]) -> tuple[Attachment, ...]:
    """Return what a message keeps of its files. In a thread: to hash one takes its time."""
    if not uploads:
        return ()
    return await to_thread.run_sync(lambda: tuple(map(attachment_of, uploads)))


async def _save(
    store: SessionStore,
    session_id: str,
    uploads: Sequence[Upload],
    attachments: Sequence[Attachment],
) -> None:
    for upload, attachment in zip(uploads, attachments, strict=True):
        await store.save_media(session_id, attachment.name, upload.data)


@asynccontextmanager
async def open_service(
    *,
    store: SessionStore,
    scratch: SessionStore,
    agents: Agents,
    clock: Clock,
    model_statistics: ModelStatisticsStore | None = None,
    settings: ServiceSettings | None = None,
    on_delete: Callable[[str], Awaitable[None]] | None = None,
    delivery_ports: Mapping[str, DeliveryPort] | None = None,
    known_as: Callable[[ConversationKey], ConversationKey] | None = None,
    observer: Observer | None = None,
    supervisor: Supervisor | None = None,
) -> AsyncGenerator[TurnService]:
    """Open the service; turns that were open when the last process ended go on by themselves.

    When the block ends, running turns get `settings.drain_s` to finish; what is cut off then goes
    on at the next start.

    Args:
        store: Where sessions live.
        scratch: Where stateless turns run; nothing in it is worth keeping.
        agents: Who answers.
        clock: The time.
        model_statistics: What is learnt about models; by default it is forgotten at the end.
        settings: Times.
        on_delete: Lets go of what belongs to a session elsewhere, before it is removed.
        delivery_ports: By the name of a channel: who tells its people what its sessions say.
        known_as: Gives a conversation the name by which sessions know it: a platform may have given
            its chat another id.
        observer: Is told what sessions do.
        supervisor: Runs what the service does by itself; by default one of its own.
    """
    supervisor = supervisor or Supervisor(clock)
    learnt = model_statistics or InMemoryModelStatistics(clock.now)
    settings = settings or ServiceSettings()
    pace = Pace(clock=clock, jitter=random.random)
    bindings = Bindings(known_as)

    def runtime(of: SessionStore, carried: Mapping[str, DeliveryPort]) -> Runtime:
        return Runtime(
            store=of,
            agents=agents,
            model_statistics=learnt,
            pace=pace,
            passivate_after_s=settings.passivate_after_s,
            leave_grace_s=settings.leave_grace_s,
            delivery_ports=carried,
            observer=GuardedObserver(observer) if observer else NullObserver(),
        )

    live, once = runtime(store, delivery_ports or {}), runtime(scratch, {})
    async with anyio.create_task_group() as actors:
        registry = Registry(live, actors, on_gone=bindings.forget, max_active=settings.max_active)
        scratch_registry = Registry(once, actors, on_gone=scratch.delete)
        service = TurnService(
            store=store,
            scratch=scratch,
            runtime=live,
            registry=registry,
            scratch_registry=scratch_registry,
            bindings=bindings,
            on_delete=on_delete,
        )
        try:
            async with anyio.create_task_group() as upkeep:
                if settings.resume:
                    resume = partial(resume_open_turns, store, registry, clock)
                    supervisor.start(upkeep, "resume", resume, policy=TRANSIENT)
                expire = partial(end_expired, store, registry, agents, clock, settings.sweep_s)
                supervisor.start(upkeep, "expiry", expire)
                yield service
                upkeep.cancel_scope.cancel()
        finally:
            with anyio.move_on_after(settings.drain_s + 1, shield=True):
                async with anyio.create_task_group() as stopping:
                    stopping.start_soon(registry.stop, settings.drain_s)
                    stopping.start_soon(scratch_registry.stop, settings.drain_s)
            actors.cancel_scope.cancel()
