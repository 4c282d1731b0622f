"""What is sent on the event streams of a session and of a turn."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta

import orjson

from everturn_actors.errors import CoreError
from everturn_actors.events import (
    ApprovalAsked,
    ApprovalDecided,
    CallFinished,
    CallStarted,
    ContextReduced,
    Discarded,
    Event,
    ModelCallFailed,
    ModelReplied,
    Received,
    ReplyBroken,
    SessionEnded,
    SessionShared,
    TurnFinished,
)
from everturn_actors.gaps import jumps
from everturn_actors.model import ToolCall
from everturn_actors.service import Submission, TakeDelta, TextDelta, TurnService
from everturn_actors.state.serialization import to_record, type_name, utc_text
from everturn_gateway.http import sse
from everturn_gateway.http.access.auth import ENDED
from everturn_gateway.http.access.visibility import sees_state
from everturn_gateway.http.problems import Problem, core_problem
from everturn_gateway.http.schemas.messages import GapBody, ReplyBody, ToolCallBody
from everturn_gateway.http.schemas.sessions import InquiryBody
from everturn_gateway.http.sse import WriteNow
from everturn_gateway.http.turns import turn_problem
from everturn_gateway.http.waiting import accepted_problem, events_path, stopping_problem
from everturn_gateway.principals import Principal

_PAGE_EVENTS = 256  # read from the log at a time


async def session_messages(
    service: TurnService,
    session_id: str,
    write_now: WriteNow,
    *,
    after: int,
    viewer: Principal | None = None,
) -> AsyncGenerator[bytes]:
    """Yield every event of a session above `after` as it is in the log, and the running reply.

    Where events are missing, a `gap` says which and why. It ends where the session is taken back
    from `viewer`, before anything that came later.
    """
    yield sse.greeting()
    path = events_path(session_id, after)
    try:
        end = (await service.view(session_id)).last_seq
        if after < end and not await service.history(session_id, after=end - 1, limit=1):
            # What is missing at the end is followed by nothing that would show the jump.
            while page := await service.history(session_id, after=after, limit=_PAGE_EVENTS):
                for event in page:
                    for chunk in await _event(service, session_id, after, event):
                        yield chunk
                    after = event.seq
            for chunk in await _gaps(service, session_id, after, end + 1):
                yield chunk
            after = max(after, end)
        watched = service.watch(session_id, after=after, take=_taken(write_now))
        async with aclosing(watched) as updates:
            async for update in updates:
                if isinstance(update, TextDelta):
                    yield _token(update)
                else:
                    for chunk in await _event(service, session_id, after, update):
                        yield chunk
                    after = update.seq
                    if (
                        viewer is not None
                        and isinstance(update.body, SessionShared)
                        and not sees_state(viewer, await service.view(session_id))
                    ):
                        # It was taken back: nothing of it is shown from here on.
                        yield _error(ENDED, path)
                        return
    except CoreError as error:
        yield _error(core_problem(error), path)


async def _event(service: TurnService, session_id: str, after: int, event: Event) -> list[bytes]:
    """Return an event as it is in the log, behind what is missing between `after` and it."""
    # Whoever reads must not take a jump for nothing.
    gaps = await _gaps(service, session_id, after, event.seq)
    return [*gaps, sse.message(type_name(event.body), to_record(event), seq=event.seq)]


async def _gaps(service: TurnService, session_id: str, after: int, before: int) -> list[bytes]:
    """Return what says why no event between `after` and `before` is there."""
    gaps = await service.reader.explain_gaps(session_id, jumps((before,), after=after))
    return [sse.message("gap", GapBody.of(gap).model_dump(), seq=gap.last) for gap in gaps]


async def turn_messages(
    submission: Submission, write_now: WriteNow, *, after: int
) -> AsyncGenerator[bytes]:
    """Yield what becomes of a message, to the end of its turn; events up to `after` are left out.

    Only durable events have an id: a stream that breaks within a reply resumes at the last of
    them, and gets the reply's text so far as one token.
    """
    yield sse.greeting()
    path = _stream_path(submission)
    calls: dict[str, ToolCall] = {}
    try:
        async with aclosing(submission.updates(take=_taken(write_now))) as updates:
            async for update in updates:
                if isinstance(update, TextDelta):
                    yield _token(update)
                    continue
                body = update.body
                if isinstance(body, ModelReplied):
                    # Later events name calls by their ids alone.
                    calls = {call.call_id: call for call in body.calls}
                if isinstance(body, (TurnFinished, SessionEnded, Discarded)):
                    # Sent even to a client that has it: a stream without an end is no answer.
                    yield await _end(submission, update.seq, path)
                    return
                if update.seq > after and (chunk := _turn_event(update, calls)):
                    yield chunk
        yield farewell(submission)  # the service stopped before the turn was done
    except CoreError as error:
        yield _error(accepted_problem(error, submission), path)


def farewell(submission: Submission) -> bytes:
    """Return what a stopping server says to a client whose turn is not done."""
    return _error(stopping_problem(submission), _stream_path(submission))


def waiting_status(service: TurnService, session_id: str) -> bytes:
    """Return the message that says what a session's model call waits for; empty = for nothing."""
    reason = service.activity.waiting_for(session_id)
    return sse.message("status", {"waiting_for": reason}) if reason else b""


