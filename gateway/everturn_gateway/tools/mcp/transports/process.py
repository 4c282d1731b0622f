"""An MCP server that is a program: started, written to, read from, and ended with all it started.

The program runs as the gateway's own user and is not confined: whoever runs the agent chose it. It
runs in the agent's folder and not in its workspace, because what a model may write there - a
`package.json`, a Python module, a `.npmrc` - is what such programs load.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import anyio
import anyio.abc

from everturn_actors.faults import BROKEN_STREAM
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.mcp.errors import McpStartError
from everturn_gateway.tools.mcp.settings import McpServerSettings
from everturn_gateway.tools.mcp.transports.lines import FloodError, Lines, Oversized

WORDS_S: Final = 0.5  # to learn how it ended, once its output has
STDIN_S: Final = 1.0  # from the end of its input until it is asked to end
TERM_S: Final = 0.5  # from there until it is killed
REAP_S: Final = 2.0  # until the system has told of its end
PASSED_ON: Final = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TZ", "USER")
LOGGED_LINES: Final = 200  # of a server's standard error, each time that it is started
LOGGED_LINE_BYTES: Final = 1000

logger = logging.getLogger(__name__)


def server_environ(environment: ToolEnvironment, settings: McpServerSettings) -> dict[str, str]:
    """Return the environment of a server: what any program needs, and what its owner named."""
    environ = {
        name: environment.environ[name] for name in PASSED_ON if environment.environ.get(name)
    }
    named = {name: _placed(value, environment) for name, value in settings.env.items()}
    return {"LANG": "C.UTF-8", "TERM": "dumb", **environ, **named}


def server_command(environment: ToolEnvironment, settings: McpServerSettings) -> list[str]:
    """Return the argv of a server."""
    program = settings.command
    if "/" in program:
        program = str(environment.home / program)
    return [program, *(_placed(each, environment) for each in settings.args)]


def _placed(value: str, environment: ToolEnvironment) -> str:
    return value.replace("{{agent.home}}", str(environment.home)).replace(
        "{{agent.workspace}}", str(environment.files)
    )


class ServerProcess:
    """One running server."""

    def __init__(self, process: anyio.abc.Process, name: str, environment: ToolEnvironment) -> None:
        self._process, self._name, self._environment = process, name, environment
        self._lines = Lines()
        self._last_words = ""
        self._all_said = anyio.Event()

    @property
    def pid(self) -> int:
        """Its process, which leads a group of its own."""
        return self._process.pid

    async def read(self) -> list[bytes | Oversized]:
        """Return the next lines of its standard output.

        Raises:
            anyio.EndOfStream: There are no more.
            FloodError: There is one that does not end.
        """
        assert self._process.stdout is not None
        try:
            return self._lines.feed(await self._process.stdout.receive())
        except BROKEN_STREAM as error:
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

    async def log_errors(self) -> None:
        """Log its standard error, at DEBUG and not without end, until that is closed."""
        assert self._process.stderr is not None
        lines, count = Lines(LOGGED_LINE_BYTES), 0
        with suppress(*BROKEN_STREAM):
            async for chunk in self._process.stderr:
                for line in _ended(lines, chunk):
                    self._last_words = self._environment.secrets.mask(line)
                    count += 1
                    if count <= LOGGED_LINES:
                        self._log("MCP server says", line=self._last_words)
                    elif count == LOGGED_LINES + 1:
                        self._log("MCP server says more, which is not logged")
        self._all_said.set()

    async def wait(self) -> None:
        """Wait until it has ended; what it started may still be there, and hold its output."""
        await self._process.wait()

    async def obituary(self) -> tuple[str, str]:
        """Return how it ended, as far as that is known within a moment, and its last words."""
        with anyio.move_on_after(WORDS_S):
            await self._process.wait()
            await self._all_said.wait()
        code = self._process.returncode
        if code is None:
            return "it closed its output", self._last_words
        how = f"it ended with exit code {code}"
        if code < 0:
            with suppress(ValueError):
                how = f"it was ended by {signal.Signals(-code).name}"
        return how, self._last_words

    async def end(self) -> None:
        """End it and all processes of its group; return when they are gone, after 4 s at most.

        First its input ends, which is how a server is asked to stop; then the group is asked, then
        killed. Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
        """
        process = self._process
        assert process.stdin is not None
        with suppress(*BROKEN_STREAM):
            await process.stdin.aclose()
        with anyio.move_on_after(STDIN_S):
            await process.wait()
        if process.returncode is None:
            self._signal(signal.SIGTERM)
            with anyio.move_on_after(TERM_S):
                await process.wait()
        # Also where the server has ended: what it started may not have.
        self._signal(signal.SIGKILL)
        with anyio.move_on_after(REAP_S):
            await process.aclose()

    def _signal(self, number: signal.Signals) -> None:
        # The group is the process's own: see start_new_session.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _log(self, message: str, **fields: str) -> None:
        extra = {"agent": self._environment.agent, "server": self._name, **fields}
        logger.debug(message, extra=extra)


def _ended(lines: Lines, chunk: bytes) -> list[str]:
    """Return the lines that end in a chunk of a server's standard error."""
    try:
        found = lines.feed(chunk)
    except FloodError:
        return []
    texts = [each.head if isinstance(each, Oversized) else each for each in found]
    return [text for each in texts if (text := each.decode("utf-8", "replace").strip())]


@asynccontextmanager
async def open_server_process(
    settings: McpServerSettings, environment: ToolEnvironment
) -> AsyncGenerator[ServerProcess]:
    """Start a server; when the block ends, it and all it started are gone, whatever happens.

    Raises:
        McpStartError: It cannot be started.
    """
    command = server_command(environment, settings)
    process = await _start(command, environment.home, server_environ(environment, settings))
    server = ServerProcess(process, settings.name, environment)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.log_errors)
        try:
            yield server
        finally:
            with anyio.CancelScope(shield=True):
                await server.end()
            tasks.cancel_scope.cancel()


async def _start(command: list[str], cwd: Path, environ: dict[str, str]) -> anyio.abc.Process:
    try:
        return await anyio.open_process(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=environ,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        missing = (
            f"the folder {cwd} is not there"
            if error.filename == str(cwd)
            else (
                f"there is no program {command[0]!r}"
                + ("" if "/" in command[0] else f" in {environ.get('PATH') or 'an empty PATH'}")
            )
        )
        raise McpStartError(missing) from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        msg = f"the program {command[0]!r} cannot be started: {why}"
        raise McpStartError(msg) from error
