"""Has files and lines found by `finder`, in a process of its own."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, cast

import anyio
from anyio.abc import Process
from msgspec import Struct

from everturn_actors.errors import ToolFailedError
from everturn_gateway.tools.confined import TEMPORARY, Confined
from everturn_gateway.tools.files import finder

logger = logging.getLogger(__name__)

TOTAL_S: Final = 20.0  # of one search
FILES_MAX: Final = 20_000
FILE_MAX_BYTES: Final = 8 * 1024 * 1024
_FILE_S = 2.0  # an expression that needs longer in one file is one that never ends
_GRACE_S = 3.0  # after which a finder that did not stop by itself is killed
_MEMORY_BYTES = 1024**3
_OUTPUT_MAX_BYTES = 8 * 1024 * 1024  # its hits are counted and cut; more is no finder's
_AT_ONCE = 2  # searches of one agent


class SearchQuery(Struct, frozen=True, kw_only=True):
    """What is looked for."""

    path: str
    query: str = ""
    "Empty: the files themselves."
    regex: bool = False
    ignore_case: bool = False
    pattern: str = ""
    hits: int


class Hit(Struct, frozen=True, kw_only=True):
    """A file, or a line in one."""

    path: str
    number: int
    "Of the line, from 1; the size in bytes where files are looked for."
    line: str


class Found(Struct, frozen=True, kw_only=True):
    """What was found, in the order of the paths."""

    hits: tuple[Hit, ...]
    end: finder.End | None
    "How it went; None where the finder had to be killed."


class Finding:
    """Looks for things in one confined folder."""

    def __init__(self, confined: Confined, environ: Mapping[str, str]) -> None:
        """Look below `confined`; of `environ`, only the interpreter's own libraries are named."""
        self._confined = confined
        self._environ = {name: environ[name] for name in ("LD_LIBRARY_PATH",) if environ.get(name)}
        self._turns = anyio.Semaphore(_AT_ONCE)

    async def find(self, wanted: SearchQuery) -> Found:
        """Return what was found within `TOTAL_S`.

        Raises:
            ToolFailedError: There is no such folder, or the expression cannot be read.
        """
        async with self._turns:
            # Waited for, though it only reads: nobody else could close what it opened.
            fd, closed = await self._confined.run(lambda: self._start(wanted.path))
            try:
                process = await _started(fd, self._environ)
                job = _job(wanted, fd, closed)
            finally:
                os.close(fd)
            async with process:
                output = bytearray()
                is_over = False
                try:
                    is_over = await _collect(process, job, output)
                finally:
                    if not is_over:  # one that is goes by itself
                        with suppress(ProcessLookupError):
                            process.kill()
            return _read(bytes(output))

    def _start(self, path: str) -> tuple[int, frozenset[tuple[int, int]]]:
        """Return the folder or file to begin with, open, and the folders that are not entered."""
        with self._confined.opened(path) as fd:
            return os.dup(fd), self._confined.closed()


async def _started(fd: int, environ: Mapping[str, str]) -> Process:
    command = [sys.executable, "-I", "-S", "-B", "-X", "utf8", str(finder.__file__)]
    try:
        return await anyio.open_process(
            command, stderr=subprocess.DEVNULL, env=environ, pass_fds=(fd,), start_new_session=True
        )
    except OSError as error:
        logger.warning("the finder cannot be started", extra={"error": str(error)})
        msg = "searching is not possible now; read or list the files instead"
        raise ToolFailedError(msg) from error


def _job(wanted: SearchQuery, fd: int, closed: frozenset[tuple[int, int]]) -> finder.Job:
    return finder.Job(
        fd=fd,
        path=wanted.path.removeprefix("./").rstrip("/") or ".",
        query=wanted.query,
        regex=wanted.regex,
        ignore_case=wanted.ignore_case,
        pattern=wanted.pattern,
        hits=wanted.hits,
        files=FILES_MAX,
        file_bytes=FILE_MAX_BYTES,
        total_s=TOTAL_S,
        file_s=_FILE_S,
        memory_bytes=_MEMORY_BYTES,
        hidden=[*TEMPORARY],
        closed=[[*each] for each in sorted(closed)],
    )


async def _collect(process: Process, job: finder.Job, output: bytearray) -> bool:
    """Add what the finder writes to `output`; return whether it came to its end in time."""
    with anyio.move_on_after(TOTAL_S + _GRACE_S):
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await process.stdin.send(json.dumps(job).encode())
            await process.stdin.aclose()
        async for chunk in process.stdout:
            output += chunk
            if len(output) > _OUTPUT_MAX_BYTES:
                return False
        return True
    return False


def _read(output: bytes) -> Found:
    """Read what the finder wrote; a last line that was cut short is left out."""
    hits: list[Hit] = []
    end: finder.End | None = None
    for line in output.split(b"\n")[:-1]:
        value: dict[str, object] = json.loads(line)
        if "error" in value:
            raise ToolFailedError(str(value["error"]))
        if "hit" in value:
            path, number, text = cast("tuple[str, int, str]", value["hit"])
            hits.append(Hit(path=path, number=number, line=text))
        else:
            end = cast("finder.End", value["end"])
    return Found(hits=tuple(hits), end=end)
