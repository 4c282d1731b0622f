"""Calls of any conversation that wait for a person, as an owner is shown them. Pure.

A code below a question names the session, the call and its arguments, as its buttons do: what was
shown is what is answered, also after a restart, and nothing else fits it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from everturn_actors.model import Approval, ConversationKey, ToolCall
from everturn_actors.state.session_state import SessionState
from everturn_channels.access.owners import Owner
from everturn_channels.delivery.approvals import approval_token
from everturn_channels.delivery.words import always_text, call_text, files_text, inquiry_text
from everturn_channels.languages import t
from everturn_channels.names import one_line, visible

CODE_HEX_DIGITS: Final = 12  # with fewer, an agent could look for a call with the code of another
_NAME_CHARACTERS: Final = 200
_CODE: Final = re.compile(rf"[0-9a-f]{{{CODE_HEX_DIGITS},16}}")


class OpenQuestion(Struct, frozen=True, kw_only=True):
    """A call that waits for a person, and where."""

    session_id: str
    key: ConversationKey
    approval: Approval
    call: ToolCall | None

    @property
    def token(self) -> str:
        """What its buttons carry."""
        return approval_token(self.session_id, self.approval)

    @property
    def code(self) -> str:
        """What an owner types to answer it: the beginning of its token."""
        return self.token[:CODE_HEX_DIGITS]


def open_questions(states: Iterable[SessionState], owner: Owner) -> tuple[OpenQuestion, ...]:
    """Return what waits in the sessions of an owner's agents, what expires first in front."""
    found = [
        OpenQuestion(
            session_id=state.session_id,
            key=state.key,
            approval=approval,
            call=_call(state, approval.call_id),
        )
        for state in states
        if owner.owns(state.key.agent)
        for approval in state.open_approvals
    ]
    return tuple(sorted(found, key=lambda each: (each.approval.expires_at, each.token)))


def with_code(questions: Sequence[OpenQuestion], code: str) -> OpenQuestion | None:
    """Return the one question with a code, or with a whole token; None where there is not one."""
    if not _CODE.fullmatch(code):
        return None
    named = [each for each in questions if each.token.startswith(code)]
    return named[0] if len(named) == 1 else None


def owner_question_text(question: OpenQuestion) -> str:
    """Return a question with all its arguments, where it is asked, and what answers it. Plain."""
    key, approval = question.key, question.approval
    inquiry = approval.inquiry
    parts = [
        t(
            "{agent} asks, in {chat}, session {id}",
            agent=one_line(key.agent),
            chat=_where(key),
            id=question.session_id,
        ),
        inquiry_text(inquiry) if inquiry is not None else call_text(question.call),
    ]
    if approval.reason.strip():
        parts.append(visible(approval.reason.strip()))
    if held := files_text(approval.files):
        parts.append(held)
    allow = f"/approve {question.code}"
    if approval.pattern:
        pattern = visible(approval.pattern)
        parts.append(always_text(pattern))
        allow = f"{allow}, {allow} always"
    until = f"{approval.expires_at:%Y-%m-%d %H:%M} UTC"
    if inquiry is not None:
        parts.append(t("{command} and the answer, until {time}.", command=allow, time=until))
        return "\n\n".join(parts)
    deny = f"/deny {question.code}"
    parts.append(t("{allow} or {deny}, until {time}.", allow=allow, deny=deny, time=until))
    return "\n\n".join(parts)


def _where(key: ConversationKey) -> str:
    # Some are chosen by whoever writes: none may look like a line of the question.
    where = f"{one_line(key.channel)} {one_line(key.chat, _NAME_CHARACTERS)}"
    if not key.topic:
        return where
    return t("{chat}, topic {topic}", chat=where, topic=one_line(key.topic, _NAME_CHARACTERS))


def _call(state: SessionState, call_id: str) -> ToolCall | None:
    step = state.open_turn.step if state.open_turn else None
    reply = step.reply if step else None
    calls = reply.calls if reply else ()
    return next((call for call in calls if call.call_id == call_id), None)
