"""Ends a command with everything that it started. Blocking: not for the event loop.

A process belongs to the command if it is in the session that the command began, or carries its
marker in the environment: one that left the session (`setsid`, a daemon) is found by that.
Source: proc(5), pidfd_open(2) (Linux man-pages).
"""

from __future__ import annotations

import hashlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

MARKER: Final = "EVERTURN_CALL"
"Names the environment variable that holds a command's marker."
OWNER: Final = "EVERTURN_OWNER"
"Names the one that tells which workspace a command works for."
_PROC: Final = Path("/proc")
_ENVIRON_BYTES: Final = 256 * 1024  # read of one process; a marker stands among the first
# Fields of /proc/<pid>/stat, counted after the name, which is the second of them.
_STATE, _SESSION, _FLAGS, _ENV_START, _ENV_END = 0, 3, 6, 47, 48
_KERNEL_THREAD, _EXITING = 0x0020_0000, 0x4  # among the flags
_LOOKS: Final = 50  # at the list of processes; it changes all the time where much goes on
_TRIES: Final = 50  # to look at one that is between two states
_TRY_S: Final = 0.001  # between two; it takes less, but for a slow disk


def end_tree(pid: int, marker: str, *, grace_s: float, deadline_s: float) -> bool:
    """Ask all processes of a command to stop, then kill what is left; return whether all are gone.

    Args:
        pid: The command's first process, which leads its session. It may be gone.
        marker: The value of `MARKER` in its environment.
        grace_s: How long there is to stop by themselves; 0 = none is asked.
        deadline_s: How long to wait for the killed ones.
    """
    if sys.platform != "linux":
        _end_group(pid, grace_s=grace_s)
        return True
    if grace_s > 0:
        asked = _signalled(pid, marker, signal.SIGTERM)
        _wait_for(asked, time.monotonic() + grace_s)
    give_up = time.monotonic() + deadline_s
    # Again until none is found: one may have started another while it was looked for.
    while killed := _signalled(pid, marker, signal.SIGKILL):
        if not _wait_for(killed, give_up):
            return False
    return True


def owner_of(state: Path) -> str:
    """Return the value of `OWNER` for a workspace."""
    return hashlib.sha256(os.fsencode(state.absolute())).hexdigest()[:32]


def end_left(state: Path) -> int:
    """Kill what commands of a workspace left behind when its gateway was killed; return how many.

    Only for who holds the workspace: no command of it runs yet. Linux only; elsewhere 0.
    """
    wanted = f"{OWNER}={owner_of(state)}".encode()
    killed = 0
    for _ in range(_LOOKS if sys.platform == "linux" else 0):
        # Again until none is found: one may have started another while it was looked for.
        found = [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal()]
        left = sum(_killed(each, wanted) for each in found)
        if not left:
            break
        killed += left
    return killed


def _killed(each: int, wanted: bytes) -> bool:
    """Kill a process that has `wanted` in its environment; return whether it had."""
    try:
        descriptor = os.pidfd_open(each)
    except OSError:  # gone
        return False
    try:
        if wanted not in _read(_PROC / str(each) / "environ").split(b"\0"):
            return False
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        _wait_for([os.dup(descriptor)], time.monotonic() + 1)
    except OSError:  # gone meanwhile, or another user's
        return False
    else:
        return True
    finally:
        os.close(descriptor)


def _signalled(pid: int, marker: str, number: signal.Signals) -> list[int]:
    """Send a signal to each process of the command; return descriptors that tell their end."""
    found: list[int] = []
    for each in _members(pid, marker):
        try:
            descriptor = os.pidfd_open(each)
        except OSError:  # gone meanwhile
            continue
        # The number may have gone to another process before the descriptor was opened.
        if not _belongs(each, pid, marker.encode()):
            os.close(descriptor)
            continue
        with suppress(OSError):  # gone meanwhile, or it became another user's
            signal.pidfd_send_signal(descriptor, number)
        found.append(descriptor)
    return found


def _wait_for(descriptors: list[int], until: float) -> bool:
    """Wait for the end of all; close the descriptors."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    left = set(descriptors)
    try:
        while left and (rest_s := until - time.monotonic()) > 0:
            for descriptor, _ in poll.poll(rest_s * 1000):
                poll.unregister(descriptor)
                left.discard(descriptor)
        return not left
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _members(pid: int, marker: str) -> Iterator[int]:
    wanted, seen = marker.encode(), set[int]()
    for _ in range(_LOOKS):
        # One that was listed may start another and end before it is looked at: those that came
        # meanwhile are looked at as well, until none does.
        new = {int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal()} - seen
        if not new:
            return
        seen |= new
        for each in sorted(new):
            if _belongs(each, pid, wanted):
                yield each


def _belongs(each: int, pid: int, marker: bytes) -> bool:
    mine = f"{MARKER}=".encode() + marker
    for _ in range(_TRIES):
        try:
            stat = _stat(each)
            if stat[_STATE] in {b"Z", b"X"}:  # it has ended, and waits for its parent to notice
                return False
            if int(stat[_SESSION]) == pid:
                return True
            flags = int(stat[_FLAGS])
            if flags & _KERNEL_THREAD:
                return False
            if not flags & _EXITING:
                environ = _read(_PROC / str(each) / "environ")
                if environ or _has_no_environment(each):
                    return mine in environ.split(b"\0")
        except ProcessLookupError:  # it began to end meanwhile
            pass
        except (OSError, ValueError, IndexError):  # gone, or another user's
            return False
        # It ends at this moment, with files open still; or it becomes another program, and the old
        # environment is gone and the new one not there yet.
        time.sleep(_TRY_S)
    return False


def _has_no_environment(each: int) -> bool:
    stat = _stat(each)
    return stat[_ENV_START] == stat[_ENV_END] != b"0"


def _stat(each: int) -> list[bytes]:
    """Return the fields after the name, which may hold anything, blanks and brackets too."""
    stat = _read(_PROC / str(each) / "stat")
    return stat[stat.rindex(b")") + 1 :].split()


def _read(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.read(_ENVIRON_BYTES)


def _end_group(pid: int, *, grace_s: float) -> None:
    """Do what can be done where processes cannot be looked at: end the group."""
    with suppress(OSError):
        if grace_s > 0:
            os.killpg(pid, signal.SIGTERM)
            time.sleep(grace_s)
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
