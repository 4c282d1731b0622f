"""Which session a conversation goes on in, what it is called, and who shares it."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from everturn_actors.errors import (
    InvalidInputError,
    SessionEndedError,
    UnknownAgentError,
    UnknownMessageError,
    UnknownSessionError,
)
from everturn_actors.events import SessionStarted
from everturn_actors.ids import new_session_id
from everturn_actors.model import ChosenModel, ConversationKey, IncomingMessage, Labels, Pin
from everturn_actors.ports import SessionStore
from everturn_actors.protocol.actors import Actors
from everturn_actors.protocol.commands import (
    ChooseModel,
    Edit,
    GetStatus,
    Label,
    PinMessage,
    Share,
    Tick,
    UnpinMessage,
    Withdraw,
)
from everturn_actors.service.bindings import Bindings
from everturn_actors.service.pinning import pin_of
from everturn_actors.service.reader import SessionReader
from everturn_actors.session.runtime import Runtime
from everturn_actors.state.recovery import is_expired
from everturn_actors.state.session_state import SessionState
from everturn_actors.state.validation import check, check_title

T = TypeVar("T")

SHARES_MAX = 100  # principals that a session is shared with
IDS_TRIED = 100  # until one is found that need not be asked for elsewhere
SEEN_BEFORE = 200  # idempotency keys that a session knows from the one before it


class Conversations:
    """Finds the current session of a conversation, and starts one where there is none."""

    def __init__(
        self,
        *,
        store: SessionStore,
        runtime: Runtime,
        registry: Actors,
        bindings: Bindings,
        reader: SessionReader,
    ) -> None:
        """Only `open_service` makes one."""
        self._store, self._runtime, self._registry = store, runtime, registry
        self._bindings, self._reader = bindings, reader

    async def label(
        self,
        session_id: str,
        *,
        title: str | None = None,
        pinned: bool | None = None,
        archived: bool | None = None,
        by: str = "",
    ) -> Labels:
        """Sort a session, also one that has ended; return its labels when that is durable.

        Args:
            session_id: The session.
            title: What it is called; "" = its first words again. None leaves it, as below.
            pinned: Whether it stands above the others.
            archived: Whether lists leave it out.
            by: Who does it, for the log.

        Raises:
            UnknownSessionError: There is no such session.
            InvalidInputError: The title is too long, or no line of text.
        """
        if title is not None:
            title = title.strip()
            check_title(title)
        command = Label(title=title, pinned=pinned, archived=archived, by=by)
        labels = await self._registry.ask(session_id, command)
        # Answered behind the snapshot that follows: from then on lists go by it.
        await self._registry.ask(session_id, GetStatus())
        return labels

    async def choose_model(
        self, session_id: str, model: ChosenModel | None, *, by: str = ""
    ) -> ChosenModel | None:
        """Have another model answer in a session from its next turn on; return it when durable.

        Args:
            session_id: The session.
            model: Which one; None = the agent's own again.
            by: Who chooses it, for the log.

        Raises:
            UnknownSessionError: There is no such session.
            SessionEndedError: It has ended.
            UnusableModelError: It cannot be used as it is configured; the text says why.
            UnknownAgentError: The agent is gone.
        """
        if model is not None:
            state = await self._reader.view(session_id)
            self._runtime.agents.get_with(state.key.agent, model)
        return await self._registry.ask(session_id, ChooseModel(model=model, by=by))

    async def pin(self, session_id: str, message: int, *, by: str = "") -> tuple[Pin, ...]:
        """Keep a message with the model, whatever is hidden; return all that are pinned.

        Durable when it returns. Pinned messages take at most an eighth of the model's window.

        Args:
            session_id: The session.
            message: The seq of the event: what somebody said, a reply, or a result.
            by: Who does it, for the log.

        Raises:
            UnknownSessionError: There is no such session.
            SessionEndedError: It has ended.
            UnknownMessageError: The event is no message with a text.
            InvalidInputError: There is no room for it.
        """
        found = await self._reader.history(session_id, after=max(message - 1, 0), limit=1)
        pin = pin_of(found[0]) if found and found[0].seq == message else None
        if pin is None:
            raise UnknownMessageError(session_id, message)
        return await self._registry.ask(session_id, PinMessage(pin=pin, by=by))

    async def unpin(self, session_id: str, message: int, *, by: str = "") -> tuple[Pin, ...]:
        """Take a pin off; return all messages that are pinned then, when that is durable.

        Raises:
            UnknownSessionError: There is no such session.
            SessionEndedError: It has ended.
        """
        return await self._registry.ask(session_id, UnpinMessage(message=message, by=by))

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
        if not is_withdrawn:
            state = await self._reader.view(session_id)
            if len(state.shared_with) >= SHARES_MAX:
                msg = f"the session is shared with {SHARES_MAX}, which is as many as may be"
                raise InvalidInputError(msg)
        command = Share(principal=principal, by=by, is_withdrawn=is_withdrawn)
        shared_with = await self._registry.ask(session_id, command)
        # Answered behind the snapshot that follows: from then on lists go by it.
        await self._registry.ask(session_id, GetStatus())
        return shared_with

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
        await self._begin(session_id, key, principal, is_new=True)
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
            before = session_id = self._bindings.session_of(key) or await self._store.bound(key)
            if session_id:
                with suppress(UnknownSessionError):  # it is bound, and its first event is to come
                    if not self._is_over(await self._reader.view(session_id)):
                        return session_id, False
                    session_id = ""
            self._runtime.agents.get(key.agent)
            session_id = session_id or await self._bind_new(key, instead_of=before)
            await self._begin(session_id, key, principal)  # before anybody else finds it
            return session_id, True

    async def current(self, key: ConversationKey) -> str:
        """Return the id of the conversation's current session, "" where there is none.

        One that is idle for longer than its agent allows is none, whoever ends it. Starts no actor.
        """
        key = self._bindings.known_as(key)
        session_id = self._bindings.session_of(key) or await self._store.bound(key)
        while session_id:
            with suppress(UnknownSessionError):
                if not self._is_over(await self._reader.view(session_id)):
                    return session_id
            before = session_id  # what is remembered may be over; the store knows the next one
            session_id = await self._store.bound(key)
            if session_id == before:
                break
        return ""

    async def edit(self, key: ConversationKey, idempotency_key: str, text: str) -> bool:
        """Replace the text of a message that waits; return whether it still did.

        One whose turn has begun stays as it is, and so does one that is not known.

        Raises:
            InvalidInputError: Empty, too long, or not text.
            ActorStoppedError: The service is stopping.
            ActorFailedError, JournalError: The session cannot be read or written.
        """
        check(IncomingMessage(text=text, key=key))
        command = Edit(idempotency_key, text)
        session_id = await self.current(key)
        try:
            return bool(session_id) and await self._registry.ask(session_id, command)
        except UnknownSessionError:  # it was deleted in this moment
            return False

    async def withdraw(self, key: ConversationKey, idempotency_key: str) -> bool:
        """Take a message back that waits, as its writer deleted it; return whether it still did.

        The log keeps that it came, and that it was withdrawn. No turn is told of it.

        Raises:
            ActorStoppedError: The service is stopping.
            ActorFailedError, JournalError: The session cannot be read or written.
        """
        session_id = await self.current(key)
        try:
            command = Withdraw(idempotency_key)
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

    async def in_current(
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
            state = await self._reader.view(session_id)
        except UnknownSessionError:
            return (), ""
        return tuple(state.seen)[-SEEN_BEFORE:], state.principal

    async def _session_of(self, key: ConversationKey, *, not_this: str) -> str:
        """Return the current session of `key`, bound durably; a new one instead of `not_this`."""
        known = self._bindings.session_of(key)
        if known and known != not_this:
            return known
        async with self._bindings.deciding(key):
            known = self._bindings.session_of(key) or await self._store.bound(key)
            if not known or known == not_this:
                return await self._bind_new(key, instead_of=known)
            self._bindings.bind(key, known)
            return known

    async def _bind_new(self, key: ConversationKey, *, instead_of: str | None = None) -> str:
        """Return the current session of a conversation: a new one, or the one that was quicker."""
        bound = await self._store.bind(key, new_id(self._runtime, key), instead_of=instead_of)
        self._bindings.bind(key, bound)
        return bound

    async def _begin(
        self, session_id: str, key: ConversationKey, principal: str, *, is_new: bool = False
    ) -> None:
        begin = SessionStarted(session_id=session_id, key=key, principal=principal)
        await self._registry.ask(session_id, GetStatus(), begin_with=begin, is_new=is_new)

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


def new_id(runtime: Runtime, key: ConversationKey | None = None) -> str:
    """Return the id of a new session, of those on which this process works where it can be.

    Args:
        runtime: Tells that.
        key: Its conversation; None = it is kept nowhere.
    """
    made = ""
    for _ in range(IDS_TRIED):
        made = new_session_id(runtime.now(), secrets.token_hex(4))
        if key is None or runtime.is_here(made, key):
            break
    return made
