"""SIGHUP: a running gateway reads its configuration again, and says what came of it."""

from __future__ import annotations

import logging
import os
import signal
import stat
import sys
from collections.abc import Callable
from contextlib import suppress

import anyio.to_thread
from msgspec import Struct

from everturn_gateway.app import Gateway
from everturn_gateway.channels import route_notes
from everturn_gateway.config.changes import changes
from everturn_gateway.config.settings import Config
from everturn_gateway.errors import ConfigError

logger = logging.getLogger(__name__)


class ControllingTerminal(Struct, frozen=True):
    """The terminal in which this process was started."""

    may_close: bool
    "Whether there is one, and its end is to end the process: not below `nohup`."

    @staticmethod
    def find() -> ControllingTerminal:
        """Look for it; before anything else handles SIGHUP."""
        is_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        return ControllingTerminal(not is_ignored and _has_terminal())

    def is_gone(self) -> bool:
        """Return whether it was closed: then this SIGHUP tells of its end."""
        return self.may_close and not _has_terminal()


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def leave_terminal() -> None:
    """Let what this process still says go nowhere, where the terminal that showed it is gone.

    Writing to a terminal that was closed fails, and a stop must not.
    """
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                _redirect(stream.fileno(), nowhere)


def _redirect(fd: int, nowhere: int) -> None:
    """Let a descriptor lead nowhere, where it is a terminal: not a file, nor a pipe."""
    if stat.S_ISCHR(os.fstat(fd).st_mode):
        os.dup2(nowhere, fd)


async def reload_config(
    gateway: Gateway, read: Callable[[], Config], apply_logging: Callable[[Config], None]
) -> None:
    """Take over what the configuration says now, as far as that is possible while it runs.

    A file that is faulty changes nothing.

    Args:
        gateway: Takes it over.
        read: Reads the configuration; raises ConfigError.
        apply_logging: Sets the log up anew.
    """
    try:
        new = await anyio.to_thread.run_sync(read)
    except ConfigError as error:
        for fault in error.faults or (error,):
            logger.error(
                "the configuration is faulty, and nothing of it is taken over",
                extra={"fault": str(fault)},
            )
        return
    if gateway.config.path is not None and new.path is None:
        logger.error(
            "the configuration is gone, and nothing is taken over",
            extra={"path": str(gateway.config.path)},
        )
        return
    found = changes(gateway.config, new)
    if "logging.format" in found.live:
        apply_logging(new)
    await gateway.reconfigure(new)
    logger.info("the configuration was read again", extra={"taken_over": list(found.live)})
    if found.restart:
        logger.warning(
            "some settings hold from the next start on", extra={"settings": list(found.restart)}
        )
    for note in (*new.notes, *route_notes(gateway.config, gateway.library.names())):
        logger.warning("a setting has no effect", extra={"setting": note})
