"""What agents used of models, and what that cost."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from everturn_gateway.http.access.callers import CallerOf
from everturn_gateway.http.ports import Gateway
from everturn_gateway.http.schemas.base import answer
from everturn_gateway.http.schemas.usage import UsageReport

DAYS_MAX = 366


def usage_router(gateway: Gateway) -> APIRouter:
    """Return the route `/api/v1/usage`."""
    router = APIRouter(prefix="/api/v1/usage", tags=["usage"])

    @router.get("", response_model=UsageReport)
    async def get_usage(
        caller: CallerOf,
        days: Annotated[
            int, Query(ge=1, le=DAYS_MAX, description="How many days, today (UTC) included.")
        ] = 7,
        agent: Annotated[
            str, Query(max_length=128, description="Of one agent; of all where it is left out.")
        ] = "",
        principal: Annotated[
            str,
            Query(max_length=63, description="What the sessions used that this principal began."),
        ] = "",
    ) -> Response:
        """Tell what agents used of models, by day, agent and model.

        Whoever does not operate the gateway is told of what it used itself, and of nothing else.
        """
        whose = principal or ("" if caller.may("operate") else caller.name)
        if not whose:
            rows = await gateway.usage.rows(days=days, agent=agent)
        elif whose == caller.name or caller.may("operate"):
            rows = await gateway.spending.rows(whose, days=days, agent=agent)
        else:
            rows = ()
        known = tuple(row for row in rows if caller.knows_agent(row.agent))
        return answer(UsageReport.of(known))

    return router
