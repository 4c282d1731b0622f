"""The context of a session: what stands in it, why a request looked as it did, a summary now."""

from __future__ import annotations

import logging
from functools import partial
from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import APIRouter, Path
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response

from everturn_actors.context.explain import Explanation
from everturn_actors.errors import CoreError, SessionEndedError
from everturn_actors.service import TurnService
from everturn_gateway.http.openapi import SessionId, problems
from everturn_gateway.http.ports import Gateway
from everturn_gateway.http.preferences import Prefer, wants_async
from everturn_gateway.http.problems import Problem, ProblemError, problem
from everturn_gateway.http.schemas.base import answer
from everturn_gateway.http.schemas.context import (
    CompactedBody,
    CompactingBody,
    CompactRequest,
    ContextBody,
    ExplanationBody,
)
from everturn_gateway.http.waiting import DEADLINE, OpenWaits, events_path, while_connected

logger = logging.getLogger(__name__)

_NO_FOCUS = CompactRequest()


def context_router(gateway: Gateway, waits: OpenWaits) -> APIRouter:
    """Return the routes under `/api/v1/sessions/{id}` that treat what the model sees."""
    router = APIRouter(prefix="/api/v1/sessions/{session_id}", tags=["context"])
    service = gateway.service

    @router.get("/context", response_model=ContextBody, responses=problems(404, 409))
    async def get_context(session_id: SessionId) -> Response:
        """Tell what the next request would hold, what is hidden, and what comes next."""
        return answer(ContextBody.of(await service.reader.context(session_id)))

    @router.get("/context/{seq}", response_model=ExplanationBody, responses=problems(404, 409))
    async def explain_context(
        request: Request,
        session_id: SessionId,
        seq: Annotated[int, Path(ge=1, le=2**53, description="An event of a turn.", examples=[4])],
    ) -> Response:
        """Explain a past request: the one sent at an event, or next after it in its turn."""
        explain = partial(service.reader.explain, session_id, seq)
        explanation = await while_connected(request, explain)
        # In a thread: it is as long as the session.
        content = await run_sync(_explanation, explanation)
        return Response(content, media_type="application/json")

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

    return router


def _explanation(explanation: Explanation) -> str:
    return ExplanationBody.of(explanation).model_dump_json()


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
