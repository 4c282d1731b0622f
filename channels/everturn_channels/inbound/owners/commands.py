"""What owners do from a private chat: answer questions, pair people, end sessions, see usage.

Whoever is not an owner is never answered here, so that nobody learns that there is anything.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec import Struct

from everturn_actors.errors import (
    ApprovalClosedError,
    SessionEndedError,
    UnknownApprovalError,
    UnknownSessionError,
)
from everturn_actors.ids import is_session_id
from everturn_actors.model import Decision
from everturn_actors.ports import SessionFilter
from everturn_channels.access.owners import Owner, find_owner
from everturn_channels.access.pairing import PairingError, Request, UnknownCodeError, plain_code
from everturn_channels.adapter import ButtonClick, ChatRef, Command, Person
from everturn_channels.channel_context import ChannelContext
from everturn_channels.command_registry import CommandSpec, Place, command_named
from everturn_channels.delivery.approvals import read_button
from everturn_channels.delivery.questions import Question
from everturn_channels.delivery.rendering import buttons_of
from everturn_channels.inbound.notifier import BackgroundTasks, Notifier
from everturn_channels.inbound.owners.open_questions import (
    OpenQuestion,
    open_questions,
    owner_question_text,
    with_code,
)
from everturn_channels.inbound.owners.texts import (
    NO_QUESTIONS,
    NO_SUCH_ANSWER,
    NO_SUCH_CODE,
    NO_SUCH_QUESTION,
    NO_SUCH_SESSION,
    NOT_FOR_GOOD,
    PAIRING_FAILS,
    decided_text,
    paired_text,
    questions_text,
    requests_text,
    reset_text,
    sessions_text,
)
from everturn_channels.texts import click_late, click_taken

logger = logging.getLogger(__name__)

QUESTIONS_SHOWN: Final = 5  # at a time; answered ones make room for the next
REQUESTS_SHOWN: Final = 20
SESSIONS_SHOWN: Final = 15
SESSIONS_LOOKED_AT: Final = 100  # to find those that have not ended


def owners_command(command: Command) -> CommandSpec | None:
    """Return what an owner means by a command, where that is nothing that everybody can mean."""
    place: Place = "private" if command.chat.type == "dm" else "group"
    found = command_named(command.name, place, "owners")
    if found is None and place == "group" and command_named(command.name, place) is None:
        found = command_named(command.name, "private", "owners")
    if found is not None and found.name == "reset" and not is_session_id(command.argument.strip()):
        return None
    return found


ANSWERED_TO_OWNERS: Final = frozenset(
    ("questions", "approve", "deny", "pair", "sessions", "reset", "usage")
)
"Names of the commands that `OwnerCommands.answer` knows."


class OwnerAnswer(Struct, frozen=True, kw_only=True):
    """What an owner is told."""

    text: str
    "Markdown."
    questions: tuple[OpenQuestion, ...] = ()
    "Shown after it, each with its buttons."


class OwnerCommands:
    """Does what the owners of agents ask for on one channel."""

    def __init__(
        self, *, channel: str, context: ChannelContext, tasks: BackgroundTasks, notifier: Notifier
    ) -> None:
        self._channel = channel
        self._context = context
        self._tasks = tasks
        self._notifier = notifier

    def owner_of(self, sender: Person) -> Owner | None:
        """Return which owner somebody on this channel is, by the configuration as it is now."""
        return find_owner(self._context.owners(), self._channel, sender)

    # --- commands ---

    async def answer(self, command: Command, owner: Owner) -> OwnerAnswer:
        """Do what an owner's command says; return what the owner is told.

        Raises:
            CoreError: It cannot be done now.
        """
        argument = command.argument.strip()
        match command.name:
            case "approve" if argument:
                return OwnerAnswer(text=await self._approve(argument, owner))
            case "deny" if argument:
                return OwnerAnswer(text=await self._decide_by_code(argument, "deny", owner))
            case "approve" | "deny" | "questions":
                return await self._questions(owner)
            case "pair":
                return OwnerAnswer(text=await self._pair(argument, owner))
            case "sessions":
                return OwnerAnswer(text=await self._sessions(owner))
            case "reset":
                return OwnerAnswer(text=await self._reset(argument, owner))
            case _:
                return OwnerAnswer(text=self._context.describe_usage(owner.owns))

    def show(self, chat: ChatRef, questions: tuple[OpenQuestion, ...]) -> None:
        """Show questions in a private chat, each with what answers it, as soon as it may be."""
        if questions:
            self._tasks.start("questions", partial(self._show, chat, questions))

    async def _show(self, chat: ChatRef, questions: tuple[OpenQuestion, ...]) -> None:
        for each in questions:
            await show_question(self._notifier, chat, each)

    async def _questions(self, owner: Owner) -> OwnerAnswer:
        questions = await self._open(owner)
        if not questions:
            return OwnerAnswer(text=NO_QUESTIONS)
        shown = questions[:QUESTIONS_SHOWN]
        return OwnerAnswer(text=questions_text(len(questions), len(shown)), questions=shown)

    async def _approve(self, argument: str, owner: Owner) -> str:
        code, _, rest = argument.partition(" ")
        question = with_code(await self._open(owner), code.lower())
        if question is not None and question.approval.inquiry is not None:
            return await self._decide_by_code(code, "answer", owner, rest)
        match rest.strip().lower():
            case "":
                return await self._decide_by_code(code, "allow_once", owner)
            case "always":
                return await self._decide_by_code(code, "allow_always", owner)
            case _:
                return NO_SUCH_QUESTION

    async def _decide_by_code(
        self, code: str, decision: Decision, owner: Owner, answer: str = ""
    ) -> str:
        question = with_code(await self._open(owner), code.lower())
        if question is None:
            return NO_SUCH_QUESTION
        inquiry = question.approval.inquiry
        if decision == "answer" and inquiry is not None and inquiry.read(answer) is None:
            return NO_SUCH_ANSWER
        try:
            await self._decide(question, decision, owner, answer)
        except (UnknownApprovalError, UnknownSessionError, SessionEndedError):
            return click_late()
        except ApprovalClosedError:
            is_too_wide = decision == "allow_always" and not question.approval.pattern
            return NOT_FOR_GOOD if is_too_wide else click_late()
        return decided_text(decision, question.key.agent)

    async def _open(self, owner: Owner) -> tuple[OpenQuestion, ...]:
        return open_questions(await self._context.service.activity.awaiting_approval(), owner)

    async def _decide(
        self, question: OpenQuestion, decision: Decision, owner: Owner, answer: str = ""
    ) -> None:
        await self._context.service.decide(
            question.session_id,
            question.approval.call_id,
            decision,
            answer=answer,
            by=owner.by,
            arguments_hash=question.approval.arguments_hash,
            expires_at=question.approval.expires_at,
            may_always=True,
        )
        self._log(owner, f"answered a question: {decision}", question.session_id)

    async def _pair(self, argument: str, owner: Owner) -> str:
        pairing = self._context.pairing
        try:
            waiting = [each for each in await pairing.pending() if self._may_pair(each, owner)]
            if not argument:
                return requests_text(waiting[:REQUESTS_SHOWN], len(waiting))
            code = plain_code(argument)
            if all(each.code != code for each in waiting):
                return NO_SUCH_CODE
            person = await pairing.approve(code, by=owner.by)
        except UnknownCodeError:
            return NO_SUCH_CODE  # it expired in this moment
        except PairingError as error:
            logger.warning("an owner could pair nobody", extra={"error": str(error)})
            return PAIRING_FAILS
        self._log(owner, f"paired {person.sender_id} on {person.channel}")
        return paired_text(person)

    def _may_pair(self, request: Request, owner: Owner) -> bool:
        """Whether an owner has a say over every agent that a person would be let in to.

        A route that names a channel holds for it, or for all of a platform; the name of a
        platform's channel begins with the platform's.
        """
        if owner.agents is None:
            return True
        reached = {
            route.agent
            for route in self._context.routes()
            if route.chat_type in {"", "dm"}
            and route.sender_id in {"", request.sender_id}
            and f"{request.channel}-".startswith(f"{route.channel}-" if route.channel else "")
        }
        return bool(reached) and all(map(owner.owns, reached))

    async def _sessions(self, owner: Owner) -> str:
        wanted = SessionFilter(agents=owner.agents)
        rows = await self._context.service.reader.sessions(limit=SESSIONS_LOOKED_AT, wanted=wanted)
        own = [row for row in rows if owner.owns(row.key.agent) and row.status != "ended"]
        return sessions_text(own[:SESSIONS_SHOWN])

    async def _reset(self, session_id: str, owner: Owner) -> str:
        service = self._context.service
        try:
            state = await service.view(session_id)
        except UnknownSessionError:
            return NO_SUCH_SESSION
        if not owner.owns(state.key.agent):
            return NO_SUCH_SESSION
        with suppress(SessionEndedError, UnknownSessionError):  # somebody else was faster
            if state.status != "ended":
                await service.reset(session_id, by=owner.by)
        self._log(owner, "ended a session", session_id)
        return reset_text(state.key)

    # --- buttons ---

    async def click(self, click: ButtonClick, owner: Owner) -> str | None:
        """Answer the question that an owner clicked a button of; return what the owner is told.

        In private that may be one of any conversation; in a group, one of this chat.

        Returns:
            None where it is none of the owner's open questions: the button may be another one.

        Raises:
            CoreError: It cannot be done now.
        """
        button = read_button(click.data)
        if button is None:
            return None
        question = with_code(await self._open(owner), button.token)
        if question is None or not self._is_within_reach(question, click.chat):
            return None
        try:
            await self._decide(question, button.decision, owner, button.answer)
        except (ApprovalClosedError, UnknownApprovalError):
            return click_late()
        except (UnknownSessionError, SessionEndedError):
            return click_late()
        return click_taken(button.decision)

    def _is_within_reach(self, question: OpenQuestion, chat: ChatRef) -> bool:
        if chat.type == "dm":
            return True
        key = question.key
        return key.channel == self._channel and key.chat in {chat.id, *chat.aliases}

    def _log(self, owner: Owner, did: str, session_id: str = "") -> None:
        extra = {"owner": owner.name, "channel": self._channel, "did": did}
        if session_id:
            extra["session_id"] = session_id
        logger.info("an owner acted from a chat", extra=extra)


async def show_question(notifier: Notifier, chat: ChatRef, asked: OpenQuestion) -> None:
    """Show a question in a private chat, with its buttons.

    Raises:
        SendError: It could not be shown, or not all of it.
    """
    buttons = buttons_of(Question(approval=asked.approval, call=asked.call), asked.session_id)
    await notifier.notify(chat, owner_question_text(asked), buttons=buttons, is_plain=True)
