"""Sessions: begin, list, look, reset, delete."""

from __future__ import annotations

import uuid
from typing import Annotated, Protocol

from fastapi import APIRouter, Query
from starlette.responses import Response

from everturn_actors.errors import UnknownSessionError
from everturn_actors.model import ConversationKey
from everturn_actors.service import Copied, TurnService
from everturn_gateway.http.access.callers import CallerOf
from everturn_gateway.http.access.visibility import check_agent, own_key, sees_state, session_filter
from everturn_gateway.http.live.overviews import ListQuery, read_overviews
from everturn_gateway.http.openapi import SessionId, problems
from everturn_gateway.http.ports import HasAgents, HasSessions
from everturn_gateway.http.problems import ProblemError, problem
from everturn_gateway.http.schemas.base import answer
from everturn_gateway.http.schemas.sessions import (
    ForkPoint,
    LabelsBody,
    NewSession,
    OverviewList,
    SessionBody,
    SessionList,
    SessionRow,
)
from everturn_gateway.principals import Principal


class Host(HasAgents, HasSessions, Protocol):
    """The parts of the gateway that are used here."""


def sessions_router(gateway: Host) -> APIRouter:
    """Return the routes under `/api/v1/sessions` that treat a session as a whole."""
    router = APIRouter(prefix="/api/v1/sessions", tags=["sessions"])
    service = gateway.service

    @router.post(
        "",
        status_code=201,
        response_model=SessionBody,
        responses={
            200: {"model": SessionBody, "description": "The conversation's session goes on"},
            **problems(404, 507),
        },
    )
    async def create_session(body: NewSession, caller: CallerOf) -> Response:
        """Begin a session, or find the one of a conversation that you named."""
        check_agent(caller, gateway.library, body.agent)
        session_id, is_new = await _begun(service, body, caller)
        state = await service.view(session_id)
        if not sees_state(caller, state):  # somebody who operates began it under this name
            raise UnknownSessionError(session_id)
        return answer(
            SessionBody.of(state),
            201 if is_new else 200,
            {"Location": f"/api/v1/sessions/{session_id}"},
        )

    _add_list(router, gateway)
    _add_labels(router, service)
    _add_fork(router, service)

    @router.get("/{session_id}", response_model=SessionBody, responses=problems(404))
    async def get_session(session_id: SessionId) -> Response:
        """Tell how a session stands."""
        state = await service.view(session_id)
        return answer(SessionBody.of(state, service.activity.waiting_for(session_id)))

    @router.delete("/{session_id}", status_code=204, responses=problems(404))
    async def delete_session(session_id: SessionId) -> Response:
        """Remove a session and everything that belongs to it."""
        await service.delete(session_id)
        gateway.changes.gone(session_id)
        return Response(status_code=204)

    @router.post("/{session_id}/reset", status_code=204, responses=problems(404, 409))
    async def reset_session(session_id: SessionId, caller: CallerOf) -> Response:
        """End a session; its conversation starts a new one with the next message."""
        await service.reset(session_id, by=caller.name)
        return Response(status_code=204)

    return router


def _add_labels(router: APIRouter, service: TurnService) -> None:
    @router.patch("/{session_id}", response_model=SessionBody, responses=problems(404, 507))
    async def label_session(session_id: SessionId, body: LabelsBody, caller: CallerOf) -> Response:
        """Give a session a title, pin it, archive it, or take that back; also after its end."""
        await service.conversations.label(
            session_id, title=body.title, pinned=body.pinned, archived=body.archived, by=caller.name
        )
        state = await service.view(session_id)
        return answer(SessionBody.of(state, service.activity.waiting_for(session_id)))


def _add_fork(router: APIRouter, service: TurnService) -> None:
    """Add the route that begins a session with the history of another."""

    @router.post(
        "/{session_id}/fork",
        status_code=201,
        response_model=SessionBody,
        responses=problems(404, 409),
    )
    async def fork_session(session_id: SessionId, body: ForkPoint, caller: CallerOf) -> Response:
        """Begin a new session with the history of this one up to an event.

        The session itself stays as it is. No tool runs again: calls without a result there get
        one that says so, and messages that waited are not answered.
        """
        state = await service.view(session_id)
        if body.at_seq > state.last_seq:
            msg = f"the session has {state.last_seq} events"
            raise ProblemError(problem("cannot-fork", msg))
        chat = body.chat or uuid.uuid4().hex
        key = ConversationKey(channel=body.channel, chat=chat, agent=state.key.agent)
        made = await service.branches.begin(
            own_key(caller, key),
            principal=caller.owns_as,
            copied=Copied(session_id=session_id, last=body.at_seq, is_cut=True),
        )
        headers = {"Location": f"/api/v1/sessions/{made}"}
        return answer(SessionBody.of(await service.view(made)), 201, headers)


def _add_list(router: APIRouter, gateway: Host) -> None:
    @router.get("", response_model=SessionList | OverviewList)
    async def list_sessions(
        caller: CallerOf,
        wanted: Annotated[ListQuery, Query()],
    ) -> Response:
        """List the sessions that the caller may see, newest or last used first."""
        allowed = session_filter(caller)
        if wanted.order == "activity":
            return answer(await read_overviews(gateway, wanted, allowed))
        found = await gateway.service.reader.sessions(
            after=wanted.after, limit=wanted.limit + 1, wanted=wanted.within(allowed)
        )
        page = found[: wanted.limit]
        return answer(
            SessionList(
                sessions=tuple(map(SessionRow.row, page)),
                next=page[-1].session_id if len(found) > wanted.limit else None,
            )
        )


async def _begun(service: TurnService, body: NewSession, caller: Principal) -> tuple[str, bool]:
    """Return the session that is asked for, and whether it is a new one."""
    key = ConversationKey(
        channel=body.channel, chat=body.chat or uuid.uuid4().hex, agent=body.agent
    )
    key = own_key(caller, key)
    if body.chat is None:
        return await service.conversations.create(key, principal=caller.owns_as), True
    return await service.conversations.open(key, principal=caller.owns_as)
