"""What the bot says and does: each request once.

The Cloud API has no key of idempotency. What may be there already goes once more and says so,
unless a status of it came meanwhile: then it is there.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from everturn_channels.adapter import Button, Outbound, OutgoingFile
from everturn_channels.chunks import measure
from everturn_channels.errors import NotSentError, RefusedError, UnknownOutcomeError
from everturn_channels.ingestion.json_fields import objects_of, text_of
from everturn_channels.ingestion.numbered_questions import NumberedQuestions
from everturn_channels.languages import marked, said
from everturn_channels.whatsapp import markup
from everturn_channels.whatsapp.chats import Chats, keep
from everturn_channels.whatsapp.failures import PAIR, PAIR_S, WINDOW, Failure, to_send_error
from everturn_channels.whatsapp.media import FILES_MAX_BYTES, content_of, media_of
from everturn_channels.whatsapp.people import is_group, recipient_of
from everturn_channels.whatsapp.requests import CloudApi, RequestFailedError
from everturn_channels.whatsapp.statuses import Statuses

logger = logging.getLogger(__name__)

CHOOSE: Final = marked("Your choice?")
OPEN_LIST: Final = marked("Choose")
BY_NUMBER: Final = marked("Answer this message (swipe it) with the number of your choice:")
NEXT_IS_REPEAT: Final = marked("(The next message may be a repeat.)")
BODY_CHARS: Final = 1_024
BUTTONS_MAX, LABEL_CHARS = 3, 20
ROWS_MAX, ROW_CHARS, ROW_MORE_CHARS = 10, 24, 72
"""Of messages with choices, and of a message's `biz_opaque_callback_data` 512.

