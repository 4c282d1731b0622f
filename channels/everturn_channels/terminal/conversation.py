"""One conversation behind a client: its session of now, and how a message gets its answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import datetime
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.context.report import ContextReport
from everturn_actors.errors import (
    InvalidInputError,
    NothingToRetryError,
    SessionEndedError,
    UnknownApprovalError,
    UnknownSessionError,
)
from everturn_actors.events import (
    Discarded,
    ModelReplied,
    Received,
    SessionEnded,
    Steered,
    TurnFinished,
    TurnStarted,
)
from everturn_actors.model import (
    Approval,
    ConversationKey,
    Decision,
    Outcome,
    Upload,
    Usage,
)
from everturn_actors.service import Compacted, TextDelta, Update
from everturn_channels.errors import ClientError
from everturn_channels.models import ModelChoice
from everturn_channels.terminal.client import Client, Status

_NEW_SESSIONS_MAX = 2  # a session may end between opening it and handing in; twice in a row is odd
_LOOK_BACK_EVENTS = 400  # read to find the last messages; a plain turn has five events
_EVENTS_OF_AN_END = 20  # in which the reply stands that ended a turn


class Conversation:
    """Talks to one agent: in the current session of a conversation, or in one named session."""

    def __init__(
        self,
        client: Client,
        *,
        key: ConversationKey | None = None,
        session_id: str = "",
        new_id: Callable[[], str] = lambda: uuid4().hex,
    ) -> None:
        """Prepare; nothing is asked of the client yet.

        Args:
            client: The way to the gateway.
            key: The conversation to go on with. None where `session_id` is given.
            session_id: Exactly this session.
            new_id: Makes the idempotency key of each message.
        """
        self.client = client
        "The way to the gateway."
        self._key = key
        self._new_id = new_id
        self.home = key
        "The conversation that this one began with; None = it began with a named session."
        self.session_id = session_id
        "The session; empty until it is opened."
        self.own_messages: set[str] = set()
        "The idempotency keys of messages that were handed in here."
        self.shown_models: Sequence[ModelChoice] = ()
        "The list of models that was asked for last: one is chosen by its number there."

    @property
    def is_shared(self) -> bool:
        """Whether others can answer what this conversation asks."""
        return self.client.connection.is_shared

    async def open(self, *, new: bool = False) -> Status:
        """Find or start the session and return what is known of it.

        Args:
            new: End the session that the conversation is in, and start another one.
        """
        if self._key is None:
            return await self.client.status(self.session_id)
        self.session_id = await self.client.open(self._key)
        status = await self.client.status(self.session_id)
        if new and (status.turns or status.busy):
            await self.client.reset(self.session_id)
            self.session_id = await self.client.open(self._key)
            status = await self.client.status(self.session_id)
        return status

    async def begin_new(self) -> Status:
        """Begin a new session, in the conversation that this one began with; return it.

        The session of that conversation ends. One that was gone to with `go_to` stays as it is.

        Raises:
            InvalidInputError: It began with one named session, which has no other one after it.
        """
        if self.home is None:
            msg = "this goes on in the session that was named; `everturn chat --new` begins one"
            raise InvalidInputError(msg)
        self._key = self.home
        return await self.open(new=True)

    async def go_to(self, session_id: str) -> Status:
        """Go on in exactly this session from now on; return what is known of it.

        Raises:
            UnknownSessionError: There is none; then all stays as it is.
        """
        status = await self.client.status(session_id)
        self._key, self.session_id = None, session_id
        return status

    async def agent(self) -> str:
        """Return the name of the agent that it talks with."""
        key = self._key or (await self.client.status(self.session_id)).key
        return key.agent

    async def hand_in(
        self, text: str, attachments: Sequence[Upload] = (), *, untrusted: bool = False
    ) -> int:
        """Hand in a message and its files; return the number of its event when all is durable.

        A conversation whose session has ended meanwhile goes on in a new one.

        Raises:
            SessionEndedError: The named session has ended.
        """
        message_id = self._new_id()
        self.own_messages.add(message_id)
        for _ in range(_NEW_SESSIONS_MAX):
            try:
                return await self._submit(text, message_id, attachments, untrusted=untrusted)
            except (SessionEndedError, UnknownSessionError):
                if self._key is None:
                    raise
                self.session_id = ""
        return await self._submit(text, message_id, attachments, untrusted=untrusted)

    async def _submit(
        self, text: str, message_id: str, attachments: Sequence[Upload], *, untrusted: bool
    ) -> int:
        if not self.session_id and self._key is not None:
            self.session_id = await self.client.open(self._key)
        return await self.client.submit(
            self.session_id,
            text,
            idempotency_key=message_id,
            attachments=attachments,
            untrusted=untrusted,
        )

    async def answer(self, seq: int) -> AsyncGenerator[Update]:
        """Yield the updates of the turn that answers message `seq`, from the message on.

        Raises:
            ClientError: The gateway went away before the turn was finished. The message is
                kept and will be answered when the gateway runs again.
        """
        turn = 0
        async with aclosing(self.client.follow(self.session_id, after=seq - 1)) as updates:
            async for update in updates:
                if isinstance(update, TextDelta):
                    if update.turn == turn:
                        yield update
                    continue
                match update.body:
                    case TurnStarted() | Steered() if (
                        seq in update.body.received or update.seq == seq
                    ):
                        turn = update.body.turn
                    case Received() if update.seq != seq:
                        continue
                    case SessionEnded():
                        yield update
                        return
                    case Discarded(received=gone):
                        if seq in gone:
                            yield update
                            return
                        continue
                    case _:
                        if update.seq != seq and not turn:
                            continue  # of a turn before
                yield update
                if turn and isinstance(update.body, TurnFinished) and update.body.turn == turn:
                    return
        msg = (
            "the gateway stopped before the answer was complete; the message is kept and will be "
            "answered when it runs again"
        )
        raise ClientError(msg)

    async def resume(self) -> None:
        """Let a turn go on that was paused when nobody waited for it any more."""
        await self.client.resume(self.session_id)

    async def rest(self, after: int) -> AsyncGenerator[Update]:
        """Yield what comes after event `after` up to the end of the turn that runs there."""
        async with aclosing(self.client.follow(self.session_id, after=after)) as updates:
            async for update in updates:
                yield update
                if not isinstance(update, TextDelta) and isinstance(
                    update.body, TurnFinished | SessionEnded
                ):
                    return

    async def answered_since(self, since: datetime, status: Status) -> str:
        """Return the newest answer where it came after an instant; empty where none did."""
        after = max(status.last_seq - _EVENTS_OF_AN_END, 0)
        said = await self.client.history.messages(self.session_id, after=after)
        answers = (each for each in reversed(said) if each.role == "assistant")
        newest = next(answers, None)
        is_new = newest is not None and newest.at is not None and newest.at >= since
        return newest.text if is_new and newest is not None else ""

    async def cancel(self) -> bool:
        """Cancel the running turn; return whether there was one."""
        return bool(self.session_id) and await self.client.cancel(self.session_id)

    async def stop(self, seq: int) -> None:
        """Cancel the turn that answers message `seq`, as soon as that has begun; no other one."""
        async with aclosing(self.answer(seq)) as updates:
            async for update in updates:
                begins = TurnStarted | Steered
                if not isinstance(update, TextDelta) and isinstance(update.body, begins):
                    await self.cancel()
                    return

    async def retry(self) -> int:
        """Ask the newest turn again, which failed; return the event that begins it, for `answer`.

        Raises:
            NothingToRetryError: It did not fail, or something is under way.
        """
        if not self.session_id:
            raise NothingToRetryError
        return await self.client.retry(self.session_id, idempotency_key=self._new_id())

    async def decide(
        self, decision: Decision, call_id: str = "", *, arguments_hash: str = "", answer: str = ""
    ) -> Approval:
        """Answer an approval, by default the oldest open one; return it.

        Args:
            decision: What is decided.
            call_id: The call; empty = the oldest that waits.
            arguments_hash: Of what was shown, see `Approval`; empty = of what is asked now.
            answer: With the decision `answer`, what was typed.

        Raises:
            UnknownApprovalError: Nothing waits, or not this call.
            ApprovalClosedError: It can no longer be answered so.
        """
        status = await self.status()
        waiting = status.approvals if status else ()
        approval = next((each for each in waiting if call_id in {"", each.call_id}), None)
        if approval is None:
            raise UnknownApprovalError(call_id)
        shown = arguments_hash or approval.arguments_hash
        await self.client.decide(
            self.session_id, approval.call_id, decision, arguments_hash=shown, answer=answer
        )
        return approval

    async def reset(self) -> bool:
        """End the session; return whether there was one. The next message starts a new one."""
        if not self.session_id:
            return False
        try:
            await self.client.reset(self.session_id)
        except (SessionEndedError, UnknownSessionError):
            return False
        finally:
            if self._key is not None:
                self.session_id = ""
        return True

    async def context(self) -> ContextReport | None:
        """Return what the next request would hold; None where there is no session yet."""
        return await self.client.contexts.report(self.session_id) if self.session_id else None

    async def compact(self, focus: str) -> Compacted | None:
        """Have older turns summarised; None where there is no session yet."""
        return (
            await self.client.contexts.compact(self.session_id, focus) if self.session_id else None
        )

    async def status(self) -> Status | None:
        """Return what is known of the session; None where there is none yet."""
        return await self.client.status(self.session_id) if self.session_id else None


async def last_messages(client: Client, status: Status, count: int) -> int:
    """Return the number of the event before the last messages of people, so many of them.

    Raises:
        CoreError, ChannelError: They cannot be read.
    """
    if count <= 0:
        return status.last_seq
    after = max(0, status.last_seq - _LOOK_BACK_EVENTS)
    messages = await client.history.messages(status.session_id, after=after)
    asked = [message.seq for message in messages if message.role == "user"]
    return asked[-count:][0] - 1 if asked else status.last_seq


class Answer(Struct, frozen=True, kw_only=True):
    """How one turn ended, gathered from its updates."""

    turn: int = 0
    outcome: Outcome = "interrupted"
    text: str = ""
    error: str = ""
    usage: Usage = Usage()

    def after(self, update: Update) -> Answer:
        """Return this answer with what `update` adds."""
        if isinstance(update, TextDelta):
            return self
        match update.body:
            case TurnStarted() | Steered():
                return replace(self, turn=update.body.turn)
            case ModelReplied():
                return replace(self, text=update.body.text, usage=self.usage + update.body.usage)
            case TurnFinished():
                return replace(self, outcome=update.body.outcome, error=update.body.error)
            case SessionEnded():
                return replace(self, error=f"the session has ended ({update.body.reason})")
            case Discarded():
                return replace(self, error=f"the message was dropped: {update.body.reason}")
            case _:
                return self

    def after_cancel(self) -> Answer:
        """Return this answer as one that was given up."""
        return replace(self, outcome="cancelled")
