"""`everturn` in a process of its own that has nothing to import: a child of one that has.

A start spends more than a second of CPU on imports, those of a chat platform several, and the
tests start the command some three hundred times. So one process for each run of tests imports
once, and forks a child for each start (`_give_birth`). A second, forked from that when it is first
asked for, has the platforms of chats as well. The child is a process like any other: its own
standard streams, folder, environment, signals and exit code, and nobody's memory but its own.

What it does not show is what happens before `main`: the installed script, lazy imports, another
seed of hashes for each process. Those have tests that start the real command.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

import anyio
import anyio.abc
import anyio.lowlevel

RUN = "PYTEST_RUN_PID"
"In the environment of all workers: the process of the run of tests."
_REQUEST_BYTES = 128 * 1024  # arguments and environment of one start
_CHUNK_BYTES = 64 * 1024
_TRIES = 20
_CREDENTIALS = struct.Struct("3i")  # process, user, group
_LAZY = (
    # What commands import where they need it, besides the packages of the gateway itself.
    *("prompt_toolkit", "rich.console", "rich.markdown", "rich.table"),
    *("uvicorn", "uvicorn.lifespan.on", "uvicorn.loops.auto", "uvicorn.protocols.http.auto"),
    *("anyio._backends._asyncio", "cronsim", "fastapi", "httpcore2", "httpx2", "watchfiles"),
    *("aiohttp", "prometheus_client", "typer.core", "typer._adapters", "uvloop"),
)
_LEFT_OUT = ("everturn_gateway.__main__", "everturn_gateway.telemetry.otel")
_PLATFORMS = ("telegram", "discord", "matrix", "email", "slack", "whatsapp")


@cache
def _import_all() -> None:
    import everturn_gateway  # noqa: PLC0415 - a test that only starts children does not need it

    found = pkgutil.walk_packages(everturn_gateway.__path__, "everturn_gateway.")
    names = [each.name for each in found if not each.name.startswith(_LEFT_OUT)]
    _import((*names, *_LAZY))


def _import(names: Iterable[str]) -> None:
    for name in names:
        with contextlib.suppress(ImportError):  # an extra that is not installed
            importlib.import_module(name)
    _with_tests("warm_models")
    gc.collect()
    gc.freeze()  # a collection would write to pages that all children share


def _with_tests(function: str) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    getattr(importlib.import_module("support.warm_models"), function)()
    del sys.path[0]  # a child finds no tests


def _give_birth(listeners: Sequence[socket.socket], run: int) -> list[str]:
    """Fork a child for each request; return in the child, with its arguments.

    Args:
        listeners: For children as they are, and for those with platforms, which a process of its
            own has from the first request on; that has the second listener alone.
        run: The process of the run of tests.

    Raises:
        SystemExit: In the parent, when the run of tests is over.
    """
    over = os.pidfd_open(run)
    with selectors.DefaultSelector() as watched:
        watched.register(over, selectors.EVENT_READ)
        for each in listeners:
            watched.register(each, selectors.EVENT_READ)
        while True:
            for key, _ in watched.select():
                if key.fd == over:
                    raise SystemExit(0)
                if key.data:
                    watched.unregister(key.fd)
                    _tell_the_end(key.fd, *key.data)
                elif key.fileobj in listeners[1:]:
                    if not os.fork():
                        _close_all(watched, but=listeners[1])
                        _import(f"everturn_channels.{name}" for name in _PLATFORMS)
                        return _give_birth(listeners[1:], run)
                    watched.unregister(listeners[1])
                    listeners[1].close()
                elif key.fileobj is listeners[0]:
                    line = listeners[0].accept()[0]
                    if is_of_this_user(line):
                        watched.register(line, selectors.EVENT_READ)
                    else:
                        line.close()
                elif (asked := _hear(key, watched)) is not None:
                    return _become(*asked)


def is_of_this_user(line: socket.socket) -> bool:
    """Say whether whoever connected may give orders: anybody on this machine can connect."""
    told = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(told)[1] == os.getuid())


def _hear(
    key: selectors.SelectorKey, watched: selectors.BaseSelector
) -> tuple[Mapping[str, Any], Sequence[int]] | None:
    """Fork a child as somebody asks; return in the child what was asked, and its streams."""
    line = key.fileobj
    assert isinstance(line, socket.socket)
    data, fds, _, _ = socket.recv_fds(line, _REQUEST_BYTES, 4)
    if not data:  # one of those who ask has ended
        watched.unregister(line)
        line.close()
        return None
    told = fds.pop()
    if not (pid := os.fork()):
        _close_all(watched)
        os.close(told)
        return json.loads(data), fds
    with contextlib.suppress(BrokenPipeError):  # whoever asked has gone: its child ends as it does
        os.write(told, b"%d\n" % pid)
    watched.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, told))
    for fd in fds:
        os.close(fd)
    return None


def _close_all(watched: selectors.BaseSelector, *, but: socket.socket | None = None) -> None:
    for each in watched.get_map().values():
        if each.fileobj is but:
            continue
        if isinstance(each.fileobj, socket.socket):
            each.fileobj.detach()
        for fd in (each.fd, *(each.data or ())[1:]):
            os.close(fd)


def _tell_the_end(ended: int, pid: int, told: int) -> None:
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(BrokenPipeError):  # nobody wants to know
        os.write(told, b"%d\n" % os.waitstatus_to_exitcode(status))
    for fd in (ended, told):
        os.close(fd)


def _become(request: Mapping[str, Any], streams: Sequence[int]) -> list[str]:
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    if more := os.environ.get("PYTHONPATH"):  # Python reads it as it starts
        sys.path[:0] = more.split(os.pathsep)
        _forget_plugins()
        sys.modules.pop("sitecustomize", None)
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module("sitecustomize")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if request["has_terminal"]:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where the tests run below `nohup`
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # as on any terminal
    return [*request["arguments"]]


def _forget_plugins() -> None:
    """Look for plug-ins again: there may be others in the folders that are read now."""
    from everturn_gateway.plugins import installed  # noqa: PLC0415 - it is there in a child

    installed.cache_clear()


def begin_nursery(*, left_behind: Iterable[int] = ()) -> None:
    """Import what every command needs, and fork the process for children from this one.

    For a process that goes on to import the tests: what both need is then imported once.

    Args:
        left_behind: Open files of this process that the new one closes.
    """
    if (listeners := _listeners()) is None:
        return
    _import_all()
    if pid := os.fork():
        os.waitpid(pid, 0)
        for each in listeners:
            each.close()
        return
    for fd in left_behind:
        os.close(fd)
    _serve(listeners)


def _main() -> None:
    if (listeners := _listeners()) is not None:
        _serve(listeners)


def _listeners() -> Sequence[socket.socket] | None:
    listeners = (_socket(), _socket())
    try:
        for listener, has_platforms in zip(listeners, (False, True), strict=True):
            listener.bind(f"\0{_address(has_platforms=has_platforms)}")
    except OSError:  # another worker of this run was faster
        return None
    for listener in listeners:
        listener.listen()
    return listeners


def _serve(listeners: Sequence[socket.socket]) -> NoReturn:
    if os.fork():
        os._exit(0)  # nobody's child from here on: tests look at what a gateway leaves behind
    for name in ("fsync", "fdatasync"):
        setattr(os, name, lambda _descriptor: None)  # as in the tests themselves: see `conftest.py`
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who sends it means the tests, which then hang up
    _import_all()
    _with_tests("warm_commands")
    gc.freeze()
    sys.argv[:] = ["everturn", *_give_birth(listeners, int(os.environ[RUN]))]
    _command()


def _command() -> NoReturn:
    """Run the command; leave without taking apart what was imported, which takes half a second."""
    from everturn_gateway.__main__ import main  # noqa: PLC0415 - only here, in a child

    code: object = None
    try:
        if sys.argv[1:] and sys.argv[1].endswith(".py"):  # see `python_command`
            del sys.argv[0]
            sys.path.insert(0, str(Path(sys.argv[0]).parent))
            runpy.run_path(sys.argv[0], run_name="__main__")
        else:
            main()
    except SystemExit as ended:
        code = ended.code
    threading._shutdown()  # type: ignore[attr-defined]  # as at the end of any program
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


# --- and those who ask it for a child -------------------------------------------------------------


@cache
def _nursery(*, has_platforms: bool) -> socket.socket:
    """Return the line to a process that has imported everything, platforms of chats or not.

    All workers of a run of tests share it: the first who needs it starts it, where none of them was
    forked from one that had. It ends with the run.
    """
    ours, address = _socket(), _address(has_platforms=has_platforms)
    # The packages that one test puts there are none of the next one's.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for _ in range(_TRIES):
        if not ours.connect_ex(f"\0{address}"):
            atexit.register(ours.close)
            return ours
        subprocess.run(
            [sys.executable, "-P", __file__],
            env={**env, RUN: _run()},
            stdin=subprocess.DEVNULL,
            check=True,
        )
    message = "the process that gives birth to commands has ended"
    raise RuntimeError(message)


def _run() -> str:
    return os.environ.get(RUN, str(os.getpid()))


def _address(*, has_platforms: bool = False) -> str:
    return f"everturn-tests-{_run()}-{'platforms' if has_platforms else 'commands'}"


def everturn_command() -> tuple[str, ...]:
    """Return what to run in the place of `everturn` where something else than a test starts it."""
    _nursery(has_platforms=False)
    return (sys.executable, "-I", "-S", str(Path(__file__).with_name("warm_client.py")), _address())


def python_command(program: Path, *arguments: str) -> tuple[str, ...]:
    """Return the same in the place of `python PROGRAM`, which imports what the gateway does."""
    return (*everturn_command(), str(program), *arguments)


def _socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class _Source(anyio.abc.ByteReceiveStream):
    """The end of a pipe that is read."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd

    async def receive(self, max_bytes: int = _CHUNK_BYTES) -> bytes:
        while True:
            await anyio.wait_readable(self._fd)
            with contextlib.suppress(BlockingIOError):
                if data := os.read(self._fd, max_bytes):
                    return data
                raise anyio.EndOfStream

    def read_now(self) -> bytes:
        """Return what is there already."""
        with contextlib.suppress(BlockingIOError):
            return os.read(self._fd, _CHUNK_BYTES)
        return b""

    async def aclose(self) -> None:
        if self._fd >= 0:
            anyio.notify_closing(self._fd)
            os.close(self._fd)
            self._fd = -1
        await anyio.lowlevel.checkpoint()


