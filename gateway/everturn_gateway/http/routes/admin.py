"""For who runs the gateway. Closed beyond loopback unless an admin token is set."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from everturn_gateway.http.bodies import (
    AdminAgentBody,
    AdminAgentList,
    AgentBody,
    FaultBody,
    ReloadBody,
    answer,
)
from everturn_gateway.http.ports import AgentView, Gateway


def admin_router(gateway: Gateway) -> APIRouter:
    """Return the routes under `/api/v1/admin`."""
    router = APIRouter(prefix="/api/v1/admin", tags=["administration"])
    library = gateway.library

    @router.post("/reload", response_model=ReloadBody)
    async def reload() -> Response:
        """Read the agents folder again; an agent that is not valid keeps its former version."""
        return answer(ReloadBody.of(await library.reload()))

    @router.get("/agents", response_model=AdminAgentList)
    async def list_agents() -> Response:
        """List all agents with their folders, and everything that is wrong in them."""
        return answer(
            AdminAgentList(
                agents=tuple(_admin_agent(library.file(name)) for name in library.names()),
                faults=tuple(map(FaultBody.of, library.faults())),
            )
        )

    return router


def _admin_agent(agent: AgentView) -> AdminAgentBody:
    return AdminAgentBody(**AgentBody.of(agent).model_dump(), folder=str(agent.folder))
