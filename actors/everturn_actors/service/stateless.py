"""Turns of which nothing is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from everturn_actors.errors import HomeElsewhereError
from everturn_actors.events import Event, SessionStarted
from everturn_actors.model import CallAnswer, ConversationKey, IncomingMessage, Turn, Upload
from everturn_actors.ports import SessionStore
from everturn_actors.protocol.actors import Actors
from everturn_actors.protocol.commands import GetState, Resume
from everturn_actors.service.conversations import new_id
from everturn_actors.service.files import named, save
from everturn_actors.session.runtime import Runtime
from everturn_actors.session.submission import Submission, answer_calls, found, submit
from everturn_actors.state.session_state import SessionState
from everturn_actors.state.validation import check, check_answers, check_uploads, replay

ONCE: Final = "once"
"The channel of conversations of which nothing is kept."


class History(Struct, frozen=True, kw_only=True):
    """What a caller brings along: a conversation that took place elsewhere."""

    turns: tuple[Turn, ...] = ()
    "Oldest first; their numbers do not matter."
    instructions: str = ""
    "Instructions for this turn alone."
    uploads: tuple[Upload, ...] = ()
    "The files that its messages name."


class Stateless:
    """Answers in one turn after a history that its caller brings along; nothing of it is kept."""

    def __init__(self, *, store: SessionStore, runtime: Runtime, registry: Actors) -> None:
        """Only `open_service` makes one."""
        self._store, self._runtime, self.registry = store, runtime, registry

    async def submit(
        self, message: IncomingMessage, history: History, *, agent: str, principal: str = ""
    ) -> Submission:
        """Answer a message in one turn after `history`; nothing of it is kept.

        Args:
            message: The newest message; it names no conversation and no session.
            history: What came before it.
            agent: Who answers.
            principal: Who asks, and pays for it.

        Raises:
            InvalidInputError: Empty, too long, or not text; or a file that is refused.
            UnknownAgentError: No such agent.
            HomeElsewhereError: It works with files on another node.
        """
        check(message)
        session_id = await self._begin(history, agent, principal, is_open=False)
        attached = await named(message.attachments)
        await save(self._store, session_id, message.attachments, attached)
        return await submit(
            message,
            session_id,
            self.registry,
            attachments=attached,
            passivate_at_once=True,
        )

    async def go_on(self, history: History, *, agent: str, principal: str = "") -> Submission:
        """Go on with the last turn of `history`: its calls have their results, and nothing is kept.

        The options of its newest message hold for it.

        Raises:
            InvalidInputError: A file is refused.
            UnknownAgentError: No such agent.
        """
        session_id = await self._begin(history, agent, principal, is_open=True)
        await self.registry.ask(session_id, Resume(), passivate_at_once=True)
        state = await self.registry.ask(session_id, GetState())
        seq = 2 + len(replay(history.turns[:-1]))  # its first message, after session_started
        return found(session_id, seq, state, self.registry)

    def present(self, session_id: str) -> SessionState | None:
        """Return the state of a turn that is not over; None where there is none of this id."""
        return self.registry.present(session_id)

    async def answer_calls(
        self, session_id: str, answers: Sequence[CallAnswer], *, idempotency_key: str
    ) -> Submission:
        """See `TurnService.answer_calls`."""
        check_answers(answers)
        return await answer_calls(session_id, answers, idempotency_key, self.registry)

    async def _begin(self, history: History, agent: str, principal: str, *, is_open: bool) -> str:
        """Write down what came before; return the id of the session."""
        self._runtime.agents.get(agent)
        if not self._runtime.works_for(agent):
            raise HomeElsewhereError(agent)
        session_id = new_id(self._runtime)
        key = ConversationKey(channel=ONCE, chat=session_id, agent=agent)
        for upload in history.uploads:  # in all they are bounded by whoever took them in
            check_uploads([upload])
        begin = SessionStarted(
            session_id=session_id, key=key, instructions=history.instructions, principal=principal
        )
        now = self._runtime.now()
        bodies = [begin, *replay(history.turns, is_open=is_open)]
        events = [Event(seq=seq, at=now, body=body) for seq, body in enumerate(bodies, 1)]
        await self._store.append(session_id, events, expected_seq=0)
        await save(self._store, session_id, history.uploads, await named(history.uploads))
        return session_id
