"""What agents used of models, and what that cost."""

from __future__ import annotations

from typing import Annotated, Protocol

from fastapi import APIRouter, Query
from starlette.responses import Response

from everturn_gateway.http.access.callers import CallerOf
from everturn_gateway.http.access.visibility import session_filter, visible_agents
from everturn_gateway.http.live.overviews import ListQuery
from everturn_gateway.http.live.used import by_principal, by_schedule, by_session
from everturn_gateway.http.ports import HasAgents, HasSessions, HasUsage
from everturn_gateway.http.schemas.base import answer
from everturn_gateway.http.schemas.usage import GroupedBy, LimitBody, UsageGroups, UsageReport
from everturn_gateway.principals import Principal
from everturn_gateway.usage import DailyLimit

DAYS_MAX = 366


class Host(HasAgents, HasUsage, HasSessions, Protocol):
    """The parts of the gateway that are used here."""


def usage_router(gateway: Host) -> APIRouter:
    """Return the route `/api/v1/usage`."""
    router = APIRouter(prefix="/api/v1/usage", tags=["usage"])

    @router.get("", response_model=UsageReport | UsageGroups)
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
        by: Annotated[
            GroupedBy | None,
            Query(
                description="Instead of days: session, what the 200 sessions used that were used"
                " last in that time, since they began; schedule, what runs of jobs in sessions of"
                " their own used; principal."
            ),
        ] = None,
    ) -> Response:
        """Tell what agents used of models, by day, agent and model, or by another group.

        Whoever does not operate the gateway is told of what it used itself, and of nothing else.
        """
        operates = caller.may("operate")
        whose = principal or ("" if operates else caller.name)
        is_own = operates or whose == caller.name
        if by is None:
            return answer(await _by_day(gateway, caller, days=days, agent=agent, whose=whose))
        wanted = ListQuery(agent=agent).within(session_filter(caller))
        if not is_own:
            groups = UsageGroups(by=by, groups=(), is_partial=False)
        elif by == "session":
            groups = await by_session(gateway, wanted, principal=whose, days=days)
        elif by == "schedule":
            groups = await by_schedule(gateway, wanted, principal=whose, days=days)
        elif caller.agents is None:
            groups = await by_principal(gateway, agent=agent, principal=whose, days=days)
        else:  # what others used of agents that it does not know
            groups = await by_principal(gateway, agent=agent, principal=caller.name, days=days)
        return answer(groups)

    return router


async def _by_day(
    gateway: Host, caller: Principal, *, days: int, agent: str, whose: str
) -> UsageReport:
    if not whose:
        rows = await gateway.usage.rows(days=days, agent=agent)
    elif whose == caller.name or caller.may("operate"):
        rows = await gateway.spending.rows(whose, days=days, agent=agent)
    else:
        rows = ()
    known = tuple(row for row in rows if caller.knows_agent(row.agent))
    return UsageReport.of(known, _limits(gateway, caller, agent) if not whose else ())


def _limits(gateway: Host, caller: Principal, agent: str) -> tuple[LimitBody, ...]:
    """Return the limits of the agents that a caller knows, with what is used of them today."""
    names = visible_agents(caller, gateway.library)
    limits = {name: gateway.library.file(name).limit for name in names if agent in {"", name}}
    return tuple(
        LimitBody.of(name, limit, gateway.usage.today(name))
        for name, limit in limits.items()
        if limit != DailyLimit()
    )
