"""Frames over one stream: read whole, written in order, bounded in both directions.

Whoever is slow is waited for, whoever is silent is gone: where nothing was heard for `silence_s`,
or nothing can be written for as long, the stream is broken, and both ends see it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

import anyio
from anyio.abc import ByteStream
from msgspec import Struct

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

OUT_MAX_BYTES: Final = 4 * 1024 * 1024
"Of what waits to be written; who has more to say waits, or is told to."
_READ_BYTES: Final = 64 * 1024
_PREFIX_BYTES: Final = 4
BROKEN: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError,
                 ssl.SSLError)  # fmt: skip


class Beat(Struct, frozen=True, kw_only=True):
    """Times of a link, in seconds."""

    every_s: float = 1.0
    "How often at least something is said."
    silence_s: float = 3.0
    "After so long without a word the other side counts as gone."


class Wire:
    """One stream, once both sides know each other or while they find out."""

    def __init__(self, stream: ByteStream, beat: Beat) -> None:
        """Take a connected stream; `close` it."""
        self._stream, self._beat = stream, beat
        self._read = bytearray()
        self._out: deque[bytes] = deque()
        self._out_bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        "Where the writer waits for something to write."
        self._has_room = asyncio.Event()
        self._has_room.set()
        now = anyio.current_time()
        self._heard_at, self._said_at = now, now
        self._writes_since: float | None = None
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
        try:
            await self._stream.send(pack(frame))
        except BROKEN as error:
            raise LinkBrokenError from error

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
                read += await self._stream.receive(_READ_BYTES)
            except BROKEN as error:
                raise LinkBrokenError from error
            self._heard_at = anyio.current_time()

    def send_soon(self, frame: Frame) -> bool:
        """Queue a frame; return False, and queue nothing, where too much waits or it is over."""
        if self.is_closed or self._out_bytes >= OUT_MAX_BYTES:
            return False
        self._put(pack(frame))
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
        while self._out_bytes >= OUT_MAX_BYTES and not self.is_closed:
            self._has_room.clear()
            await self._has_room.wait()
        if self.is_closed:
            raise LinkBrokenError
        self._put(data)

    def _put(self, data: bytes) -> None:
        self._out.append(data)
        self._out_bytes += len(data)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def write(self) -> None:
        """Write what is queued, all that waits in one go, until the stream ends.

        Raises:
            LinkBrokenError: It ended.
        """
        while True:
            if not self._out:
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter
            data = b"".join(self._out)
            self._out.clear()
            self._writes_since = anyio.current_time()
            try:
                await self._stream.send(data)
            except BROKEN as error:
                raise LinkBrokenError from error
            self._out_bytes -= len(data)
            self._writes_since, self._said_at = None, anyio.current_time()
            self._has_room.set()

    async def beat(self) -> None:
        """Say something from time to time, and listen for the same, until the other side is gone.

        Raises:
            LinkBrokenError: It is.
        """
        while True:
            await anyio.sleep(self._beat.every_s)
            now, writes_since = anyio.current_time(), self._writes_since
            stuck_s = 0.0 if writes_since is None else now - writes_since
            silent_s = max(now - self._heard_at, stuck_s)
            if silent_s > self._beat.silence_s:
                msg = f"another node has been silent for {silent_s:.1f} s"
                raise LinkBrokenError(msg)
            if now - self._said_at >= self._beat.every_s * 0.9:
                self.send_soon(Ping())

    async def close(self, why: str = "") -> None:
        """End the stream; say why, where there is something to say."""
        self.is_closed = True
        self._has_room.set()
        with anyio.CancelScope(shield=True), anyio.move_on_after(self._beat.every_s):
            if why:
                with suppress(*BROKEN):
                    await self._stream.send(pack(Bye(why=why)))
            with suppress(*BROKEN):
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
