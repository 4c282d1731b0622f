"""What a mail means, as values of a channel. Fetches it when its turn comes."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final

import anyio
from anyio import to_thread
from msgspec import Struct

from everturn_channels.adapter import (
    ButtonClick,
    ChatRef,
    Command,
    InboundEvent,
    IncomingFile,
    Message,
    Person,
    Reaction,
)
from everturn_channels.command_registry import typed_command
from everturn_channels.email.account import EmailAccount
from everturn_channels.email.mailbox import Envelope, Mailbox, open_mailbox
from everturn_channels.email.markup import render
from everturn_channels.email.parsing.bounces import bounce_of
from everturn_channels.email.parsing.content import AttachedFile, Content, content_of
from everturn_channels.email.parsing.fields import Fields
from everturn_channels.email.parsing.structure import has_files
from everturn_channels.email.sender import Sender
from everturn_channels.email.threads import Threads, id_of
from everturn_channels.errors import ConnectionLostError, FileTooLargeError, SetupError
from everturn_channels.ingestion.answers import replies
from everturn_channels.names import one_line

logger = logging.getLogger(__name__)

MAIL_MAX_BYTES: Final = 40 * 1024 * 1024
"Of one mail that is read whole: what providers take, and a third more for its form."
BEGINNING_BYTES: Final = 2 * 1024 * 1024
"So much is read of a larger one."
AHEAD_BYTES: Final = 4 * 1024 * 1024
"Of all mails together that are kept before they are read."
SMALL_BYTES: Final = 4 * 1024
"A text of that size is read in less time than a thread takes to begin."
_BOUNCE_BYTES: Final = 200_000
_SUBJECT_CHARS: Final = 200
_OTHERS_MAX: Final = 5


class Fetcher:
    """Fetches mails over a connection of its own, since the other one listens."""

    def __init__(self, account: EmailAccount, validity: int) -> None:
        self._account, self._validity = account, validity
        self._opened = AsyncExitStack()
        self._box: Mailbox | None = None
        self._lock = anyio.Lock()
        self._ahead: OrderedDict[int, bytes] = OrderedDict()
        "By number, mails that came before they are read."
        self._ahead_bytes = 0
        self.turn = anyio.Lock()
        "Of one mail from when it is fetched until it is read: a large one takes much memory."

    def note(self, envelope: Envelope) -> None:
        """Keep a mail that came whole until it is read; of too many the newest."""
        if envelope.whole and envelope.uid not in self._ahead:
            self._ahead[envelope.uid] = envelope.whole
            self._ahead_bytes += len(envelope.whole)
        while self._ahead_bytes > AHEAD_BYTES:
            _, dropped = self._ahead.popitem(last=False)
            self._ahead_bytes -= len(dropped)

    async def mail(self, uid: int, limit_bytes: int) -> bytes | None:
        """Return at most so many bytes of a mail, once; None where it is gone.

        Raises:
            ConnectionLostError: It cannot be had now.
        """
        known = self._ahead.pop(uid, None)
        if known is not None:
            self._ahead_bytes -= len(known)
            return known[:limit_bytes]
        async with self._lock:
            is_reused = self._box is not None
            try:
                box = await self._ready()
                found = await box.mail(uid, limit_bytes)
                if found is not None or not is_reused:
                    return found
                # A connection sees what came since only once it was told of it; to a question for
                # what it does not see a server answers with nothing, as for what is gone.
                await box.select(self._account.inbox)
                return await box.mail(uid, limit_bytes)
            except ConnectionLostError:
                await self.close()
                if not is_reused:
                    raise
            # Servers end a connection on which nothing is said for half an hour.
            return await (await self._ready()).mail(uid, limit_bytes)

    async def close(self) -> None:
        """End the connection."""
        self._box = None
        await self._opened.aclose()

    async def _ready(self) -> Mailbox:
        if self._box is not None:
            return self._box
        try:
            box = await self._opened.enter_async_context(open_mailbox(self._account))
            folder = await box.select(self._account.inbox)
        except SetupError as error:  # the receiver meets it as well, and says so
            raise ConnectionLostError(str(error)) from error
        if folder.validity != self._validity:
            await self._opened.aclose()
            msg = "the numbers of the mails have changed"
            raise ConnectionLostError(msg)
        self._box = box
        return box


@asynccontextmanager
async def open_fetcher(account: EmailAccount, validity: int) -> AsyncGenerator[Fetcher]:
    """Fetch mails of a folder of this UIDVALIDITY, until the block ends."""
    fetcher = Fetcher(account, validity)
    try:
        yield fetcher
    finally:
        with anyio.CancelScope(shield=True):
            await fetcher.close()


class MailReader(Struct, frozen=True, kw_only=True):
    """Reads the mails of one mailbox."""

    account: EmailAccount
    fetcher: Fetcher
    threads: Threads
    sender: Sender

    async def read(self, envelope: Envelope) -> Sequence[InboundEvent]:
        """Return what a mail means; nothing for one that is gone.

        Raises:
            ConnectionLostError: It cannot be fetched now.
            Exception: It cannot be read.
        """
        is_cut = envelope.size_bytes > MAIL_MAX_BYTES
        limit = BEGINNING_BYTES if is_cut else MAIL_MAX_BYTES * 2
        async with self.fetcher.turn:
            raw = await self.fetcher.mail(envelope.uid, limit)
            if raw is None:
                return ()
            if len(raw) <= SMALL_BYTES and not has_files(raw):
                content = content_of(raw, is_cut=is_cut)
            else:
                content = await to_thread.run_sync(partial(content_of, raw, is_cut=is_cut))
            del raw
        fields = content.fields
        chat = chat_of(fields, self.threads)
        sender = person_of(fields)
        await self.threads.note_bounced(sender.id, "")
        answered = fields.ids("in-reply-to")
        if content.reaction and len(answered) == 1 and self.threads.is_own(answered[0]):
            return [
                Reaction(
                    message_id=answered[0],
                    emoji=content.reaction,
                    chat=chat,
                    sender=sender,
                    at=envelope.at,
                )
            ]
        await self.threads.note(chat.id, fields, sender.name or sender.id, content.text)
        message = Message(
            id=id_of(fields),
            chat=chat,
            sender=sender,
            text=content.text or self._subject_alone(content),
            at=envelope.at,
            is_addressed=True,
            files=tuple(map(_incoming, content.files)),
            described=tuple(self._described(content)),
            unsupported=content.unsupported,
            is_outside=content.is_forward,
        )
        question, data = self.threads.questions.choice_of(answered, content.text)
        if data:
            answer = self._answer(chat, question)
            return [ButtonClick(data=data, chat=chat, sender=sender, at=envelope.at, answer=answer)]
        command = None if message.files else typed_command(content.text, marks="/!")
        if command is None:
            return [message]
        is_alone = content.is_plain and not content.is_forward and "\n" not in content.text
        return [
            Command(
                id=message.id,
                name=command[0],
                argument=command[1],
                chat=chat,
                sender=sender,
                at=message.at,
                is_addressed=True,
                is_typed=is_alone,
                otherwise=message,
                answer=self._answer(chat, message.id),
            )
        ]

    async def read_bounce(self, envelope: Envelope) -> Sequence[InboundEvent]:
        """Note that a mail of the bot came back: one that it sent lately, as anybody can say so.

        Raises:
            ConnectionLostError: It cannot be fetched now.
        """
        raw = await self.fetcher.mail(envelope.uid, _BOUNCE_BYTES)
        found = await to_thread.run_sync(bounce_of, raw) if raw is not None else None
        to = self.threads.sent_to(found.message_id) if found is not None else ""
        if found is not None and to:
            fields = {"chat": to, "message_id": found.message_id, "why": found.why}
            logger.warning(
                "a mail came back: nothing more is sent there until they write", extra=fields
            )
            await self.threads.note_bounced(to, found.why)
        return ()

    def _answer(self, chat: ChatRef, message_id: str) -> Callable[[str], Awaitable[None]]:
        """Return what answers a command or a choice."""

        async def answer(text: str) -> None:
            for reply in replies(chat, render(text), message_id):
                await self.sender.send(reply)

        return answer

    def _subject_alone(self, content: Content) -> str:
        """Return the subject of a mail that says nothing else: some write all of it there."""
        is_empty = not content.files and not content.unsupported
        is_answer = bool(content.fields.ids("in-reply-to"))
        return content.fields.text("subject") if is_empty and not is_answer else ""

    def _described(self, content: Content) -> Sequence[str]:
        """Say that it is mail, and what of it was left out."""
        fields = content.fields
        subject = one_line(fields.text("subject"), _SUBJECT_CHARS)
        about = [f"e-mail, subject: {subject}" if subject else "e-mail without a subject"]
        others = [
            each.address
            for each in fields.mailers("to", "cc")
            if each.address and not self.account.is_own(each.address)
        ]
        if others:
            more = f" and {len(others) - _OTHERS_MAX} more" if len(others) > _OTHERS_MAX else ""
            named = ", ".join(others[:_OTHERS_MAX])
            about.append(f"also sent to {named}{more}, who do not get your answer")
        return ["; ".join([*about, *content.notes])]


def chat_of(fields: Fields, threads: Threads) -> ChatRef:
    """Return to which conversation a mail belongs."""
    address = fields.sender.address
    return ChatRef(
        id=address,
        topic=threads.topic_of(fields),
        title=one_line(fields.text("subject"), _SUBJECT_CHARS) or address,
    )


def person_of(fields: Fields) -> Person:
    """Return who wrote a mail, which was believed."""
    return Person(id=fields.sender.address, name=one_line(fields.sender.name))


def _incoming(file: AttachedFile) -> IncomingFile:
    async def fetch(limit_bytes: int) -> bytes:
        if len(file.data) > limit_bytes:
            raise FileTooLargeError
        return file.data

    return IncomingFile(
        fetch=fetch,
        file_name=file.name,
        media_type=file.media_type,
        size_bytes=len(file.data),
    )
