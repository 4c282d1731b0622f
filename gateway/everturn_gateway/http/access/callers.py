"""Who calls a route, as its function gets to know it."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fastapi import Depends
from starlette.requests import Request

from everturn_gateway.http.access.auth import caller_of
from everturn_gateway.principals import Principal


async def _principal(request: Request) -> Principal:
    return caller_of(request.scope).principal


CallerOf: TypeAlias = Annotated[Principal, Depends(_principal)]
"Whoever sends the request; came past the guard, and has the scope of the route."
