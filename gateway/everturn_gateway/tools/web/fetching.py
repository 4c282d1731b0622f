"""Fetches one page over HTTP, from checked addresses alone.

Each hop opens a connection of its own to an address that `Reaching` returned; name and certificate
stay those of the URL. No cookies, no credentials, no proxy: behind one, it would be the proxy that
looks names up.
"""

from __future__ import annotations

import re
import ssl
from contextlib import aclosing
from functools import cache
from typing import Final

import anyio
import anyio.to_thread
import httpx2
from msgspec.structs import replace

from everturn_gateway.tools.web.reaching import Reaching, UnreachableError
from everturn_gateway.tools.web.values import LIMIT_BYTES, Fetched, FetchError, is_text

USER_AGENT: Final = "Mozilla/5.0 (compatible; Everturn)"
DEADLINE_S: Final = 30.0  # of a page with all its redirects
REDIRECTS: Final = 5
_CONNECT_S = 5.0  # to one address
_SILENCE_S = 15.0  # between two pieces of an answer
_URL_CHARACTERS = 4_096
_SHOWN_CHARACTERS = 200
_SIZE = re.compile(r"[0-9]{1,15}", re.ASCII)
_MOVED: Final = frozenset((301, 302, 303, 307, 308))
_HEADERS: Final = {
    "user-agent": USER_AGENT,
    "accept": "text/markdown, text/html;q=0.9, text/plain;q=0.8, application/json;q=0.8, */*;q=0.1",
    "accept-language": "en, *;q=0.5",
    "accept-encoding": "gzip, deflate",
}


@cache
def certificates() -> ssl.SSLContext:
    """Return what servers are verified with; read from disk once, which takes 20 ms."""
    return httpx2.create_ssl_context()


def read_address(text: str) -> httpx2.URL:
    """Return the address of a page.

    Raises:
        FetchError: It is none, or of a kind that is not fetched.
    """
    text = text.strip()
    shown = text[:_SHOWN_CHARACTERS]
    if len(text) > _URL_CHARACTERS:
        msg = f"the address has {len(text):,} characters; at most {_URL_CHARACTERS:,} are accepted"
        raise FetchError(msg)
    if not text.lower().startswith(("http://", "https://")):
        msg = f"{shown!r} is no address of a web page: it has to begin with https:// or http://"
        raise FetchError(msg)
    try:
        url = httpx2.URL(text)
        host = url.host
    except (httpx2.InvalidURL, ValueError, UnicodeError) as error:
        msg = f"{shown!r} is not a valid address: {error}"
        raise FetchError(msg) from error
    if not host.strip("."):
        msg = f"{shown!r} names no host"
        raise FetchError(msg)
    if url.userinfo:
        msg = "an address with a user name or a password in it is not fetched"
        raise FetchError(msg)
    return url.copy_with(host=host.removesuffix("."), fragment=None)


async def fetch(address: str, reaching: Reaching, *, deadline_s: float = DEADLINE_S) -> Fetched:
    """Return what stands at `address`, redirects followed.

    Raises:
        FetchError: It is not to be had in time, or not where `reaching` lets anybody.
    """
    url = read_address(address)
    try:
        with anyio.fail_after(deadline_s):
            return await _follow(url, reaching)
    except TimeoutError as error:
        msg = f"{url.host} did not answer in full within {deadline_s:g} s"
        raise FetchError(msg) from error


async def _follow(url: httpx2.URL, reaching: Reaching) -> Fetched:
    passed = [url]
    notes: list[str] = []
    while True:
        try:
            found = await _get(url, reaching)
        except FetchError as error:
            if len(passed) == 1:
                raise
            msg = f"{passed[0]} redirects to {_shown(url)}: {error}"
            raise FetchError(msg, heard=True) from error
        if isinstance(found, Fetched):
            if len(passed) > 1:
                notes.insert(0, f"redirected from {passed[0]}")
            return replace(found, notes=(*notes, *found.notes))
        following = _next(url, found)
        if following in passed:
            msg = f"{passed[0]} redirects in a circle; it may insist on cookies, and none are kept"
            raise FetchError(msg, heard=True)
        if len(passed) > REDIRECTS:
            msg = f"{passed[0]} redirects more than {REDIRECTS} times, last to {_shown(following)}"
            raise FetchError(msg, heard=True)
        if url.scheme == "https" and following.scheme == "http":
            notes.append(
                "the redirect led from https to http: anybody on the way may have written this"
            )
        passed.append(following)
        url = following


