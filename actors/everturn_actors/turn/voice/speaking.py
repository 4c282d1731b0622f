"""An answer is spoken before its turn ends: by an event, so that it is made once and then sent.

A crash before the event has it made again; after it, the sound is in the log's media, and a repeat
of the delivery sends the same file.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from everturn_actors.errors import JournalError, NotSpokenError
from everturn_actors.events import Body, Spoken
from everturn_actors.events.turns import without_images
from everturn_actors.model import OpenTurn, Upload
from everturn_actors.ports import Agent
from everturn_actors.turn.media import keep_files
from everturn_actors.turn.model_call import TurnHost

logger = logging.getLogger(__name__)

_TYPE: Final = "audio/ogg"
_NAME: Final = "reply.ogg"
_FAILED: Final = "speaking failed by a fault"
_NOT_KEPT: Final = "it could not be kept"


def is_to_be_spoken(turn: OpenTurn, agent: Agent) -> bool:
    """Whether the answer of a turn is spoken, when there is one."""
    if agent.speaker is None or not turn.speaks or turn.is_spoken:
        return False
    rule = agent.spec.spoken_replies
    return rule == "always" or (
        rule == "when_spoken_to" and any(user.is_spoken for user in turn.heard)
    )


async def speak(host: TurnHost, turn: OpenTurn, agent: Agent) -> Sequence[Body]:
    """Return the event of the answer as sound; nothing where there is no answer, or no sound.

    A boundary: what fails here costs the answer its sound, and its people are told.
    """
    speaker = agent.speaker
    if speaker is None or not turn.steps or not is_to_be_spoken(turn, agent):
        return ()
    reply = turn.steps[-1].reply
    text = without_images(reply.text)
    if reply.calls or not text.strip():
        return ()
    context = host.tool_context
    fields = {"session_id": context.session_id, "turn": turn.number}
    try:
        speech = await speaker.speak(text)
        if speech is None:
            return ()
        upload = Upload(
            data=speech.data,
            media_type=_TYPE,
            file_name=_NAME,
            is_voice=True,
            duration_s=speech.duration_s,
        )
        kept = await keep_files((upload,), context)
    except NotSpokenError as error:
        logger.warning("an answer was not spoken", extra={**fields, "error": str(error)})
        return (Spoken(turn=turn.number, error=str(error)),)
    except JournalError as error:
        logger.warning("an answer was not spoken", extra={**fields, "error": str(error)})
        return (Spoken(turn=turn.number, error=_NOT_KEPT),)
    except Exception:  # named above
        logger.exception("an answer was not spoken", extra=fields)
        return (Spoken(turn=turn.number, error=_FAILED),)
    return (Spoken(turn=turn.number, attachments=kept, model=speech.model, source=speech.source),)
