"""Which model answers in a session."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from everturn_gateway.http.access.callers import CallerOf
from everturn_gateway.http.openapi import SessionId, problems
from everturn_gateway.http.ports import Gateway
from everturn_gateway.http.schemas.base import answer
from everturn_gateway.http.schemas.session_models import ChosenModelBody, SessionModelBody


def session_models_router(gateway: Gateway) -> APIRouter:
    """Return the routes `/api/v1/sessions/{id}/model`."""
    router = APIRouter(prefix="/api/v1/sessions/{session_id}/model", tags=["sessions"])

    @router.get("", response_model=SessionModelBody, responses=problems(404))
    async def get_session_model(session_id: SessionId) -> Response:
        """Return which model answers in a session, and which others there are."""
        state = await gateway.service.view(session_id)
        models = await gateway.model_choices.of(state.key.agent)
        return answer(SessionModelBody.of(models, state.model))

    @router.put("", response_model=SessionModelBody, responses=problems(404, 409, 422, 507))
    async def choose_session_model(
        session_id: SessionId, body: ChosenModelBody, caller: CallerOf
    ) -> Response:
        """Have another model answer from the next turn on; empty: the agent's own again."""
        service, choices = gateway.service, gateway.model_choices
        agent = (await service.view(session_id)).key.agent
        model = await choices.named(agent, body.model) if body.model else None
        await service.reader.context_with(session_id, model)  # says whether it would fit
        await service.conversations.choose_model(session_id, model, by=caller.name)
        return answer(SessionModelBody.of(await choices.of(agent), model))

    return router
