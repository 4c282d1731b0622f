"""`everturn docs`: the documentation in a browser, from the installed program itself."""

from __future__ import annotations

import sys
import webbrowser
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from everturn_gateway.commands.installation.project_files import project_file
from everturn_gateway.commands.shared.errors import EXIT_INTERRUPTED
from everturn_gateway.commands.shared.printing import print_line
from everturn_gateway.errors import GatewayError

_HERE: Final = "127.0.0.1"


def show_site(*, port: int, is_opened: bool) -> int:
    """Serve the pages to this machine until Ctrl-C; return the exit code.

    Args:
        port: 0 = a free one.
        is_opened: Have a browser open them, where a person sits at a terminal.

    Raises:
        GatewayError: The pages are not installed, or the port cannot be listened on.
    """
    folder = project_file("site")
    if not (folder / "index.html").is_file():
        msg = (
            "the pages are not built here: a release has them, and `make docs` builds them in a"
            " checkout; `everturn help` shows the same texts"
        )
        raise GatewayError(msg)
    try:
        server = ThreadingHTTPServer((_HERE, port), partial(_Pages, directory=str(folder)))
    except OSError as error:
        msg = f"port {port} cannot be listened on: {error.strerror or error}; --port 0 takes any"
        raise GatewayError(msg) from error
    with server:
        url = f"http://{_HERE}:{server.server_address[1]}/"
        print_line(f"the documentation is at {url} until Ctrl-C")
        sys.stdout.flush()
        if is_opened and sys.stdout.isatty():
            webbrowser.open(url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return EXIT_INTERRUPTED
    return EXIT_INTERRUPTED


class _Pages(SimpleHTTPRequestHandler):
    """Answers with files of the site, and lists no folder."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401 - the library's
        """Say nothing: the terminal tells where the pages are."""

    def list_directory(self, path: str) -> None:  # type: ignore[override]
        """Refuse what has no page of its own."""
        del path
        self.send_error(404)

    def parse_request(self) -> bool:
        """Refuse who was led here by another name: pages from elsewhere have no business here."""
        if not super().parse_request():
            return False
        host = (self.headers.get("Host") or _HERE).rpartition(":")[0] or _HERE
        if host in {_HERE, "localhost"}:
            return True
        self.send_error(421)
        return False
