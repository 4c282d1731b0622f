"""Where a person's lines come from: a prompt that edits, or a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

import anyio.to_thread
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.utils import get_cwidth

from everturn_actors.errors import InvalidInputError
from everturn_channels.terminal.slash import COMMANDS

PROMPT = "you> "
LINE_BYTES_MAX = 2 * 1024 * 1024  # of a pipe; the core refuses messages far below it


class Reader(Protocol):
    """Gives what a person typed, one message at a time."""

    async def read(self) -> str:
        """Return the next message.

        Raises:
            EOFError: There will be no more.
            KeyboardInterrupt: The person pressed Ctrl-C at an empty prompt.
        """
        ...


class PipeReader:
    """Reads lines from a pipe or a file: one line is one message."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._line = 0

    async def read(self) -> str:
        """Return the next line.

        Raises:
            EOFError: The stream is at its end.
            InvalidInputError: The line is too long or not UTF-8; the next one can be read.
        """
        raw = await anyio.to_thread.run_sync(self._take, abandon_on_cancel=True)
        if not raw:
            raise EOFError
        self._line += 1
        if len(raw) > LINE_BYTES_MAX:
            msg = f"line {self._line} of the input is longer than {LINE_BYTES_MAX} bytes"
            raise InvalidInputError(msg)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            msg = f"line {self._line} of the input is not UTF-8: byte {error.start + 1}"
            raise InvalidInputError(msg) from None

    def _take(self) -> bytes:
        """Return one line; of a line that is too long, its beginning."""
        raw = self._stream.readline(LINE_BYTES_MAX + 1)
        rest = raw
        while rest and len(rest) > LINE_BYTES_MAX and not rest.endswith(b"\n"):
            rest = self._stream.readline(LINE_BYTES_MAX + 1)
        return raw


class PromptReader:
    """A prompt with history and editing.

    Enter sends, Alt-Enter starts a new line, Ctrl-C clears what is typed.
    """

    def __init__(self, history: History) -> None:
        self._tail = ""
        self._session: PromptSession[str] = PromptSession(
            message=self._message,
            history=history,
            multiline=True,
            key_bindings=_bindings(),
            completer=WordCompleter(
                [f"/{name}" for each in COMMANDS for name in each.names], sentence=True
            ),
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,
            prompt_continuation=" " * len(PROMPT),
        )

    async def read(self) -> str:
        """Return the next message.

        Raises:
            EOFError: The person pressed Ctrl-D.
            KeyboardInterrupt: The person pressed Ctrl-C at an empty prompt.
        """
        return await self._session.prompt_async(handle_sigint=False)

    async def choose(self, question: str) -> str:
        """Return the line that answers a question; what is typed is not kept in the history.

        Raises:
            EOFError: The person pressed Ctrl-D.
            KeyboardInterrupt: The person pressed Ctrl-C.
        """
        return await choose(question)

    def interrupt(self) -> None:
        """Do what Ctrl-C at an empty prompt does."""
        if self._session.app.is_running:
            self._session.app.exit(exception=KeyboardInterrupt())

    @asynccontextmanager
    async def beside(self) -> AsyncGenerator[Callable[[str], None]]:
        """Let output appear above the prompt; yield the function that writes it.

        Whole lines go to the terminal, and the line that is still growing stands above the prompt,
        cut on its left to the width of the terminal.
        """
        with patch_stdout(raw=True):
            try:
                yield self._write_above
            finally:
                if self._tail:
                    sys.stdout.write(f"{self._tail}\n")
                    self._tail = ""

    def _write_above(self, text: str) -> None:
        lines, newline, tail = (self._tail + text).rpartition("\n")
        self._tail = tail
        if newline:
            sys.stdout.write(lines + newline)
        self._session.app.invalidate()

    def _message(self) -> StyleAndTextTuples:
        if not self._tail:
            return [("", PROMPT)]
        columns = self._session.app.output.get_size().columns
        tail, width = "", 0
        for char in reversed(self._tail):
            width += get_cwidth(char)
            if width >= columns:
                break
            tail = char + tail
        return [("", f"{tail}\n"), ("", PROMPT)]


async def choose(question: str) -> str:
    """Ask a person at this terminal; return the line that answers.

    Raises:
        EOFError: The person pressed Ctrl-D.
        KeyboardInterrupt: The person pressed Ctrl-C.
    """
    asking: PromptSession[str] = PromptSession(message=question, history=InMemoryHistory())
    return await asking.prompt_async(handle_sigint=False)


async def open_history(path: Path) -> History:
    """Return the history kept in `path`, a file that only its owner can read.

    Where it cannot be written, what is typed is remembered in memory only.
    """

    def prepare() -> History:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError:
            return InMemoryHistory()
        return FileHistory(path)

    return await anyio.to_thread.run_sync(prepare)


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    def send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    def interrupt(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt())

    bindings.add("enter")(send)
    bindings.add("escape", "enter")(new_line)
    bindings.add("c-c")(interrupt)
    return bindings