class _Sink(anyio.abc.ByteSendStream):
    """The end of a pipe that is written."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd

    async def send(self, item: bytes) -> None:
        while item:
            await anyio.wait_writable(self._fd)
            try:
                item = item[os.write(self._fd, item) :]
            except BlockingIOError:
                continue
            except BrokenPipeError as error:
                raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        if self._fd >= 0:
            anyio.notify_closing(self._fd)
            os.close(self._fd)
            self._fd = -1
        await anyio.lowlevel.checkpoint()


class _Child(anyio.abc.Process):
    """A command that runs."""

    def __init__(self, pid: int, told: _Source, ends: Sequence[int | None]) -> None:
        self._pid = pid
        self._told = told
        self._code: int | None = None
        self._reading = anyio.Lock()
        stdin, stdout, stderr = ends
        self._stdin = None if stdin is None else _Sink(stdin)
        self._stdout, self._stderr = (
            None if fd is None else _Source(fd) for fd in (stdout, stderr)
        )

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def returncode(self) -> int | None:
        if self._code is None and (told := self._told.read_now()):
            self._code = int(told)
        return self._code

    async def wait(self) -> int:
        async with self._reading:
            if self._code is None:
                self._code = int(await self._told.receive())
        return self._code

    def send_signal(self, signal: int) -> None:  # the name is anyio's
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it ended, and its code comes next
                os.kill(self._pid, signal)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    @property
    def stdin(self) -> anyio.abc.ByteSendStream | None:
        return self._stdin

    @property
    def stdout(self) -> anyio.abc.ByteReceiveStream | None:
        return self._stdout

    @property
    def stderr(self) -> anyio.abc.ByteReceiveStream | None:
        return self._stderr

    async def aclose(self) -> None:
        """Wait for its end, as anyio's own does."""
        with anyio.CancelScope(shield=True) as scope:
            for stream in (self._stdin, self._stdout, self._stderr):
                if stream is not None:
                    await stream.aclose()
            scope.shield = False
            try:
                await self.wait()
            except BaseException:
                scope.shield = True
                self.kill()
                await self.wait()
                raise
            finally:
                scope.shield = True
                await self._told.aclose()


