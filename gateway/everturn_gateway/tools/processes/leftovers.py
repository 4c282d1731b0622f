"""Ends what a process left behind when its supervisor process was killed. Blocking.

All that a process starts carries its handle in its environment. A handle is never used twice, so
nothing else can be meant, however often the system used a process id again.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Final

from everturn_gateway.tools.processes.supervisor import folder as supervisor_folder
from everturn_gateway.tools.processes.supervisor import system

_PROC: Final = Path("/proc")
_LOOKS: Final = 50  # at the list of processes


def end_leftovers(handle: str) -> int:
    """Kill every process that carries `handle`; return how often it had to. Linux only: else 0."""
    killed = 0
    for _ in range(_LOOKS if sys.platform == "linux" else 0):
        # Again until none is found: one may have started another while it was looked for.
        found = sum(_end(int(e.name), handle) for e in _PROC.iterdir() if e.name.isdecimal())
        if not found:
            break
        killed += found
    return killed


def _end(pid: int, handle: str) -> bool:
    """Kill a process if it carries `handle`; return whether it did."""
    began = system.began_at(pid)
    try:
        environ = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is somebody else's
        return False
    if not began or f"{supervisor_folder.COOKIE}={handle}".encode() not in environ:
        return False
    system.send_to(pid, began, signal.SIGKILL)
    return True
