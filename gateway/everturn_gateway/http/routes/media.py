"""Files that came with messages."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from everturn_gateway.http.openapi import SessionId, problems
from everturn_gateway.http.ports import Gateway
from everturn_gateway.http.problems import ProblemError, problem
from everturn_gateway.http.uploads import (
    SAFE_TYPES,
    UNKNOWN_TYPE,
    download_headers,
    download_type,
)

_BYTES = {"schema": {"type": "string", "format": "binary"}}


def media_router(gateway: Gateway) -> APIRouter:
    """Return the route that gives files of a session back."""
    router = APIRouter(prefix="/api/v1/sessions/{session_id}", tags=["messages"])
    service = gateway.service

    @router.get(
        "/media/{name}",
        response_class=Response,
        responses={
            200: {
                "description": "The file, as a download",
                "content": dict.fromkeys((*SAFE_TYPES, UNKNOWN_TYPE), _BYTES),
            },
            **problems(404),
        },
    )
    async def get_media(
        session_id: SessionId,
        name: Annotated[str, Path(description="`name` of an attachment.", max_length=100)],
    ) -> Response:
        """Give back a file that came with a message."""
        found = await service.reader.media(session_id, name)
        if found is None:
            raise ProblemError(
                problem("unknown-media", f"the session keeps no file {name!r}, or no longer does")
            )
        attachment, data = found
        # Not as `media_type`: to some of them a charset would be added that nobody knows.
        headers = {**download_headers(attachment), "Content-Type": download_type(attachment)}
        return Response(data, headers=headers)

    return router
