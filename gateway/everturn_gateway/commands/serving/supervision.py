"""Tells systemd the status of the gateway: it is ready, it stops, its event loop still turns.

Source: sd_notify(3) and sd_watchdog_enabled(3) of systemd 252: lines in one datagram to the socket
that `NOTIFY_SOCKET` names, where `@` stands for the abstract namespace.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from typing import Final

import anyio

logger = logging.getLogger(__name__)

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
_ALIVE: Final = "WATCHDOG=1"


class ServiceManager:
    """Whoever started the gateway, if it wants to be told; nobody is told otherwise."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Read from `environ` whether and where anybody listens."""
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._interval_s = _watchdog_s(environ) / 2

    def notify(self, *lines: str) -> None:
        """Send lines; what cannot be sent is logged, and the gateway goes on."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
                out.settimeout(0)
                out.sendto("\n".join(lines).encode(), self._address)
        except OSError as error:
            logger.warning(
                "systemd cannot be told the status of the gateway",
                extra={"told": lines[0], "error": error.strerror or str(error)},
            )

    async def keep_alive(self) -> None:
        """Say again and again that the event loop turns, until cancelled; where that is wanted."""
        while self._interval_s and self._address:
            self.notify(_ALIVE)
            await anyio.sleep(self._interval_s)


def _watchdog_s(environ: Mapping[str, str]) -> float:
    """Return how long the supervisor waits for a sign of life; 0 = for ever."""
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0
    wanted = environ.get("WATCHDOG_USEC", "")
    return int(wanted) / 1_000_000 if wanted.isascii() and wanted.isdigit() else 0
