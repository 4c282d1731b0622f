"""Turns of which nothing is kept."""

from __future__ import annotations

from collections.abc import Sequence

from everturn_actors.events import Event, SessionStarted
from everturn_actors.model import ConversationKey, Inbound, Turn, Upload
from everturn_actors.ports import SessionStore
from everturn_actors.service.conversations import new_id
from everturn_actors.service.files import named, save
from everturn_actors.session.registry import Registry
from everturn_actors.session.runtime import Runtime
from everturn_actors.session.submission import Submission, submit
from everturn_actors.state.validation import check, check_uploads, replay


class Stateless:
    """Answers in one turn after a history that its caller brings along; nothing of it is kept."""

    def __init__(self, *, store: SessionStore, runtime: Runtime, registry: Registry) -> None:
        """Only `open_service` makes one."""
        self._store, self._runtime, self._registry = store, runtime, registry

    async def submit(
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
        session_id = new_id(self._runtime)
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
        await self._store.append(session_id, events, expected_seq=0)
        await save(self._store, session_id, shown_before, await named(shown_before))
        attached = await named(inbound.attachments)
        await save(self._store, session_id, inbound.attachments, attached)
        return await submit(
            inbound,
            session_id,
            self._registry,
            self._store,
            attachments=attached,
            passivate_at_once=True,
        )