async def _get(url: httpx2.URL, reaching: Reaching) -> Fetched | str:
    """Return what stands at `url`, or where it says to look instead."""
    port = url.port if url.port is not None else 443 if url.scheme == "https" else 80
    try:
        addresses = await reaching.addresses(url.host, port)
    except UnreachableError as error:
        raise FetchError(str(error)) from error
    verify = await anyio.to_thread.run_sync(certificates)
    unreached: httpx2.TransportError | None = None
    for ip in addresses:
        transport = httpx2.AsyncHTTPTransport(
            verify=verify, trust_env=False, limits=httpx2.Limits(max_keepalive_connections=0)
        )
        async with transport:
            try:
                return await _ask(transport, url, ip)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                unreached = error
            except httpx2.TimeoutException as error:
                msg = f"{url.host} was silent for {_SILENCE_S:g} s"
                raise FetchError(msg) from error
            except httpx2.TransportError as error:
                msg = f"{url.host} broke off, or does not speak HTTP: {_why(error)}"
                raise FetchError(msg, heard=True) from error
    why = _why(unreached) if unreached else "it has no address"
    msg = f"{url.host} cannot be connected to: {why}"
    raise FetchError(msg) from unreached


async def _ask(transport: httpx2.AsyncHTTPTransport, url: httpx2.URL, ip: str) -> Fetched | str:
    """Ask the server at `ip`, under the name that stands in `url`."""
    timeout = httpx2.Timeout(_SILENCE_S, connect=_CONNECT_S)
    request = httpx2.Request(
        "GET",
        url.copy_with(host=ip),
        headers={"host": url.netloc.decode("ascii"), **_HEADERS},
        extensions={"sni_hostname": url.raw_host.decode("ascii"), "timeout": timeout.as_dict()},
    )
    response = await transport.handle_async_request(request)
    try:
        headers = response.headers
        where = headers.get("location", "")
        if response.status_code in _MOVED and where:
            return where
        media_type, charset = _content_type(headers.get("content-type", ""))
        encoding = headers.get("content-encoding", "").strip().lower()
        if encoding in {"identity", "none"}:
            encoding = ""
        encoding = encoding.removeprefix("x-")
        if encoding not in {"", "gzip", "deflate"}:
            msg = f"{url.host} sent its page packed as {encoding[:40]!r}, which was not asked for"
            raise FetchError(msg, heard=True)
        wanted = is_text(media_type)
        body = await _read(response) if wanted else b""
    finally:
        await response.aclose()
    size = headers.get("content-length", "")
    return Fetched(
        address=str(url),
        status=response.status_code,
        media_type=media_type,
        charset=charset,
        encoding=encoding,
        body=body[:LIMIT_BYTES],
        size_bytes=int(size) if _SIZE.fullmatch(size) else None,
        retry_after=headers.get("retry-after", "")[:40],
        notes=(f"only the first {LIMIT_BYTES // 1024:,} KiB of it were read",)
        if len(body) > LIMIT_BYTES
        else (),
    )


async def _read(response: httpx2.Response) -> bytes:
    """Return the body as it comes, a little more than `LIMIT_BYTES` at most."""
    body = bytearray()
    async with aclosing(response.aiter_raw()) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) > LIMIT_BYTES:
                break
    return bytes(body)


def _content_type(value: str) -> tuple[str, str]:
    """Return media type and charset of a Content-Type."""
    media_type, *parameters = value.split(";")
    charset = next(
        (
            text.strip().strip("\"'")
            for name, _, text in (each.partition("=") for each in parameters)
            if name.strip().lower() == "charset"
        ),
        "",
    )
    return media_type.strip().lower()[:100], charset[:40]


def _next(url: httpx2.URL, where: str) -> httpx2.URL:
    try:
        following = str(url.join(where))
    except (httpx2.InvalidURL, ValueError, UnicodeError) as error:
        msg = f"{url} redirects to what is no address: {where[:_SHOWN_CHARACTERS]!r}"
        raise FetchError(msg, heard=True) from error
    try:
        return read_address(following)
    except FetchError as error:
        msg = f"{url} redirects to an address that is not followed: {error}"
        raise FetchError(msg, heard=True) from error


def _shown(url: httpx2.URL) -> str:
    return str(url)[:_SHOWN_CHARACTERS]


def _why(error: httpx2.TransportError) -> str:
    return str(error) or type(error).__name__
