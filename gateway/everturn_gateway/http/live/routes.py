"""What goes on in all sessions: one stream, what waits for a person, and pages of a log."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query
from starlette.responses import Response

from everturn_actors.errors import InvalidInputError
from everturn_gateway.http.access.callers import CallerOf
from everturn_gateway.http.access.visibility import session_filter, visible_session
from everturn_gateway.http.live.log import newest_first, oldest_first
from everturn_gateway.http.live.requests import REQUESTS_MOST, read_requests
from everturn_gateway.http.live.rows import EncodedRows
from everturn_gateway.http.live.search import SearchPage, SearchParameters, search
from everturn_gateway.http.live.states import waiting_approvals
from everturn_gateway.http.live.stream import LiveHost, LiveStream, read_cursor, read_watches
from everturn_gateway.http.openapi import SessionId, event_stream, problems
from everturn_gateway.http.schemas.base import answer
from everturn_gateway.http.schemas.context import RequestList
from everturn_gateway.http.schemas.sessions import ApprovalList, LogPage
from everturn_gateway.http.waiting import OpenWaits

_CURSOR_CHARACTERS = 1024


def live_router(gateway: LiveHost, waits: OpenWaits) -> APIRouter:
    """Return the routes of whoever looks at all sessions."""
    router = APIRouter(prefix="/api/v1", tags=["live"])
    _add_stream(router, gateway, waits)
    _add_approvals(router, gateway)
    _add_log(router, gateway)
    _add_search(router, gateway)
    _add_requests(router, gateway)
    return router


def _add_stream(router: APIRouter, gateway: LiveHost, waits: OpenWaits) -> None:
    """Add the one stream of rows and events."""
    rows = EncodedRows()

    @router.get(
        "/stream",
        response_class=Response,
        responses={
            **event_stream(
                "Server-sent events: hello, rows, event, token, ended, approvals, channels,"
                " schedules"
            ),
            **problems(404, 503),
        },
    )
    async def follow_all(
        caller: CallerOf,
        watch: Annotated[
            tuple[str, ...],
            Query(
                description="Sessions whose events are wanted too, each as `ID:SEQ`: those above"
                " event SEQ. At most 8."
            ),
        ] = (),
        cursor: Annotated[
            str,
            Query(
                max_length=_CURSOR_CHARACTERS,
                description="The id of the last frame that arrived, for who cannot send it as"
                " `Last-Event-ID`.",
            ),
        ] = "",
        last_event_id: Annotated[
            str, Header(alias="Last-Event-ID", max_length=_CURSOR_CHARACTERS)
        ] = "",
    ) -> Response:
        """Follow all sessions that the caller may see, and the events of some of them.

        Looking on changes nothing. `rows` are states: the newest of each session that changed. So
        are `approvals`, `channels` and `schedules`, the last two for who may operate the gateway.
        """
        watches = read_watches(watch)
        if watches is None:
            msg = "watch has to be ID:SEQ, and there may be 8 of them"
            raise InvalidInputError(msg)
        waits.check_follower()
        for each in watches:
            if await visible_session(gateway.service, caller, each.session_id) is None:
                await gateway.service.view(each.session_id)
        place = read_cursor(last_event_id or cursor)
        return LiveStream(gateway, waits, caller, watches, place, rows=rows)


def _add_approvals(router: APIRouter, gateway: LiveHost) -> None:
    @router.get("/approvals", response_model=ApprovalList)
    async def list_approvals(caller: CallerOf) -> Response:
        """List every call that waits for a person, in all sessions that the caller may see."""
        return answer(ApprovalList(approvals=await waiting_approvals(gateway, caller)))


def _add_search(router: APIRouter, gateway: LiveHost) -> None:
    @router.get("/search", response_model=SearchPage)
    async def search_sessions(
        wanted: Annotated[SearchParameters, Query()], caller: CallerOf
    ) -> Response:
        """Search what was said in all sessions that the caller may see."""
        sessions = wanted.within(session_filter(caller))
        return answer(await search(gateway, wanted.query(sessions), sessions, caller))


def _add_log(router: APIRouter, gateway: LiveHost) -> None:
    """Add the route that reads a log from either end."""

    @router.get("/sessions/{session_id}/log", response_model=LogPage, responses=problems(404))
    async def read_log(
        session_id: SessionId,
        before: Annotated[
            int,
            Query(ge=0, le=2**53, description="The last events below this number; 0 = of all."),
        ] = 0,
        after: Annotated[
            int | None,
            Query(ge=0, le=2**53, description="Instead: the first events above this number."),
        ] = None,
        limit: Annotated[int, Query(ge=1, le=500)] = 200,
        types: Annotated[
            str,
            Query(max_length=500, description="Only events of these types, with commas between."),
        ] = "",
    ) -> Response:
        """Read a page of a session's log, from either end."""
        kinds = frozenset(filter(None, types.split(",")))
        service = gateway.service
        if after is not None:
            page = await oldest_first(service, session_id, after=after, limit=limit, types=kinds)
        else:
            page = await newest_first(service, session_id, before=before, limit=limit, types=kinds)
        return answer(page)


def _add_requests(router: APIRouter, gateway: LiveHost) -> None:
    @router.get(
        "/sessions/{session_id}/requests", response_model=RequestList, responses=problems(404)
    )
    async def list_requests(
        session_id: SessionId,
        before: Annotated[
            int,
            Query(ge=0, le=2**53, description="Those begun below this event; 0 = the newest."),
        ] = 0,
        limit: Annotated[int, Query(ge=1, le=REQUESTS_MOST)] = 200,
    ) -> Response:
        """List the requests that a session sent to its model, newest first.

        A page may be short, or empty, where `next` is set: it looks through 10,000 events.
        """
        service = gateway.service
        return answer(await read_requests(service, session_id, before=before, limit=limit))
