"""A pretended IMAP server, as much of it as a reader of mail needs, and faults when a test wants.

It was held to what the standards say: IMAP4rev1 (RFC 3501), IDLE (RFC 2177), special folders
(RFC 6154); SASL-IR is not offered. `make dovecot` tries the channel on a real one.
"""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from email.parser import BytesHeaderParser
from typing import Final

import anyio
from anyio.abc import TaskGroup

from everturn_gateway.clock import SystemClock

_LITERAL: Final = re.compile(rb"\{(\d+)\}$")
_WORDS: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)')
_CAPABILITIES: Final = "IMAP4rev1 IDLE SPECIAL-USE AUTH=PLAIN AUTH=XOAUTH2"


@dataclass
class Folder:
    """A folder of one account."""

    flags: str = "\\HasNoChildren"
    validity: int = 1_700_000_000
    following: int = 1
    mails: dict[int, tuple[datetime, bytes]] = field(
        default_factory=dict[int, tuple[datetime, bytes]]
    )
    "By UID."

    def add(self, raw: bytes, at: datetime | None = None) -> int:
        """Put a mail there; return its UID."""
        uid = self.following
        self.mails[uid] = at or SystemClock().now(), re.sub(rb"\r?\n", b"\r\n", raw)
        self.following += 1
        return uid

    def renumber(self) -> None:
        """Give all mails new numbers, as a server does whose index was lost."""
        kept = list(self.mails.values())
        self.validity += 1
        self.mails = {}
        for uid, each in enumerate(kept, start=1):
            self.mails[uid] = each
        self.following = len(kept) + 1


@dataclass
class Account:
    """A user."""

    password: str
    folders: dict[str, Folder]


