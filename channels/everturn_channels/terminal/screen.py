"""Writes pieces to a terminal or a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from shutil import get_terminal_size
from typing import TextIO

from everturn_actors.context.report import ContextReport
from everturn_channels.names import clean
from everturn_channels.terminal.gauge import ASCII, BLOCKS, show_context
from everturn_channels.terminal.reply import Piece, Style

_COLOURS: dict[Style, str] = {
    "reply": "",
    "plain": "",
    "user": "\x1b[36m",
    "note": "\x1b[2m",
    "warning": "\x1b[33m",
    "error": "\x1b[31m",
}
_PLAIN = "\x1b[0m"


def wants_colour(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Say whether to colour what goes to `stream`.

    Source: https://no-color.org - any value of NO_COLOR but the empty one means no.
    """
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb" and stream.isatty()


def coloured(text: str, style: Style, *, colour: bool) -> str:
    """Return text in the colour of a style, without its line end."""
    begin = _COLOURS[style] if colour else ""
    return f"{begin}{text}{_PLAIN}" if begin else text


class Screen:
    """Writes pieces in order and keeps track of whether a line is open."""

    def __init__(
        self, write: Callable[[str], object], *, colour: bool, encoding: str = "utf-8"
    ) -> None:
        """Prepare.

        Args:
            write: Takes text as it should appear, and shows it at once.
            colour: Whether escape sequences for colours may be written.
            encoding: What the text is written in.
        """
        self._write = write
        self._colour = colour
        self._encoding = encoding
        self._open_line = False

    def on(self, write: Callable[[str], object]) -> Screen:
        """Return a screen like this one that writes with another function."""
        return Screen(write, colour=self._colour, encoding=self._encoding)

    def show(self, pieces: Iterable[Piece]) -> None:
        """Write pieces, each line of a note or an error on its own."""
        text = "".join(self._render(piece) for piece in pieces)
        if text:
            self._write(text)

    def show_context(self, report: ContextReport) -> None:
        """Write a report of a session's context, as wide as the terminal is.

        Where there is none, 80 columns, unless COLUMNS says otherwise.
        """
        self.show(
            show_context(report, columns=get_terminal_size().columns, bars=bars_in(self._encoding))
        )

    def note(self, text: str) -> None:
        """Write a line about the conversation."""
        self.show((Piece(style="note", text=text),))

    def error(self, text: str) -> None:
        """Write a line about something that went wrong."""
        self.show((Piece(style="error", text=text),))

    def end_line(self) -> None:
        """Make sure that what comes next begins on a new line."""
        if self._open_line:
            self._open_line = False
            self._write("\n")

    def _render(self, piece: Piece) -> str:
        # Here, and not only where a piece is made: whatever is shown comes through here.
        text = clean(piece.text)
        if piece.style == "reply":
            if text:
                self._open_line = not text.endswith("\n")
            if piece.ends and self._open_line:
                self._open_line = False
                return f"{text}\n"
            return text
        begin = "\n" if self._open_line else ""
        self._open_line = False
        return f"{begin}{coloured(text, piece.style, colour=self._colour)}\n"


def bars_in(encoding: str) -> tuple[str, str]:
    """Return what bars are made of in an encoding."""
    try:
        "".join(BLOCKS).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return BLOCKS


def stream_writer(stream: TextIO) -> Callable[[str], None]:
    """Return a function that writes to `stream` and flushes; what it cannot encode becomes `?`."""

    def write(text: str) -> None:
        encoding = stream.encoding or "utf-8"
        stream.write(text.encode(encoding, "replace").decode(encoding))
        stream.flush()

    return write
