"""What a person at a terminal sees of a conversation: what stands for good, and what still changes.

Text that stands for good goes to the terminal's own scrollback, so it can be searched, selected and
scrolled as any output; what changes is drawn above the prompt, and is never longer than its room.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime
from typing import Final, TypeAlias

from msgspec import Struct

from everturn_actors.service import Update
from everturn_channels.terminal.live.calls import Calls
from everturn_channels.terminal.live.markdown import Part, StreamedMarkdown
from everturn_channels.terminal.reply import Piece, ReplyReader

TAIL_CHARS_MAX: Final = 20_000  # of what still changes; more than any screen shows


Shown: TypeAlias = Piece | Part | str
"A line of ours, a part of a reply, or what is written as it is."


class Tail(Struct, frozen=True, kw_only=True):
    """What still changes."""

    source: str
    "The block of the reply that grows."
    lines: tuple[str, ...]
    "Calls that run."


class View:
    """Gathers what has to be shown, in order."""

    def __init__(self) -> None:
        self._reader = ReplyReader(show_users=True, show_calls=False)
        self._streamed = StreamedMarkdown()
        self._ready: deque[Shown] = deque()
        self.calls = Calls()

    def read(self, update: Update) -> None:
        """Take an update of the conversation."""
        for piece in (*self._reader.read(update), *self.calls.read(update)):
            self.show(piece)

    def show(self, *pieces: Piece) -> None:
        """Take something to show below all that came before."""
        for piece in pieces:
            if piece.style != "reply":
                self._end_reply()
                self._ready.append(piece)
                continue
            self._streamed.add(piece.text)
            if piece.ends:
                self._end_reply()

    def note(self, text: str) -> None:
        """Take a line about the conversation."""
        self.show(Piece(style="note", text=text))

    def error(self, text: str) -> None:
        """Take a line about something that went wrong."""
        self.show(Piece(style="error", text=text))

    def raw(self, text: str) -> None:
        """Take what is written as it is: the escape sequences of a picture."""
        self._end_reply()
        self._ready.append(text)

    def begin_again(self) -> None:
        """Forget what was open: another session is shown from here on."""
        self._end_reply()
        self._reader = ReplyReader(show_users=True, show_calls=False)

    def end(self) -> None:
        """Take what still changes for good: nothing more comes."""
        self._end_reply()

    def take(self) -> tuple[Shown, ...]:
        """Return what stands for good since the last time."""
        self._ready.extend(self._streamed.take())
        taken = tuple(self._ready)
        self._ready.clear()
        return taken

    def tail(self, now: datetime) -> Tail:
        """Return what still changes."""
        return Tail(source=self._streamed.rest[-TAIL_CHARS_MAX:], lines=self.calls.running(now))

    def _end_reply(self) -> None:
        self._ready.extend(self._streamed.end())
