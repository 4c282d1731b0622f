"""Draws a view around the prompt, at most twenty times a second."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from textwrap import wrap
from typing import Final

import anyio
import anyio.to_thread

from everturn_channels.names import clean
from everturn_channels.terminal.live.markdown import Look, Part, render
from everturn_channels.terminal.live.prompt import LivePrompt
from everturn_channels.terminal.live.view import Shown, Tail, View
from everturn_channels.terminal.reply import Piece
from everturn_channels.terminal.screen import coloured

PAUSE_S: Final = 0.05  # between two drawings
_TICK_S: Final = 1.0  # times that are shown go on
_AS_IT_IS: Final = frozenset(("user", "warning"))
"Lines that the terminal itself breaks: no blank of what somebody decides about may be lost."
_SHARE: Final = 4  # so many times as long as a drawing took, nothing is drawn


def wrapped(text: str, columns: int) -> str:
    """Return lines that are no longer than a terminal is wide, broken at words.

    What goes on in another line is as far from the edge as its beginning.
    """
    lines: list[str] = []
    for line in text.split("\n"):
        indent = " " * min(len(line) - len(line.lstrip()), columns // 2)
        lines += wrap(
            line, max(columns, 1), subsequent_indent=indent, replace_whitespace=False
        ) or [""]
    return "\n".join(lines)


class Painter:
    """Makes text for a terminal of what a view gives. Keeps track of blank lines between blocks."""

    def __init__(self, look: Look) -> None:
        """Prepare for a terminal that can show so much."""
        self.look = look
        self._is_below_reply = self._has_painted = False

    def paint(self, taken: Iterable[Shown], *, columns: int) -> str:
        """Return whole lines."""
        return "".join(self._lines(each, columns) for each in taken)

    def paint_tail(self, tail: Tail, *, columns: int, rows: int) -> str:
        """Return at most so many lines, without the last line end: the newest ones."""
        lines: list[str] = []
        if tail.source.strip():
            lines = render(tail.source, columns=columns, look=self.look).rstrip("\n").split("\n")
        for line in tail.lines:
            lines.append(coloured(clean(line)[:columns], "note", colour=self.look.colour))
        return "\n".join(lines[-rows:] if rows > 0 else ())

    def _lines(self, each: Shown, columns: int) -> str:
        match each:
            case str():
                return each
            case Piece(style=style, text=text):
                gap = "\n" if style == "user" and self._has_painted else ""
                self._is_below_reply, self._has_painted = False, True
                said = clean(text) if style in _AS_IT_IS else wrapped(clean(text), columns)
                return f"{gap}{coloured(said, style, colour=self.look.colour)}\n"
            case Part(source=source, goes_on=goes_on):
                gap = "\n" if self._is_below_reply and not goes_on else ""
                self._is_below_reply = True
                return gap + render(source, columns=columns, look=self.look)


class Display:
    """Brings what a view has to the terminal: for good above the prompt, the rest just over it."""

    def __init__(
        self, view: View, prompt: LivePrompt, look: Look, *, now: Callable[[], datetime]
    ) -> None:
        """Prepare; `run` draws."""
        self._view = view
        self._prompt = prompt
        self._painter = Painter(look)
        self._now = now
        self._changed = anyio.Event()
        self._tail = Tail(source="", lines=())
        self._drawn = ""
        self._drawn_for = (0, 0)
        self._rows = 1
        self._is_over = False

    def changed(self) -> None:
        """Say that there is something to draw."""
        self._changed.set()

    async def run(self) -> None:
        """Draw whatever comes, until `stop`, or until the terminal is lost."""
        while not self._is_over:
            with anyio.move_on_after(_TICK_S):
                await self._changed.wait()
            self._changed = anyio.Event()
            began = anyio.current_time()
            try:
                await self._draw()
            except OSError:
                return  # nobody sees it any more; the end of the terminal ends the chat
            await anyio.sleep(max(PAUSE_S, _SHARE * (anyio.current_time() - began)))

    def stop(self) -> None:
        """End `run` behind the drawing that goes on."""
        self._is_over = True
        self._changed.set()

    def above(self, columns: int, rows: int) -> str:
        """Return what still changes, for a terminal of this size."""
        self._rows = rows
        if self._drawn_for != (columns, rows):
            self._drawn = self._painter.paint_tail(self._tail, columns=columns - 1, rows=rows)
            self._drawn_for = columns, rows
        return self._drawn

    def rest(self, columns: int) -> str:
        """Return all that is not drawn yet, for good: the prompt is gone."""
        self._view.end()
        return self._painter.paint(self._view.take(), columns=columns - 1)

    async def _draw(self) -> None:
        taken, columns = self._view.take(), self._prompt.columns
        tail, rows = self._view.tail(self._now()), self._rows

        def render_all() -> tuple[str, str]:
            done = self._painter.paint(taken, columns=columns - 1)
            return done, self._painter.paint_tail(tail, columns=columns - 1, rows=rows)

        text, above = await anyio.to_thread.run_sync(render_all)

        def show_tail() -> None:
            self._tail, self._drawn, self._drawn_for = tail, above, (columns, rows)

        if text:
            await self._prompt.write_above(text, show_tail)
        else:
            show_tail()
            self._prompt.redraw()
