"""The agent of one editor, over standard input and output."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from typing import BinaryIO, Final, cast

import anyio
import orjson
from acp import Agent, run_agent

from everturn_actors.json_values import is_object
from everturn_gateway.acp.agent import EditorAgent
from everturn_gateway.errors import GatewayError

LINE_BYTES: Final = 64 * 1024 * 1024  # of one message: files come in it
_CHUNK_BYTES: Final = 64 * 1024


async def serve_stdio(agent: EditorAgent) -> None:
    """Answer the editor at standard input until it closes that; running turns go on then.

    Raises:
        GatewayError: Standard input or output is a file.
    """
    with _wire() as (source, sink):
        try:
            lines = await _open(source, sink, agent.leave)
        except ValueError as error:
            msg = "standard input and output have to be pipes, as an editor makes them"
            raise GatewayError(msg) from error
        # It has the methods that it says it has, and none for what is optional in the protocol.
        await run_agent(cast("Agent", agent), lines)


@contextmanager
def _wire() -> Generator[tuple[BinaryIO, BinaryIO]]:
    """Take standard input and output away from everybody else: what is printed goes to stderr."""
    source, sink, kept = os.dup(0), os.dup(1), os.dup(1)
    os.dup2(2, 1)
    try:
        with os.fdopen(source, "rb", 0) as reading, os.fdopen(sink, "wb", 0) as writing:
            yield reading, writing
    finally:
        os.dup2(kept, 1)
        os.close(kept)


async def _open(source: BinaryIO, sink: BinaryIO, on_end: Callable[[], Awaitable[None]]) -> Lines:
    """Return the way to the editor.

    Raises:
        ValueError: One of the two is no pipe, socket or terminal.
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_CHUNK_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
    # As a protocol that only writes, which holds the writer up where the editor does not read.
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), sink
    )
    return Lines(reader, asyncio.StreamWriter(transport, protocol, None, loop), on_end)


class Lines:
    """One JSON object a line; what is none gets an error, and the next line is read."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_end: Callable[[], Awaitable[None]],
    ) -> None:
        """Take over both ways.

        Args:
            reader: What the editor says.
            writer: What it is told.
            on_end: Called when the editor says no more, before `receive` tells so.
        """
        self._reader, self._writer, self._on_end = reader, writer, on_end
        self._sending = anyio.Lock()

    async def receive(self) -> dict[str, object] | None:
        """Return the next message; None at the end."""
        while True:
            line = await self._line()
            if line is None:
                await self._on_end()
                return None
            try:
                found: object = orjson.loads(line)
            except orjson.JSONDecodeError:
                await self._refuse(-32700, "the line is not JSON")
                continue
            if is_object(found):
                return found
            await self._refuse(-32600, "a message is a JSON object")

    async def send(self, message: dict[str, object]) -> None:
        """Write one message; one to an editor that is gone is dropped."""
        with suppress(ConnectionError):
            async with self._sending:
                self._writer.write(orjson.dumps(message) + b"\n")
                await self._writer.drain()

    async def close(self) -> None:
        """Write no more."""
        self._writer.close()

    async def _refuse(self, code: int, message: str) -> None:
        error = {"code": code, "message": message}
        await self.send({"jsonrpc": "2.0", "id": None, "error": error})

    async def _line(self) -> bytes | None:
        """Return the next line that is not blank and not too long; None at the end."""
        while True:
            line, is_whole = await self._read()
            if not line:
                return None
            if not is_whole:
                await self._refuse(-32600, f"a message is longer than {LINE_BYTES} bytes")
            elif line.strip():
                return line

    async def _read(self) -> tuple[bytes, bool]:
        """Return a line, and whether it is whole; one that is too long loses its end."""
        pieces: list[bytes] = []
        size, is_whole = 0, True
        while True:
            try:
                piece = await self._reader.readuntil(b"\n")
            except asyncio.LimitOverrunError as error:
                piece = await self._reader.readexactly(error.consumed)
            except asyncio.IncompleteReadError as error:
                return b"".join((*pieces, error.partial)), is_whole
            size += len(piece)
            if size <= LINE_BYTES:
                pieces.append(piece)
            else:
                is_whole = False
            if piece.endswith(b"\n"):
                return b"".join(pieces), is_whole