Source: https://github.com/facebook/openapi (business-messaging-api_v23.0.yaml, InteractiveObject)
and .../whatsapp/messages/interactive-reply-buttons-messages, -list-messages; read 2026-11-27.
"""
_HALVES_MAX: Final = 1_000

OnClosed = Callable[[str, str], None]
"Told the chat, and why nothing is taken there until its person writes again."


class Sender:
    """Says things as one number."""

    def __init__(
        self,
        api: CloudApi,
        *,
        chats: Chats,
        statuses: Statuses,
        questions: NumberedQuestions | None,
        on_closed: OnClosed,
    ) -> None:
        self._api, self._chats, self._statuses = api, chats, statuses
        self._questions = questions
        "None = another process receives, and reads what is answered by a number."
        self._on_closed = on_closed
        self._halves: OrderedDict[str, None] = OrderedDict()
        "Nonces of questions whose text is there, and whose choices are not."

    async def send(self, message: Outbound) -> str:
        """As `Adapter.send`."""
        is_unsure = message.is_repeat
        if is_unsure and (status := self._statuses.of_nonce(message.nonce)) is not None:
            if status.failure is None:
                return status.id
            is_unsure = False  # it never got there
        self._check(message.chat_id)
        if message.file is not None:
            return await self._send_file(message, message.file, is_repeat=is_unsure)
        text = markup.text_of(message.payload, is_repeat=is_unsure)
        if not message.buttons:
            return await self._post(message, _text(text))
        if is_group(message.chat_id):
            return await self._ask_by_number(message, text)
        if len(text) > BODY_CHARS:
            # Above choices stands less than in a message of its own.
            await self._send_half(message, text)
            text = said(CHOOSE)
        wamid = await self._post(message, _interactive(text, message.buttons))
        self._halves.pop(message.nonce, None)
        return wamid

    async def type(self, chat_id: str) -> None:
        """Show that an answer is written, where somebody wrote; that marks as read, too."""
        self._chats.doubt(chat_id)
        if wamid := self._chats.last(chat_id):
            await self.mark_read(wamid, is_typing=True)

    async def mark_read(self, wamid: str, *, is_typing: bool = False) -> None:
        """Show that a message was read.

        Source: https://developers.facebook.com/documentation/business-messaging/whatsapp/typing-indicators
        (updated 2026-06-17, read 2026-11-27).

        Raises:
            SendError: It could not be done.
        """
        fields: dict[str, object] = {"status": "read", "message_id": wamid}
        if is_typing:
            fields["typing_indicator"] = {"type": "text"}
        try:
            await self._api.post(fields)
        except RequestFailedError as error:
            raise error.to_send_error() from error

    async def react(self, chat_id: str, wamid: str, emoji: str) -> None:
        """As `Adapter.react`. A second one takes the place of the first at Meta."""
        self._check(chat_id)
        fields = {"type": "reaction", "reaction": {"message_id": wamid, "emoji": emoji}}
        try:
            await self._api.post({**recipient_of(chat_id), **fields})
        except RequestFailedError as error:
            raise error.to_send_error() from error

    # --- inside ---

    def _check(self, chat_id: str) -> None:
        """Ask for nothing that is known to be refused.

        Raises:
            NotSentError: It would be.
        """
        if why := self._chats.why_closed(chat_id):
            raise NotSentError(why, waits_for_person=True)
        if self._chats.is_left_alone(chat_id):
            msg = "WhatsApp takes no more messages to this person for some seconds."
            raise NotSentError(msg)

    async def _post(self, message: Outbound, content: dict[str, object]) -> str:
        """Send one message, and wait for Meta to say whether it goes out; return its id.

        Raises:
            SendError: It does not, or nobody knows.
        """
        chat = message.chat_id
        written = self._chats.last(chat)
        fields = {**recipient_of(chat), **content}
        if message.reply_to:
            fields["context"] = {"message_id": message.reply_to}
        if message.nonce:
            fields["biz_opaque_callback_data"] = message.nonce
        with self._statuses.expecting(chat, message.nonce):
            try:
                answer = await self._api.post(fields)
            except RequestFailedError as error:
                if error.failure is not None:
                    self._note(chat, error.failure, written)
                raise error.to_send_error() from error
            wamid = next((text_of(each, "id") for each in objects_of(answer, "messages")), "")
            if not wamid:
                msg = "WhatsApp did not say how it calls the message."
                raise UnknownOutcomeError(msg)
        status = await self._statuses.first(wamid)
        if status is not None and status.failure is not None:
            self._note(chat, status.failure, written)
            raise to_send_error(status.failure)
        return wamid

    def _note(self, chat: str, failure: Failure, written: str) -> None:
        """Note what a failure says of a chat; `written` was last there when it was asked."""
        if failure.code == PAIR:
            self._chats.leave_alone(chat, PAIR_S)
        elif failure.code == WINDOW and self._chats.last(chat) == written:
            self.close(chat, failure)

    def close(self, chat: str, failure: Failure) -> None:
        """Note that a chat takes nothing until its person writes again, and tell the owner once."""
        if self._chats.close(chat, str(to_send_error(failure))):
            self._on_closed(chat, str(failure))

    async def _send_half(self, message: Outbound, text: str) -> None:
        """Send the text of a question that is too long to stand above its choices, once."""
        if message.nonce and message.nonce in self._halves:
            return
        half = Outbound(chat_id=message.chat_id, reply_to=message.reply_to)
        await self._post(half, _text(text))
        keep(self._halves, message.nonce, None, _HALVES_MAX)

    async def _ask_by_number(self, message: Outbound, text: str) -> str:
        """Ask in a group, which has no buttons (.../whatsapp/groups, read 2026-11-27)."""
        lines = [f"{number}. {each.label}" for number, each in enumerate(message.buttons, 1)]
        choices = "\n".join((said(BY_NUMBER), *lines))
        if measure(f"{text}\n\n{choices}", "utf16") > markup.MESSAGE_UNITS:
            await self._send_half(message, text)
            text = said(CHOOSE)
        wamid = await self._post(message, _text(f"{text}\n\n{choices}"))
        self._halves.pop(message.nonce, None)
        if self._questions is not None:
            await self._questions.note(wamid, message.buttons)
        return wamid

    async def _send_file(self, message: Outbound, file: OutgoingFile, *, is_repeat: bool) -> str:
        """Upload a file, then show it; what is uploaded in vain is seen by nobody."""
        if len(file.data) > FILES_MAX_BYTES:
            msg = f"Files of {FILES_MAX_BYTES:,} bytes at most can be sent."
            raise RefusedError(msg)
        media = media_of(file)
        try:
            media_id = await self._api.upload(
                file.data, media_type=media.media_type, file_name=media.name
            )
        except RequestFailedError as error:
            found = error.to_send_error()
            if isinstance(found, NotSentError | RefusedError):
                raise found from error
            raise NotSentError(str(found)) from error
        caption = said(markup.REPEAT_LABEL) if is_repeat else ""
        if caption and not media.has_caption:
            await self._post(Outbound(chat_id=message.chat_id), _text(said(NEXT_IS_REPEAT)))
        return await self._post(message, content_of(media, media_id, caption))


def _text(text: str) -> dict[str, object]:
    """Return a text; Meta fetches no address in it to show it below."""
    return {"type": "text", "text": {"body": text, "preview_url": False}}


def _interactive(text: str, buttons: Sequence[Button]) -> dict[str, object]:
    """Return a question with its choices: as buttons where they are few and short, else as a list.

    More than ten have no room; what asks with more says how else one is chosen.
    """
    body = {"text": text}
    labels = [each.label for each in buttons]
    is_short = all(len(each) <= LABEL_CHARS for each in labels) and len(set(labels)) == len(labels)
    action: dict[str, object]
    if len(buttons) <= BUTTONS_MAX and is_short:
        kind = "button"
        action = {"buttons": [_button(each) for each in buttons]}
    else:
        rows = [_row(n, each) for n, each in enumerate(buttons[:ROWS_MAX], 1)]
        kind = "list"
        action = {"button": said(OPEN_LIST), "sections": [{"rows": rows}]}
    return {
        "type": "interactive",
        "interactive": {"type": kind, "body": body, "action": action},
    }


def _button(button: Button) -> dict[str, object]:
    return {"type": "reply", "reply": {"id": button.data, "title": button.label}}


def _row(number: int, button: Button) -> dict[str, object]:
    """Return a choice of a list; what its title has no room for stands below it."""
    if len(button.label) <= ROW_CHARS:
        return {"id": button.data, "title": button.label}
    title = f"{number}. {button.label}"
    return {
        "id": button.data,
        "title": title[: ROW_CHARS - 1] + "…",
        "description": button.label[:ROW_MORE_CHARS],
    }


def nobody_told(chat: str, why: str) -> None:
    """Note in the log that a chat is closed, where no handler is there to tell."""
    logger.warning("what is said waits for its person", extra={"chat": chat, "why": why})
