"""Streams responses, and goes on with a stream that was lost."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime
from typing import Final

from everturn_actors.errors import CoreError
from everturn_actors.events import (
    CallsHandedOver,
    Discarded,
    ModelReplied,
    ReplyBroken,
    SessionEnded,
    StatusChanged,
    StepStarted,
    TurnFinished,
)
from everturn_actors.service import Submission, TextDelta, TurnResult, TurnService
from everturn_gateway.http.openai.questions import answer_or_question, as_answer
from everturn_gateway.http.openai.refusals import refuse
from everturn_gateway.http.openai.responses.answer import ResponseWriter
from everturn_gateway.http.sse import WriteNow
from everturn_gateway.http.waiting import accepted_problem, stopping_problem

_ENDS: Final = (TurnFinished, SessionEnded, Discarded, CallsHandedOver)
_PAGE_EVENTS: Final = 256  # read from the log at a time


async def events(
    submission: Submission, writer: ResponseWriter, write_now: WriteNow
) -> AsyncGenerator[bytes]:
    """Yield a streamed response, to the end of its turn or until its client is needed."""

    def take(delta: TextDelta) -> bool:
        return writer.take(delta, write_now)

    yield writer.begin()
    asked = writer.questions.begin(submission.session_id)
    try:
        async with aclosing(submission.updates(final=True, take=take)) as updates:
            async for update in updates:
                if isinstance(update, TextDelta):
                    if not writer.has_form and not writer.questions.is_shown(update):
                        yield writer.text(update)
                    continue
                if isinstance(update.body, _ENDS):
                    yield writer.end(await submission.result())
                    return
                text, is_new = asked.read(update), asked.is_new(update)
                yield writer.holds(update, text, is_new=is_new)
                if text and is_new and asked.ends:
                    yield writer.end(as_answer(submission))
                    return
        yield writer.failed(stopping_problem(submission))
    except CoreError as error:
        yield writer.failed(accepted_problem(error, submission))


async def followed(submission: Submission, writer: ResponseWriter) -> TurnResult:
    """Have a writer take all of a turn, to its end or a question; return how it came out.

    Raises:
        CoreError: See `Submission.result`.
    """
    result = await answer_or_question(submission, writer.questions, writer.note)
    writer.end(result)
    return result


async def write_so_far(
    service: TurnService, submission: Submission, writer: ResponseWriter
) -> None:
    """Have a writer take what is in the log of a turn that runs."""
    after, reading = submission.seq, writer.questions.begin(submission.session_id)
    while page := await service.history(submission.session_id, after=after, limit=_PAGE_EVENTS):
        for event in page:
            writer.note(event, reading.read(event))
        after = page[-1].seq


async def check_goes_on(
    service: TurnService, submission: Submission, writer: ResponseWriter, started_at: datetime
) -> None:
    """Refuse a client that has a part of a text that was written anew since.

    A restart, and a pause, cut a reply short; the model is then asked for another one.

    Args:
        service: Has the log.
        submission: The message that is answered.
        writer: Knows what the client has; it is used up.
        started_at: When this gateway was.

    Raises:
        ProblemError: It has such a part (400).
    """
    writer.begin()
    after, reading = submission.seq, writer.questions.begin(submission.session_id)
    asked_at, was_paused = started_at, False

    def check(text: str | None, replied_at: datetime) -> None:
        is_anew = was_paused or asked_at < started_at <= replied_at
        if is_anew and writer.has_begun(text):
            refuse(
                "starting_after",
                "the text there was cut short, and written anew: leave starting_after out, and the"
                " stream begins anew",
            )

    while page := await service.history(submission.session_id, after=after, limit=_PAGE_EVENTS):
        for event in page:
            match event.body:
                case StepStarted():
                    asked_at, was_paused = event.at, False
                case StatusChanged():
                    was_paused = True
                case ModelReplied(text=text) | ReplyBroken(text=text):
                    check(text, event.at)
                    asked_at, was_paused = event.at, False
                case TurnFinished() | SessionEnded() | CallsHandedOver():
                    return
                case _:
                    pass
            writer.holds(event, reading.read(event))
        after = page[-1].seq
    check(None, max(asked_at, started_at))
