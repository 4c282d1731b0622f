"""Has a model write a summary, within bounds; what no model writes is a digest.

Records nothing: whoever asked gets the event and decides what to do with it.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import anyio
import anyio.to_thread
from msgspec import Struct

from everturn_actors.context.summaries import (
    SummaryTask,
    check_summary,
    digest,
    summary_request,
    with_remarks,
)
from everturn_actors.errors import ContextOverflowError, ModelError, ModelTransientError
from everturn_actors.events import Summarised
from everturn_actors.model import ModelRequest, Usage
from everturn_actors.ports import Clock, Summariser
from everturn_actors.turn.provider_boundary import reply_of

TRIES: Final = 3
PAUSE_S: Final = 0.1  # times the number of tries so far; a provider may ask for more
_ERROR_CHARACTERS = 500


class Patience(Struct, frozen=True, kw_only=True):
    """How long and how often a model is asked for one summary."""

    timeout_s: float
    "Of all tries together, pauses included."
    tries: int = TRIES


async def summarise(
    task: SummaryTask,
    summariser: Summariser | None,
    *,
    clock: Clock,
    patience: Patience,
    window_tokens: int,
    scale: float = 1.0,
) -> Summarised:
    """Return the event of a summary of `task`: a model's, or the digest where none wrote one.

    A failure that may pass, and an answer that is no summary, are tried again; after an overflow
    the input is halved; any other refusal ends the tries. Why there is only a digest stands in
    `Summarised.error`, which is empty where nobody was asked. Cancellation closes the request and
    leaves nothing behind.

    Args:
        task: What is to be summarised.
        summariser: Who writes it; None = nobody is asked.
        clock: For the pauses between tries.
        patience: How long and how often it is asked.
        window_tokens: The window of the model that writes.
        scale: Tokens of that model for one of the estimate.
    """
    if summariser is None:
        return await _digest(task)
    asked = _Question(
        task=task,
        summariser=summariser,
        clock=clock,
        window_tokens=window_tokens,
        scale=scale,
        tries_max=patience.tries,
    )
    with anyio.move_on_after(patience.timeout_s) as deadline:
        event = await _ask(asked, deadline)
        return event or await _digest(task, asked)
    late = f"no summary within {patience.timeout_s:g} s"
    asked.error = f"{late}; before: {asked.error}" if asked.error else late
    return await _digest(task, asked)


class _Question(Struct, kw_only=True):
    """One summary that is asked for, and what has come of the tries so far."""

    task: SummaryTask
    summariser: Summariser
    clock: Clock
    window_tokens: int
    scale: float
    tries_max: int
    tries: int = 0
    halvings: int = 0
    usage: Usage = Usage()
    error: str = ""
    "Of the last try."
    opaque: str = ""
    "What the provider made of the conversation, where it has no text: others have to have one."

    @property
    def live(self) -> ModelRequest | None:
        """What this try sends where that is the conversation itself; None = it goes as data."""
        task = self.task
        if self.tries == 1:
            return task.compaction or task.live
        return task.live if self.tries == 2 and self.opaque else None


async def _ask(asked: _Question, deadline: anyio.CancelScope) -> Summarised | None:
    """Ask until there is a summary; None where asking again is no use."""
    while asked.tries < asked.tries_max + bool(asked.opaque):
        asked.tries += 1
        try:
            if summary := await _try(asked):
                return summary
            continue
        except ContextOverflowError as failure:
            asked.error = str(failure)
            asked.halvings += asked.live is None
            continue  # the next request is another one: nothing has to be waited for
        except ModelError as failure:
            asked.error = str(failure)
            if asked.live is not None:
                continue  # as data it is another question
            pause_s = max(PAUSE_S * asked.tries, failure.retry_after_s or 0)
            is_last = asked.tries >= asked.tries_max or not failure.retryable
        if is_last or anyio.current_time() + pause_s >= deadline.deadline:
            return None
        await asked.clock.sleep(pause_s)
    return None


async def _try(asked: _Question) -> Summarised | None:
    """Ask once; None where that gave what the provider keeps for itself, and no text yet.

    Raises:
        ModelError: There is no reply, or it is no summary.
    """
    task, model = asked.task, asked.summariser.model
    request = asked.live
    if request is None:
        request = await anyio.to_thread.run_sync(  # megabytes of text, it may be
            partial(
                summary_request,
                task,
                model=model,
                window_tokens=asked.window_tokens,
                scale=asked.scale,
                halvings=asked.halvings,
            )
        )
    reply = await reply_of(asked.summariser.provider, request, _unheard)
    asked.usage += reply.usage
    if reply.calls:
        msg = "the model called a tool where it was asked for a summary"
        raise ModelTransientError(msg)
    compacts = request.compacts
    # A fallback that cannot do it answers the conversation; what one gives is for itself alone.
    if compacts and (reply.fallback or not reply.opaque):
        msg = "the provider was asked for a summary of its own, and gave none"
        raise ModelTransientError(msg)
    if compacts and not reply.text:
        asked.opaque = reply.opaque
        return None
    opaque = reply.opaque if compacts else asked.opaque
    return Summarised(
        last_turn=task.last_turn,
        messages=task.messages,
        text=with_remarks(task, check_summary(reply.text)),
        source="provider" if opaque else "model",
        opaque=opaque,
        tries=asked.tries,
        model=reply.model or model.name,
        usage=asked.usage,
        outside=task.outside,
    )


def _unheard(_piece: str) -> None:
    """Nobody follows a summary while it is written."""


async def _digest(task: SummaryTask, asked: _Question | None = None) -> Summarised:
    text = await anyio.to_thread.run_sync(digest, task)
    return Summarised(
        last_turn=task.last_turn,
        messages=task.messages,
        text=text,
        source="digest",
        opaque=asked.opaque if asked else "",
        tries=asked.tries if asked else 0,
        usage=asked.usage if asked else Usage(),
        error=asked.error[:_ERROR_CHARACTERS] if asked else "",
        outside=task.outside,
    )
