"""Lines from a pipe or a plain terminal, and what was typed on other days."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, Protocol

import anyio
import anyio.to_thread
from prompt_toolkit import PromptSession
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from everturn_actors.errors import InvalidInputError

PLAIN_PROMPT: Final = "you> "
_PIECE_BYTES: Final = 65_536
LINE_BYTES_MAX = 2 * 1024 * 1024  # of a pipe; the core refuses messages far below it


class Reader(Protocol):
    """Gives what a person typed, one message at a time."""

    async def read(self) -> str:
        """Return the next message.

        Raises:
            EOFError: There will be no more.
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


class PlainTerminal:
    """A terminal that knows no escape sequences: a prompt, and its own echo of what is typed.

    Implements `Reader`, and `Asker` of the questions.
    """

    def __init__(self, fd: int, write: Callable[[str], object]) -> None:
        """Take the terminal.

        Args:
            fd: Where lines come from; the terminal gives whole ones.
            write: Shows text at once.
        """
        self._fd = fd
        self._write = write

    async def read(self) -> str:
        """Return the next message; see `Reader`."""
        return await self.choose(PLAIN_PROMPT)

    async def choose(self, question: str) -> str:
        """Ask a person; return the line that answers.

        Raises:
            EOFError: The person pressed Ctrl-D.
            InvalidInputError: What was typed is not UTF-8.
        """
        self._write(question)
        raw = b""
        while not raw.endswith(b"\n"):
            await anyio.wait_readable(self._fd)  # no thread that nobody could end
            piece = os.read(self._fd, _PIECE_BYTES)
            if not piece:
                self._write("\n")
                raise EOFError
            raw += piece
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            msg = f"what was typed is not UTF-8: byte {error.start + 1}"
            raise InvalidInputError(msg) from None


async def choose(question: str) -> str:
    """Ask a person at this terminal; return the line that answers, which no history keeps.

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
