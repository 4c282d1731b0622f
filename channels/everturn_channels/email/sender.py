"""What the bot says: each mail handed to the server for outgoing mail once, under its own id.

That server takes the same mail twice as two, and says so at the end of a mail alone: where its
answer is lost nobody knows whether it took it. Then a look into the folder of sent mail tells,
where the provider files there what it sends; else the mail goes again, under the same Message-ID,
which many mail programs show once, and with a line that says that it may be a repeat.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

import aiosmtplib
import anyio

from everturn_actors.ports import Clock
from everturn_channels.adapter import Outbound
from everturn_channels.email.account import EmailAccount, login_of
from everturn_channels.email.composing import Context, compose
from everturn_channels.email.mailbox import connect, open_mailbox
from everturn_channels.email.parsing.fields import address_in
from everturn_channels.email.threads import Threads, parent_of
from everturn_channels.errors import (
    ChannelError,
    NotSentError,
    RefusedError,
    SendError,
    UnknownOutcomeError,
)

logger = logging.getLogger(__name__)

FILES_MAX_BYTES: Final = 20 * 1024 * 1024
"Of one file: providers take 25 MB of a mail, which is a third larger than what is in it."
AT_ONCE: Final = 3
"Connections to the server; providers take few of one user."
_COMMAND_S: Final = 30.0
_DATA_S: Final = 300.0  # until a mail was taken, as RFC 5321 wants (section 4.5.3.2)
_QUIT_S: Final = 2.0
_ENHANCED: Final = re.compile(r"\b([245])\.(\d{1,3})\.(\d{1,3})\b")
_NOBODY: Final = frozenset({550, 551, 553})
_LIMITS: Final = frozenset({"5.4.5"})  # "daily sending limit exceeded" of Gmail, which ends


class Sender:
    """Sends mails of one mailbox."""

    def __init__(self, account: EmailAccount, threads: Threads, clock: Clock) -> None:
        self._account, self._threads, self._clock = account, threads, clock
        self._slots = anyio.CapacityLimiter(AT_ONCE)

    async def send(self, message: Outbound) -> str:
        """As `Adapter.send`."""
        threads, topic = self._threads, message.topic
        to = address_in(message.chat_id)
        if not to:
            msg = f"{message.chat_id} is no address that mail can be sent to"
            raise RefusedError(msg, is_chat_gone=True)
        if why := threads.bounced(to):
            msg = f"Mail to {to} comes back: {why}"
            raise RefusedError(msg, is_chat_gone=True)
        message_id = threads.own_id(message.nonce, topic)
        if message.is_repeat and await self._is_filed(message_id):
            return message_id
        known = threads.get(message.chat_id, topic)
        # Without a topic a mail is an answer only where it says to which.
        thread = known if topic or message.reply_to else None
        context = Context(
            message_id=message_id,
            thread=thread,
            quote=threads.quote(parent_of(thread, message.reply_to)),
            now=self._clock.now(),
        )
        try:
            mail = compose(self._account, message, context)
        except ValueError as error:
            msg = f"What is to be sent to {to} cannot be written as mail: {error}"
            raise RefusedError(msg) from error
        if message.buttons:
            await threads.questions.note(message_id, message.buttons)
        async with self._slots:
            await self._submit(to, mail)
        threads.note_sent(message_id, to)
        if self._account.files_sent:
            await self._file(mail)
        return message_id

    # --- the server for outgoing mail ---

    async def _submit(self, to: str, mail: bytes) -> None:
        """Hand a mail over.

        Raises:
            SendError: Its kind says what is known.
        """
        async with smtp_session(self._account) as client:
            options = ["SMTPUTF8"] if not to.isascii() else []
            if options and not client.supports_extension("smtputf8"):
                msg = f"The mail server takes no address like {to}."
                raise RefusedError(msg)
            try:
                await client.mail(self._account.address, options=options)
                await client.rcpt(to, encoding="utf-8")
            except aiosmtplib.SMTPResponseException as error:
                is_recipient = isinstance(error, aiosmtplib.SMTPRecipientRefused)
                raise _refusal(error, is_recipient=is_recipient) from error
            except (aiosmtplib.SMTPException, OSError) as error:
                msg = f"The mail server went away: {error}"
                raise NotSentError(msg) from error
            try:
                await client.data(mail, timeout=_DATA_S)
            except aiosmtplib.SMTPResponseException as error:
                raise _refusal(error) from error
            except (aiosmtplib.SMTPException, OSError) as error:
                msg = f"The mail server did not say whether it took the mail: {error}"
                raise UnknownOutcomeError(msg) from error

    # --- the folder of sent mail ---

    async def _is_filed(self, message_id: str) -> bool:
        """Whether a mail that may have been sent surely was.

        Raises:
            NotSentError: That cannot be known now.
        """
        try:
            async with open_mailbox(self._account) as box:
                folder = self._account.sent_folder or await box.sent_folder()
                return bool(folder) and await box.has(folder, message_id)
        except ChannelError as error:
            raise NotSentError(str(error)) from error

    async def _file(self, mail: bytes) -> None:
        """Put a mail into the folder of sent mail; what fails leaves a gap there, and no more."""
        try:
            async with open_mailbox(self._account) as box:
                folder = self._account.sent_folder or await box.sent_folder()
                if folder:
                    await box.file(folder, mail)
        except ChannelError as error:
            logger.warning("a mail was sent, and could not be filed", extra={"why": str(error)})


@asynccontextmanager
async def smtp_session(account: EmailAccount) -> AsyncGenerator[aiosmtplib.SMTP]:
    """Log in to the server for outgoing mail, and leave it after the block.

    Raises:
        NotSentError: It cannot be reached, or does not let the bot in.
    """
    server = account.smtp
    client = aiosmtplib.SMTP(
        hostname=server.host,
        port=None if account.proxy else server.port,  # then it is given a connection
        use_tls=server.security == "tls",
        start_tls=server.security == "starttls",
        timeout=_COMMAND_S,
        local_hostname=account.domain,
    )
    try:
        try:
            login = await login_of(account)
            sock = await connect(server, account) if account.proxy else None
            await client.connect(sock=sock)
            await client.ehlo()
            if client.supports_extension("auth"):
                if login.is_token:
                    await client.auth_xoauth2(login.user, login.secret)
                else:
                    await client.login(login.user, login.secret)
        except (ChannelError, aiosmtplib.SMTPException, OSError, ValueError) as error:
            msg = f"The mail server {server.host} cannot be used: {_words(error)}"
            raise NotSentError(msg) from error
        yield client
        with anyio.move_on_after(_QUIT_S), suppress(aiosmtplib.SMTPException, OSError):
            await client.quit()
    finally:
        client.close()


def _words(error: Exception) -> str:
    if isinstance(error, aiosmtplib.SMTPResponseException):
        return f"{error.code} {error.message}"
    return str(error) or type(error).__name__


def _refusal(error: aiosmtplib.SMTPResponseException, *, is_recipient: bool = False) -> SendError:
    """Return what an answer means: 4xx is for now, 5xx for good (RFC 5321, section 4.2.1)."""
    words = f"The mail server answered {_words(error)}"
    found = _ENHANCED.search(error.message)
    enhanced = ".".join(found.groups()) if found else ""
    if error.code < 500 or enhanced in _LIMITS:
        return NotSentError(words)
    subject = found[2] if found else ""
    is_gone = is_recipient and error.code in _NOBODY and subject in {"", "1", "2"}
    return RefusedError(words, is_chat_gone=is_gone)
