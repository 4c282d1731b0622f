"""One connection to a mailbox over IMAP: its commands in a thread, its waiting on the event loop.

imap-tools speaks the protocol, blocking. A command has a deadline, and where the caller is
cancelled its connection is cut, so that no thread stays behind.
"""

from __future__ import annotations

import imaplib
import os
import re
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from datetime import UTC, date, datetime
from io import BufferedReader
from typing import Final, TypeVar, cast

import anyio
import imap_tools
from anyio import to_thread
from anyio.lowlevel import checkpoint_if_cancelled
from msgspec import Struct, field

from everturn_channels.email.account import EmailAccount, Login, MailServer, login_of
from everturn_channels.errors import ChannelError, ConnectionLostError, SetupError
from everturn_channels.proxies import ProxyFailedError, open_socket

T = TypeVar("T")

CONNECT_S: Final = 15.0
COMMAND_S: Final = 60.0
"For one command, or for one read of its answer: a slow line brings a large mail in many."
_FAILURES: Final = (imaplib.IMAP4.error, imap_tools.ImapToolsError, OSError, ValueError)
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 20), ("TCP_KEEPCNT", 4))
# A login that fails for these reasons may work later. Source: RFC 5530, and what servers say.
_LATER: Final = re.compile(
    r"\[(UNAVAILABLE|INUSE|LIMIT|CONTACTADMIN|SERVERBUG)\]|tempor|too many|try again|timeout",
    re.IGNORECASE,
)
_RECORD: Final = re.compile(rb"\d+ \(")
_UID: Final = re.compile(rb"\bUID (\d+)")
_SIZE: Final = re.compile(rb"\bRFC822\.SIZE (\d+)")
_AT: Final = re.compile(rb'\bINTERNALDATE "([^"]+)"')
_LITERAL: Final = re.compile(rb"BODY\[([A-Z]*)\](?:<\d+>)? \{\d+\}$", re.IGNORECASE)
_QUOTED: Final = re.compile(rb'BODY\[([A-Z]*)\](?:<\d+>)? "((?:[^"\\]|\\.)*)"', re.IGNORECASE)
_MONTHS: Final = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)


class Envelope(Struct, frozen=True, kw_only=True):
    """What is known of a mail before it is fetched."""

    uid: int
    at: datetime
    "When the server took it."
    size_bytes: int
    head: bytes
    "Its header fields, as they came."
    whole: bytes = b""
    "All of it, where it came with these; empty = it did not."


class Folder(Struct, frozen=True, kw_only=True):
    """A folder at the moment it was opened."""

    validity: int
    "The same number as long as the numbers of its mails mean the same."
    next_uid: int
    "That the next mail will have, or the one after."


class _Record(Struct):
    """What a server says of one mail."""

    about: bytes = b""
    texts: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    "By the part that was asked for: HEADER, TEXT, or all of it, which has no name."

    def add(self, line: bytes, text: bytes | None) -> None:
        """Take a line, and the text that its end announces; None = it announces none.

        A server may write a short text in quotes, too, in the line itself.
        """
        for part, quoted in _QUOTED.findall(line):
            self.texts[part.upper()] = re.sub(rb"\\(.)", rb"\1", quoted)
        line = _QUOTED.sub(b"", line)
        self.about += b" " + line  # some fields stand behind the text
        if text is not None and (named := _LITERAL.search(line)):
            self.texts[named[1].upper()] = text


class _Client(imaplib.IMAP4):
    """Speaks over a connection that was made before."""

    def __init__(
        self, server: MailServer, connected: socket.socket, tls: ssl.SSLContext | None
    ) -> None:
        self._connected, self._tls = connected, tls
        super().__init__(server.host, server.port, COMMAND_S)

    def _create_socket(self, timeout: float | None) -> socket.socket:
        self._connected.settimeout(timeout)
        if self._tls is None:
            return self._connected
        return self._tls.wrap_socket(self._connected, server_hostname=self.host)


