"""Ports of servers that are told which to listen on, or come back to the one that they had."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from collections import deque
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_MANY = 8000
_KEPT = 64  # by this process, the newest
# Looked at once, as this is imported: tests ask for ports in the middle of their loops.
_FIRST = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32_768
_FOLDER = Path(tempfile.gettempdir()) / f"everturn-test-ports-{os.getuid()}"
_FOLDER.mkdir(exist_ok=True)
_claims: deque[int] = deque()


def free_port() -> int:
    """Return a port of loopback on which nobody listens, and that is given to no other caller.

    It is below those that the kernel gives to clients, and to servers that take any: one of these
    may be somebody else's by the time a server listens on it, or comes back to it.

    Raises:
        LookupError: All are taken.
    """
    end = max(_FIRST, 10_000 + _MANY)
    chance = random.SystemRandom()  # whatever a test makes reproducible
    for _ in range(_MANY):
        port = chance.randrange(end - _MANY, end)
        claim = os.open(_FOLDER / str(port), os.O_CREAT | os.O_RDWR, 0o600)
        if _is_free(claim, port):
            _claims.append(claim)
            if len(_claims) > _KEPT:
                os.close(_claims.popleft())
            return port
        os.close(claim)
    msg = "no port is free"
    raise LookupError(msg)


def _is_free(claim: int, port: int) -> bool:
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until it is closed, or its process ends
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
            probe.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True
