"""What a message that was delivered means, as values of a channel."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from everturn_channels.adapter import (
    ButtonClick,
    ChatMoved,
    ChatRef,
    Command,
    Edit,
    InboundEvent,
    Message,
    Outbound,
    Person,
    Reaction,
)
from everturn_channels.command_registry import typed_command
from everturn_channels.ingestion.json_fields import Json, object_of, text_of
from everturn_channels.ingestion.numbered_questions import NumberedQuestions
from everturn_channels.whatsapp.chats import Chats, keep
from everturn_channels.whatsapp.content import described, time_of
from everturn_channels.whatsapp.markup import render
from everturn_channels.whatsapp.media import KINDS, file_in
from everturn_channels.whatsapp.people import People, is_phone, is_user_id
from everturn_channels.whatsapp.requests import CloudApi
from everturn_channels.whatsapp.sender import Sender

_MARKS: Final = "/!"
_QUOTES_MAX: Final = 2_000
_QUOTE_CHARS: Final = 500
_OLD: Final = "an earlier message, which is not at hand any more"
_FORWARDED: Final = "somebody else"


class Login(Struct, frozen=True, kw_only=True):
    """One login: which number it is, and what is known of its people."""

    api: CloudApi
    number: str
    "The telephone number, digits alone."
    people: People
    chats: Chats
    sender: Sender
    questions: NumberedQuestions


class _Quote(Struct, frozen=True, kw_only=True):
    name: str
    text: str


class EventReader:
    """Reads messages for one login."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._texts: OrderedDict[str, _Quote] = OrderedDict()
        "By message, what people wrote lately: a reply names no more than the id of what it quotes."

    async def read(self, raw: Json, contacts: Sequence[Json]) -> Sequence[InboundEvent | ChatMoved]:
        """Return what a message brings.

        Args:
            raw: The message.
            contacts: Those that came beside it.

        Raises:
            ValueError: It cannot be read.
        """
        if text_of(raw, "type") == "system":
            return await self._moved(raw)
        sender, chat = await self.whose(raw, contacts)
        if clicked := _clicked(raw):
            return (self._click(raw, clicked, sender, chat),)
        if text_of(raw, "type") == "reaction":
            return _reactions(raw, sender, chat)
        edited = object_of(raw, "edit", "message")
        wamid = text_of(raw, "edit", "original_message_id") if edited else text_of(raw, "id")
        message = self._message(edited or raw, wamid, sender, chat, time_of(raw))
        if edited:
            return (_edit(message),)
        self._login.chats.note_message(chat.id, wamid, message.at)
        answered = text_of(raw, "context", "id")
        question, data = self._login.questions.choice_of([answered], message.text)
        if question:
            return (self._click(raw, data, sender, chat),)
        keep(self._texts, wamid, _quote_of(message), _QUOTES_MAX)
        return (self._command(message) or message,)

    async def whose(self, raw: Json, contacts: Sequence[Json]) -> tuple[Person, ChatRef]:
        """Return who wrote a message, and where.

        Raises:
            ValueError: It names nobody.
        """
        phone, user_id = text_of(raw, "from"), text_of(raw, "from_user_id")
        contact = _contact_of(contacts, phone, user_id)
        user_id = user_id or text_of(contact, "user_id")
        person = await self._login.people.id_of(phone or text_of(contact, "wa_id"), user_id)
        name = text_of(contact, "profile", "name") or text_of(contact, "profile", "username")
        sender = Person(id=person, name=name or person)
        group = text_of(raw, "group_id")
        chat = ChatRef(id=group, type="group") if group else ChatRef(id=person, title=name)
        return sender, chat

    async def _moved(self, raw: Json) -> Sequence[ChatMoved]:
        """Return that somebody has another number, or is called otherwise by Meta.

        With what they were called before, nobody answers any more. Whoever hides their number gets
        another id with another one, and only that is told.
        Source: https://developers.facebook.com/documentation/business-messaging/whatsapp/webhooks/reference/messages/system
        (updated 2026-08-11, read 2026-11-27); that the new id is `user_id`, in clients of the API.
        """
        system = object_of(raw, "system")
        new = text_of(system, "wa_id") or text_of(system, "new_wa_id")
        if text_of(system, "type") == "user_changed_user_id":
            new = text_of(system, "user_id")
        before = text_of(system, "previous_user_id")
        old = await self._login.people.id_of(text_of(raw, "from"), before)
        is_known = is_phone(new) or is_user_id(new)
        return (ChatMoved(old=old, new=new),) if is_known and old != new else ()

    # --- messages ---

    def _message(
        self, raw: Json, wamid: str, sender: Person, chat: ChatRef, at: datetime
    ) -> Message:
        context, login = object_of(raw, "context"), self._login
        answered, author = text_of(context, "id"), text_of(context, "from")
        is_to_us = bool(answered) and author.lstrip("+") == login.number
        quote = self._texts.get(answered)
        others = described(raw)
        if answered and not is_to_us and quote is None:
            others = (*others, f"in reply to {_OLD}")
        file = file_in(raw, login.api)
        text = _words_of(raw)
        is_passed_on = any(
            context.get(each) is True for each in ("forwarded", "frequently_forwarded")
        )
        return Message(
            id=wamid,
            chat=chat,
            sender=sender,
            text=text,
            at=at,
            is_addressed=is_to_us or f"@{login.number}" in text,
            files=(file,) if file is not None else (),
            quoted=quote.text if quote is not None else "",
            quoted_name=quote.name if quote is not None else "",
            forwarded_from=_FORWARDED if is_passed_on else "",
            described=others,
            is_outside=is_passed_on,
        )

    def _command(self, message: Message) -> Command | None:
        """Return a message as the command that it is; None = it is none."""
        found = typed_command(message.text, marks=_MARKS)
        if found is None or message.forwarded_from:
            return None
        return Command(
            id=message.id,
            name=found[0],
            argument=found[1],
            chat=message.chat,
            sender=message.sender,
            at=message.at,
            is_addressed=message.is_addressed,
            is_typed=not message.files and not message.quoted,
            otherwise=message,
            answer=self._answer(message.chat.id),
        )

    def _click(self, raw: Json, data: str, sender: Person, chat: ChatRef) -> ButtonClick:
        at = time_of(raw)
        self._login.chats.note_message(chat.id, text_of(raw, "id"), at)
        answer = self._answer(chat.id)
        return ButtonClick(data=data, chat=chat, sender=sender, at=at, answer=answer)

    def _answer(self, chat_id: str) -> Callable[[str], Awaitable[None]]:
        """Return what answers a command or a click: messages, since nothing else is there."""

        async def answer(text: str) -> None:
            for payload in render(text):
                await self._login.sender.send(Outbound(chat_id=chat_id, payload=payload))

        return answer


