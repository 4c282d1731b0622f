"""For who runs the gateway. Closed beyond loopback unless an admin token is set."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Annotated, Protocol

from fastapi import APIRouter, Query
from starlette.responses import Response

from everturn_gateway.http import sse
from everturn_gateway.http.openapi import event_stream, problems
from everturn_gateway.http.ports import AgentView, HasAgents, HasDiagnostics, HasRuns, HasSessions
from everturn_gateway.http.schemas.agents import (
    AdminAgentBody,
    AdminAgentList,
    AgentBody,
    FaultBody,
    ReloadBody,
)
from everturn_gateway.http.schemas.base import answer
from everturn_gateway.http.schemas.health import NodeBody, NodeList, StartBody, StartList
from everturn_gateway.http.schemas.log import (
    LEVELS,
    LevelName,
    LogRecordBody,
    RecentRecords,
)
from everturn_gateway.http.schemas.models import KnownModelBody, KnownModelList
from everturn_gateway.http.sse import EventStream, WriteNow
from everturn_gateway.http.waiting import OpenWaits
from everturn_gateway.logs import RECENT_RECORDS
from everturn_gateway.model_statistics import KnownModel


class Host(HasAgents, HasDiagnostics, HasRuns, HasSessions, Protocol):
    """The parts of the gateway that are used here."""


def admin_router(gateway: Host, waits: OpenWaits) -> APIRouter:
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

    @router.get("/starts", response_model=StartList)
    async def list_starts() -> Response:
        """List when the gateway was started, the last start first, and what was before each."""
        return answer(StartList(starts=tuple(map(StartBody.of, gateway.starts.newest()))))

    @router.get("/nodes", response_model=NodeList)
    async def list_nodes() -> Response:
        """List the gateways that share the store, and who of them does what."""
        nodes = tuple(NodeBody.of(node, gateway.node) for node in gateway.nodes())
        homes = dict(gateway.homes())
        return answer(NodeList(nodes=nodes, homes=homes, differences=gateway.node_differences()))

    @router.get("/models", response_model=KnownModelList)
    async def list_models() -> Response:
        """List what was learnt about the models that agents used."""
        return answer(_models(gateway.models.known()))

    @router.delete("/models", response_model=KnownModelList)
    async def forget_models(
        model: Annotated[
            str,
            Query(max_length=300, description="`openai/gpt-5`, or `gpt-5`; empty: all models."),
        ] = "",
        endpoint: Annotated[
            str, Query(max_length=2000, description="Its address; empty: at all addresses.")
        ] = "",
    ) -> Response:
        """Forget what refusals taught of models; the answer has those that were concerned."""
        return answer(_models(gateway.models.forget(model, endpoint)))

    @router.post(
        "/doctor",
        response_class=Response,
        responses={**event_stream("Server-sent events: finding, done"), **problems(503)},
    )
    async def examine() -> Response:
        """Look at the gateway and its workspace, as `everturn doctor` does; repairs nothing.

        What is found comes as it is found. One look at a time.
        """
        waits.check_follower()
        return EventStream(partial(_findings, gateway), waits)

    _add_log(router, gateway)
    return router


def _add_log(router: APIRouter, gateway: Host) -> None:
    @router.get("/log", response_model=RecentRecords)
    async def read_recent_log(
        level: Annotated[LevelName, Query(description="Only records from this level on.")] = "info",
        after: Annotated[
            int, Query(ge=0, le=2**53, description="Only records above this number.")
        ] = 0,
        limit: Annotated[int, Query(ge=1, le=RECENT_RECORDS)] = 200,
    ) -> Response:
        """Read what the gateway logged last, without secrets; it keeps 1,000 records."""
        log = gateway.recent_log
        last = log.last
        found = log.since(after, level=LEVELS[level], limit=limit)
        records = tuple(map(LogRecordBody.of, found))
        return answer(
            RecentRecords(
                records=records,
                last=max([last, *(each.number for each in records[-1:])]),
                boot=gateway.changes.boot,
            )
        )


async def _findings(gateway: Host, write_now: WriteNow) -> AsyncGenerator[bytes]:
    del write_now  # what takes a while need not be faster
    yield sse.greeting()
    problems_found = 0
    async with aclosing(gateway.examine()) as findings:
        async for each in findings:
            problems_found += each.verdict == "problem"
            data = {"verdict": each.verdict, "subject": each.subject, "text": each.text}
            yield sse.message("finding", data)
    yield sse.message("done", {"problems": problems_found})


def _models(known: tuple[KnownModel, ...]) -> KnownModelList:
    return KnownModelList(models=tuple(map(KnownModelBody.of, known)))


def _admin_agent(agent: AgentView) -> AdminAgentBody:
    return AdminAgentBody(**AgentBody.of(agent).model_dump(), folder=str(agent.folder))
