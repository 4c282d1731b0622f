"""The context of a session: what stands in it, why a request looked as it did, a summary now."""

from __future__ import annotations

import logging
from functools import partial
from typing import Annotated, Literal

from anyio.to_thread import run_sync
from fastapi import APIRouter, Path, Query
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response

from everturn_actors.codec import encode
from everturn_actors.context.past.explain import Explanation
from everturn_actors.errors import CoreError, InvalidInputError, SessionEndedError
from everturn_actors.service import TurnService
from everturn_actors.state.reports import dispositions_record, explanation_record, request_record
from everturn_gateway.http.openapi import SessionId, problems
from everturn_gateway.http.ports import HasSessions
from everturn_gateway.http.preferences import Prefer, wants_async
from everturn_gateway.http.problems import Problem, ProblemError, problem
from everturn_gateway.http.schemas.base import answer
from everturn_gateway.http.schemas.context import (
    CompactedBody,
    CompactingBody,
    CompactRequest,
    ContextBody,
    DispositionsBody,
    ExplanationBody,
    RequestPartBody,
)
from everturn_gateway.http.waiting import DEADLINE, OpenWaits, events_path, while_connected

logger = logging.getLogger(__name__)

_NO_FOCUS = CompactRequest()


def context_router(gateway: HasSessions, waits: OpenWaits) -> APIRouter:
    """Return the routes under `/api/v1/sessions/{id}` that treat what the model sees."""
    router = APIRouter(prefix="/api/v1/sessions/{session_id}", tags=["context"])
    service = gateway.service

    @router.get("/context", response_model=ContextBody, responses=problems(404, 409))
    async def get_context(session_id: SessionId) -> Response:
        """Tell what the next request would hold, what is hidden, and what comes next."""
        return answer(ContextBody.of(await service.reader.context(session_id)))

    @router.get(
        "/context/{seq}",
        response_model=ExplanationBody | DispositionsBody | RequestPartBody,
        responses=problems(404, 409),
    )
    async def explain_context(
        request: Request,
        session_id: SessionId,
        seq: Annotated[int, Path(ge=1, le=2**53, description="An event of a turn.", examples=[4])],
        than: Annotated[
            int | None,
            Query(
                ge=1,
                le=2**53,
                description="An event of another request: only messages of which the two requests"
                " have something else are told of.",
            ),
        ] = None,
        part: Annotated[
            Literal["dispositions", "request"] | None,
            Query(
                description="Leave out the other half: what became of each message; the request."
            ),
        ] = None,
        since: Annotated[
            int,
            Query(ge=0, le=2**53, description="Tell of messages from this event on alone."),
        ] = 0,
    ) -> Response:
        """Explain a past request: the one sent at an event, or next after it in its turn."""
        if (than is not None or since) and part == "request":
            msg = "than and since are about what became of messages: leave them out, or the part"
            raise InvalidInputError(msg)
        seqs = (seq,) if than is None else (seq, than)
        explain = partial(service.reader.explain, session_id, *seqs)
        explanations = await while_connected(request, explain)
        # In a thread: it is as long as the session.
        content = await run_sync(_explained, explanations, part, since)
        return Response(content, media_type="application/json")

    _add_compact(router, service, waits)
    return router


def _add_compact(router: APIRouter, service: TurnService, waits: OpenWaits) -> None:
    """Add the route that has older turns summarised."""

    @router.post(
        "/compact",
        response_model=CompactedBody,
        responses={
            202: {"model": CompactingBody, "description": "Accepted (Prefer: respond-async)"},
            **problems(404, 409, 429, 507),
        },
    )
    async def compact_context(
        request: Request,
        session_id: SessionId,
        body: CompactRequest = _NO_FOCUS,
        prefer: Prefer = None,
    ) -> Response:
        """Have older turns summarised now; the answer comes when that is done or needless."""
        if wants_async(prefer):
            state = await service.view(session_id)
            if state.status == "ended":
                raise SessionEndedError(session_id, state.ended_reason)
            events = events_path(session_id, state.last_seq)
            accepted = answer(
                CompactingBody(session_id=session_id, events=events),
                202,
                {"Location": events, "Preference-Applied": "respond-async"},
            )
            accepted.background = BackgroundTask(_compact, service, waits, session_id, body.focus)
            return accepted
        with waits.waiter() as scope:
            scope.deadline = request.scope.get(DEADLINE, scope.deadline)
            return answer(CompactedBody.of(await service.compact(session_id, body.focus)))
        raise ProblemError(_unfinished(session_id, stopping=waits.stopping))


def _explained(
    explanations: tuple[Explanation, ...],
    part: Literal["dispositions", "request"] | None,
    since: int,
) -> bytes:
    """Return the answer; not by its schema, which would keep the event loop waiting."""
    explanation, *other = explanations
    if part == "request":
        return encode(request_record(explanation))
    if part == "dispositions" or other or since:
        return encode(dispositions_record(explanation, other[0] if other else None, since=since))
    return encode(explanation_record(explanation))


async def _compact(service: TurnService, waits: OpenWaits, session_id: str, focus: str) -> None:
    """Have a session summarised when its client has its answer."""
    with waits.background():
        try:
            await service.compact(session_id, focus)
        except CoreError as error:
            logger.warning(
                "a summary that was asked for was not made",
                extra={"session_id": session_id, "error": str(error)},
            )


def _unfinished(session_id: str, *, stopping: bool) -> Problem:
    if stopping:
        return problem(
            "stopping",
            "the gateway is stopping; ask again when it runs",
            extra={"session_id": session_id},
        )
    return problem(
        "timeout",
        "the summary was not done within the server's request timeout; it goes on:"
        " `context` will show it",
        extra={"session_id": session_id},
    )
