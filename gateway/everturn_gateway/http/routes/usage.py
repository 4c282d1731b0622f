"""What agents used of models, and what that cost."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from everturn_gateway.http.bodies import answer
from everturn_gateway.http.ports import Gateway
from everturn_gateway.http.usage_bodies import UsageReport

DAYS_MAX = 366


def usage_router(gateway: Gateway) -> APIRouter:
    """Return the route `/api/v1/usage`."""
    router = APIRouter(prefix="/api/v1/usage", tags=["usage"])

    @router.get("", response_model=UsageReport)
    async def get_usage(
        days: Annotated[
            int, Query(ge=1, le=DAYS_MAX, description="How many days, today (UTC) included.")
        ] = 7,
        agent: Annotated[
            str, Query(max_length=128, description="Of one agent; of all where it is left out.")
        ] = "",
    ) -> Response:
        """Tell what agents used of models, by day, agent and model."""
        return answer(UsageReport.of(await gateway.usage.rows(days=days, agent=agent)))

    return router