def _stream_path(submission: Submission) -> str:
    return f"/api/v1/sessions/{submission.session_id}/stream"


def _taken(write_now: WriteNow) -> TakeDelta:
    def take(delta: TextDelta) -> bool:
        return write_now(_token(delta))

    return take


def _token(delta: TextDelta) -> bytes:
    # As `sse.message` writes it, in a third of the time: most of what is ever sent is this.
    text = orjson.dumps(delta.text)
    return b'event: token\ndata: {"turn_id":"t%d","step":%d,"offset":%d,"text":%b}\n\n' % (
        delta.turn,
        delta.step,
        delta.offset,
        text,
    )


def _turn_event(event: Event, calls: dict[str, ToolCall]) -> bytes:
    """Return the message of an event within a turn; empty where there is nothing to tell."""
    match event.body:
        case Received():
            return sse.message("received", {"message_id": f"m{event.seq}"}, seq=event.seq)
        case ModelReplied(text=text) if calls:  # the last reply comes with the end
            asked = [ToolCallBody.of(call).model_dump() for call in calls.values()]
            data = {"message_id": f"m{event.seq}", "content": text, "tool_calls": asked}
            return sse.message("message", data, seq=event.seq)
        case CallStarted(call_id=call_id):
            data = ToolCallBody.of(calls[call_id]).model_dump()
            return sse.message("tool_call", data, seq=event.seq)
        case CallFinished() as result:
            told: dict[str, object] = {
                "id": result.call_id,
                "name": calls[result.call_id].name,
                "content": result.text,
                "is_error": result.is_error,
            }
            return sse.message("tool_result", told, seq=event.seq)
        case ApprovalAsked() as asked:
            expires_at = event.at + timedelta(seconds=asked.timeout_s)
            inquiry = InquiryBody.of(asked.inquiry)
            return sse.message(
                "approval_required",
                {
                    **ToolCallBody.of(calls[asked.call_id]).model_dump(),
                    "arguments_hash": asked.arguments_hash,
                    "files": [each.path for each in asked.files if each.is_there],
                    "reason": asked.reason,
                    "pattern": asked.pattern,
                    "approvers": list(asked.approvers),
                    "expires_at": utc_text(expires_at),
                    "inquiry": inquiry and inquiry.model_dump(),
                },
                seq=event.seq,
            )
        case ApprovalDecided() as decided:
            shown = {"id": decided.call_id, "decision": decided.decision, "by": decided.by}
            if decided.answer:
                shown["answer"] = decided.answer
            return sse.message("approval_decided", shown, seq=event.seq)
        case ReplyBroken(reason=reason):
            # Whether it is asked for again stands in what follows: another reply, or the end.
            text = f"The reply could not be used: {reason}."
            return sse.message("notice", {"text": text}, seq=event.seq)
        case ContextReduced(line=line) | ModelCallFailed(line=line) if line:
            return sse.message("notice", {"text": line}, seq=event.seq)
        case _:
            return b""


async def _end(submission: Submission, seq: int, path: str) -> bytes:
    result = await submission.result()
    problem = turn_problem(result)
    if problem is not None:
        return _error(problem, path, seq=seq)
    return sse.message("done", ReplyBody.of(result).model_dump(), seq=seq)


def _error(problem: Problem, path: str, *, seq: int = 0) -> bytes:
    return sse.message("error", problem.document(path), seq=seq)
