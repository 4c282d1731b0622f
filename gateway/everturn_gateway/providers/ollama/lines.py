"""Lines of JSON out of bytes, however the network cut them. Pure: no IO."""

from __future__ import annotations

import orjson

from everturn_gateway.providers.transport.sse import EVENT_LIMIT_BYTES, Event, EventTooLargeError


class LineParser:
    """Turns pieces of a stream into its lines; each is an event without a name."""

    def __init__(self) -> None:
        self._tail = bytearray()
        "Bytes after the last line end."

    def feed(self, piece: bytes) -> list[Event]:
        """Return the lines that `piece` completes, oldest first.

        Raises:
            EventTooLargeError: A line exceeds `EVENT_LIMIT_BYTES`.
        """
        if b"\n" not in piece:
            self._tail += piece
            lines: list[bytes] = []
        else:
            *lines, tail = (bytes(self._tail) + piece).split(b"\n")
            self._tail = bytearray(tail)
        if len(self._tail) > EVENT_LIMIT_BYTES:
            raise EventTooLargeError(EVENT_LIMIT_BYTES)
        return [(b"", line) for line in lines if line.strip()]

    def finish(self) -> list[Event]:
        """Return the last line where only its end is missing; one that was cut is not read."""
        tail = bytes(self._tail).strip()
        try:
            orjson.loads(tail)
        except ValueError:
            return []
        return [(b"", tail)]
