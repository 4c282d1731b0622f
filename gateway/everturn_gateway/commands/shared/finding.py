"""Finds the gateway that serves a workspace, by the note that it has left there."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

import anyio.to_thread
import httpx2

from everturn_gateway.client.api import open_http
from everturn_gateway.commands.shared.running import Running, read_note
from everturn_gateway.config.settings import is_loopback

_LIVE_S = 2.0  # a gateway answers /livez in milliseconds


async def find_running(workspace: Path) -> Running | None:
    """Return the gateway that serves `workspace`; None where there is none that answers."""
    running = await anyio.to_thread.run_sync(read_note, workspace)
    if running is None or not is_alive(running.pid):
        return None
    # The workspace may be one that somebody else made: no token goes to another machine for it.
    if not await anyio.to_thread.run_sync(is_here, running.url):
        return None
    try:
        async with open_http(running.url, silence_s=_LIVE_S) as http:
            response = await http.get("/livez")
    except (httpx2.HTTPError, httpx2.InvalidURL):
        return None
    return running if response.is_success else None


def is_here(url: str) -> bool:
    """Say whether an address is one of this machine's own. Blocking: it looks names up."""
    try:
        parts = urlsplit(url)
        found = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_DGRAM)
    except (OSError, ValueError):
        return False
    return bool(found) and all(_is_own(family, address[0]) for family, *_, address in found)


def _is_own(family: int, host: str | int) -> bool:
    if is_loopback(str(host)):  # also where this system does without IPv6
        return True
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))  # the system lets nobody have the address of another machine
    except OSError:
        return False
    return True


def is_alive(pid: int) -> bool:
    """Say whether there is a process of this number, of this user's.

    One of somebody else's has the number of a gateway that was killed: whatever listens where that
    one did may be theirs as well, and is told no token.
    """
    if pid <= 0:
        return False  # to the system these mean groups of processes
    try:
        os.kill(pid, 0)
    except (OSError, OverflowError):
        return False
    return True
