"""Frames over one stream: read whole, written in order, bounded in both directions.

Whoever is slow is waited for, whoever is silent is gone: where nothing was heard for `silence_s`,
or nothing can be written for as long, the stream is broken, and both ends see it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

import anyio
from msgspec import Struct

from everturn_actors.cluster.addresses import Stream
from everturn_actors.cluster.frames import (
    FRAME_MAX_BYTES,
    GREETING_MAX_BYTES,
    AnyFrame,
    Bye,
    Frame,
    Ping,
    pack,
    unpack,
)
from everturn_actors.errors import CoreError, LinkBrokenError

_TOGETHER_BYTES: Final = 64 * 1024  # that are written in one go
_PREFIX_BYTES: Final = 4
_BROKEN: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


class Beat(Struct, frozen=True, kw_only=True):
    """Times of a link, in seconds."""

    every_s: float = 1.0
    "How often at least something is said."
    silence_s: float = 3.0
    "After so long without a word the other side counts as gone."


class Wire:
    """One stream, once both sides know each other or while they find out."""

    def __init__(self, stream: Stream, beat: Beat) -> None:
        """Take a connected stream; `close` it."""
        self._stream, self._beat = stream, beat
        self._read = bytearray()
        self._out: list[bytes] = []
        "What is written when the event loop comes round: all of it in one go."
        self._out_bytes = 0
        self._is_due = False
        "Whether it is written in this round of the event loop."
        self._loop = asyncio.get_running_loop()
        now = self._loop.time()
        self._heard_at, self._said_at = now, now
        self._sent_at, self._sent_bytes, self._written_bytes = now, 0, 0
        "When it was seen that something went out, how much of what was written has, and that."
        self.is_closed = False

    async def next(self) -> AnyFrame:
        """Return the next frame of a greeting; those are small.

        Raises:
            LinkBrokenError: The stream ended, or what came is too large.
            UnreadableFrameError: It is no frame.
        """
        body = await self._next(GREETING_MAX_BYTES)
        return unpack(body)

    async def say(self, frame: Frame) -> None:
        """Write a frame of a greeting at once.

        Raises:
            LinkBrokenError: The stream ended.
        """
        if self._stream.is_over:
            raise LinkBrokenError
        self._stream.write(pack(frame))

    async def bodies(self) -> AsyncGenerator[bytes]:
        """Yield the bodies of frames as they come, until the stream ends.

        Raises:
            LinkBrokenError: It ended, or a frame is too large.
        """
        while True:
            yield await self._next(FRAME_MAX_BYTES)

    async def _next(self, limit: int) -> bytes:
        read = self._read
        while True:
            if len(read) >= _PREFIX_BYTES:
                size = int.from_bytes(read[:_PREFIX_BYTES], "big")
                if size > limit:
                    msg = f"another node sent a frame of {size} bytes; {limit} are the most"
                    raise LinkBrokenError(msg)
                if len(read) >= _PREFIX_BYTES + size:
                    body = bytes(read[_PREFIX_BYTES : _PREFIX_BYTES + size])
                    del read[: _PREFIX_BYTES + size]
                    return body
            try:
                read += await self._stream.receive()
            except _BROKEN as error:
                raise LinkBrokenError from error
            self._heard_at = self._loop.time()

    def send_soon(self, frame: Frame, *, within_s: float = 0.0) -> bool:
        """Queue a frame; return False, and queue nothing, where too much waits or it is over.

        Args:
            frame: What to say.
            within_s: How long it may wait for something else that goes with it.
        """
        if self.is_closed or not self._stream.has_room.is_set():
            return False
        self._put(pack(frame), within_s)
        return True

    async def send(self, frame: Frame, limit_bytes: int = FRAME_MAX_BYTES) -> None:
        """Queue a frame of at most so many bytes when there is room for it.

        Raises:
            LinkBrokenError: The stream ended.
            FrameTooLargeError: The frame is larger.
        """
        data = pack(frame)
        if len(data) > limit_bytes:
            raise FrameTooLargeError(len(data), limit_bytes)
        while not self._stream.has_room.is_set():
            await self._stream.has_room.wait()
        if self.is_closed or self._stream.is_over:
            raise LinkBrokenError
        self._put(data)

    def _put(self, data: bytes, within_s: float = 0.0) -> None:
        if within_s:
            self._loop.call_later(within_s, self._flush)
        elif not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._flush)
        self._out.append(data)
        self._out_bytes += len(data)
        if self._out_bytes >= _TOGETHER_BYTES:
            self._flush()

    def _flush(self) -> None:
        """Write what waits for that."""
        self._is_due = False
        if self._out:
            self._stream.write(b"".join(self._out))
            self._written_bytes += self._out_bytes
            self._out, self._out_bytes = [], 0
            self._said_at = self._loop.time()

    async def beat(self) -> None:
        """Say something from time to time, and listen for the same, until the other side is gone.

        Raises:
            LinkBrokenError: It is.
        """
        while True:
            await anyio.sleep(self._beat.every_s)
            now, unsent_bytes = self._loop.time(), self._stream.unsent_bytes
            sent_bytes = self._written_bytes - unsent_bytes
            if not unsent_bytes or sent_bytes > self._sent_bytes:
                self._sent_at, self._sent_bytes = now, sent_bytes
            silent_s = now - min(self._heard_at, self._sent_at)
            if silent_s > self._beat.silence_s:
                msg = f"another node has been silent for {silent_s:.1f} s"
                raise LinkBrokenError(msg)
            if now - self._said_at >= self._beat.every_s * 0.9:
                self.send_soon(Ping())

    async def close(self, why: str = "") -> None:
        """End the stream; say why, where there is something to say."""
        self.is_closed = True
        self._flush()
        if why:
            self._stream.write(pack(Bye(why=why)))
        with anyio.CancelScope(shield=True), anyio.move_on_after(self._beat.every_s):
            await self._stream.aclose()


class FrameTooLargeError(CoreError):
    """What is to be said to another node is larger than any frame may be.

    Attributes:
        size_bytes: How large.
    """

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        self.size_bytes = size_bytes
        super().__init__(
            f"what is to be sent to another node has {size_bytes} bytes; {limit_bytes} are the most"
        )
