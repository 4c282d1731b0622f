"""Where a browser ends after a login: an address of this machine, open for that moment."""

from __future__ import annotations

import hmac
from collections.abc import Generator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, Queue
from threading import Thread
from typing import Final
from urllib.parse import parse_qs, urlsplit

from everturn_gateway.errors import GatewayError

PATH: Final = "/callback"
WAIT_S: Final = 300.0  # for a person at a browser
_LINE_S: Final = 5.0  # for a browser to send its request
_DONE: Final = "You are logged in. This page can be closed."
_REFUSED: Final = "The login was refused. The terminal says why."


class Loopback(ThreadingHTTPServer):
    """Takes the request with which a browser comes back."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        """Listen on 127.0.0.1.

        Raises:
            GatewayError: The port is taken.
        """
        try:
            super().__init__(("127.0.0.1", port), _Page)
        except OSError as error:
            msg = f"a browser cannot come back to port {port} of this machine: {error.strerror}"
            raise GatewayError(msg) from error
        self.state = ""
        self.came: Queue[str] = Queue()

    @property
    def redirect_uri(self) -> str:
        """Where the browser is to be sent."""
        return f"http://127.0.0.1:{self.server_port}{PATH}"

    def expect(self, page: str) -> None:
        """Take only the answer of this page: any other page can send a browser here, too."""
        self.state = parse_qs(urlsplit(page).query).get("state", [""])[0]

    def wait(self) -> str:
        """Return the address at which the browser came back; blocks.

        Raises:
            GatewayError: It did not.
        """
        try:
            return self.came.get(timeout=WAIT_S)
        except Empty:
            msg = f"nobody logged in within {WAIT_S / 60:g} minutes"
            raise GatewayError(msg) from None


@contextmanager
def open_loopback(port: int) -> Generator[Loopback]:
    """Listen for a browser until the block ends.

    Args:
        port: Of this machine; 0 = a free one.

    Raises:
        GatewayError: The port is taken.
    """
    with Loopback(port) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


class _Page(BaseHTTPRequestHandler):
    timeout = _LINE_S

    def do_GET(self) -> None:  # the name that the library calls
        """Answer a browser."""
        assert isinstance(self.server, Loopback)
        parts = urlsplit(self.path)
        said = parse_qs(parts.query)
        state = said.get("state", [""])[0]
        if parts.path != PATH or not hmac.compare_digest(
            state.encode(), self.server.state.encode()
        ):
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        body = (_REFUSED if "error" in said else _DONE).encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.server.came.put(self.path)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the library calls it
        """Say nothing: the address holds a code."""
