"""The conversation with one running plug-in: requests and their results, lines in and out."""

from __future__ import annotations

import itertools
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from msgspec import Struct, field
from msgspec.structs import replace

from everturn_actors.ports import Clock
from everturn_channels.errors import NotSentError, UnknownOutcomeError
from everturn_channels.plugin.process import PluginProcess, Program, Ration
from everturn_channels.plugin.protocol import (
    BadLineError,
    Complaint,
    FromPlugin,
    Request,
    Result,
    ToPlugin,
    write_line,
)
from everturn_channels.plugin.reading import Hands, read_line

ANSWER_S: Final = 30.0  # from a request until its result
FILE_ANSWER_S: Final = 120.0  # where a file is sent: it has to get to the platform
WRITE_S: Final = 30.0  # for a plug-in to read what lies before it
WAITING_LINES: Final = 16  # that are to be written; with parts of files in them, 11 MB
BAD_LINES_MOST: Final = 1000  # in a row; whoever writes so many does not speak the protocol

logger = logging.getLogger(__name__)


@asynccontextmanager
async def deadline(clock: Clock, delay_s: float) -> AsyncGenerator[None]:
    """Cancel what happens in the block once `delay_s` have passed; it must not raise errors."""

    async def ring(scope: anyio.CancelScope) -> None:
        await clock.sleep(delay_s)
        scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ring, tasks.cancel_scope)
        yield
        tasks.cancel_scope.cancel()


class _Line(Struct):
    """A line to be written."""

    data: bytes
    is_begun: bool = False
    "Whether any of it may have reached the plug-in."
    is_withdrawn: bool = False


class _Waiting(Struct):
    """A request without a result."""

    done: anyio.Event = field(default_factory=anyio.Event)
    result: Result | None = None


class Connection:
    """Speaks with one plug-in. `hear` is for one task; all else may be called at any time."""

    def __init__(
        self,
        process: PluginProcess,
        program: Program,
        clock: Clock,
        lines: MemoryObjectSendStream[_Line],
    ) -> None:
        self._process, self._program, self._clock, self._lines = process, program, clock, lines
        self._numbers = itertools.count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._ration = Ration(clock)
        self._read: list[bytes] = []
        self._bad_lines = 0
        self.why = ""
        "What the plug-in did so that it had to be ended; empty = nothing."
        self.on_unreadable: Callable[[str, str], None] | None = None
        "Told the type of a line that cannot be read, and why."

    async def hear(self, hands: Hands) -> FromPlugin:
        """Return the next thing that the plug-in says, but for results, which are given out here.

        Raises:
            anyio.EndOfStream: It says nothing any more.
        """
        while True:
            while not self._read:
                self._read = (await self._process.read())[::-1]
            line = self._read.pop()
            try:
                said = read_line(line, hands)
            except BadLineError as error:
                self._refuse(error.complaint)
                continue
            self._bad_lines = 0
            if not isinstance(said, Result):
                return said
            self._settle(said)

    async def ask(self, request: Request, *, within_s: float = ANSWER_S) -> Result:
        """Ask for something; return what the plug-in says became of it.

        Raises:
            NotSentError: The plug-in never saw it.
            UnknownOutcomeError: It may have seen it, and does not say what became of it.
        """
        number, waiting = next(self._numbers), _Waiting()
        line = _Line(write_line(replace(request, request=number)))
        self._waiting[number] = waiting
        try:
            async with deadline(self._clock, within_s):
                if await self._put(line):
                    await waiting.done.wait()
        finally:
            del self._waiting[number]
            line.is_withdrawn = True
        if waiting.result is not None:
            return waiting.result
        name = self._program.channel
        if line.is_begun:
            msg = f"the plug-in of channel {name!r} does not say what became of it"
            raise UnknownOutcomeError(msg)
        msg = f"the plug-in of channel {name!r} does not read what it is sent"
        raise NotSentError(msg)

    async def send(self, message: ToPlugin) -> bool:
        """Say something that has no result; return whether it can still be said.

        Waits while much is to be written before it.
        """
        return await self._put(_Line(write_line(message)))

    def complain(self, complaint: Complaint) -> None:
        """Tell the plug-in, and the log, what is wrong with a line of it."""
        error = BadLineError(complaint)
        # Where it does not read, the log has it all the same.
        with suppress(anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._lines.send_nowait(_Line(write_line(complaint)))
        if not self._ration.allows():
            return
        left_out = self._ration.take_left_out()
        extra = {
            "channel": self._program.channel,
            "why": self._program.masked(str(error)),
            "left_out": left_out,
        }
        logger.warning("line of a plug-in cannot be used", extra=extra)

    def end(self, why: str) -> None:
        """End the plug-in for what it did; `hear` then comes to its end."""
        self.why = self.why or why
        self._process.kill()

    def release(self) -> None:
        """Let all who wait for results go: none will come."""
        for waiting in self._waiting.values():
            waiting.done.set()

    async def write_all(self, lines: MemoryObjectReceiveStream[_Line]) -> None:
        """Write what is to be written, one line after the other, until the plug-in ends."""
        async with lines:
            async for line in lines:
                if line.is_withdrawn:
                    continue
                line.is_begun = True
                if not await self._write(line.data):
                    self.end("it does not read what it is sent")
                    return

    async def _write(self, data: bytes) -> bool:
        is_written = False
        async with deadline(self._clock, WRITE_S):
            try:
                await self._process.write(data)
                is_written = True
            except anyio.BrokenResourceError:
                pass
        return is_written

    async def _put(self, line: _Line) -> bool:
        try:
            await self._lines.send(line)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return False
        return True

    def _settle(self, result: Result) -> None:
        waiting = self._waiting.get(result.request)
        if waiting is None:  # it came too late
            extra = {"channel": self._program.channel, "request": result.request}
            logger.debug("plug-in answers what nobody waits for", extra=extra)
            return
        waiting.result = result
        waiting.done.set()

    def _refuse(self, complaint: Complaint) -> None:
        self.complain(complaint)
        if self.on_unreadable is not None and complaint.of != "result":
            why = self._program.masked(str(BadLineError(complaint)))
            self.on_unreadable(complaint.of or "line", why)
        self._bad_lines += 1
        if self._bad_lines > BAD_LINES_MOST:
            self.end("what it writes to its standard output are no lines of the protocol")
        # A result that cannot be read is the only one that will come.
        if complaint.of == "result" and complaint.request in self._waiting:
            self._waiting[complaint.request].done.set()


@asynccontextmanager
async def open_connection(
    process: PluginProcess, program: Program, clock: Clock
) -> AsyncGenerator[Connection]:
    """Speak with a plug-in; when the block ends, nobody waits for it any more."""
    sending, receiving = anyio.create_memory_object_stream[_Line](WAITING_LINES)
    connection = Connection(process, program, clock, sending)
    async with sending, receiving, anyio.create_task_group() as tasks:
        tasks.start_soon(connection.write_all, receiving)
        try:
            yield connection
        finally:
            connection.release()
            tasks.cancel_scope.cancel()