class _Wire:
    """A second handle on a connection, by which it is ended from outside of its thread."""

    def __init__(self, connected: socket.socket) -> None:
        self._sock = connected.dup()

    def cut(self) -> None:
        """End the connection at once; whoever reads from it in another thread sees its end."""
        with suppress(OSError):  # it has ended already
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the connection, and forget it."""
        self.cut()
        self._sock.close()


class _Box(imap_tools.BaseMailBox):
    """A mailbox over one of those."""

    def __init__(self, client: imaplib.IMAP4) -> None:
        self._made = client
        super().__init__()

    def _get_mailbox_client(self) -> imaplib.IMAP4:
        return self._made


class Mailbox:
    """A mailbox that is logged in to. `open_mailbox` makes one; one command at a time.

    Every method raises ConnectionLostError where the server does not do it: then it is over.
    """

    def __init__(self, client: imaplib.IMAP4, box: _Box, wire: _Wire) -> None:
        self._client, self._box, self._wire = client, box, wire
        self._lock = anyio.Lock()
        self.has_idle = False
        "Whether the server tells by itself that mail came."

    async def select(self, folder: str) -> Folder:
        """Open a folder for reading: nothing in it is marked as seen."""
        return await self._run(lambda: self._select(folder))

    async def uids_from(self, uid: int) -> Sequence[int]:
        """Return the numbers of the mails from one on, in their order.

        A server names the last one also where it comes before that: `n:*` is a range, and ranges
        may be written backwards (RFC 3501, section 9, seq-range).
        """
        found = await self._run(lambda: self._search("UID", f"{uid}:*"))
        return [each for each in found if each >= uid]

    async def uids_since(self, day: date) -> Sequence[int]:
        """Return the numbers of the mails that came since a day, in their order."""
        written = f"{day.day}-{_MONTHS[day.month - 1]}-{day.year}"
        return await self._run(lambda: self._search("SINCE", written))

    async def envelopes(
        self, uids: Sequence[int], now: datetime, *, text_bytes: int = 0
    ) -> Sequence[Envelope]:
        """Return what is known of mails, in their order; those that are gone are left out.

        Args:
            uids: Of the mails.
            now: The time of one whose time the server does not tell.
            text_bytes: Those with fewer bytes below their header fields come whole.
        """
        text = f" BODY.PEEK[TEXT]<0.{text_bytes}>" if text_bytes else ""
        wanted = f"(UID INTERNALDATE RFC822.SIZE BODY.PEEK[HEADER]{text})"
        named = ",".join(map(str, uids))
        found = await self._run(lambda: list(self._records(named, wanted)))
        read = (_envelope(record, now, text_bytes) for record in found)
        known = {each.uid: each for each in read if each is not None}
        return [known[uid] for uid in uids if uid in known]

    async def mail(self, uid: int, limit_bytes: int) -> bytes | None:
        """Return at most so many bytes of a mail, from its beginning; None where it is gone."""
        wanted = f"(UID BODY.PEEK[]<0.{limit_bytes}>)"
        found = await self._run(lambda: list(self._records(str(uid), wanted)))
        named = ((_UID.search(each.about), each) for each in found)
        return next(
            (each.texts.get(b"") for own, each in named if own and int(own[1]) == uid), None
        )

    async def has(self, folder: str, message_id: str) -> bool:
        """Return whether a folder has a mail of this Message-ID; one that is not there has none."""

        def look() -> bool:
            try:
                self._select(folder)
            except imap_tools.MailboxFolderSelectError:
                return False
            return bool(self._search("HEADER", "Message-ID", f'"{message_id}"'))

        return await self._run(look)

    async def sent_folder(self) -> str:
        """Return the folder that is marked as that of sent mail (RFC 6154); empty = none is."""

        def look() -> str:
            folders = self._box.folder.list()
            return next((each.name for each in folders if "\\Sent" in each.flags), "")

        return await self._run(look)

    async def file(self, folder: str, mail: bytes) -> None:
        """Put a mail into a folder, as one that was seen."""

        def put() -> None:
            self._box.append(mail, folder, flag_set=["\\Seen"])  # pyright: ignore[reportUnknownMemberType]

        await self._run(put)

    async def until_news(self, within_s: float) -> None:
        """Wait until the server says something (IDLE, RFC 2177), at most so long.

        What it said beside the answer to another command it does not say again.
        """
        if not self._was_told():
            if not await self._run(self._start_idle):
                with anyio.move_on_after(within_s):
                    await anyio.wait_readable(self._client.sock)
            await self._run(self._box.idle.stop)
        self._was_told()

    # --- in the thread ---

    def _select(self, folder: str) -> Folder:
        self._box.folder.set(folder, readonly=True)  # pyright: ignore[reportUnknownMemberType]
        self._was_told()
        validity, following = (self._number(name) for name in ("UIDVALIDITY", "UIDNEXT"))
        if not following:
            following = max(self._search("UID", "1:*"), default=0) + 1
        return Folder(validity=validity, next_uid=following)

    def _number(self, name: str) -> int:
        _, found = self._client.response(name)
        last = found[-1] if found else None
        return int(last) if isinstance(last, bytes) and last.isdigit() else 0

    def _search(self, *criteria: str) -> list[int]:
        kind, found = self._client.uid("SEARCH", *criteria)
        if kind != "OK":
            msg = f"a search was answered with {kind}"
            raise imaplib.IMAP4.error(msg)
        numbers = (each.split() for each in found if isinstance(each, bytes))
        return sorted({int(uid) for line in numbers for uid in line if uid.isdigit()})

    def _records(self, uids: str, wanted: str) -> Iterator[_Record]:
        """Yield what is said of each mail.

        A server may say of any mail that its flags changed, between these: that has no text.
        """
        kind, found = self._client.uid("FETCH", uids, wanted)
        if kind != "OK":
            msg = f"a fetch was answered with {kind}"
            raise imaplib.IMAP4.error(msg)
        record = _Record()
        for each in found:
            text: bytes | None = None
            match each:
                case bytes() as line:
                    pass
                case (bytes() as line, bytes() as text):
                    pass
                case _:
                    continue
            if _RECORD.match(line):
                if record.texts:
                    yield record
                record = _Record()
            record.add(line, text)
        if record.texts:
            yield record

    def _was_told(self) -> bool:
        """Return whether the server said that mail came, and forget that."""
        _, found = self._client.response("EXISTS")
        return any(found)

    def _start_idle(self) -> bool:
        """Begin to listen; return whether the server said something already."""
        start: Callable[[], object] = self._box.idle.start  # it has no types
        start()
        sock = self._client.sock
        sock.settimeout(0)
        try:
            # What came with the answer to IDLE is in a buffer: no wait for the socket sees it.
            return bool(cast("BufferedReader", self._client.file).peek(1))
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        finally:
            sock.settimeout(COMMAND_S)

    async def _run(self, command: Callable[[], T]) -> T:
        async with self._lock:
            return await _in_thread(command, self._wire.cut)


async def _in_thread(command: Callable[[], T], cut: Callable[[], None]) -> T:
    """Run a command in a thread; `cut` ends it where the caller is cancelled.

    Raises:
        ConnectionLostError: It failed.
    """
    found: list[T] = []
    failure: Exception | None = None
    is_running = True

    async def watch() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            if is_running:
                cut()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        try:
            found.append(await to_thread.run_sync(command))
        except _FAILURES as error:
            failure = error
        except ChannelError as error:
            failure = error
        is_running = False
        tasks.cancel_scope.cancel()
    await checkpoint_if_cancelled()  # then it failed because it was cut
    if isinstance(failure, ChannelError):
        raise failure
    if failure is not None:
        msg = f"the mail server of the inbox does not answer as it should: {failure}"
        raise ConnectionLostError(msg) from failure
    return found[0]


@asynccontextmanager
async def open_mailbox(account: EmailAccount) -> AsyncGenerator[Mailbox]:
    """Log in to a mailbox, and end the connection after the block.

    Raises:
        SetupError: The server does not let the bot in, or its certificate is not to be trusted.
        ConnectionLostError: It cannot be reached, or not now.
    """
    login, server = await login_of(account), account.imap
    with ExitStack() as opened:
        connected = await connect(server, account)
        opened.callback(connected.close)
        wire = _Wire(connected)
        opened.callback(wire.close)

        def begin() -> Mailbox:
            client = _begun(server, connected)
            opened.callback(_close, client)
            return _logged_in(client, login, server, wire)

        yield await _in_thread(begin, wire.cut)


def _close(client: _Client) -> None:
    with suppress(OSError):
        client.shutdown()


def _begun(server: MailServer, connected: socket.socket) -> _Client:
    tls = None if server.security == "none" else ssl.create_default_context()
    try:
        client = _Client(server, connected, tls if server.security == "tls" else None)
        if server.security == "starttls":
            client.starttls(tls)
    except ssl.SSLCertVerificationError as error:
        msg = f"the certificate of {server.host} cannot be trusted: {error.verify_message}"
        raise SetupError(msg) from error
    return client


def _logged_in(client: _Client, login: Login, server: MailServer, wire: _Wire) -> Mailbox:
    box = _Box(client)
    try:
        if login.is_token:
            box.xoauth2(login.user, login.secret, initial_folder=None)
        elif login.user.isascii() and login.secret.isascii():
            box.login(login.user, login.secret, initial_folder=None)
        else:
            box.login_utf8(login.user, login.secret, initial_folder=None)
    except imaplib.IMAP4.abort:
        raise
    except (imaplib.IMAP4.error, imap_tools.MailboxLoginError) as error:
        words = str(error)
        if _LATER.search(words):
            raise
        msg = f"{server.host} does not let {login.user} in: {_said(error)}"
        raise SetupError(msg) from error
    mailbox = Mailbox(client, box, wire)
    _, able = client.capability()  # it may be able to do more for those who are logged in
    mailbox.has_idle = any(b"IDLE" in each.upper().split() for each in able if each)
    return mailbox


def _said(error: Exception) -> str:
    """Return the server's own words."""
    result = getattr(error, "command_result", None)
    if result is not None:
        return " ".join(
            each.decode(errors="replace") for each in result[1] if isinstance(each, bytes)
        )
    return str(error).strip("b'")


