"""Server-sent events out of bytes, however the network cut them. Pure: no IO.

Source: the stream format and its parsing rules are those of the HTML standard, section 9.2.6
"Interpreting an event stream", https://html.spec.whatwg.org/multipage/server-sent-events.html
(read 2026-11-21).
"""

from __future__ import annotations

from typing import Final, TypeAlias

EVENT_LIMIT_BYTES: Final = 4 * 1024 * 1024  # one event; a whole reply in one piece is far below it
IMAGE_EVENT_BYTES: Final = 36 * 1024 * 1024  # the same with an image of 20 MiB as base64 in it

Event: TypeAlias = tuple[bytes, bytes]
"The name (empty = none given) and the data of one event."

_BOM: Final = b"\xef\xbb\xbf"


class EventTooLargeError(ValueError):
    """An event of the stream is too large."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"an event of the stream is larger than {limit_bytes >> 20} MiB")


class EventParser:
    """Turns pieces of a stream into its events.

    Lines may end with LF, CR or CRLF. Comments, ids, retry times and unknown fields are passed
    over; events without data do not count. No event may be larger than `limit_bytes`.
    """

    def __init__(self, limit_bytes: int = EVENT_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._tail = bytearray()
        "Bytes after the last line end; no line end is among them."
        self._name = b""
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._after_cr = False
        "Whether the last piece ended with CR: an LF at the start of the next belongs to it."
        self._fresh = True

    def feed(self, piece: bytes) -> list[Event]:
        """Return the events that `piece` completes, oldest first.

        Raises:
            EventTooLargeError: An event exceeds the limit.
        """
        if (
            piece.startswith(b"data: ")
            and piece.endswith(b"\n\n")
            and b"\r" not in piece
            and not (self._tail or self._data or self._name)
        ):
            # One event and no more, as nearly every token comes; or several of one line each.
            if piece.find(b"\n") == len(piece) - 2:
                self._after_cr = self._fresh = False
                return [(b"", piece[6:-2])]
            lines = piece[6:-2].split(b"\n\ndata: ")
            if 2 * len(lines) == piece.count(b"\n"):
                self._after_cr = self._fresh = False
                return [(b"", line) for line in lines]
        if self._after_cr and piece:
            piece = piece.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" in piece:
            self._after_cr = piece.endswith(b"\r")
            buffered = bytes(self._tail) + piece
            lines = buffered.splitlines()  # of bytes: at LF, CR and CRLF, nowhere else
            tail = b"" if buffered.endswith((b"\n", b"\r")) else lines.pop()
        elif b"\n" in piece:
            lines = piece.split(b"\n")
            if self._tail:  # which may be an image: nothing else is copied with it
                self._tail += lines[0]
                lines[0] = bytes(self._tail)
            tail = lines.pop()
        else:
            self._tail += piece
            self._check_size()
            return []
        if self._fresh:
            lines[0] = lines[0].removeprefix(_BOM)
            self._fresh = False
        self._tail = bytearray(tail)
        events = self._read(lines)
        self._check_size()
        return events

    def finish(self) -> list[Event]:
        """Return the last event where only the blank line behind it is missing.

        A line without its end is not read: it may have been cut anywhere.
        """
        return self._read([b""])

    def _read(self, lines: list[bytes]) -> list[Event]:
        events: list[Event] = []
        for line in lines:
            if line.startswith(b"data: "):
                self._data.append(line[6:])
                self._data_bytes += len(line)
            elif not line:
                if self._data:
                    data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                    events.append((self._name, data))
                    self._data = []
                    self._data_bytes = 0
                self._name = b""
            elif line[0] != ord(":"):
                name, _, value = line.partition(b":")
                value = value.removeprefix(b" ")
                if name == b"data":
                    self._data.append(value)
                    self._data_bytes += len(line)
                elif name == b"event":
                    self._name = value
        return events

    def _check_size(self) -> None:
        if len(self._tail) + self._data_bytes > self._limit_bytes:
            raise EventTooLargeError(self._limit_bytes)


def image_events() -> EventParser:
    """Return a parser for servers whose models make images, each of which is in one event."""
    return EventParser(IMAGE_EVENT_BYTES)
