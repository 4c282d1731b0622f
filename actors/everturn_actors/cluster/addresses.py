"""Where nodes listen and are reached, and the streams between them.

A stream is a protocol of the event loop itself: a frame is sent and read where it is, without a
task or a system call of its own to wait for it. Streams of anyio cost several times as much.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Final, Self, TypeAlias, cast

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup
from msgspec import Struct

from everturn_actors.errors import InvalidInputError

logger = logging.getLogger(__name__)

CONNECT_S: Final = 3.0
OUT_MAX_BYTES: Final = 4 * 1024 * 1024
"Of what waits to be sent to a node; who has more to say waits, or is told to."
_READ_MAX_BYTES: Final = 256 * 1024  # that were not asked for yet; the network keeps the rest
_BACKLOG: Final = 128
_NOT_HERE: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT)
_ACCEPT_AGAIN_S: Final = 0.2  # where the process may have no more files open
_OWNER_ALONE: Final = 0o600
_PORTS: Final = range(65536)
_PORT_DIGITS: Final = 5
_FORM: Final = "must be host:port, [::1]:port or the path of a socket, /run/everturn/node.sock"


class Address(Struct, frozen=True, kw_only=True):
    """Of one node."""

    path: str = ""
    "Of a Unix socket; empty = it is none."
    host: str = ""
    port: int = 0
    "Where a node listens: 0 = any that is free."


class Tls(Struct, frozen=True, kw_only=True):
    """How a node shows that it is itself, and how it knows others."""

    own: ssl.SSLContext
    "With its certificate and key."
    others: ssl.SSLContext
    "With those that their certificates are checked against."


def read_address(text: str) -> Address:
    """Return the address that a text names.

    Raises:
        InvalidInputError: It names none; says what it has to look like.
    """
    if text.startswith("/"):
        return Address(path=text)
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    is_whole = colon and _is_host(bare) and (":" not in bare or bare != host)
    is_port = port.isdecimal() and len(port) <= _PORT_DIGITS and int(port) in _PORTS
    if not is_whole or not is_port:
        msg = f"{text!r} is no address of a node: it {_FORM}"
        raise InvalidInputError(msg)
    return Address(host=bare, port=int(port))


def _is_host(text: str) -> bool:
    """Say whether a name can be looked up at all: that of a label without letters raises."""
    try:
        return bool(text.encode("idna")) and "\0" not in text
    except UnicodeError:
        return False


class Stream(asyncio.Protocol):
    """A connection between two nodes; `connect` makes one, and `Caller.open` the other end."""

    def __init__(self) -> None:
        """Be open when the event loop says so."""
        self._transport: asyncio.Transport
        self._came = bytearray()
        self._reader: asyncio.Future[None] | None = None
        "Where somebody waits for more."
        self._is_paused = False
        "Whether nothing is read before what came was asked for."
        self.has_room = asyncio.Event()
        "Set while less than `OUT_MAX_BYTES` wait to be sent, and where it is over."
        self.has_room.set()
        self._gone = asyncio.Event()
        self._is_closing = False
        self._end: type[Exception] | None = None

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(OUT_MAX_BYTES)

    def data_received(self, data: bytes) -> None:
        """Keep what came until it is asked for."""
        self._came += data
        if len(self._came) > _READ_MAX_BYTES and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """Nothing more comes."""
        self._is_over(anyio.EndOfStream)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._is_over(anyio.BrokenResourceError if exc is not None else anyio.EndOfStream)
        self._gone.set()

    def pause_writing(self) -> None:
        """Too much waits to be sent."""
        if self._end is None:
            self.has_room.clear()

    def resume_writing(self) -> None:
        """There is room again."""
        self.has_room.set()

    # --- for those who use it ---

    @property
    def is_over(self) -> bool:
        """Whether nothing that is written arrives any more."""
        return self._end is not None

    @property
    def unsent_bytes(self) -> int:
        """How much was written and is not with the operating system yet."""
        return self._transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Send something, at once or as soon as that can be; nothing where it is over."""
        if self._end is None:
            self._transport.write(data)

    async def receive(self) -> bytes:
        """Return what came, at least a byte.

        Raises:
            anyio.EndOfStream, anyio.BrokenResourceError: Nothing more comes.
        """
        while not self._came:
            if self._end is not None:
                raise self._end
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        data = bytes(self._came)
        self._came.clear()
        if self._is_paused:
            self._is_paused = False
            if self._end is None:
                self._transport.resume_reading()
        return data

    async def aclose(self) -> None:
        """Send what was written, and end it; where this is cancelled, without the former."""
        self._is_over(anyio.ClosedResourceError)
        if not self._is_closing:  # a second time would take from asyncio what `abort` needs of TLS
            self._is_closing = True
            self._transport.close()
        try:
            await self._gone.wait()
        finally:
            self._transport.abort()

    def _is_over(self, end: type[Exception]) -> None:
        self._end = self._end or end
        self.has_room.set()
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


