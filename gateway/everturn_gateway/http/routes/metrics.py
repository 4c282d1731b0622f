"""The metrics of the gateway, for whoever scrapes them."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from everturn_gateway.http.probes import ProbedHost, exposition

_TEXT: Final = {"schema": {"type": "string"}}
_ANSWERS: Final[dict[int | str, dict[str, object]]] = {
    200: {
        "description": "Prometheus' text format, or OpenMetrics where `Accept` names it.",
        "content": {"text/plain": _TEXT, "application/openmetrics-text": _TEXT},
    }
}


def metrics_router(gateway: ProbedHost) -> APIRouter:
    """Return the route that Prometheus scrapes."""
    router = APIRouter(tags=["health"])

    @router.get("/metrics", response_class=Response, responses=_ANSWERS)
    async def metrics(request: Request) -> Response:
        """Tell what was counted and measured since the start, and how things stand."""
        return await exposition(gateway, request)

    return router
