"""Tells conversations of their processes, each thing once: an end, a screen that stands still."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from everturn_actors.errors import (
    ActorStoppedError,
    CoreError,
    InvalidInputError,
    MailboxFullError,
    SessionEndedError,
    ToolFailedError,
    UnknownAgentError,
    UnknownSessionError,
)
from everturn_actors.model import IncomingMessage
from everturn_actors.ports import Clock
from everturn_actors.service import TurnService
from everturn_gateway.tools.processes.output import output_size
from everturn_gateway.tools.processes.process import Process
from everturn_gateway.tools.processes.records import ProcessRecord
from everturn_gateway.tools.processes.texts import message_of_screen
from everturn_gateway.tools.processes.tmux import Tmux

logger = logging.getLogger(__name__)

SENDER: Final = "background_process"
_RETRY_S: Final = 5.0  # before the second try; doubled with each, up to a minute
_RETRY_MAX_S: Final = 60.0
_TRIES: Final = 6  # where the session cannot be written; one that is busy is waited for
MESSAGES_MAX: Final = (
    100  # of one watch: a screen that moves and stops forever must not talk forever
)
GAP_S: Final = 10.0  # between two messages about one screen
_LOOK_S: Final = 2.0


async def notify(
    service: TurnService, clock: Clock, record: ProcessRecord, what: str, text: str
) -> bool:
    """Put a message into the session of a process; return whether that is settled.

    It is once it is durable, and where nobody is left to be told. It is not when the gateway stops
    or the session cannot be written: then the next start tries again. `what` names the message
    among those about this process: the same one is put into a session once, however often it is
    tried. Where the session was reset or has expired, the message begins the conversation's next.
    """
    name = f"process-{record.handle}-{what}"
    to_session = IncomingMessage(
        session_id=record.session_id, text=text, sender=SENDER, idempotency_key=name
    )
    to_conversation = IncomingMessage(
        key=record.key, text=text, sender=SENDER, idempotency_key=name
    )
    inbound, delay_s, tries = to_session, _RETRY_S, 0
    fields = {"handle": record.handle, "session_id": record.session_id, "what": what}
    while True:
        try:
            await service.submit(inbound)
        except SessionEndedError as error:
            if inbound is to_conversation or error.reason == "deleted":
                logger.info("nobody is left to tell of a process", extra=fields)
                return True
            inbound = to_conversation
            continue
        except (UnknownSessionError, UnknownAgentError, InvalidInputError) as error:
            logger.warning("nobody can be told of a process", extra={**fields, "error": str(error)})
            return True
        except ActorStoppedError:
            return False
        except CoreError as error:
            tries += not isinstance(error, MailboxFullError)
            if tries == _TRIES:
                logger.exception("a session cannot be told of a process", extra=fields)
                return False
            logger.info(
                "a session cannot be told of a process yet", extra={**fields, "error": str(error)}
            )
        else:
            return True
        await clock.sleep(delay_s)
        delay_s = min(delay_s * 2, _RETRY_MAX_S)


class ScreenWatch(Struct, frozen=True, kw_only=True):
    """Tells the conversation of a process when its screen stands still."""

    process: Process
    tmux: Tmux
    service: TurnService
    clock: Clock
    clean: Callable[[str], str]
    "Masks what no message may show."
    look: Callable[[], Awaitable[None]]
    """Finds out, once the screen was read, whether text from outside is behind it. May raise
    `OSError`."""

    async def run(self) -> None:
        """Tell whenever nothing was written for `Watch.quiet_s` and the screen has changed.

        Ends with the process, by cancellation, or after `MESSAGES_MAX` messages.
        """
        size, quiet_since, looked_at = -1, self.clock.now(), False
        told_at = None
        while self.process.record.watch is not None:
            now, watch = self.clock.now(), self.process.record.watch
            new_size = await to_thread.run_sync(output_size, self.process.folder)
            if new_size != size:
                size, quiet_since, looked_at = new_size, now, False
            is_quiet = (now - quiet_since).total_seconds() >= watch.quiet_s
            is_soon = told_at is not None and (now - told_at).total_seconds() < GAP_S
            if is_quiet and not looked_at and not is_soon:
                looked_at = True
                if await self._tell_screen():
                    told_at = self.clock.now()
            await self.clock.sleep(min(_LOOK_S, watch.quiet_s))

    async def _tell_screen(self) -> bool:
        """Tell what the screen shows, unless it was told last; return whether it was told."""
        record = self.process.record
        watch = record.watch
        assert watch is not None, "somebody watches"
        try:
            screen = await self.tmux.screen(record.handle)
        except ToolFailedError:  # it ends in this moment; its end is told
            return False
        try:
            await self.look()
        except OSError as error:  # what was found holds all the same
            _warn(record.handle, error)
        record = self.process.record
        seen = hashlib.sha256(screen.encode()).hexdigest()[:16]
        if seen == watch.screen:
            return False
        number = watch.told + 1
        ends = number >= MESSAGES_MAX
        text = self.clean(message_of_screen(record, "" if record.untrusted else screen, ends=ends))
        if not await notify(
            self.service, self.clock, record, f"screen-{watch.name}-{number}", text
        ):
            return False
        try:
            await self.process.set_watch(None if ends else replace(watch, told=number, screen=seen))
        except OSError as error:
            _warn(record.handle, error)
        return True


def _warn(handle: str, error: OSError) -> None:
    fields = {"handle": handle, "error": str(error)}
    logger.warning("a watch cannot be recorded", extra=fields)
