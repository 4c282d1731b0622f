"""Watches the screen of an interactive process, and tells its conversation when it stands still."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from anyio import to_thread

from everturn_actors.errors import ToolFailedError
from everturn_actors.ports import Clock
from everturn_actors.service import TurnService
from everturn_gateway.tools.processes.output import output_size
from everturn_gateway.tools.processes.process import Process
from everturn_gateway.tools.processes.telling import tell
from everturn_gateway.tools.processes.texts import message_of_screen
from everturn_gateway.tools.processes.tmux import Tmux

logger = logging.getLogger(__name__)

MESSAGES_MAX: Final = (
    100  # of one watch: a screen that moves and stops forever must not talk forever
)
GAP_S: Final = 10.0  # between two messages about one screen
_LOOK_S: Final = 2.0


async def watch(
    process: Process,
    tmux: Tmux,
    service: TurnService,
    clock: Clock,
    clean: Callable[[str], str],
    look: Callable[[], Awaitable[None]],
) -> None:
    """Tell whenever nothing has been written for `Watch.quiet_s` and the screen has changed.

    `look` finds out, once the screen was read, whether text from outside is behind it. It may raise
    `OSError`. Ends with the process, by cancellation, or after `MESSAGES_MAX` messages.
    """
    size, quiet_since, looked_at = -1, clock.now(), False
    told_at = None
    while process.record.watch is not None:
        now, wish = clock.now(), process.record.watch
        new_size = await to_thread.run_sync(output_size, process.folder)
        if new_size != size:
            size, quiet_since, looked_at = new_size, now, False
        is_quiet = (now - quiet_since).total_seconds() >= wish.quiet_s
        is_soon = told_at is not None and (now - told_at).total_seconds() < GAP_S
        if is_quiet and not looked_at and not is_soon:
            looked_at = True
            if await _look(process, tmux, service, clock, clean, look):
                told_at = clock.now()
        await clock.sleep(min(_LOOK_S, wish.quiet_s))


async def _look(
    process: Process,
    tmux: Tmux,
    service: TurnService,
    clock: Clock,
    clean: Callable[[str], str],
    look: Callable[[], Awaitable[None]],
) -> bool:
    """Tell what the screen shows, unless that is what was told last; return whether it was told."""
    record = process.record
    wish = record.watch
    assert wish is not None, "somebody watches"
    try:
        screen = await tmux.screen(record.handle)
    except ToolFailedError:  # it ends in this moment; its end is told
        return False
    try:
        await look()
    except OSError as error:  # what was found holds all the same
        _warn(record.handle, error)
    record = process.record
    seen = hashlib.sha256(screen.encode()).hexdigest()[:16]
    if seen == wish.screen:
        return False
    number = wish.told + 1
    ends = number >= MESSAGES_MAX
    text = clean(message_of_screen(record, "" if record.untrusted else screen, ends=ends))
    if not await tell(service, clock, record, f"screen-{wish.name}-{number}", text):
        return False
    try:
        await process.set_watch(None if ends else replace(wish, told=number, screen=seen))
    except OSError as error:
        _warn(record.handle, error)
    return True


def _warn(handle: str, error: OSError) -> None:
    fields = {"handle": handle, "error": str(error)}
    logger.warning("a watch cannot be recorded", extra=fields)