async def connect(server: MailServer, account: EmailAccount) -> socket.socket:
    """Return a connection to a server, not blocking.

    Raises:
        ConnectionLostError: It cannot be reached.
        SetupError: The proxy needs a library that is not here.
    """
    if account.proxy:
        try:
            sock = await open_socket(
                account.proxy,
                server.host,
                server.port,
                where=account.where,
                deadline_s=CONNECT_S,
            )
        except ProxyFailedError as error:
            msg = f"{server.host}:{server.port} cannot be reached: {error}"
            raise ConnectionLostError(msg) from error
        _keep_alive(sock)
        return sock
    why = "it does not answer in time"
    with anyio.move_on_after(CONNECT_S):
        try:
            found = await anyio.getaddrinfo(server.host, server.port, type=socket.SOCK_STREAM)
        except OSError as error:
            msg = f"{server.host} is not known: {error.strerror or error}"
            raise ConnectionLostError(msg) from error
        for family, kind, protocol, _, address in found:
            sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(0)
                sock.connect_ex(address)
                await anyio.wait_writable(sock)
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if not code:
                    _keep_alive(sock)
                    return sock
                why = os.strerror(code)
            except BaseException:
                sock.close()
                raise
            sock.close()
    msg = f"{server.host}:{server.port} cannot be reached: {why}"
    raise ConnectionLostError(msg)


def _keep_alive(sock: socket.socket) -> None:
    """Have it noticed within minutes that nobody is at the other end any more."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _envelope(record: _Record, now: datetime, text_bytes: int) -> Envelope | None:
    uid, size, at = (each.search(record.about) for each in (_UID, _SIZE, _AT))
    head, text = record.texts.get(b"HEADER"), record.texts.get(b"TEXT")
    if uid is None or head is None:
        return None
    is_whole = text is not None and len(text) < text_bytes
    return Envelope(
        uid=int(uid[1]),
        at=(_time(at[1].decode("ascii", "replace")) if at else None) or now,
        size_bytes=int(size[1]) if size else len(head),
        head=head,
        whole=head + text if text is not None and is_whole else b"",
    )


def _time(text: str) -> datetime | None:
    """Return a time as IMAP writes it, `26-Nov-2026 12:00:00 +0100`; None where it is none."""
    try:
        day, clock, zone = text.split()
        number, month, year = day.split("-")
        iso = f"{year}-{_MONTHS.index(month.title()) + 1:02}-{int(number):02}T{clock}{zone}"
        return datetime.fromisoformat(iso).astimezone(UTC)
    except ValueError:
        return None
