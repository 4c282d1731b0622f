"""Runs one command to its end, within a deadline and within bounds, and leaves nothing behind.

The output comes through a pipe of our own: a child that keeps it open after the command has ended
then cannot hold up whoever waits for the command, and what is printed to stdout and stderr stays in
order. When the command is done, has run out of time, or the call is cancelled, every process that
it started is ended (`trees`).
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import signal
import subprocess
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import anyio
import anyio.abc
from anyio import to_thread
from msgspec import Struct

from everturn_actors.errors import ToolFailedError
from everturn_gateway.tools.shell.output import HeadAndTail
from everturn_gateway.tools.shell.trees import MARKER, end_tree
from everturn_gateway.tools.wording import shown

logger = logging.getLogger(__name__)

GRACE_S: Final = 0.4  # to end in good order, when it has to end
_KILL_S: Final = 0.4  # for the kernel to end what is killed; with the grace, below a second
_REAP_S: Final = 0.2  # to be told so
_CHUNK_BYTES: Final = 256 * 1024
_DRAIN_BYTES: Final = 1024**2  # what a pipe can still hold when nobody writes to it any more
_FREE_BYTES: Final = 64 * 1024**2  # of output that is read as fast as it comes
_FLOOD_BYTES: Final = 8 * 1024**2  # after that a pause for each so many, so that a flood does not
_FLOOD_PAUSE_S: Final = 0.03  # take the whole processor: at most some 200 MB/s
SIGNAL_BASE: Final = 128
"What a shell adds to the number of the signal that ended a command."


class Finished(Struct, frozen=True, kw_only=True):
    """How a command ended."""

    text: str
    "What it printed, stdout and stderr in order; head and tail alone where it was too much."
    exit_code: int
    "As a shell tells it: 128 + the number of the signal that ended it."
    timed_out: bool = False
    left_out_bytes: int = 0
    "How much of the output is not in `text`."

    @property
    def is_error(self) -> bool:
        """Whether it failed."""
        return self.timed_out or self.exit_code != 0


async def run_process(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float,
    limit_bytes: int,
    stdin: bytes = b"",
) -> Finished:
    """Run a program and return how it ended, when it and all that it started are gone.

    Args:
        argv: The program and its arguments.
        cwd: Where it runs.
        env: Its whole environment, without the marker that is added.
        timeout_s: Its deadline; all that it started is ended then.
        limit_bytes: How much of its output is kept, half from the beginning and half from the end.
        stdin: What it can read.

    Raises:
        ToolFailedError: It could not be started; with the reason.
    """
    marker = secrets.token_hex(16)
    output = HeadAndTail(limit_bytes)
    with _translated(argv, cwd):
        source = await to_thread.run_sync(_prepared, cwd, stdin)
        reading, writing = os.pipe()
    try:
        os.set_blocking(reading, False)
        try:
            with _translated(argv, cwd):
                process = await _started(argv, cwd, {**env, MARKER: marker}, source, writing)
        finally:
            os.close(writing)
            if source is not None:
                source.close()
        timed_out = await _finished(process, marker, reading, output, timeout_s)
        _drain(reading, output)
    finally:
        os.close(reading)
    text, left_out_bytes = await to_thread.run_sync(output.text)
    code = process.returncode
    if code is None:
        code = -signal.SIGKILL  # it was sent to it, and the kernel has not carried it out yet
    return Finished(
        text=text,
        exit_code=code if code >= 0 else SIGNAL_BASE - code,
        timed_out=timed_out,
        left_out_bytes=left_out_bytes,
    )


async def _started(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    source: IO[bytes] | None,
    writing: int,
) -> anyio.abc.Process:
    # From this thread, which lives as long as the gateway: the kernel ends a process that asked
    # to die with its parent (bubblewrap does) when the thread ends that started it. Shielded, so
    # that there is none that we do not know of; it takes milliseconds.
    process: anyio.abc.Process | None = None
    with anyio.CancelScope(shield=True):
        process = await anyio.open_process(
            argv,
            stdin=subprocess.DEVNULL if source is None else source,
            stdout=writing,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
    assert process is not None, "nobody cancels a shielded scope"
    return process


async def _finished(
    process: anyio.abc.Process, marker: str, reading: int, output: HeadAndTail, timeout_s: float
) -> bool:
    """Read what it prints until it ends, end what it started, and return whether time ran out."""
    in_time = False
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, reading, output)
        try:
            with anyio.move_on_after(timeout_s):
                await process.wait()
                in_time = True
        finally:
            # A command that is done has nothing to finish any more.
            await _end(process, marker, grace_s=0 if in_time else GRACE_S)
        tasks.cancel_scope.cancel()
    return not in_time


async def _end(process: anyio.abc.Process, marker: str, *, grace_s: float) -> None:
    gone = False
    with anyio.CancelScope(shield=True):
        gone = await to_thread.run_sync(
            lambda: end_tree(process.pid, marker, grace_s=grace_s, deadline_s=_KILL_S)
        )
        with anyio.move_on_after(_REAP_S):
            await process.wait()
    if not gone or process.returncode is None:
        logger.warning("a command could not be ended", extra={"pid": process.pid})


async def _read(reading: int, output: HeadAndTail) -> None:
    pause_at = _FREE_BYTES
    while True:
        await anyio.wait_readable(reading)
        data = os.read(reading, _CHUNK_BYTES)
        if not data:
            return
        output.add(data)
        if output.total_bytes >= pause_at:
            pause_at = output.total_bytes + _FLOOD_BYTES
            await anyio.sleep(_FLOOD_PAUSE_S)


def _drain(reading: int, output: HeadAndTail) -> None:
    """Take what stands in the pipe still; does not wait."""
    drained = 0
    while drained < _DRAIN_BYTES:
        try:
            data = os.read(reading, _CHUNK_BYTES)
        except BlockingIOError:  # somebody that could not be ended holds it open
            return
        if not data:
            return
        drained += len(data)
        output.add(data)


def _prepared(cwd: Path, data: bytes) -> IO[bytes] | None:
    """Return an unnamed file to read `data` from: unlike a pipe it needs nobody to fill it."""
    if not cwd.is_dir():  # not every event loop tells this from a missing program
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(cwd))
    if not data:
        return None
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the process has it
    try:
        file.write(data)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


_WHY: Final = {
    errno.E2BIG: "the command is too long; write it to a file, and run that",
    errno.EACCES: "permission denied; is it an executable file?",
    errno.ENOEXEC: "it is neither a program nor a script that begins with #!",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk is full",
    errno.EMFILE: "the gateway has too many files open; try again later",
    errno.ENFILE: "this machine has too many files open; try again later",
    errno.EAGAIN: "this machine runs too many processes; try again later",
    errno.ENOMEM: "this machine is out of memory; try again later",
}


@contextmanager
def _translated(argv: Sequence[str], cwd: Path) -> Generator[None]:
    """Raise what keeps a process from starting as an error that the model reads."""
    program = shown(argv[0])
    try:
        yield
    except FileNotFoundError as error:
        missing = (
            f"there is no folder {shown(str(cwd))}"
            if error.filename == str(cwd)
            else "there is no such program, or none that its first line (#!) names"
        )
        msg = f"{program} cannot be started: {missing}"
        raise ToolFailedError(msg) from error
    except OSError as error:
        why = _WHY.get(error.errno or 0) or error.strerror or str(error)
        msg = f"{program} cannot be started: {why}"
        raise ToolFailedError(msg) from error
    except ValueError as error:  # NUL, or half a surrogate pair
        msg = f"{program} cannot be started: an argument holds a character that none can"
        raise ToolFailedError(msg) from error
