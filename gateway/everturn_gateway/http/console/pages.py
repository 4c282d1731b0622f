"""Serves the files of the console from memory, read with the first request for one."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import anyio
from anyio.to_thread import run_sync
from msgspec import Struct
from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from everturn_channels.languages import FOLDER
from everturn_gateway.config.settings import ServerConfig, is_loopback
from everturn_gateway.http.access.cookies import CONSOLE_PATH, is_page

_STATIC: Final = Path(__file__).with_name("static")
_SMALL_BYTES: Final = 300  # not worth packing
_TYPES: Final[Mapping[str, str]] = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
    ".json": "application/json",
}
# Nothing but these files runs, nothing is loaded from elsewhere, no page has this one within it;
# and text becomes mark-up nowhere but in the templates of lit-html.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none';"
    " form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script';"
    " trusted-types lit-html everturn"
)


_PARTS: Final = frozenset({".js", ".css", ".json"})
_WORKER: Final = "worker.js"  # has a policy of its own
# Lines of modules and style sheets that hold a comment alone: a tenth of a first visit.
_COMMENTS: Final = re.compile(rb"^(?:[ ]*//.*|/\*.*\*/)$", re.MULTILINE)


class _File(Struct, frozen=True):
    body: bytes
    packed: bytes
    etag: str
    media_type: str
    is_part: bool
    "A module or a style sheet, which a page loads."


class _Route(Struct, frozen=True):
    """What whoever measures requests counts them under."""

    path: str = CONSOLE_PATH


class ConsolePages:
    """Answers for the console's files, and hands everything else on. Plain ASGI."""

    def __init__(self, app: ASGIApp, server: ServerConfig) -> None:
        """Stand in front of the API."""
        self._app = app
        # Modules and styles are nothing by themselves: the policy of the page, or of the worker,
        # that loads them holds. Sent with each of them it would be a third of a first visit.
        self._headers = {
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cache-Control": "no-cache",
            "Vary": "Accept-Encoding",
        }
        self._page_headers = {
            **self._headers,
            "Content-Security-Policy": _POLICY,
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
        }
        self._is_https = server.public_url.startswith("https:")
        self._files: Mapping[str, _File] = {}
        self._reading = anyio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["method"] not in {"GET", "HEAD"} or not is_page(scope["path"]):
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        scope["route"] = _Route()
        if not path.startswith(CONSOLE_PATH):
            await RedirectResponse("/console/", 307)(scope, receive, send)
            return
        if not self._files:
            async with self._reading:
                self._files = self._files or await run_sync(_read)
        file = self._files.get(path.removeprefix(CONSOLE_PATH) or "index.html")
        response = self._answer(file, Headers(scope=scope))
        await response(scope, receive, send)

    def _answer(self, file: _File | None, headers: Headers) -> Response:
        if file is None:
            return Response("There is no such page.\n", 404, self._page_headers, "text/plain")
        own = dict(self._headers if file.is_part else self._page_headers)
        is_safe = self._is_https or is_loopback(_hostname(headers.get("host", "")))
        if is_safe and not file.is_part:
            # Elsewhere a browser takes no notice of it but to complain.
            own["Cross-Origin-Opener-Policy"] = "same-origin"
        own = {**own, "ETag": file.etag, "Content-Type": file.media_type}
        if headers.get("if-none-match") == file.etag:
            return Response(status_code=304, headers=own)
        if file.packed and "gzip" in headers.get("accept-encoding", ""):
            return Response(file.packed, headers={**own, "Content-Encoding": "gzip"})
        return Response(file.body, headers=own)


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _read() -> Mapping[str, _File]:
    """Return all files by their path below the console's. Reads files: not for the event loop."""
    paths = {each.relative_to(_STATIC): each for each in _STATIC.rglob("*") if each.is_file()}
    paths |= {Path("languages", each.name): each for each in FOLDER.glob("*.json")}
    found: dict[str, _File] = {}
    for name, path in sorted(paths.items()):
        body = _without_comments(name, path.read_bytes())
        packed = gzip.compress(body, mtime=0) if len(body) > _SMALL_BYTES else b""
        guessed = mimetypes.guess_type(path.name)[0] or "text/plain; charset=utf-8"
        found[name.as_posix()] = _File(
            body=body,
            packed=packed,
            etag=f'"{hashlib.sha256(body).hexdigest()[:20]}"',
            media_type=_TYPES.get(path.suffix, guessed),
            is_part=path.suffix in _PARTS and path.name != _WORKER,
        )
    return found


def _without_comments(name: Path, body: bytes) -> bytes:
    """Return what a browser needs of a file; its lines keep their numbers, for whoever debugs.

    What others wrote goes as they published it.
    """
    if name.suffix not in {".js", ".css"} or "vendor" in name.parts:
        return body
    return _COMMENTS.sub(b"", body)
