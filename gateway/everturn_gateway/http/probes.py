"""What whoever watches the process asks: is it alive, does it take messages, what does it count.

FastAPI declares and describes these routes (`routes/health.py`, `routes/metrics.py`); they are
answered without it, so that a gateway that is only watched never loads it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from everturn_channels.health import ChannelStatus
from everturn_gateway.http.access.auth import caller_of
from everturn_gateway.http.ports import HasChannels, HasDiagnostics, HasSessions
from everturn_gateway.http.problems import Problem, ProblemError, problem, problem_response
from everturn_gateway.http.schemas.base import answer
from everturn_gateway.http.schemas.health import ReadyBody, StatusBody, TaskBody
from everturn_gateway.principals import Principal

_NOT_READY = problem("not-ready", "the gateway is starting or stopping; try again later")


class ProbedHost(HasChannels, HasDiagnostics, HasSessions, Protocol):
    """The parts of the gateway that are used here."""


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


def liveness() -> Response:
    """Answer as long as the process lives."""
    return answer(StatusBody(status="ok"))


async def readiness(gateway: ProbedHost, caller: Principal) -> Response:
    """Answer while messages are taken and kept, with details for whoever operates the gateway.

    Raises:
        ProblemError: They are not (503).
    """
    if not gateway.ready():
        raise ProblemError(_NOT_READY)
    if caller.sees_all:
        return await _details(gateway)
    try:
        await _details(gateway)
    except ProblemError:
        raise ProblemError(_NO_DETAILS) from None  # names of channels and tasks are the operator's
    return answer(
        ReadyBody(status="ready", tasks=(), restarts={}, blocked_chats={}, quarantined_sessions=0)
    )


async def exposition(gateway: ProbedHost, request: Request) -> Response:
    """Answer with the metrics, in the format that the scraper asks for."""
    told = await gateway.telemetry.exposition(request.headers.get("accept", ""))
    # As it is: the media type says its charset already.
    return Response(told.body, headers={"Content-Type": told.content_type})


async def _details(gateway: ProbedHost) -> Response:
    tasks = tuple(map(TaskBody.of, gateway.supervisor.down()))
    if any(each.needed for each in tasks):  # one that no message needs is named, and nothing more
        raise ProblemError(_stuck(tasks))
    if fault := await gateway.journal_fault():
        raise ProblemError(_unwritable(fault))
    if troubled := gateway.channels.troubled():
        raise ProblemError(_deaf(troubled))  # a load balancer should send nobody here
    statuses = gateway.channels.statuses()
    blocked = {each.name: each.blocked_count for each in statuses if each.blocked_count}
    return answer(
        ReadyBody(
            status="ready",
            tasks=tasks,
            restarts=dict(sorted(gateway.supervisor.restarts().items())),
            blocked_chats=blocked,
            quarantined_sessions=gateway.service.activity.quarantined,
            homes_away=gateway.homes_away(),
            node_differences=gateway.node_differences(),
            refused_keys=gateway.refused_keys(),
        )
    )


async def _livez(gateway: ProbedHost, request: Request) -> Response:
    del gateway, request
    return liveness()


async def _readyz(gateway: ProbedHost, request: Request) -> Response:
    return await readiness(gateway, caller_of(request.scope).principal)


class _Probe(Struct, frozen=True):
    """A route, as far as whoever measures requests asks for one."""

    path: str
    app: ASGIApp


class Probes:
    """Answers probes, and hands everything else on. Plain ASGI."""

    def __init__(
        self, app: ASGIApp, gateway: ProbedHost, protect: Callable[[ASGIApp, str, str], ASGIApp]
    ) -> None:
        """Stand in front of the API.

        Args:
            app: The API.
            gateway: What is asked about.
            protect: Puts the rule of a route around what answers it.
        """
        self._app, self._gateway = app, gateway
        self._probes = {
            path: _Probe(path, protect(partial(self._answer, ask), "GET", path))
            for path, ask in (("/livez", _livez), ("/readyz", _readyz), ("/metrics", exposition))
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        # Answered before FastAPI is loaded.
        probe = self._probes.get(scope["path"]) if scope["method"] == "GET" else None
        if probe is None:
            await self._app(scope, receive, send)
            return
        scope["path_params"], scope["route"] = {}, probe
        try:
            await probe.app(scope, receive, send)
        except ProblemError as error:
            await problem_response(error.problem, scope)(scope, receive, send)

    async def _answer(
        self,
        ask: Callable[[ProbedHost, Request], Awaitable[Response]],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        response = await ask(self._gateway, Request(scope, receive))
        await response(scope, receive, send)
