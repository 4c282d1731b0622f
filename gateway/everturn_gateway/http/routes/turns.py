"""Messages and what becomes of them: send, stream, follow, read, cancel."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Query
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from everturn_actors.events import Received
from everturn_actors.model import IncomingMessage
from everturn_actors.service import Submission, TurnService
from everturn_gateway.http.access.callers import CallerOf
from everturn_gateway.http.openapi import SessionId, event_stream, problems
from everturn_gateway.http.ports import HasSessions
from everturn_gateway.http.preferences import Prefer, wants_async
from everturn_gateway.http.problems import ProblemError, problem
from everturn_gateway.http.schemas.base import answer, answer_json
from everturn_gateway.http.schemas.history import read_messages
from everturn_gateway.http.schemas.messages import (
    AcceptedBody,
    CancelledBody,
    MessageList,
    NewMessage,
    ReplyBody,
    ResumedBody,
    RetriedBody,
)
from everturn_gateway.http.schemas.sessions import DecidedBody, DecisionBody
from everturn_gateway.http.sse import EventStream, Silence
from everturn_gateway.http.streams import (
    farewell,
    session_messages,
    turn_messages,
    waiting_status,
)
from everturn_gateway.http.turns import turn_problem
from everturn_gateway.http.uploads import uploads_of
from everturn_gateway.http.waiting import OpenWaits, events_path, leave, wait_for_turn

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[\x20-\x7e]+$",
        description="The same key in the same session is the same message: sent again, it gets"
        " the first one's answer, also after a restart.",
    ),
]
LastEventId = Annotated[
    str,
    Header(
        alias="Last-Event-ID",
        pattern=r"^[0-9]{1,15}$",
        description="The last event that arrived; what follows it is sent.",
    ),
]
_BEGINNING = "0"
After = Annotated[int, Query(ge=0, le=2**53, description="Events above this number.")]


def turns_router(gateway: HasSessions, waits: OpenWaits) -> APIRouter:
    """Return the routes under `/api/v1/sessions/{id}` that treat messages and turns."""
    router = APIRouter(prefix="/api/v1/sessions/{session_id}", tags=["messages"])
    _add_messages(router, gateway.service, waits)
    _add_streams(router, gateway.service, waits)
    _add_turn_changes(router, gateway.service)
    _add_retry(router, gateway.service, waits)
    return router


def _add_messages(router: APIRouter, service: TurnService, waits: OpenWaits) -> None:
    """Add the routes that take messages and give the history."""

    @router.get("/messages", response_model=MessageList, responses=problems(404))
    async def list_messages(
        session_id: SessionId,
        after: Annotated[
            str,
            Query(
                pattern=r"^m?[0-9]{1,15}$",
                description="A message id, or an event number: what came after it.",
            ),
        ] = "0",
        limit: Annotated[int, Query(ge=1, le=500)] = 100,
    ) -> Response:
        """List the messages of a session, oldest first."""
        number = int(after.removeprefix("m"))
        return answer(await read_messages(service, session_id, after=number, limit=limit))

    @router.post(
        "/messages",
        response_model=ReplyBody,
        responses={
            202: {"model": AcceptedBody, "description": "Accepted (Prefer: respond-async)"},
            **problems(404, 409, 429, 502, 507),
        },
    )
    async def send_message(
        request: Request,
        session_id: SessionId,
        body: NewMessage,
        caller: CallerOf,
        key: IdempotencyKey = None,
        prefer: Prefer = None,
    ) -> Response:
        """Send a message; the answer comes when its turn is done."""
        submission = await _submit(service, session_id, body, key, sender=caller.owns_as)
        if wants_async(prefer):
            events = events_path(submission.session_id, submission.seq)
            number = f"m{submission.seq}"
            accepted = AcceptedBody(
                session_id=submission.session_id, message_id=number, events=events
            )
            return _accepted(submission, accepted, events)
        return await _reply(request, submission, waits)


def _add_streams(router: APIRouter, service: TurnService, waits: OpenWaits) -> None:
    """Add the routes that follow a session: its events, and those of one turn."""

    @router.post(
        "/stream",
        response_class=Response,
        responses={
            **event_stream(
                "Server-sent events: received, token, message, tool_call, tool_result,"
                " approval_required, approval_decided, notice, and at the end done or error"
            ),
            **problems(404, 409, 429, 507),
        },
    )
    async def stream_message(
        session_id: SessionId,
        body: NewMessage,
        caller: CallerOf,
        key: IdempotencyKey = None,
        last_event_id: LastEventId = _BEGINNING,
    ) -> Response:
        """Send a message; its turn comes as server-sent events."""
        submission = await _submit(service, session_id, body, key, sender=caller.owns_as)
        return EventStream(
            partial(turn_messages, submission, after=int(last_event_id)),
            waits,
            on_leave=lambda: leave(submission),
            farewell=farewell(submission),
            headers=replay_headers(submission),
            silence=Silence(says=partial(waiting_status, service, submission.session_id)),
        )

    @router.get(
        "/events",
        response_class=Response,
        responses={
            **event_stream("Server-sent events: every event by its type, and token"),
            204: {"description": "The session has ended, and there is nothing more to send"},
            **problems(404, 503),
        },
    )
    async def follow_events(
        request: Request,
        session_id: SessionId,
        caller: CallerOf,
        after: After = 0,
        last_event_id: LastEventId = _BEGINNING,
    ) -> Response:
        """Follow a session: all events from the first, or those after a number, then live.

        Looking on changes nothing: a paused turn stays paused.
        """
        number = int(last_event_id) if "Last-Event-ID" in request.headers else after
        waits.check_follower()  # before the session is looked up
        state = await service.view(session_id)
        if state.status == "ended" and number >= state.last_seq:
            # To a browser's EventSource, 204 says: do not connect again.
            return Response(status_code=204)
        return EventStream(
            partial(session_messages, service, session_id, after=number, viewer=caller),
            waits,
            silence=Silence(says=partial(waiting_status, service, session_id)),
        )


def _add_turn_changes(router: APIRouter, service: TurnService) -> None:
    """Add the routes that change a running turn: cancel, resume, approve."""

    @router.post("/cancel", response_model=CancelledBody, responses=problems(404))
    async def cancel_turn(session_id: SessionId, caller: CallerOf) -> Response:
        """Cancel the running turn; the answer comes when it is closed in the log."""
        cancelled = await service.cancel(session_id, by=caller.name)
        return answer(CancelledBody(cancelled=cancelled))

    @router.post("/resume", response_model=ResumedBody, responses=problems(404, 507))
    async def resume_turn(session_id: SessionId) -> Response:
        """Let a turn go on that was paused when its client went away."""
        return answer(ResumedBody(resumed=await service.resume(session_id)))

    @router.post("/approve", response_model=DecidedBody, responses=problems(403, 404, 409))
    async def approve_call(session_id: SessionId, body: DecisionBody, caller: CallerOf) -> Response:
        """Answer the approval of a call; the turn goes on. The same again changes nothing."""
        claimed = body.sender if caller.may_claim else ""
        await service.decide(
            session_id,
            body.call_id,
            body.decision,
            by=claimed or caller.name,
            may_always=caller.may_claim and not claimed,
            arguments_hash=body.arguments_hash,
            answer=body.answer,
        )
        return answer(DecidedBody(call_id=body.call_id, decision=body.decision))


def _add_retry(router: APIRouter, service: TurnService, waits: OpenWaits) -> None:
    """Add the route that asks a failed turn again."""

    @router.post(
        "/retry",
        response_model=ReplyBody,
        responses={
            202: {"model": RetriedBody, "description": "Begun (Prefer: respond-async)"},
            **problems(404, 409, 502, 507),
        },
    )
    async def retry_turn(
        request: Request,
        session_id: SessionId,
        key: IdempotencyKey = None,
        prefer: Prefer = None,
    ) -> Response:
        """Ask the newest turn again, which failed; the answer comes when the new one is done.

        It answers the same messages in the place of the turn that failed, and what its tools have
        done is not done again.
        """
        submission = await service.retry(session_id, idempotency_key=key or "")
        if wants_async(prefer):
            events = events_path(session_id, submission.seq)
            body = RetriedBody(session_id=session_id, event=submission.seq, events=events)
            return _accepted(submission, body, events)
        return await _reply(request, submission, waits)


async def _reply(request: Request, submission: Submission, waits: OpenWaits) -> Response:
    """Wait for the turn of a message, and answer with its reply."""
    result = await wait_for_turn(request, submission, waits)
    problem = turn_problem(result)
    if problem is not None:
        raise ProblemError(problem)
    return answer_json(ReplyBody.encoded(result), headers=replay_headers(submission))


def _accepted(submission: Submission, body: BaseModel, events: str) -> Response:
    """Answer at once, with the address of what follows."""
    applied = {"Location": events, "Preference-Applied": "respond-async"}
    return answer(body, 202, {**replay_headers(submission), **applied})


async def _submit(
    service: TurnService, session_id: str, body: NewMessage, key: str | None, *, sender: str
) -> Submission:
    inbound = IncomingMessage(
        text=body.content,
        session_id=session_id,
        sender=sender,
        idempotency_key=key or "",
        attachments=await uploads_of(body.attachments),
        untrusted=body.untrusted,
        retry_for_s=body.retry_for_seconds,
    )
    submission = await service.submit(inbound)
    await refuse_other_content(service, submission, body.content)
    return submission


async def refuse_other_content(service: TurnService, submission: Submission, content: str) -> None:
    """Refuse an idempotency key that came with another message, or other files, before.

    Raises:
        ProblemError: It did (422). Where the log no longer holds the message, nothing is said.
    """
    if not submission.duplicate:
        return
    seq = submission.seq
    for event in await service.history(submission.session_id, after=seq - 1, limit=1):
        body = event.body
        if event.seq != seq or not isinstance(body, Received):
            continue
        names = [each.name for each in body.attachments]
        if body.text != content or names != [each.name for each in submission.attachments]:
            raise ProblemError(
                problem(
                    "idempotency-key-reused",
                    f"this Idempotency-Key came with another content before, as message"
                    f" m{seq}; use a new key for a new message",
                    extra={"message_id": f"m{seq}"},
                )
            )


def replay_headers(submission: Submission) -> dict[str, str]:
    """Return the header that tells a repeat from a first answer."""
    return {"Idempotent-Replayed": "true"} if submission.duplicate else {}
