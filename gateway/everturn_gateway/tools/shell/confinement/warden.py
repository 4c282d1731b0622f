"""Starts one confined command, holds it to its limits, and ends it where it exceeds them.

Run by its path, `python -I -S warden.py ORDER bwrap ...`: it needs the standard library alone and
loads nothing of the gateway, so that it starts at once, and goes on while the gateway is busy or is
updated. It is the parent of bubblewrap, so all of the command ends with it; it ends as the command
ends, with the same exit code, and when whoever started it is gone.

Why not limits of the kernel alone: RLIMIT_NPROC is not held against root, and others are of one
process each. Control groups would do it, where a gateway may make some; most may not. So the limits
are set that the kernel can hold, and what goes on in the command's namespace of processes is looked
at every `TICK_S`. Nothing in there runs before that has begun.

Sources: setrlimit(2), proc(5), pid_namespaces(7), bwrap(1) (`--info-fd`, `--block-fd`).
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import select
import signal
import sys
import time
from binascii import a2b_base64
from contextlib import suppress
from typing import Final, NoReturn, TypedDict

INFO_FD: Final = 8
"Where bubblewrap tells the number of the first process inside."
BLOCK_FD: Final = 9
"What bubblewrap reads before it starts the command."
DATA_FD: Final = 10
"The first of the descriptors with what `Order.data` holds, in their order."

TICK_S: Final = 0.02  # a fork bomb makes some 500 processes meanwhile, on two processors
_TICKS_A_LOOK: Final = 5  # between two looks at each process, for its threads and its memory
_ATTACH_S: Final = 10.0
_POLL_S: Final = 0.001
_NPROC_FROM: Final = (5, 14)
"The Linux from which RLIMIT_NPROC counts within a user namespace, and not all of a user's."
_KILLED: Final = 128 + signal.SIGKILL
_CANNOT_RUN: Final = 126


class Order(TypedDict):
    """What the warden is told, as JSON."""

    data: list[str]
    "What bubblewrap is to read from `DATA_FD` and those after it, each in base64."
    tasks: int
    "How many processes and threads there may be at once."
    memory_bytes: int
    "How much memory they may hold together, and each of them by itself."
    file_bytes: int
    "How large a file may become."
    files: int
    "How many files a process may have open."
    nice: int
    "How much others on this machine come before the command, as nice(1) has it."


class _Sandbox:
    """The running bubblewrap: its process here, and the first process inside."""

    def __init__(self, outer: int, inner: int, processes: int) -> None:
        self.outer, self.inner = outer, inner
        self._processes = processes
        "The sandbox's own /proc, as a descriptor: the processes in there, and no others."

    def count(self) -> list[str]:
        """Return the processes inside, by their numbers in there."""
        with suppress(OSError):  # all of them are gone
            names = os.listdir(self._processes)  # pathlib takes long to load
            return [name for name in names if name.isdigit()]
        return []

    def usage(self, processes: list[str]) -> tuple[int, int]:
        """Return how many threads these have, and how many bytes of memory they hold."""
        threads = kib = 0
        for process in processes:
            for line in _status(self._processes, process):
                name, _, value = line.partition(b":")
                if name == b"Threads":
                    threads += int(value)
                elif name in {b"RssAnon", b"RssShmem"}:  # code is shared, and given back at need
                    kib += int(value.split()[0])
        return threads, kib * 1024

    def end(self) -> None:
        """Kill all of it: the kernel ends a namespace with its first process."""
        for pid in (self.inner, self.outer):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def main() -> int:
    """Run the command, and return its exit code."""
    order: Order = json.loads(sys.argv[1])
    parent = os.getppid()
    # Signals to the whole group or session are meant for the command.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    info_r, info_w = os.pipe()
    block_r, block_w = os.pipe()
    outer = os.fork()
    if not outer:
        _become_bubblewrap(order, info_w, block_r)
    os.close(info_w)
    os.close(block_r)
    try:
        ended = os.pidfd_open(outer)
        inner = _inner(info_r)
        if inner is None:  # it has said why on the standard error
            return _exit_code(outer)
        sandbox = _attached(outer, inner, ended)
        if sandbox is None:
            return _exit_code(outer)
        _limit(sandbox.inner, order)
        # It reads one byte. Nothing that was limited too late has run yet.
        os.write(block_w, b"1")
        os.close(block_w)
        return _watched(sandbox, order, ended, parent)
    except BaseException:
        with suppress(OSError):
            os.kill(outer, signal.SIGKILL)
        raise


def _become_bubblewrap(order: Order, info_w: int, block_r: int) -> NoReturn:
    try:
        for number in range(1, signal.NSIG):
            if signal.getsignal(number) is signal.SIG_IGN:  # the interpreter ignores some as well
                with suppress(OSError, ValueError):
                    signal.signal(number, signal.SIG_DFL)
        held = [_held(a2b_base64(each)) for each in order["data"]]
        # First out of the way of the numbers that are wanted.
        above = [_above(fd) for fd in (info_w, block_r, *held)]
        wanted = (INFO_FD, BLOCK_FD, *range(DATA_FD, DATA_FD + len(held)))
        for fd, number in zip(above, wanted, strict=True):
            os.dup2(fd, number, inheritable=True)
        os.execv(sys.argv[2], sys.argv[2:])
    except OSError as error:
        _say(f"{sys.argv[2]} cannot be started: {error.strerror}")
    finally:
        os._exit(_CANNOT_RUN)


def _held(data: bytes) -> int:
    """Return a descriptor from which `data` can be read."""
    fd = os.memfd_create("everturn")
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _above(fd: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64)


def _inner(info_r: int) -> int | None:
    """Return the number of the first process inside; None where it came to none."""
    said = b""
    while b"}" not in said:
        piece = os.read(info_r, 4096)
        if not piece:
            return None
        said += piece
    pid = json.loads(said)["child-pid"]
    return pid if isinstance(pid, int) else None


def _attached(outer: int, inner: int, ended: int) -> _Sandbox | None:
    """Wait until the sandbox has its own /proc, and return it; None where it has ended before.

    Raises:
        OSError: It cannot be looked into.
    """
    ours = os.stat("/proc").st_dev  # pathlib takes long to load
    give_up = time.monotonic() + _ATTACH_S
    while True:
        with suppress(FileNotFoundError):
            fd = os.open(f"/proc/{inner}/root/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            if os.fstat(fd).st_dev != ours:
                return _Sandbox(outer, inner, fd)
            os.close(fd)
        if select.select([ended], [], [], _POLL_S)[0]:
            return None
        if time.monotonic() > give_up:
            raise TimeoutError


def _limit(inner: int, order: Order) -> None:
    """Set what the kernel holds: for the first process inside, and so for all after it."""
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_DATA: order["memory_bytes"],
        resource.RLIMIT_FSIZE: order["file_bytes"],
        resource.RLIMIT_NOFILE: order["files"],
    }
    if os.geteuid() != 0 and _release() >= _NPROC_FROM:
        limits[resource.RLIMIT_NPROC] = order["tasks"]
    for which, wanted in limits.items():
        _, hard = resource.prlimit(inner, which)
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.prlimit(inner, which, (most, most))
    os.setpriority(os.PRIO_PROCESS, inner, max(os.getpriority(os.PRIO_PROCESS, 0), order["nice"]))
    # Where memory runs out all the same, the kernel takes it from the command first.
    fd = os.open(f"/proc/{inner}/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    os.write(fd, b"1000")
    os.close(fd)


def _watched(sandbox: _Sandbox, order: Order, ended: int, parent: int) -> int:
    tick = 0
    while not select.select([ended], [], [], TICK_S)[0]:
        if os.getppid() != parent:
            sandbox.end()
            continue
        tick += 1
        processes = sandbox.count()
        said = ""
        if len(processes) > order["tasks"]:
            said = f"more than {order['tasks']} processes at once"
        elif not tick % _TICKS_A_LOOK:
            threads, memory_bytes = sandbox.usage(processes)
            if threads > order["tasks"]:
                said = f"more than {order['tasks']} processes and threads at once"
            elif memory_bytes > order["memory_bytes"]:
                said = f"more than {order['memory_bytes'] // 1024**2} MiB of memory"
        if said:
            sandbox.end()
            _exit_code(sandbox.outer)
            _say(f"ended, as it took {said}")
            return _KILLED
    return _exit_code(sandbox.outer)


def _status(processes: int, process: str) -> list[bytes]:
    with suppress(OSError):  # it has ended meanwhile
        fd = os.open(f"{process}/status", os.O_RDONLY | os.O_CLOEXEC, dir_fd=processes)
        try:
            return os.read(fd, 8192).splitlines()
        finally:
            os.close(fd)
    return []


def _exit_code(outer: int) -> int:
    code = os.waitstatus_to_exitcode(os.waitpid(outer, 0)[1])
    return code if code >= 0 else 128 - code


def _release() -> tuple[int, int]:
    major, minor, *_ = os.uname().release.split(".")
    return int(major), int("".join(filter(str.isdigit, minor[:3])) or 0)


def _say(text: str) -> None:
    with suppress(OSError):  # nobody reads it any more
        os.write(2, f"[the sandbox: {text}]\n".encode())


if __name__ == "__main__":
    try:
        code = main()
    except (OSError, ValueError, KeyError) as error:
        _say(f"its limits cannot be set here, so nothing was run: {error!r}")
        code = _CANNOT_RUN
    # Nothing has to be put away, and putting it away takes time.
    os._exit(code)
