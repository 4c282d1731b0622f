"""The program of a plug-in: started, written to, read from, and ended with all of its group.

It runs as the gateway's own user and is not confined: whoever set the gateway up chose it. Of the
gateway's environment it gets three variables and no more.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
import anyio.lowlevel

from everturn_actors.faults import BROKEN_STREAM
from everturn_actors.ports import Clock
from everturn_channels.errors import SetupError
from everturn_channels.plugin.protocol import LINE_BYTES

PASSED_ON: Final = ("PATH", "HOME", "LANG")
TERM_S: Final = 0.5  # from being asked to end until it is killed
REAP_S: Final = 2.0  # until the system has told of its end
READ_BYTES: Final = 16 * 1024  # at once: of the shortest lines so many are read in 10 ms
DRAIN_S: Final = 0.5  # to read what it wrote before it ended
LOGGED_LINES: Final = 60  # a minute: of its standard error, and as many complaints about it
LOGGED_LINE_BYTES: Final = 1000
LAST_WORDS: Final = 300  # characters
_SECRET_NAME: Final = re.compile(r"TOKEN|KEY|SECRET|PASS|AUTH|CREDENTIAL|COOKIE", re.IGNORECASE)
_SECRET_LEAST: Final = 4  # shorter ones would blank out half of a text

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to start."""

    channel: str
    "The name of the channel."
    command: str
    "A name to be found in PATH, or a path, from `cwd` where relative."
    args: tuple[str, ...]
    "As they are; no shell sees them."
    env: Mapping[str, str] = field(repr=False)
    "What it gets in its environment beside PATH, HOME and LANG."
    cwd: Path
    "Where it runs."

    def environ(self) -> dict[str, str]:
        """Return its environment: what any program needs, and what its owner named."""
        # The gateway's own holds the keys of models and other channels: three names are taken.
        passed = {name: os.environ[name] for name in PASSED_ON if os.environ.get(name)}
        return {"LANG": "C.UTF-8", **passed, **self.env}

    def masked(self, text: str) -> str:
        """Return a text of the program without the secrets that it was given."""
        secrets = [
            value
            for name, value in self.env.items()
            if _SECRET_NAME.search(name) and len(value) >= _SECRET_LEAST
        ]
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text


class Ration:
    """Lets so much pass in each minute, and counts the rest."""

    def __init__(self, clock: Clock, most: int = LOGGED_LINES) -> None:
        self._clock, self._most = clock, most
        self._since: datetime | None = None
        self._count = 0
        self.left_out = 0
        "What did not pass since it was last asked for."

    def allows(self) -> bool:
        """Return whether one more may pass."""
        now = self._clock.now()
        if self._since is None or now - self._since >= timedelta(minutes=1):
            self._since, self._count = now, 0
        self._count += 1
        if self._count <= self._most:
            return True
        self.left_out += 1
        return False

    def take_left_out(self) -> int:
        """Return how many did not pass, and forget them."""
        count, self.left_out = self.left_out, 0
        return count