def _reactions(raw: Json, sender: Person, chat: ChatRef) -> Sequence[Reaction]:
    """Return a reaction on a message of the bot's; Meta tells of no others.

    One that is taken back comes without an emoji.
    """
    found = object_of(raw, "reaction")
    on, emoji = text_of(found, "message_id"), text_of(found, "emoji")
    if not on or not emoji:
        return ()
    at = time_of(raw)
    return (Reaction(message_id=on, emoji=emoji, chat=chat, sender=sender, at=at),)


def _contact_of(contacts: Sequence[Json], phone: str, user_id: str) -> Json:
    for each in contacts:
        if user_id and text_of(each, "user_id") == user_id:
            return each
        if phone and text_of(each, "wa_id") == phone:
            return each
    return contacts[0] if len(contacts) == 1 else {}


def _words_of(raw: Json) -> str:
    kind = text_of(raw, "type")
    if kind in KINDS:
        return text_of(raw, kind, "caption")
    return text_of(raw, "text", "body") or text_of(raw, "button", "text")


def _clicked(raw: Json) -> str:
    """Return what the button or the row carries that somebody chose; empty = none was."""
    chosen = object_of(raw, "interactive")
    return text_of(chosen, "button_reply", "id") or text_of(chosen, "list_reply", "id")


def _edit(message: Message) -> Edit:
    return Edit(
        id=message.id,
        chat=message.chat,
        sender=message.sender,
        text=message.text,
        at=message.at,
        is_addressed=message.is_addressed,
    )


def _quote_of(message: Message) -> _Quote:
    text = message.text or "; ".join(message.described) or "a file"
    return _Quote(name=message.sender.name, text=text[:_QUOTE_CHARS])
