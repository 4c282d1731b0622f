"""What the system knows of processes: which there are, since when, and signals to just these."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import Final

PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
PR_SET_CHILD_SUBREAPER: Final = 36
IS_LINUX: Final = sys.platform == "linux"


def descendants(of: int) -> list[tuple[int, str]]:
    """Return all processes below one that still run, each with the time it began (Linux)."""
    parents: dict[int, tuple[int, str]] = {}
    for name in os.listdir("/proc"):  # its entries are ids, not paths to use
        if name.isdigit() and (fields := _stat(int(name))) and fields[0] != "Z":
            parents[int(name)] = (int(fields[1]), fields[19])
    found: list[tuple[int, str]] = []
    for pid, (parent, began) in parents.items():
        above = parent
        while above in parents and above != of:
            above = parents[above][0]
        if above == of:
            found.append((pid, began))
    return found


def send_to(pid: int, began: str, number: int) -> None:
    """Send a signal to the process that began then, and to no later one of the same id (Linux)."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:  # it has ended
        return
    try:
        if began_at(pid) == began:
            signal.pidfd_send_signal(fd, number)
    except OSError:
        return
    finally:
        os.close(fd)


def began_at(pid: int) -> str:
    """Return when a process began, in the system's ticks; empty where it has ended (Linux)."""
    fields = _stat(pid)
    return fields[19] if fields else ""


def _stat(pid: int) -> list[str]:
    """Return the fields after the name: 0 state, 1 parent, 19 start; none where it has ended.

    Source: proc_pid_stat(5).
    """
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].decode().split()
    except OSError:
        return []


def name_of(pid: int) -> str:
    """Return the name of a process' program; empty where it has ended (Linux)."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def signal_name(number: int) -> str:
    """Return how people call a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def prctl(option: int, value: int) -> None:
    """Set what only Linux has; elsewhere a group of processes has to do."""
    if IS_LINUX:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