class Lines:
    """Cuts a stream into lines, and holds no more of one than may be in it.

    Of a line that is too long, one byte more than the limit is left, so that it can be told.
    """

    def __init__(self, limit_bytes: int = LINE_BYTES) -> None:
        self._limit = limit_bytes
        self._begun = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in `chunk`, without their ends."""
        found: list[bytes] = []
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._more(end)
            found.append(bytes(self._begun))
            self._begun = bytearray()
        self._more(rest)
        return found

    def _more(self, part: bytes) -> None:
        self._begun += part[: max(0, self._limit + 1 - len(self._begun))]


class PluginProcess:
    """One running plug-in."""

    def __init__(self, process: anyio.abc.Process, program: Program, clock: Clock) -> None:
        self._process, self._program = process, program
        self._lines = Lines()
        self._ration = Ration(clock)
        self._last_words = ""
        self._is_swept = False
        self._all_said, self._all_read = anyio.Event(), anyio.Event()

    @property
    def pid(self) -> int:
        """Its process, which leads a group of its own."""
        return self._process.pid

    async def read(self) -> list[bytes]:
        """Return the next lines of its standard output.

        Raises:
            anyio.EndOfStream: There are no more.
        """
        assert self._process.stdout is not None
        await anyio.lowlevel.checkpoint()  # one that writes without end must not hold the loop
        try:
            return self._lines.feed(await self._process.stdout.receive(READ_BYTES))
        except BROKEN_STREAM as error:
            self._all_read.set()
            raise anyio.EndOfStream from error

    async def write(self, data: bytes) -> None:
        """Write to its standard input; return when it was taken, or lies in the pipe.

        Raises:
            anyio.BrokenResourceError: It takes nothing any more.
        """
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send(data)
        except BROKEN_STREAM as error:
            raise anyio.BrokenResourceError from error

    async def close_input(self) -> None:
        """Close its standard input, as it is closed when the gateway is killed."""
        assert self._process.stdin is not None
        with suppress(*BROKEN_STREAM):
            await self._process.stdin.aclose()

    def kill(self) -> None:
        """Kill all processes of its group; what it wrote before can still be read."""
        self._signal(signal.SIGKILL)

    async def exit_code(self) -> int | None:
        """Return how it ended, as far as that is known within a moment; None = it runs still."""
        with anyio.move_on_after(DRAIN_S):
            await self._process.wait()
            await self._all_said.wait()
        return self._process.returncode

    @property
    def last_words(self) -> str:
        """The last line of its standard error, masked; empty where there is none."""
        return self._last_words

    async def log_errors(self) -> None:
        """Log its standard error, at DEBUG and not without end, until that is closed."""
        assert self._process.stderr is not None
        lines = Lines(LOGGED_LINE_BYTES)
        with suppress(*BROKEN_STREAM):
            async for chunk in self._process.stderr:
                await anyio.lowlevel.checkpoint()
                for line in lines.feed(chunk):
                    if text := line.decode("utf-8", "replace").strip():
                        self._log_error(text)
        self._all_said.set()

    def _log_error(self, text: str) -> None:
        text = self._program.masked(text)
        self._last_words = text[:LAST_WORDS]
        if not self._ration.allows():
            return
        channel = self._program.channel
        if more := self._ration.take_left_out():
            logger.debug("plug-in said more", extra={"channel": channel, "left_out": more})
        logger.debug("plug-in says", extra={"channel": channel, "line": text})

    async def watch(self) -> None:
        """Close its output once it has ended, also where what it started still holds it."""
        await self._process.wait()
        self._sweep()
        with anyio.move_on_after(DRAIN_S):
            await self._all_read.wait()
        assert self._process.stdout is not None
        await self._process.stdout.aclose()

    async def end(self) -> None:
        """End it and all processes of its group; return when they are gone."""
        process = self._process
        if process.returncode is None:
            await self.close_input()
            self._signal(signal.SIGTERM)
            with anyio.move_on_after(TERM_S):
                await process.wait()
        self._sweep()
        with anyio.move_on_after(REAP_S):
            await process.aclose()

    def _sweep(self) -> None:
        """Kill what is left of its group; once, for later the number may be another's."""
        if not self._is_swept:
            self._is_swept = True
            self.kill()

    def _signal(self, number: signal.Signals) -> None:
        # The group is the process's own: see start_new_session.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


@asynccontextmanager
async def open_plugin_process(program: Program, clock: Clock) -> AsyncGenerator[PluginProcess]:
    """Start a plug-in; when the block ends, it and all of its group are gone, whatever happens.

    Raises:
        SetupError: It cannot be started.
    """
    process = PluginProcess(await _start(program), program, clock)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(process.log_errors)
        tasks.start_soon(process.watch)
        try:
            yield process
        finally:
            with anyio.CancelScope(shield=True):
                await process.end()
            tasks.cancel_scope.cancel()


async def _start(program: Program) -> anyio.abc.Process:
    command = program.command
    environ = program.environ()
    try:
        return await anyio.open_process(
            [str(program.cwd / command) if "/" in command else command, *program.args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=program.cwd,
            env=environ,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        if str(error.filename) == str(program.cwd):
            why = f"the folder {program.cwd} is not there"
        elif "/" in command:
            why = f"there is no program {command!r}"
        else:
            why = f"there is no program {command!r} in {environ.get('PATH') or 'an empty PATH'}"
        msg = f"the plug-in of channel {program.channel!r} cannot be started: {why}"
        raise SetupError(msg) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        msg = f"the plug-in of channel {program.channel!r} cannot be started: {command!r}: {reason}"
        raise SetupError(msg) from error