async def open_everturn(
    arguments: Sequence[str | bytes],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    stdout: int | IO[bytes] = subprocess.PIPE,
    stderr: int | IO[bytes] = subprocess.PIPE,
    has_platforms: bool = False,
    has_terminal: bool = False,
) -> anyio.abc.Process:
    """Start `everturn`; streams are a pipe, nothing, or an open file.

    Args:
        arguments: What follows its name.
        cwd: Its folder.
        environment: All of its environment.
        stdin: Where it reads.
        stdout: Where it writes.
        stderr: Where it writes what is wrong.
        has_platforms: Whether it finds those of chats imported, which every start can do without.
        has_terminal: Whether `stdin` is a terminal, which becomes its own.
    """
    ours: list[int | None] = []
    with contextlib.ExitStack() as theirs:

        def end_of(stream: int | IO[bytes], *, is_read: bool) -> int:
            kept: int | None = None
            if not isinstance(stream, int):
                fd = os.dup(stream.fileno())
            elif stream == subprocess.PIPE:
                read, write = os.pipe()
                fd, kept = (read, write) if is_read else (write, read)
            else:
                fd = os.open(os.devnull, os.O_RDWR)
            ours.append(kept)
            theirs.callback(os.close, fd)
            return fd

        ends = [end_of(stdin, is_read=True), *(end_of(s, is_read=False) for s in (stdout, stderr))]
        told, tells = os.pipe()
        theirs.callback(os.close, tells)
        request = {
            "arguments": [os.fsdecode(each) for each in arguments],
            "cwd": str(cwd),
            "environment": dict(environment),
            "has_terminal": has_terminal,
        }
        socket.send_fds(
            _nursery(has_platforms=has_platforms), [json.dumps(request).encode()], [*ends, tells]
        )
    source = _Source(told)
    with anyio.CancelScope(shield=True):  # it will be born, and somebody has to end it
        pid, _, code = (await source.receive()).partition(b"\n")
    child = _Child(int(pid), source, ours)
    if code:  # it has ended already
        child._code = int(code)
    return child


if __name__ == "__main__":
    _main()