class ImapServer:
    """Accounts, and who is connected. `open_imap_server` makes one."""

    def __init__(self) -> None:
        self.port = 0
        self.accounts: dict[str, Account] = {}
        self.logins: list[str] = []
        "How each who came in logged in: `LOGIN`, `PLAIN`, `XOAUTH2`."
        self.capabilities = _CAPABILITIES
        self.idle_at_once = False
        "Whether what is new is said together with the answer to IDLE."
        self.is_away = False
        self.tls: ssl.SSLContext | None = None
        "For those who ask for it."
        self.refusal = "[AUTHENTICATIONFAILED] Authentication failed."
        self._writers: set[asyncio.StreamWriter] = set()
        self._changed = anyio.Event()

    def add_account(self, address: str, password: str) -> Account:
        """Add a user with an inbox and a folder of sent mail."""
        folders = {"INBOX": Folder(), "Sent": Folder(flags="\\HasNoChildren \\Sent")}
        return self.accounts.setdefault(address, Account(password, folders))

    def deliver(self, address: str, raw: bytes, at: datetime | None = None) -> int:
        """Put a mail into an inbox, and tell who listens."""
        uid = self.accounts[address].folders["INBOX"].add(raw, at)
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
        return uid

    def cut(self) -> None:
        """End all connections."""
        for writer in self._writers:
            writer.transport.abort()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Talk to one client, until it goes."""
        self._writers.add(writer)
        try:
            if not self.is_away:
                await _Session(self, reader, writer).run()
        except* (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def until_changed(self) -> None:
        """Wait until mail came."""
        await self._changed.wait()


class _Session:
    """One client."""

    def __init__(
        self, server: ImapServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._server, self._reader, self._writer = server, reader, writer
        self._literal = b""
        self._account: Account | None = None
        self._folder: Folder | None = None
        self._told: dict[int, tuple[datetime, bytes]] = {}
        "The mails that the client knows of; others it does not see."

    async def run(self) -> None:
        await self._say("* OK [CAPABILITY IMAP4rev1] ready")
        while True:
            line = await self._command()
            tag, _, rest = line.decode().partition(" ")
            name, _, arguments = rest.partition(" ")
            if name.upper() == "UID":
                name, _, arguments = arguments.partition(" ")
            answer = getattr(self, f"_do_{name.lower()}", None)
            if answer is None:
                await self._say(f"{tag} BAD unknown command {name}")
                continue
            said = await answer(tag, arguments)
            if name.upper() == "STARTTLS":
                continue
            await self._tell()
            await self._say(f"{tag} {said or 'OK done'}")
            if name.upper() == "LOGOUT":
                return

    async def _command(self) -> bytes:
        """Return a line, with the literals in it put into quotes."""
        line = await self._line()
        while found := _LITERAL.search(line):
            await self._say("+ go on")
            self._literal = await self._reader.readexactly(int(found[1]))
            line = line[: found.start()] + b'"literal"' + await self._line()
        return line

    async def _line(self) -> bytes:
        return (await self._reader.readuntil(b"\r\n")).removesuffix(b"\r\n")

    async def _say(self, text: str | bytes) -> None:
        data = text.encode() if isinstance(text, str) else text
        self._writer.write(data + b"\r\n")
        await self._writer.drain()

    async def _do_capability(self, _tag: str, _arguments: str) -> None:
        await self._say(f"* CAPABILITY {self._server.capabilities}")

    async def _do_starttls(self, tag: str, _arguments: str) -> None:
        await self._say(f"{tag} OK begin")
        assert self._server.tls is not None
        await self._writer.start_tls(self._server.tls)

    async def _do_noop(self, _tag: str, _arguments: str) -> None:
        """Do nothing."""

    async def _do_logout(self, _tag: str, _arguments: str) -> None:
        await self._say("* BYE")

    async def _do_login(self, _tag: str, arguments: str) -> str | None:
        user, password = _words(arguments)
        return self._let_in("LOGIN", user, password)

    async def _do_authenticate(self, _tag: str, arguments: str) -> str | None:
        kind = arguments.upper()
        await self._say("+ ")
        said = base64.b64decode(await self._line()).decode()
        if kind == "PLAIN":
            _, user, password = said.split("\0")
            return self._let_in(kind, user, password)
        user, bearer, *_ = said.split("\1")
        token = bearer.removeprefix("auth=Bearer ")
        return self._let_in(kind, user.removeprefix("user="), token)

    def _let_in(self, how: str, user: str, secret: str) -> str | None:
        account = self._server.accounts.get(user)
        if account is None or account.password != secret:
            return f"NO {self._server.refusal}"
        self._server.logins.append(how)
        self._account = account
        return None

    async def _do_list(self, _tag: str, _arguments: str) -> None:
        assert self._account is not None
        for name, folder in self._account.folders.items():
            await self._say(f'* LIST ({folder.flags}) "/" "{name}"')

    async def _do_examine(self, tag: str, arguments: str) -> str | None:
        assert self._account is not None
        folder = self._account.folders.get(_words(arguments)[0])
        if folder is None:
            return "NO [NONEXISTENT] no such folder"
        self._folder = folder
        self._told = dict(folder.mails)
        await self._say(f"* {len(self._told)} EXISTS")
        await self._say(f"* OK [UIDVALIDITY {folder.validity}] valid")
        await self._say(f"* OK [UIDNEXT {folder.following}] next")
        return "OK [READ-ONLY] done"

    async def _do_search(self, _tag: str, arguments: str) -> None:
        assert self._folder is not None
        words = _words(arguments)
        found = " ".join(map(str, _search(self._told, words)))
        await self._say(f"* SEARCH {found}".rstrip())

    async def _do_fetch(self, _tag: str, arguments: str) -> None:
        assert self._folder is not None
        uids, _, items = arguments.partition(" ")
        for number, uid in enumerate(list(self._told), start=1):
            if uid in {int(each) for each in uids.split(",")}:
                at, raw = self._told[uid]
                await self._say(_fetched(number, uid, at, raw, items))
                # Servers say so among the answers when somebody reads the mail elsewhere.
                await self._say(f"* {number} FETCH (UID {uid} FLAGS (\\Seen))")

    async def _do_append(self, _tag: str, arguments: str) -> str | None:
        assert self._account is not None
        folder = self._account.folders.get(_words(arguments)[0])
        if folder is None:
            return "NO [TRYCREATE] no such folder"
        folder.add(self._literal)
        return None

    async def _do_idle(self, _tag: str, _arguments: str) -> str:
        assert self._folder is not None
        if self._server.idle_at_once:
            await self._say(b"+ idling\r\n* 1 EXISTS")
        else:
            await self._say("+ idling")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._tell_all)
            line = await self._line()
            tasks.cancel_scope.cancel()
        return "OK done" if line.upper() == b"DONE" else "BAD not DONE"

    async def _tell_all(self) -> None:
        while True:
            await self._tell()
            await self._server.until_changed()

    async def _tell(self) -> None:
        """Say that there is more in the folder than the client knows: once, beside any answer."""
        if self._folder is not None and len(self._folder.mails) > len(self._told):
            self._told = dict(self._folder.mails)
            await self._say(f"* {len(self._told)} EXISTS")


def _words(text: str) -> list[str]:
    return [quoted or plain for quoted, plain in _WORDS.findall(text)]


def _search(mails: dict[int, tuple[datetime, bytes]], words: list[str]) -> Iterator[int]:
    kind, *rest = words
    if kind == "UID":
        first, _, last = rest[0].partition(":")
        top = max(mails, default=0)
        low, high = sorted((int(first), top if last == "*" else int(last or first)))
        yield from (uid for uid in mails if low <= uid <= high)
    elif kind == "SINCE":
        day = datetime.strptime(rest[0], "%d-%b-%Y").date()  # noqa: DTZ007 - a day
        yield from (uid for uid, (at, _) in mails.items() if at.date() >= day)
    elif kind == "HEADER":
        name, value = rest
        for uid, (_, raw) in mails.items():
            if value in str(BytesHeaderParser().parsebytes(raw).get(name, "")):
                yield uid


def _fetched(number: int, uid: int, at: datetime, raw: bytes, items: str) -> bytes:
    about = f"* {number} FETCH (UID {uid}"
    if "INTERNALDATE" in items:
        about += f' INTERNALDATE "{at:%d-%b-%Y %H:%M:%S +0000}"'
    said = about.encode()
    if found := re.search(r"BODY\.PEEK\[\]<0\.(\d+)>", items):
        said += _text("BODY[]<0>", raw[: int(found[1])])
    head, empty, text = raw.partition(b"\r\n\r\n")
    # Servers answer in an order of their own.
    if found := re.search(r"BODY\.PEEK\[TEXT\]<0\.(\d+)>", items):
        said += _text("BODY[TEXT]<0>", text[: int(found[1])])
    if "BODY.PEEK[HEADER]" in items:
        said += _text("BODY[HEADER]", head + empty)
    # Servers may put fields behind the text as well as before it.
    size = f" RFC822.SIZE {len(raw)}" if "RFC822.SIZE" in items else ""
    return said + f"{size})".encode()


def _text(name: str, data: bytes) -> bytes:
    """Return a text as servers write it: in quotes where it is one line."""
    if b"\n" not in data:
        quoted = data.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
        return f' {name} "'.encode() + quoted + b'"'
    return f" {name} {{{len(data)}}}\r\n".encode() + data


@asynccontextmanager
async def open_imap_server(tls: ssl.SSLContext | None = None) -> AsyncGenerator[ImapServer]:
    """Run one on a free port of loopback, until the block ends."""
    server = ImapServer()
    came: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()

    def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.put_nowait((reader, writer))  # a callback of the loop can begin no task of a group

    async def talk_to_all(tasks: TaskGroup) -> None:
        while True:
            tasks.start_soon(server.talk, *await came.get())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(talk_to_all, tasks)
        listener = await asyncio.start_server(take, "127.0.0.1", 0, ssl=tls)
        server.port = listener.sockets[0].getsockname()[1]
        try:
            yield server
        finally:
            listener.close()
            server.cut()
            tasks.cancel_scope.cancel()
