"""Is it alive, does it take messages, which version is it."""

from __future__ import annotations

from typing import Protocol

from fastapi import APIRouter
from starlette.responses import Response

from everturn_actors.state.serialization import utc_text
from everturn_gateway.http.access.callers import CallerOf
from everturn_gateway.http.openapi import problems
from everturn_gateway.http.ports import HasRuns
from everturn_gateway.http.probes import ProbedHost, liveness, readiness
from everturn_gateway.http.schemas.base import answer
from everturn_gateway.http.schemas.health import ReadyBody, StatusBody, VersionBody


class Host(ProbedHost, HasRuns, Protocol):
    """The parts of the gateway that are used here."""


def health_router(gateway: Host) -> APIRouter:
    """Return the routes for whoever watches the process."""
    router = APIRouter(tags=["health"])

    @router.get("/livez", response_model=StatusBody)
    async def livez() -> Response:
        """Answer as long as the process lives. Needs no token."""
        return liveness()

    @router.get("/readyz", response_model=ReadyBody, responses=problems(503))
    async def readyz(caller: CallerOf) -> Response:
        """Answer 200 while messages are taken and kept, on all channels too, else 503.

        Long tasks that are down are named; one that no message needs leaves it at 200. So do
        single chats in which nothing can be taken: their messages stay with the platform. Whoever
        does not operate the whole gateway is told of neither by name.
        """
        return await readiness(gateway, caller)

    @router.get("/version", response_model=VersionBody)
    async def version() -> Response:
        """Tell which version runs, and since when."""
        return answer(VersionBody(version=gateway.version, started_at=utc_text(gateway.started_at)))

    return router
