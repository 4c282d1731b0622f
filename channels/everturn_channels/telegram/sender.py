"""What a bot shows people: messages, edits, drafts, signs and answers to buttons.

Nothing is tried again here but what Telegram refused for its form alone, so surely did not show.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Coroutine, Sequence
from typing import Final, TypeVar, cast

from aiogram.exceptions import TelegramBadRequest
from aiogram.methods import (
    AnswerCallbackQuery,
    EditMessageText,
    SendChatAction,
    SendDocument,
    SendMediaGroup,
    SendMessage,
    SendMessageDraft,
    SendPhoto,
    SendVoice,
    SetMessageReaction,
)
from aiogram.methods.base import TelegramMethod
from aiogram.types import (
    BufferedInputFile,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    InputMediaDocument,
    InputMediaPhoto,
    LinkPreviewOptions,
    MediaUnion,
    Message,
    MessageEntity,
    ReactionTypeEmoji,
    ReplyParameters,
)

from everturn_channels.adapter import Button, Outbound, OutgoingFile
from everturn_channels.errors import RefusedError
from everturn_channels.languages import said
from everturn_channels.telegram import markup
from everturn_channels.telegram.connection import (
    REQUEST_S,
    UPLOAD_S,
    Line,
    UnreadableAnswerError,
)

T = TypeVar("T")

FILES_MAX_BYTES: Final = 50 * 1024 * 1024
"Source: https://core.telegram.org/bots/api#sending-files, for files that a bot uploads."
FILES_AT_ONCE: Final = 10
"Source: https://core.telegram.org/bots/api#sendmediagroup, read 2026-11-27."
_PHOTO_MAX_BYTES: Final = 10 * 1024 * 1024  # the same page; larger pictures go as documents
_PHOTO_TYPES: Final = frozenset({"image/jpeg", "image/png", "image/webp"})
_ANSWER_UNITS: Final = 200  # https://core.telegram.org/bots/api#answercallbackquery
_FILE_NAME_MAX: Final = 120  # characters
_SIGN_S: Final = 10.0  # a sign that takes longer is of no use to anybody
_ROW_CHARS: Final = 16  # longer labels would be cut off beside others
_ROW_BUTTONS: Final = 3
# Telegram fetches what it previews before anybody clicks. An address in an answer, or in the
# question about a call, may carry what the conversation says.
# Source: https://core.telegram.org/bots/api#linkpreviewoptions.
_NO_PREVIEW: Final = LinkPreviewOptions(is_disabled=True)

_ENTITY_FAULT: Final = re.compile(r"entit|can't parse", re.IGNORECASE)
_VOICE_TYPE: Final = "audio/ogg"
# Some let nobody send them voice notes; a file they take.
_VOICE_FAULT: Final = re.compile(r"voice", re.IGNORECASE)
_PHOTO_FAULT: Final = re.compile(r"photo|image", re.IGNORECASE)


class Sender:
    """Shows people things over an open line."""

    def __init__(self, line: Line) -> None:
        self._line = line

    async def send(self, message: Outbound) -> Sequence[str]:
        """Send a message; return its id, and those of the further files of an album."""
        if message.more_files:
            return await self._send_album(message)
        return [await self._send_one(message)]

    async def _send_one(self, message: Outbound) -> str:
        if message.file is not None:
            return await self._send_file(message, message.file)
        text, entities = _payload(message.payload)
        if message.is_repeat:
            text, entities = markup.labelled(text, entities)
        request = SendMessage(
            chat_id=_chat(message.chat_id),
            text=text,
            message_thread_id=_topic(message.topic),
            entities=_entities(entities),
            link_preview_options=_NO_PREVIEW,
            reply_parameters=_reply(message.reply_to),
            reply_markup=_keyboard(message.buttons),
        )
        try:
            return await self._sent(request)
        except TelegramBadRequest as error:
            if not (entities and _ENTITY_FAULT.search(error.message)):
                raise self._line.refused(error) from None
        return await self._refusing(self._sent(request.model_copy(update={"entities": None})))

    async def edit(self, chat_id: str, platform_id: str, payload: str) -> None:
        """Put a payload in the place of a message. See `Adapter.edit`."""
        text, entities = _payload(payload)
        request = EditMessageText(
            chat_id=_chat(chat_id),
            message_id=_number(platform_id, "message"),
            text=text,
            entities=_entities(entities),
            link_preview_options=_NO_PREVIEW,
        )
        try:
            await self._line.send(request)
        except UnreadableAnswerError as error:
            if not error.message_id:
                raise
        except TelegramBadRequest as error:
            if "message is not modified" in error.message:
                return
            if not (entities and _ENTITY_FAULT.search(error.message)):
                # the message is gone, not the chat: what follows can still be sent
                gone = self._line.refused(error)
                raise gone from None
            plain = request.model_copy(update={"entities": None})
            await self._refusing(self._line.send(plain))

    async def show_draft(self, chat_id: str, topic: str, draft: int, text: str) -> None:
        """Show a draft. See `Adapter.show_draft`."""
        shown = markup.tail(text, markup.TEXT_UNITS - 1)
        if shown.strip():
            number = _number(chat_id, "chat")
            request = SendMessageDraft(
                chat_id=number, draft_id=draft, message_thread_id=_topic(topic), text=shown
            )
            await self._refusing(self._line.send(request, deadline_s=_SIGN_S))

    async def type(self, chat_id: str, topic: str) -> None:
        """Show the typing indicator. See `Adapter.type`."""
        request = SendChatAction(
            chat_id=_chat(chat_id), action="typing", message_thread_id=_topic(topic)
        )
        await self._refusing(self._line.send(request, deadline_s=_SIGN_S))

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """Put a reaction on a message. See `Adapter.react`."""
        request = SetMessageReaction(
            chat_id=_chat(chat_id),
            message_id=_number(message_id, "message"),
            reaction=[ReactionTypeEmoji(emoji=emoji)] if emoji else [],
        )
        await self._refusing(self._line.send(request, deadline_s=_SIGN_S))

    async def answer(self, chat: str, topic: str, reply_to: str, text: str) -> None:
        """Answer a command with Markdown of any length, in as many messages as it takes.

        Raises:
            SendError: It could not be sent, or not all of it.
        """
        for payload in markup.render(text):
            await self.send(Outbound(chat_id=chat, topic=topic, payload=payload, reply_to=reply_to))
            reply_to = ""

    async def answer_click(self, query_id: str, text: str) -> None:
        """Tell whoever clicked a button a line; empty ends the waiting sign alone.

        Raises:
            SendError: It could not be told.
        """
        request = AnswerCallbackQuery(
            callback_query_id=query_id, text=markup.head(text, _ANSWER_UNITS) or None
        )
        await self._refusing(self._line.send(request, deadline_s=_SIGN_S))

    async def _send_file(self, message: Outbound, file: OutgoingFile) -> str:
        upload = BufferedInputFile(file.data, _file_name(file.file_name))
        document = SendDocument(
            chat_id=_chat(message.chat_id),
            document=upload,
            message_thread_id=_topic(message.topic),
            caption=said(markup.REPEAT_LABEL) if message.is_repeat else None,
            reply_parameters=_reply(message.reply_to),
            reply_markup=_keyboard(message.buttons),
        )
        if file.media_type in _PHOTO_TYPES and len(file.data) <= _PHOTO_MAX_BYTES:
            photo = SendPhoto(
                chat_id=document.chat_id,
                photo=upload,
                message_thread_id=document.message_thread_id,
                caption=document.caption,
                reply_parameters=document.reply_parameters,
                reply_markup=document.reply_markup,
            )
            try:
                return await self._sent(photo, UPLOAD_S)
            except TelegramBadRequest as error:
                if not _PHOTO_FAULT.search(error.message):  # its sides are too long, for one
                    raise self._line.refused(error) from None
        if file.is_voice and file.media_type == _VOICE_TYPE:
            voice = SendVoice(
                chat_id=document.chat_id,
                voice=upload,
                duration=round(file.duration_s) or None,
                message_thread_id=document.message_thread_id,
                caption=document.caption,
                reply_parameters=document.reply_parameters,
                reply_markup=document.reply_markup,
            )
            try:
                return await self._sent(voice, UPLOAD_S)
            except TelegramBadRequest as error:
                if not _VOICE_FAULT.search(error.message):
                    raise self._line.refused(error) from None
        return await self._refusing(self._sent(document, UPLOAD_S))

    async def _send_album(self, message: Outbound) -> Sequence[str]:
        """Send several files as one: pictures as such where each of them can be shown as one."""
        uploads = [
            BufferedInputFile(each.data, _file_name(each.file_name)) for each in message.files
        ]
        label = said(markup.REPEAT_LABEL) if message.is_repeat else None
        captions = [label, *[None] * len(message.more_files)]
        documents: list[MediaUnion] = [
            InputMediaDocument(media=upload, caption=caption)
            for upload, caption in zip(uploads, captions, strict=True)
        ]
        request = SendMediaGroup(
            chat_id=_chat(message.chat_id),
            media=documents,
            message_thread_id=_topic(message.topic),
            reply_parameters=_reply(message.reply_to),
        )
        if all(
            each.media_type in _PHOTO_TYPES and len(each.data) <= _PHOTO_MAX_BYTES
            for each in message.files
        ):
            photos = [
                InputMediaPhoto(media=upload, caption=caption)
                for upload, caption in zip(uploads, captions, strict=True)
            ]
            try:
                return await self._sent_album(request.model_copy(update={"media": photos}))
            except TelegramBadRequest as error:
                if not _PHOTO_FAULT.search(error.message):
                    raise self._line.refused(error) from None
        return await self._refusing(self._sent_album(request))

    async def _sent_album(self, request: SendMediaGroup) -> Sequence[str]:
        return await self._names_of(request, UPLOAD_S, lambda sent: sent)

    async def _sent(self, request: TelegramMethod[Message], deadline_s: float = REQUEST_S) -> str:
        (name,) = await self._names_of(request, deadline_s, lambda sent: [sent])
        return name

    async def _names_of(
        self,
        request: TelegramMethod[T],
        deadline_s: float,
        messages: Callable[[T], Sequence[Message]],
    ) -> Sequence[str]:
        try:
            sent = messages(await self._line.send(request, deadline_s=deadline_s))
        except UnreadableAnswerError as error:
            if error.message_id:  # newer than the library: what matters was understood
                return [str(error.message_id)]
            raise
        return [str(each.message_id) for each in sent]

    async def _refusing(self, request: Coroutine[object, object, T]) -> T:
        try:
            return await request
        except TelegramBadRequest as error:
            raise self._line.refused(error) from None


def _payload(payload: str) -> tuple[str, list[dict[str, object]]]:
    value: dict[str, object] = json.loads(payload)
    return str(value["text"]), cast("list[dict[str, object]]", value["entities"])


def _entities(entities: Sequence[dict[str, object]]) -> list[MessageEntity] | None:
    return [MessageEntity.model_validate(entity) for entity in entities] or None


def _number(text: str, what: str) -> int:
    try:
        return int(text)
    except ValueError:
        msg = f"{text!r} is not the id of a {what}"
        raise RefusedError(msg) from None


def _chat(chat: str) -> int | str:
    return chat if chat.startswith("@") else _number(chat, "chat")


def _topic(topic: str) -> int | None:
    return _number(topic, "topic") if topic else None


def _reply(message_id: str) -> ReplyParameters | None:
    if not message_id:
        return None
    number = _number(message_id, "message")
    return ReplyParameters(message_id=number, allow_sending_without_reply=True)


def _keyboard(buttons: tuple[Button, ...]) -> InlineKeyboardMarkup | None:
    if not buttons:
        return None
    keys = [InlineKeyboardButton(text=markup.clean(b.label), callback_data=b.data) for b in buttons]
    beside = all(len(b.label) <= _ROW_CHARS for b in buttons)
    width = _ROW_BUTTONS if beside else 1
    rows = [keys[at : at + width] for at in range(0, len(keys), width)]
    return InlineKeyboardMarkup(inline_keyboard=rows)


def _file_name(name: str) -> str:
    """Return a name that can stand in a header."""
    safe = "".join(char for char in name if char.isprintable() and char not in '"\\/')
    return safe[-_FILE_NAME_MAX:] or "file"
