"""Cleaning by `sessions.keep`, and erasing what a person said."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

from anyio.to_thread import run_sync
from fastapi import APIRouter
from msgspec import structs
from starlette.responses import Response

from everturn_actors.errors import CoreError
from everturn_gateway.http import sse
from everturn_gateway.http.openapi import event_stream, problems
from everturn_gateway.http.ports import Gateway
from everturn_gateway.http.schemas.base import answer
from everturn_gateway.http.schemas.maintenance import CleaningPlan, CleaningStep, PersonToErase
from everturn_gateway.http.sse import EventStream, WriteNow
from everturn_gateway.http.waiting import OpenWaits
from everturn_gateway.late_loading import late

if TYPE_CHECKING:
    from everturn_gateway.retention import erasing
    from everturn_gateway.retention.cleaning import Cleaner
    from everturn_gateway.retention.scrubbing import Person
else:
    erasing = late("everturn_gateway.retention.erasing")


def maintenance_router(gateway: Gateway, waits: OpenWaits) -> APIRouter:
    """Return the routes `/api/v1/admin/clean` and `/api/v1/admin/erase`."""
    router = APIRouter(prefix="/api/v1/admin", tags=["administration"])

    @router.get("/clean", response_model=CleaningPlan)
    async def plan_cleaning() -> Response:
        """List what `sessions.keep` would have go now; nothing is changed."""
        cleaner = await run_sync(gateway.cleaner)
        steps = await cleaner.plan()
        return answer(
            CleaningPlan(
                is_set=cleaner.keep().is_set,
                steps=tuple(map(CleaningStep.of, steps)),
                size_bytes=sum(step.size_bytes for step in steps),
            )
        )

    @router.post(
        "/clean",
        response_class=Response,
        responses={**event_stream("Server-sent events: step, done"), **problems(503)},
    )
    async def clean() -> Response:
        """Let go now of what `sessions.keep` allows, as the gateway does once a day."""
        waits.check_follower()
        return EventStream(partial(_cleaning, await run_sync(gateway.cleaner)), waits)

    @router.post(
        "/erase",
        response_class=Response,
        responses={**event_stream("Server-sent events: looked, done, failed"), **problems(503)},
    )
    async def erase(body: PersonToErase) -> Response:
        """Erase what a person said, in all sessions, pinned ones too.

        Run again, it does what is left. A client that goes away stops it between two sessions.
        """
        eraser = await run_sync(gateway.eraser)
        person = erasing.person_of(body.person)
        waits.check_follower()
        return EventStream(partial(_erasing, eraser, person), waits)

    return router


async def _cleaning(cleaner: Cleaner, write_now: WriteNow) -> AsyncGenerator[bytes]:
    del write_now  # what takes a while need not be faster
    yield sse.greeting()
    gone = stayed = size = 0
    try:
        async with aclosing(cleaner.clean()) as steps:
            async for each in steps:
                gone, stayed = gone + each.is_gone, stayed + (not each.is_gone)
                size += each.step.size_bytes if each.is_gone else 0
                data = {
                    **CleaningStep.of(each.step).model_dump(),
                    "done": each.done,
                    "total": each.total,
                    "is_gone": each.is_gone,
                }
                yield sse.message("step", data)
    except CoreError as error:
        yield sse.message("failed", {"detail": str(error)})
        return
    yield sse.message("done", {"removed": gone, "stayed": stayed, "size_bytes": size})


async def _erasing(
    eraser: erasing.Eraser, person: Person, write_now: WriteNow
) -> AsyncGenerator[bytes]:
    del write_now
    yield sse.greeting()
    last: dict[str, object] = {}
    try:
        async with aclosing(eraser.erase(person)) as looks:
            async for each in looks:
                last = structs.asdict(each)
                yield sse.message("looked", {"looked": each.looked})
    except CoreError as error:
        yield sse.message("failed", {"detail": str(error)})
        return
    yield sse.message("done", last)
