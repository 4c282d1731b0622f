"""Puts messages about processes into conversations, each once."""

from __future__ import annotations

import logging
from typing import Final

from everturn_actors.errors import (
    ActorStoppedError,
    CoreError,
    InvalidInputError,
    MailboxFullError,
    SessionEndedError,
    UnknownAgentError,
    UnknownSessionError,
)
from everturn_actors.model import Inbound
from everturn_actors.ports import Clock
from everturn_actors.service import TurnService
from everturn_gateway.tools.processes.records import ProcessRecord

logger = logging.getLogger(__name__)

SENDER: Final = "background_process"
_RETRY_S: Final = 5.0  # before the second try; doubled with each, up to a minute
_RETRY_MAX_S: Final = 60.0
_TRIES: Final = 6  # where the session cannot be written; one that is busy is waited for


async def tell(
    service: TurnService, clock: Clock, record: ProcessRecord, what: str, text: str
) -> bool:
    """Put a message into the session of a process; return whether that is settled.

    It is once it is durable, and where nobody is left to be told. It is not when the gateway stops
    or the session cannot be written: then the next start tries again. `what` names the message
    among those about this process: the same one is put into a session once, however often it is
    tried. Where the session was reset or has expired, the message begins the conversation's next.
    """
    name = f"process-{record.handle}-{what}"
    to_session = Inbound(
        session_id=record.session_id, text=text, sender=SENDER, idempotency_key=name
    )
    to_conversation = Inbound(key=record.key, text=text, sender=SENDER, idempotency_key=name)
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
