"""What becomes of a reaction that somebody puts on a message of the bot's.

Below a question it is an answer, by whoever may give one: 👍 or 👎, or the number of a choice. 🔁
tries again what could not be answered. Any other one is told to the model with the next turn, or in
a turn of its own, or nobody minds it, as the settings say.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from everturn_actors.errors import (
    CorruptJournalError,
    NothingToRetryError,
    SessionEndedError,
    UnknownFormatError,
    UnknownSessionError,
)
from everturn_actors.model import Approval, ConversationKey
from everturn_actors.state.session_state import SessionState
from everturn_channels.adapter import EMOJI_CHARS, ButtonClick, Message, Reaction
from everturn_channels.delivery.approvals import approval_token, button_data, choice_data
from everturn_channels.delivery.questions import question_of
from everturn_channels.inbound.access_control import AccessControl, log_damaged
from everturn_channels.inbound.button_clicks import decide
from everturn_channels.inbound.receiver import Receiver
from everturn_channels.inbound.running_channel import RunningChannel
from everturn_channels.inbound.submission_rules import message_key
from everturn_channels.names import one_line

QUOTE_CHARACTERS: Final = 200  # of the message that it stands on; it is only to be recognised
AGAIN: Final = "🔁"
_YES: Final = frozenset("👍✅")
_NO: Final = frozenset("👎❌")
_NUMBERS: Final = {**{f"{n}\u20e3": n for n in range(1, 10)}, "🔟": 10}
_YES_WORDS: Final = frozenset(("yes", "y", "ok", "ja", "sí", "si", "oui", "是", "好"))
_NO_WORDS: Final = frozenset(("no", "n", "nein", "non", "否", "不"))
# That it is to be shown in colour, and of which skin.
_MODIFIERS: Final = re.compile("[\ufe0f\U0001f3fb-\U0001f3ff]")


class Reactions:
    """Takes the reactions of one channel."""

    def __init__(
        self,
        channel: RunningChannel,
        access: AccessControl,
        receiver: Receiver,
        click: Callable[[ButtonClick], Awaitable[None]],
    ) -> None:
        """Take those that `access` admits; `click` does what a button below a question does."""
        self._service, self._settings = channel.context.service, channel.settings
        self._access, self._receiver, self._click = access, receiver, click
        self._take_s = channel.limits.take_s

    async def take(self, reaction: Reaction) -> None:
        """Take a reaction; return when it is durable, or nobody minds it.

        What it raises is judged by `dispositions`.
        """
        # To the core, nobody in particular is whoever runs the gateway; and what was lost on its
        # way to a platform has no id either.
        if not reaction.sender.id or not reaction.message_id:
            return
        with anyio.fail_after(self._take_s):
            admission = await self._access.admit(reaction.chat, reaction.sender, is_addressed=True)
            if admission is None or admission.decision.action in {"ignore", "record"}:
                return
            if self._access.is_flood(reaction):
                return
            session_id = await self._service.conversations.current(admission.key)
            if not session_id:
                return  # nothing that was said here is remembered
            try:
                state = await self._service.view(session_id)
                if not await self._answers(reaction, state):
                    await self._tell(reaction, state, admission.key)
            except (UnknownSessionError, SessionEndedError):
                pass  # it ended just now
            except (CorruptJournalError, UnknownFormatError) as error:
                log_damaged(admission.key, error)

    async def _answers(self, reaction: Reaction, state: SessionState) -> bool:
        """Answer the question that a reaction stands on; return whether it is an answer."""
        approval = _asked_at(state, reaction.message_id)
        if approval is None:
            return False
        data = click_of(reaction.emoji, approval, state.session_id)
        if data:
            await self._click(
                ButtonClick(
                    data=data,
                    chat=reaction.chat,
                    sender=reaction.sender,
                    at=reaction.at,
                    answer=_nobody_reads,
                )
            )
            return True
        inquiry, plain = approval.inquiry, plain_emoji(reaction.emoji)
        if inquiry is None or not inquiry.takes_text or plain not in _YES | _NO:
            return False
        admission = await self._access.admit(reaction.chat, reaction.sender, is_addressed=True)
        if admission is not None and admission.decision.action == "answer":
            await decide(
                approval,
                state.session_id,
                "answer",
                answer=plain,
                sender=reaction.sender,
                service=self._service,
            )
        return True

    async def _tell(self, reaction: Reaction, state: SessionState, key: ConversationKey) -> None:
        """Try a turn again, or have the model told of a reaction, as the settings say."""
        mode, session_id = self._settings.on_reaction, state.session_id
        is_again = plain_emoji(reaction.emoji) == AGAIN
        if mode == "ignore" and not is_again:
            return
        is_turn = mode == "answer" or is_again
        admission = await self._access.admit(reaction.chat, reaction.sender, is_addressed=is_turn)
        if admission is None:
            return
        said = await self._service.reader.said_in(session_id, reaction.message_id)
        if said is None:
            return  # somebody else's, or from before this conversation
        if is_again and admission.decision.action == "answer":
            try:
                name = message_key(key, reaction.id)
                await self._service.retry(session_id, idempotency_key=name)
            except NothingToRetryError:
                pass  # then it is a reaction like others
            else:
                return
        if mode == "ignore":
            return
        quoted = one_line(said, QUOTE_CHARACTERS)
        words = f"reacted with {one_line(reaction.emoji, EMOJI_CHARS)} to your message"
        message = Message(
            id=reaction.message_id,
            chat=reaction.chat,
            sender=reaction.sender,
            at=reaction.at,
            described=(f'{words} "{quoted}"' if quoted else words,),
        )
        await self._receiver.react(message, reaction.id, admission, is_turn=mode == "answer")


def plain_emoji(emoji: str) -> str:
    """Return an emoji without what says how it is shown.

    >>> plain_emoji("👍🏽"), plain_emoji("2️⃣") == "2\u20e3"
    ('👍', True)
    """
    return _MODIFIERS.sub("", emoji)


def click_of(emoji: str, approval: Approval, session_id: str) -> str:
    """Return what the button carries that a reaction on a question stands for; empty = none."""
    token, plain = approval_token(session_id, approval), plain_emoji(emoji)
    if approval.inquiry is None:
        if plain in _YES:
            return button_data("allow_once", token)
        return button_data("deny", token) if plain in _NO else ""
    choices = approval.inquiry.choices
    number = _NUMBERS.get(plain, 0)
    if plain in _YES | _NO:
        words = _YES_WORDS if plain in _YES else _NO_WORDS
        named = (n for n, each in enumerate(choices, 1) if each.strip().casefold() in words)
        number = next(named, 0)
    return choice_data(number, token) if 0 < number <= len(choices) else ""


def _asked_at(state: SessionState, message_id: str) -> Approval | None:
    """Return the open question that a message shows; None where it shows none."""
    shown = (
        item
        for item in state.outbox
        if item.kind == "approval"
        and any(chunk.platform_id == message_id for chunk in item.chunks or ())
    )
    question = next((question_of(state, item) for item in shown), None)
    return None if question is None or question.is_over else question.approval


async def _nobody_reads(text: str) -> None:
    """Tell nobody: what became of the question shows in its message."""
    del text
