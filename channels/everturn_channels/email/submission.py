"""The server for outgoing mail: its connections, each kept for the next mails.

A mail counts as sent once the server said so after its text (RFC 5321, section 4.1.1.4). A
connection that ended while nothing was sent over it is noticed before that, as each mail begins
with commands of its own (MAIL, RCPT, DATA): then the mail goes over another one. Where it ends
after the text and before the answer, nobody knows whether the mail was taken.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final

import aiosmtplib
import anyio
from aiosmtplib.protocol import SMTPProtocol
from msgspec import Struct

from everturn_channels.email.account import EmailAccount, login_of
from everturn_channels.email.mailbox import connect
from everturn_channels.errors import (
    ChannelError,
    NotSentError,
    RefusedError,
    SendError,
    UnknownOutcomeError,
)

AT_ONCE: Final = 3
"Connections to the server; providers take few of one user."
KEEP_S: Final = 20.0
"""So long a connection is kept that nothing is sent over; a server waits five minutes.

Source: RFC 5321, section 4.5.3.2.7.
"""
MAILS_MAX: Final = 50
"Over one connection; servers end those that go on for ever, and a login may have ended."
_COMMAND_S: Final = 30.0
_ASKED_S: Final = 120.0  # until a server asks for the text, as RFC 5321 wants
_DATA_S: Final = 300.0  # until a mail was taken, as RFC 5321 wants (section 4.5.3.2)
_QUIT_S: Final = 2.0
_ENHANCED: Final = re.compile(r"\b([245])\.(\d{1,3})\.(\d{1,3})\b")
_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_DOT: Final = re.compile(rb"^\.", re.MULTILINE)
"One more is put before it: alone in its line it ends a text (RFC 5321, section 4.5.2)."
_NOBODY: Final = frozenset({550, 551, 553})
_LIMITS: Final = frozenset({"5.4.5"})  # "daily sending limit exceeded" of Gmail, which ends


class _Line(Struct, eq=False):
    """A connection that is logged in."""

    client: aiosmtplib.SMTP
    mails: int = 0
    idle_since: float = 0.0
    "On the loop's clock."


class Submissions:
    """Hands mails over. `open_submissions` makes one."""

    def __init__(self, account: EmailAccount) -> None:
        self._account = account
        self._slots = anyio.CapacityLimiter(AT_ONCE)
        self._idle: deque[_Line] = deque()
        "Those over which nothing is sent, the one that was used last at the end."
        self._kept = anyio.Event()
        "Set while there are some."
        self._is_closed = False

    async def submit(self, to: str, mail: bytes) -> None:
        """Hand a mail over; return when the server has taken it.

        Raises:
            SendError: Its kind says what is known.
        """
        async with self._slots:
            line = await self._addressed(to)
            with _ended_unless_done(line):
                await _give(line.client, mail)
            self._keep(line)

    async def end_idle(self) -> None:
        """End connections over which nothing is sent any more, until cancelled."""
        while True:
            await self._kept.wait()
            await anyio.sleep(KEEP_S)
            latest = anyio.current_time() - KEEP_S
            while self._idle and self._idle[0].idle_since <= latest:
                await _quit(self._idle.popleft().client)
            if not self._idle:
                self._kept = anyio.Event()

    async def close(self) -> None:
        """End all connections; one over which a mail is on its way, after that mail."""
        self._is_closed = True
        while self._idle:
            await _quit(self._idle.pop().client)

    # --- inside ---

    async def _addressed(self, to: str) -> _Line:
        """Return a connection over which the text of a mail may follow."""
        if self._idle:
            line = self._idle.pop()
            # It may be over, or the server takes no more over it: a new one has the last word.
            with suppress(NotSentError, RefusedError), _ended_unless_done(line):
                await _address(line.client, self._account.address, to)
                return line
        line = _Line(await _logged_in(self._account))
        with _ended_unless_done(line):
            await _address(line.client, self._account.address, to)
        return line

    def _keep(self, line: _Line) -> None:
        line.mails += 1
        if self._is_closed or line.mails >= MAILS_MAX or not line.client.is_connected:
            line.client.close()
            return
        line.idle_since = anyio.current_time()
        self._idle.append(line)
        self._kept.set()


@contextmanager
def _ended_unless_done(line: _Line) -> Generator[None]:
    """End a connection over which something did not go as it should."""
    try:
        yield
    except BaseException:
        line.client.close()
        raise


@asynccontextmanager
async def open_submissions(account: EmailAccount) -> AsyncGenerator[Submissions]:
    """Hand mails over until the block ends."""
    submissions = Submissions(account)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(submissions.end_idle)
        try:
            yield submissions
        finally:
            with anyio.CancelScope(shield=True):
                await submissions.close()
        tasks.cancel_scope.cancel()


async def try_login(account: EmailAccount) -> None:
    """Log in, and leave.

    Raises:
        NotSentError: The server cannot be reached, or does not let the bot in.
    """
    await _quit(await _logged_in(account))


async def _logged_in(account: EmailAccount) -> aiosmtplib.SMTP:
    """Return a connection that is logged in.

    Raises:
        NotSentError: The server cannot be reached, or does not let the bot in.
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
        client.close()
        msg = f"The mail server {server.host} cannot be used: {_words(error)}"
        raise NotSentError(msg) from error
    except BaseException:
        client.close()
        raise
    return client


async def _address(client: aiosmtplib.SMTP, own: str, to: str) -> None:
    options = ["SMTPUTF8"] if not to.isascii() else []
    if options and not client.supports_extension("smtputf8"):
        msg = f"The mail server takes no address like {to}."
        raise RefusedError(msg)
    try:
        await client.mail(own, options=options)
        await client.rcpt(to, encoding="utf-8")
        asked = await client.execute_command(b"DATA", timeout=_ASKED_S)
        if asked.code != aiosmtplib.SMTPStatus.start_input:
            raise aiosmtplib.SMTPDataError(asked.code, asked.message)
    except aiosmtplib.SMTPResponseException as error:
        is_recipient = isinstance(error, aiosmtplib.SMTPRecipientRefused)
        raise _refusal(error, is_recipient=is_recipient) from error
    except (aiosmtplib.SMTPException, OSError) as error:
        raise _gone(error) from error


async def _give(client: aiosmtplib.SMTP, mail: bytes) -> None:
    """Hand over the text that the server asked for. Not `client.data`, which asks by itself."""
    text = _LINE_END.sub(b"\r\n", mail).removesuffix(b"\r\n") + b"\r\n"
    try:
        protocol = _connected(client)
        protocol.write(_DOT.sub(b"..", text) + b".\r\n")
    except (aiosmtplib.SMTPException, OSError) as error:
        raise _gone(error) from error
    try:
        taken = await protocol.read_response(_DATA_S)
    except (aiosmtplib.SMTPException, OSError) as error:
        msg = f"The mail server did not say whether it took the mail: {error}"
        raise UnknownOutcomeError(msg) from error
    if taken.code >= 400:
        raise _refusal(aiosmtplib.SMTPDataError(taken.code, taken.message))


def _connected(client: aiosmtplib.SMTP) -> SMTPProtocol:
    if client.protocol is None:
        msg = "Connection lost"
        raise aiosmtplib.SMTPServerDisconnected(msg)
    return client.protocol


def _gone(error: Exception) -> NotSentError:
    return NotSentError(f"The mail server went away before it took anything of the mail: {error}")


async def _quit(client: aiosmtplib.SMTP) -> None:
    with anyio.move_on_after(_QUIT_S), suppress(aiosmtplib.SMTPException, OSError):
        await client.quit()
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
