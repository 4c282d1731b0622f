"""A web server on loopback that does to its clients what a test tells it to, nice or not.

    async with open_web_server() as web:
        web.routes["/page"] = page(b"<p>hello</p>")
        web.routes["/old"] = redirect("/page")
        web.routes["/dead"] = stall
        ...  # fetch web.url + "/page"
        assert web.asked[0].path == "/page"

Every connection gets one answer. What has no route gets a 404.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import anyio
import anyio.abc
from anyio.streams.tls import TLSListener
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID
from support.patience import WAIT_S

_ENDLESS_BYTES = 64 * 1024 * 1024  # an endless answer ends here, should nobody cut it off


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request as it came."""

    method: str
    path: str
    "With the query."
    headers: Mapping[str, str]
    "Names in lower case."
    body: bytes


Answer: TypeAlias = Callable[[Asked, anyio.abc.ByteStream], Awaitable[None]]


@dataclass(slots=True, kw_only=True)
class WebServer:
    """The running server."""

    port: int
    scheme: str = "http"
    routes: dict[str, Answer] = field(default_factory=dict[str, Answer])
    "By path, without the query."
    asked: list[Asked] = field(default_factory=list[Asked])
    left: anyio.Event = field(default_factory=anyio.Event)
    "Set when a client went away before its answer was complete."
    _news: anyio.Event = field(default_factory=anyio.Event)

    @property
    def url(self) -> str:
        """The address of its root, by number."""
        return self.named("127.0.0.1")

    def named(self, host: str) -> str:
        """Return the address of its root under another name."""
        return f"{self.scheme}://{host}:{self.port}"

    async def until_asked(self, times: int = 1) -> None:
        """Wait until so many requests have come."""
        with anyio.fail_after(WAIT_S):
            while len(self.asked) < times:
                self._news = anyio.Event()
                await self._news.wait()

    async def serve(self, stream: anyio.abc.ByteStream) -> None:
        """Answer the request of one connection."""
        with contextlib.suppress(anyio.EndOfStream):
            async with stream:
                asked = await _receive(stream)
                self.asked.append(asked)
                self._news.set()
                answer = self.routes.get(asked.path.partition("?")[0], page(b"", status=404))
                try:
                    await answer(asked, stream)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    self.left.set()


@asynccontextmanager
async def open_web_server(*, context: ssl.SSLContext | None = None) -> AsyncGenerator[WebServer]:
    """Serve on 127.0.0.1 until the block ends; over TLS where a context is given."""
    plain = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port = plain.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - not Django's
    web = WebServer(port=port, scheme="https" if context else "http")
    listener = TLSListener(plain, context, standard_compatible=False) if context else plain
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, web.serve)
        yield web
        tasks.cancel_scope.cancel()


# --- answers ---


def page(
    body: bytes,
    *,
    status: int = 200,
    media_type: str | None = "text/html",
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Answer with a page."""

    async def answer(_asked: Asked, stream: anyio.abc.ByteStream) -> None:
        fields = {
            **({} if media_type is None else {"content-type": media_type}),
            "content-length": str(len(body)),
            **(headers or {}),
        }
        await stream.send(_head(status, fields) + body)

    return answer


def redirect(to: str, *, status: int = 302, headers: Mapping[str, str] | None = None) -> Answer:
    """Answer that it stands elsewhere."""
    return page(b"moved", status=status, headers={"location": to, **(headers or {})})


def raw(data: bytes) -> Answer:
    """Answer with these bytes, and hang up."""

    async def answer(_asked: Asked, stream: anyio.abc.ByteStream) -> None:
        await stream.send(data)

    return answer


async def stall(_asked: Asked, stream: anyio.abc.ByteStream) -> None:
    """Never answer, until the client leaves."""
    with contextlib.suppress(anyio.EndOfStream):
        await stream.receive()
    raise anyio.BrokenResourceError


async def endless(_asked: Asked, stream: anyio.abc.ByteStream) -> None:
    """Answer with a page that does not end, until the client leaves."""
    await stream.send(_head(200, {"content-type": "text/html"}))
    piece = b"<p>and so on</p>\n" * 4096
    for _ in range(_ENDLESS_BYTES // len(piece)):
        await stream.send(piece)


def in_turn(*answers: Answer) -> Answer:
    """Answer each request with the next of these, and then with the last."""
    left = list(answers)

    async def answer(asked: Asked, stream: anyio.abc.ByteStream) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(asked, stream)

    return answer


def _head(status: int, fields: Mapping[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} Whatever\r\n{lines}connection: close\r\n\r\n".encode("latin-1")


async def _receive(stream: anyio.abc.ByteStream) -> Asked:
    buffer = b""
    while b"\r\n\r\n" not in buffer:
        buffer += await stream.receive()
    head, _, body = buffer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines)
    }
    while len(body) < int(headers.get("content-length", "0")):
        body += await stream.receive()
    return Asked(method=method, path=path, headers=headers, body=body)


# --- certificates ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """A server that can prove its name, and a client that believes it."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def certificates_for(name: str, folder: Path) -> Certificates:
    """Return the two sides for a server called `name`; files are left in `folder`."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=36_500))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public = certificate.public_bytes(Encoding.PEM)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    both = folder / "server.pem"
    both.write_bytes(private + public)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(both)
    client = ssl.create_default_context(cadata=public.decode())
    return Certificates(server=server, client=client)
