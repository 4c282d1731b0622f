"""Voice notes become text before the model is called: each by an event, so that it is heard once.

A crash in the middle of one has that one heard again; a request that is made again reads the words
in the log.
"""

from __future__ import annotations

import logging
from typing import Final

from msgspec.structs import replace

from everturn_actors.errors import (
    JournalError,
    NotTranscribedError,
    StoreAwayError,
)
from everturn_actors.events import Transcribed
from everturn_actors.model import Attachment, OpenTurn, UserMessage
from everturn_actors.ports import Agent, Transcriber
from everturn_actors.turn.model_call import TurnHost

logger = logging.getLogger(__name__)

_GONE: Final = "the file is no longer here"
_FAILED: Final = "hearing it failed by a fault"
ERROR_CHARACTERS: Final = 300


async def hear(host: TurnHost, turn: OpenTurn, agent: Agent) -> OpenTurn:
    """Record what is said in the files of the turn's messages; return the turn with the words.

    Raises:
        ActorStoppedError: It could not be recorded; the turn goes on at the next start.
    """
    transcriber = agent.transcriber
    if transcriber is None:
        return turn
    while (found := _unheard(turn)) is not None:
        await host.record(await _transcribed(host, turn.number, *found, transcriber))
        now = host.state.open_turn
        if now is None or now.number != turn.number:
            break  # somebody ended it meanwhile; the loop looks again
        turn = now
    return turn


def _unheard(turn: OpenTurn) -> tuple[UserMessage, Attachment] | None:
    """Return the oldest file with sound that was not heard yet, and its message."""
    for user in turn.heard:
        for file in user.attachments:
            if file.is_audio:
                return user, file
    return None


async def _transcribed(
    host: TurnHost, turn: int, user: UserMessage, file: Attachment, transcriber: Transcriber
) -> Transcribed:
    """Return the event of a file; a boundary: what fails here costs the turn these words alone.

    Raises:
        StoreAwayError: The file cannot be read now.
    """
    event = Transcribed(
        turn=turn,
        message=user.seq,
        file=file.name,
        sender=user.sender,
        file_name=file.file_name,
        is_voice=file.is_voice,
        duration_s=file.duration_s,
        untrusted=user.untrusted,
    )
    fields = {"session_id": host.tool_context.session_id, "file": file.name}
    context = host.tool_context

    async def read() -> bytes:
        data = await context.store.read_media(context.session_id, file.name)
        if data is None:
            raise NotTranscribedError(_GONE)
        return data

    try:
        found = await transcriber.transcribe(file, read)
    except NotTranscribedError as error:
        logger.warning("a voice note was not transcribed", extra={**fields, "error": str(error)})
        return replace(event, error=str(error)[:ERROR_CHARACTERS])
    except StoreAwayError:
        raise  # it is there, and can be read later
    except JournalError as error:
        logger.warning("a voice note cannot be read", extra={**fields, "error": str(error)})
        return replace(event, error=_GONE)
    except Exception:  # named above
        logger.exception("a voice note was not transcribed", extra=fields)
        return replace(event, error=_FAILED)
    return replace(
        event,
        text=found.text,
        model=found.model,
        source=found.source,
        language=found.language,
        duration_s=file.duration_s or found.duration_s,
        is_shown=found.is_shown,
    )
