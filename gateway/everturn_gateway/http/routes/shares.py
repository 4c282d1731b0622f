"""Who else gets to see a session: give it, take it back."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from fastapi import APIRouter, Path
from starlette.responses import Response

from everturn_gateway.http.access.callers import CallerOf
from everturn_gateway.http.openapi import SessionId, problems
from everturn_gateway.http.ports import HasSessions
from everturn_gateway.http.problems import ProblemError, problem
from everturn_gateway.http.schemas.base import answer
from everturn_gateway.http.schemas.sessions import ShareList
from everturn_gateway.principals import NAME_PATTERN, Principal

PrincipalName: TypeAlias = Annotated[
    str,
    Path(
        description="Name of a principal, as its token was made for it.",
        pattern=rf"^{NAME_PATTERN}$",
        examples=["alice"],
    ),
]
_NOT_YOURS: Final = problem(
    "not-the-owner",
    "only who began a session gives it to others, or somebody who operates the gateway",
)


def shares_router(gateway: HasSessions) -> APIRouter:
    """Return the routes under `/api/v1/sessions/{id}/shares`."""
    router = APIRouter(prefix="/api/v1/sessions/{session_id}/shares", tags=["sessions"])
    service = gateway.service

    @router.put("/{principal}", response_model=ShareList, responses=problems(404, 409, 507))
    async def share_session(
        session_id: SessionId, principal: PrincipalName, caller: CallerOf
    ) -> Response:
        """Give somebody a session to see and to talk in; the same again changes nothing."""
        return await change(session_id, principal, caller, is_withdrawn=False)

    @router.delete("/{principal}", response_model=ShareList, responses=problems(404, 409, 507))
    async def unshare_session(
        session_id: SessionId, principal: PrincipalName, caller: CallerOf
    ) -> Response:
        """Take a session back; what that principal has open of it ends within seconds."""
        return await change(session_id, principal, caller, is_withdrawn=True)

    async def change(
        session_id: str, principal: str, caller: Principal, *, is_withdrawn: bool
    ) -> Response:
        state = await service.view(session_id)
        if not caller.may("operate") and state.principal != caller.name:
            raise ProblemError(_NOT_YOURS)
        shared_with = await service.conversations.share(
            session_id, principal, by=caller.name, is_withdrawn=is_withdrawn
        )
        return answer(ShareList(session_id=session_id, shared_with=shared_with))

    return router
