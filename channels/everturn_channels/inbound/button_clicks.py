"""What becomes of a clicked button: it answers the question it stands below, or says why not."""

from __future__ import annotations

from typing import Final

from everturn_actors.errors import (
    ApprovalClosedError,
    NotAnApproverError,
    SessionEndedError,
    UnknownApprovalError,
    UnknownSessionError,
)
from everturn_actors.model import Approval, ConversationKey, Decision
from everturn_actors.service import TurnService
from everturn_channels.adapter import ButtonClick, Person
from everturn_channels.delivery.approvals import approval_token, find_question, read_button
from everturn_channels.languages import marked
from everturn_channels.texts import click_late, click_refused, click_taken

NO_BUTTON: Final = marked("This button does nothing any more.")


async def answer_click(click: ButtonClick, key: ConversationKey, service: TurnService) -> str:
    """Answer the question that a button stands below; return what the person is told.

    Returns when the decision is durable. Who clicks was let in before; whether they are one of
    those who may answer is decided here.

    Raises:
        MailboxFullError, ActorStoppedError, ActorFailedError, JournalError: It cannot be done now.
    """
    button = read_button(click.data)
    if button is None:
        return NO_BUTTON
    if not click.sender.id:  # to the core, nobody in particular is whoever runs the gateway
        return click_refused()
    token = button.token
    session_id = await service.conversations.current(key)
    if not session_id:
        return click_late()
    try:
        question = find_question(await service.view(session_id), token)
    except UnknownSessionError:
        return click_late()
    if question is None:
        return click_late()
    return await decide(
        question,
        session_id,
        button.decision,
        answer=button.answer,
        sender=click.sender,
        service=service,
    )


async def decide(
    question: Approval,
    session_id: str,
    decision: Decision,
    *,
    answer: str,
    sender: Person,
    service: TurnService,
) -> str:
    """Answer a question in the name of whoever was let in; return what they are told.

    Raises:
        MailboxFullError, ActorStoppedError, ActorFailedError, JournalError: It cannot be done now.
    """
    try:
        await service.decide(
            session_id,
            question.call_id,
            decision,
            answer=answer,
            by=sender.id,
            arguments_hash=question.arguments_hash,
            expires_at=question.expires_at,
        )
    except NotAnApproverError:
        return click_refused()
    except (ApprovalClosedError, UnknownApprovalError):
        return await _why_late(service, session_id, approval_token(session_id, question))
    except (UnknownSessionError, SessionEndedError):
        return click_late()
    return click_taken(decision)


async def _why_late(service: TurnService, session_id: str, token: str) -> str:
    try:
        question = find_question(await service.view(session_id), token)
    except UnknownSessionError:
        return click_late()
    return click_late(question.resolution if question else None)
