"""The one entry point: every caller submits here and reads the updates it yields.

HTTP, the terminal, channels and the scheduler differ in how a message arrives and how a reply
leaves; between the two there is only this.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial

from everturn_actors.errors import (
    ActorFailedError,
    ApprovalClosedError,
    InvalidInputError,
    JournalError,
    UnknownApprovalError,
)
from everturn_actors.events import Event, SessionStarted
from everturn_actors.model import (
    CallAnswer,
    Decision,
    IncomingMessage,
)
from everturn_actors.ports import SessionStore
from everturn_actors.protocol.actors import Actors
from everturn_actors.protocol.commands import (
    Cancel,
    Compact,
    Compacted,
    End,
    ResolveApproval,
    Resume,
)
from everturn_actors.protocol.feed import TakeDelta, Update
from everturn_actors.service.activity import Activity
from everturn_actors.service.bindings import Bindings
from everturn_actors.service.branches import Branches
from everturn_actors.service.conversations import Conversations
from everturn_actors.service.files import keep_files
from everturn_actors.service.handover import Handover
from everturn_actors.service.maintenance import SessionMaintenance
from everturn_actors.service.reader import SessionReader
from everturn_actors.service.stateless import Stateless
from everturn_actors.session.approvals import why_resolved
from everturn_actors.session.runtime import Runtime, everywhere
from everturn_actors.session.submission import (
    Submission,
    answer_calls,
    found,
    retry,
    submit,
)
from everturn_actors.state.session_state import SessionState
from everturn_actors.state.validation import (
    check,
    check_answers,
    check_focus,
)

logger = logging.getLogger(__name__)


class TurnService:
    """Sessions as callers see them."""

    def __init__(
        self,
        *,
        store: SessionStore,
        runtime: Runtime,
        registry: Actors,
        stateless: Stateless,
        bindings: Bindings,
        maintenance: SessionMaintenance,
        on_delete: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """Only `open_service` makes one."""
        self.reader = SessionReader(store=store, runtime=runtime, registry=registry)
        "What can be read of sessions."
        is_alone = runtime.is_here is everywhere
        open_turns = None if is_alone else self.reader.open_turns
        self.activity = Activity(registry, stateless.registry, open_turns)
        "What goes on now."
        self.conversations = Conversations(
            store=store, runtime=runtime, registry=registry, bindings=bindings, reader=self.reader
        )
        "Which session a conversation goes on in."
        self.branches = Branches(store=store, runtime=runtime, bindings=bindings)
        "Sessions that begin with what was said before."
        self.handover: Handover
        "Takes sessions over from other processes, and lets them go to them."
        self.stateless = stateless
        "Turns of which nothing is kept."
        self.maintenance = maintenance
        "What may be done to sessions that rest, without waking them."
        self._on_delete = on_delete
        self._store, self._registry = store, registry

    async def submit(self, message: IncomingMessage) -> Submission:
        """Take what is said, of whatever kind; return when it is durable, its files included.

        What is not said to the agent begins no turn, and leaves a pause as it is. An announcement
        goes to the people of the session's channel at once, also while a turn is open.

        It goes to `message.session_id`, or to the current session of `message.key`, which is
        started where there is none.

        Raises:
            InvalidInputError: Empty, too long, or not text; a file that is refused, or that comes
                with what no turn has as a message.
            UnknownAgentError: No such agent; an ambient message is taken while one is gone.
            UnknownSessionError: No such session.
            SessionEndedError: The session named by id has ended.
            MailboxFullError: Too many messages wait in this conversation.
            QueueFullError, BusyError: By `message.queueing` it is not taken now.
            ActorStoppedError: The service is stopping.
            ActorFailedError, JournalError: The session cannot be read or written. The message
                was not accepted.
        """
        check(message)
        if message.session_id:
            return await self._submit_to(message, message.session_id, None)
        if message.key is None:
            msg = "a message needs a conversation or a session"
            raise InvalidInputError(msg)
        submit_to = partial(self._submit_to, message)
        return await self.conversations.in_current(
            message.key, submit_to, principal=message.principal
        )

    async def answer_calls(
        self, session_id: str, answers: Sequence[CallAnswer], *, idempotency_key: str = ""
    ) -> Submission:
        """Take what the caller's own tools gave; return when that is durable.

        The turn goes on with the results; the submission follows it from here on. Where only some
        of the calls that were handed over are answered, it waits for the others.

        Raises:
            CallNotOpenError: A call of these ids does not wait, or was answered before.
            InvalidInputError: What one gave is no text, or too long.
            UnknownSessionError: No such session.
            SessionEndedError: The session has ended.
            ActorStoppedError: The service is stopping.
            ActorFailedError, JournalError: The session cannot be read or written. Nothing was
                taken.
        """
        check_answers(answers)
        return await answer_calls(session_id, answers, idempotency_key, self._registry)

    async def found(self, session_id: str, seq: int) -> Submission:
        """Return the way to the answer of a message that was accepted before.

        Args:
            session_id: The session.
            seq: The event of the message, as `Submission.seq` told it.

        Raises:
            UnknownSessionError: No such session.
            JournalError: It cannot be read.
        """
        state = await self.view(session_id)
        return found(session_id, seq, state, self._registry)

    async def _submit_to(
        self, message: IncomingMessage, session_id: str, begin_with: SessionStarted | None
    ) -> Submission:
        attachments = await keep_files(self._store, self._registry, message, session_id, begin_with)
        return await submit(
            message,
            session_id,
            self._registry,
            attachments=attachments,
            begin_with=begin_with,
        )

    async def view(self, session_id: str) -> SessionState:
        """Return the present state of a session; see `SessionReader.view`."""
        return await self.reader.view(session_id)

    async def history(self, session_id: str, *, after: int, limit: int) -> tuple[Event, ...]:
        """Return events of a session from the log; see `SessionReader.history`."""
        return await self.reader.history(session_id, after=after, limit=limit)

    def watch(
        self, session_id: str, *, after: int, take: TakeDelta | None = None
    ) -> AsyncGenerator[Update]:
        """Yield the events of a session as they come; see `SessionReader.watch`."""
        return self.reader.watch(session_id, after=after, take=take)

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
            idempotency_key: One key is one request, after a restart too; empty = a new one.

        Raises:
            UnknownSessionError: There is no such session.
            NothingToRetryError: The newest turn did not fail, or something is under way.
            SessionEndedError: It has ended.
            UnknownAgentError: Its agent is gone.
            ActorStoppedError: The service is stopping.
            ActorFailedError, JournalError: The session cannot be read or written.
        """
        return await retry(session_id, idempotency_key, self._registry)

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
        answer: str = "",
    ) -> None:
        """Answer the approval of a call; return when the decision is durable.

        The same decision again changes nothing. A paused turn goes on.

        Args:
            session_id: The session.
            call_id: The call that waits.
            decision: What is decided.
            by: Who gives it, as a sender id of the channel; empty = whoever runs the gateway.
            may_always: Whether `by` runs the gateway, or owns the agent, and need not stand among
                those who may. The caller has made sure.
            arguments_hash: What was shown to them, see `Approval`; empty = not compared.
            expires_at: Of the question that was shown to them: one about the same call that is
                asked later has another. None = not compared.
            answer: With the decision `answer`, what they typed, see `Inquiry.read`.

        Raises:
            UnknownSessionError: There is no such session.
            UnknownApprovalError: No call of this id waits.
            NotAnApproverError: `by` is none of those who may answer.
            ApprovalClosedError: It has expired, was answered otherwise, was for other arguments, or
                takes another kind of answer.
        """
        command = ResolveApproval(
            call_id=call_id,
            resolution=decision,
            by=by,
            may_always=may_always,
            arguments_hash=arguments_hash,
            expires_at=expires_at,
            answer=answer,
        )
        try:
            await self._registry.ask(session_id, command)
        except UnknownApprovalError:
            before = await self.reader.decided_before(session_id, call_id)
            if before is None:
                raise
            is_same = before.decision == decision and (
                decision != "answer" or before.answer == answer
            )
            if not is_same:
                raise ApprovalClosedError(call_id, why_resolved(before.decision)) from None

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
        """End a session, for `by`. Its conversation starts a new one with its next message."""
        await self._registry.ask(session_id, End("reset", by))

    async def delete(self, session_id: str) -> None:
        """End a session and remove all that is stored of it; return when that is durable.

        One that cannot be read or written, or that fails, is removed as it is.

        Raises:
            UnknownSessionError: There is no such session.
            JournalWriteError: It cannot be removed.
        """
        if await self._registry.is_deleted_elsewhere(session_id):
            return
        try:
            await self._registry.ask(session_id, End("deleted"))
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