async def connect(address: Address, tls: Tls | None) -> Stream:
    """Return a stream to a node; over a socket of this machine always without TLS.

    Raises:
        OSError, TimeoutError: It cannot be reached.
    """
    loop = asyncio.get_running_loop()
    with anyio.fail_after(CONNECT_S):
        if address.path:
            _, stream = await loop.create_unix_connection(Stream, address.path)
            return stream
        sock = await _connected(address)
        try:
            if tls is None:
                _, stream = await loop.create_connection(Stream, sock=sock)
            else:
                _, stream = await loop.create_connection(
                    Stream, sock=sock, ssl=tls.others, server_hostname=address.host
                )
        except BaseException:
            sock.close()
            raise
        return stream


async def _connected(address: Address) -> socket.socket:
    """Return a socket that is connected to the first place of a name that answers.

    Raises:
        OSError: None does; says why the last did not.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    failure: OSError = TimeoutError("no answer")
    for family, kind, number, _, place in found:
        try:
            sock = socket.socket(family, kind, number)
        except OSError as error:  # a name may stand for a kind of network that is not here
            failure = error
            continue
        sock.settimeout(0)
        try:
            with anyio.move_on_after(CONNECT_S / (len(found) + 1)):  # one may answer nothing
                await loop.sock_connect(sock, place)
                return sock
        except OSError as error:
            failure = error
        except BaseException:
            sock.close()
            raise
        sock.close()
    raise failure


class Caller:
    """Who has connected to this node, and has said nothing yet; a `Listener` makes one."""

    def __init__(self, sock: socket.socket, tls: Tls | None) -> None:
        """Take a connection; `open` or `close` it."""
        self._sock, self._tls = sock, tls

    async def open(self) -> Stream:
        """Return the stream to them, once TLS is agreed on; set a deadline for that.

        Raises:
            OSError: They do not speak it, or are gone.
        """
        loop, stream = asyncio.get_running_loop(), Stream()
        own = self._tls.own if self._tls is not None else None
        try:
            # What uvloop returns with TLS is not the protocol that it was given.
            await loop.connect_accepted_socket(lambda: stream, self._sock, ssl=own)
        except BaseException:
            self._sock.close()
            raise
        return stream

    def close(self) -> None:
        """Let them go without a word."""
        self._sock.close()


Take: TypeAlias = "Callable[[Caller], Coroutine[object, object, None]]"
"Is handed who calls, and lets nothing out but a cancellation."


class Listener:
    """Takes connections of other nodes; made by `listen`, and closed where its block ends."""

    def __init__(self, socks: Sequence[socket.socket], tls: Tls | None) -> None:
        """Take none before `serve`; those that come meanwhile wait."""
        self._socks, self._tls = socks, tls

    async def serve(self, take: Take) -> None:
        """Hand each who calls to a task of its own, until cancelled."""
        async with anyio.create_task_group() as tasks:
            for sock in self._socks:
                tasks.start_soon(self._serve_at, sock, take, tasks)

    async def _serve_at(self, bound: socket.socket, take: Take, tasks: TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        tls = None if bound.family == socket.AF_UNIX else self._tls
        while True:
            try:
                sock, _ = await loop.sock_accept(bound)
            except OSError as error:  # too many files are open, or who called is gone again
                logger.warning("another node could not be answered", extra={"why": str(error)})
                await anyio.sleep(_ACCEPT_AGAIN_S)
                continue
            tasks.start_soon(take, Caller(sock, tls))

    async def __aenter__(self) -> Self:
        """Return it."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Take nobody any more."""
        for sock in self._socks:
            sock.close()


def _bound(address: Address) -> list[socket.socket]:
    """Return sockets at an address, one for each place that its name stands for."""
    if address.path:
        return [_listening(socket.AF_UNIX, address.path)]
    found = socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    made: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, place in {(each[0], each[4]): None for each in found}:
            try:
                made.append(_listening(family, place))
            except OSError as error:  # a name may stand for a kind of network that is not here
                if error.errno not in _NOT_HERE:
                    raise
                missing = error
    except BaseException:
        for sock in made:
            sock.close()
        raise
    if missing is not None and not made:
        raise missing
    return made


def _listening(family: int, place: tuple[object, ...] | str) -> socket.socket:
    """Return a socket that listens at a place; at a path, one that a process left is replaced."""
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        if isinstance(place, str):
            path = Path(place)
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if path.is_socket():
                path.unlink()
            made.bind(place)
            path.chmod(_OWNER_ALONE)
        else:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            made.bind(place)
        made.listen(_BACKLOG)
        made.settimeout(0)
    except BaseException:
        made.close()
        raise
    return made


async def listen(address: Address, tls: Tls | None) -> tuple[Listener, int]:
    """Return what others connect to, and its port; 0 where it has none.

    Raises:
        OSError: The address is taken, or not one of this machine.
    """
    socks = await to_thread.run_sync(_bound, address)
    return Listener(socks, tls), 0 if address.path else int(socks[0].getsockname()[1])
