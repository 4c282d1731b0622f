"""Is it alive, does it take messages, which version is it."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter
from starlette.responses import Response

from everturn_actors.state.serialization import utc_text
from everturn_channels.health import ChannelStatus
from everturn_gateway.http.access.callers import CallerOf
from everturn_gateway.http.openapi import problems
from everturn_gateway.http.ports import Gateway
from everturn_gateway.http.problems import Problem, ProblemError, problem
from everturn_gateway.http.schemas.base import answer
from everturn_gateway.http.schemas.health import ReadyBody, StatusBody, TaskBody, VersionBody

_NOT_READY = problem("not-ready", "the gateway is starting or stopping; try again later")


def _deaf(channels: Sequence[ChannelStatus]) -> Problem:
    """Return the problem of channels that do not receive."""
    told = (f"{each.name} ({each.error or each.state})" for each in channels)
    return problem(
        "channels-not-ready",
        f"messages are not received on: {'; '.join(told)}",
        extra={"channels": [each.name for each in channels]},
    )


def _stuck(tasks: Sequence[TaskBody]) -> Problem:
    """Return the problem of tasks without which no message is taken."""
    told = (f"{each.name} ({each.error})" for each in tasks if each.needed)
    return problem(
        "tasks-down",
        f"messages are not taken without: {'; '.join(told)}",
        extra={"tasks": [each.model_dump() for each in tasks]},
    )


_NO_DETAILS = problem(
    "not-ready", "messages are not taken on all ways; whoever operates the gateway is told why"
)


def _unwritable(fault: str) -> Problem:
    """Return the problem of a disk that takes nothing."""
    return problem("journal-not-writable", f"messages are refused: {fault}")


def health_router(gateway: Gateway) -> APIRouter:
    """Return the routes for whoever watches the process."""
    router = APIRouter(tags=["health"])

    @router.get("/livez", response_model=StatusBody)
    async def livez() -> Response:
        """Answer as long as the process lives. Needs no token."""
        return answer(StatusBody(status="ok"))

    @router.get("/readyz", response_model=ReadyBody, responses=problems(503))
    async def readyz(caller: CallerOf) -> Response:
        """Answer 200 while messages are taken and kept, on all channels too, else 503.

        Long tasks that are down are named; one that no message needs leaves it at 200. So do
        single chats in which nothing can be taken: their messages stay with the platform. Whoever
        does not operate the whole gateway is told of neither by name.
        """
        if not gateway.ready():
            raise ProblemError(_NOT_READY)
        if caller.sees_all:
            return await details()
        try:
            await details()
        except ProblemError:
            raise ProblemError(_NO_DETAILS) from None
        return answer(
            ReadyBody(
                status="ready", tasks=(), restarts={}, blocked_chats={}, quarantined_sessions=0
            )
        )

    async def details() -> Response:
        tasks = tuple(map(TaskBody.of, gateway.supervisor.down()))
        if any(each.needed for each in tasks):
            raise ProblemError(_stuck(tasks))
        if fault := await gateway.journal_fault():
            raise ProblemError(_unwritable(fault))
        if troubled := gateway.channels.troubled():
            raise ProblemError(_deaf(troubled))
        statuses = gateway.channels.statuses()
        blocked = {each.name: each.blocked_count for each in statuses if each.blocked_count}
        return answer(
            ReadyBody(
                status="ready",
                tasks=tasks,
                restarts=dict(sorted(gateway.supervisor.restarts().items())),
                blocked_chats=blocked,
                quarantined_sessions=gateway.service.activity.quarantined,
            )
        )

    @router.get("/version", response_model=VersionBody)
    async def version() -> Response:
        """Tell which version runs, and since when."""
        return answer(VersionBody(version=gateway.version, started_at=utc_text(gateway.started_at)))

    return router
