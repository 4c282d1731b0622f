"""What a background process prints: kept in pieces, and passed on."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Final

from everturn_gateway.tools.processes.supervisor.folder import OUTPUT

SEGMENT_BYTES: Final = 128 * 1024  # of a piece of the output
SEGMENTS_KEPT: Final = 4  # pieces kept beside the first one, the one being written included
_DISK_RETRY_S: Final = 5.0  # between tries to write output to a disk that is full
_PIECE_BYTES: Final = 64 * 1024


class Log:
    """The output, bounded: its first piece and its newest ones."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.offset = 0
        "Bytes so far, those that were not written included."
        self._lines = 0
        self._pieces: list[Path] = []
        "After the first, oldest first."
        self._fd = -1
        self._room = 0
        self._retry_at = 0.0
        self.lost_bytes = 0

    def write(self, data: bytes) -> None:
        """Keep `data`; where the disk refuses it, count it and try again later with what comes."""
        while data:
            piece = data[: self._room or SEGMENT_BYTES]
            if time.monotonic() < self._retry_at:
                piece, written = data, 0
            else:
                written = self._try(piece)
            if not written:
                self.lost_bytes += len(piece)
                self._room = 0
                written = len(piece)
            else:
                self._room -= written
            self.offset += written
            self._lines += data.count(b"\n", 0, written)
            data = data[written:]

    def _try(self, piece: bytes) -> int:
        """Return how many bytes were written; 0 where the disk takes none."""
        try:
            if self._room:
                return os.write(self._fd, piece)
            return self._begin(piece)
        except OSError as error:
            print(f"output is lost: {error}", file=sys.stderr, flush=True)
            self._retry_at = time.monotonic() + _DISK_RETRY_S
            return 0

    def _begin(self, piece: bytes) -> int:
        """Begin a new piece with `piece`; an old one leaves only when that has worked."""
        path = self._folder / f"{OUTPUT}{self.offset:015d}.{self._lines}"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            written = os.write(fd, piece)
        except OSError:
            os.close(fd)
            path.unlink()
            raise
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._room = fd, SEGMENT_BYTES
        if self.offset:
            self._pieces.append(path)
        if len(self._pieces) > SEGMENTS_KEPT:
            self._pieces.pop(0).unlink()
        return written


class Copy:
    """Carries bytes from one descriptor to another, holding one piece of them at most."""

    def __init__(self, source: int, sink: int | None, log: Log | None = None) -> None:
        self.source, self.sink, self._log = source, sink, log
        self.held = b""
        self.open = True
        "Whether the source may have more."

    def wishes(self, reads: list[int], writes: list[int]) -> None:
        """Add what to wait for."""
        if self.held and self.sink is not None:
            writes.append(self.sink)
        elif self.open:
            reads.append(self.source)

    def step(self, readable: list[int], writable: list[int]) -> None:
        """Do what can be done without waiting."""
        if self.held and self.sink is not None and self.sink in writable:
            self._pass_on(self.sink)
        elif not self.held and self.source in readable:
            self.read()

    def _pass_on(self, sink: int) -> None:
        try:
            self.held = self.held[os.write(sink, self.held) :]
        except BlockingIOError:
            return
        except OSError:  # nobody reads it any more
            self.held, self.sink = b"", None

    def read(self) -> int:
        """Read a piece; return its length, 0 where there is none now or ever again."""
        try:
            data = os.read(self.source, _PIECE_BYTES)
        except BlockingIOError:
            return 0
        except OSError:  # of a pseudo-terminal: nobody has its other end open
            data = b""
        if not data:
            self.open = False
        if self._log is not None:
            self._log.write(data)
        if self.sink is not None:
            self.held += data
        return len(data)
