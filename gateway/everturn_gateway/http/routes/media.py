"""What a session keeps beside its log: files that came with messages, and large results."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import APIRouter, Path
from starlette.responses import Response

from everturn_gateway.http.openapi import SessionId, download, problems
from everturn_gateway.http.ports import HasSessions
from everturn_gateway.http.problems import ProblemError, problem
from everturn_gateway.http.uploads import (
    SAFE_TYPES,
    UNKNOWN_TYPE,
    download_headers,
    download_type,
)

_BYTES = {"schema": {"type": "string", "format": "binary"}}
_TEXT = {"schema": {"type": "string"}}


def media_router(gateway: HasSessions) -> APIRouter:
    """Return the routes that give files and results of a session back."""
    router = APIRouter(prefix="/api/v1/sessions/{session_id}", tags=["messages"])

    @router.get(
        "/media/{name}",
        response_class=Response,
        responses={
            **download(
                "The file, as a download", dict.fromkeys((*SAFE_TYPES, UNKNOWN_TYPE), _BYTES)
            ),
            **problems(404),
        },
    )
    async def get_media(
        session_id: SessionId,
        name: Annotated[str, Path(description="`name` of an attachment.", max_length=100)],
    ) -> Response:
        """Give back a file that came with a message."""
        found = await gateway.service.reader.media(session_id, name)
        if found is None:
            raise ProblemError(
                problem("unknown-media", f"the session keeps no file {name!r}, or no longer does")
            )
        attachment, data = found
        # Not as `media_type`: to some of them a charset would be added that nobody knows.
        headers = {
            **download_headers(attachment.file_name or name),
            "Content-Type": download_type(attachment),
            # The name is made from the bytes.
            "Cache-Control": "private, max-age=86400, immutable",
        }
        return Response(data, headers=headers)

    @router.get(
        "/results/{name}",
        response_class=Response,
        responses={
            200: {"description": "The text, as a download", "content": {"text/plain": _TEXT}},
            **problems(404),
        },
    )
    async def get_result(
        session_id: SessionId,
        name: Annotated[str, Path(description="`path` of `call_finished`.", max_length=100)],
    ) -> Response:
        """Give back the whole result of a call, where the log keeps only a part."""
        text = await gateway.service.reader.result(session_id, name)
        if text is None:
            raise ProblemError(
                problem(
                    "unknown-result", f"the session keeps no result {name!r}, or no longer does"
                )
            )
        # Halves of characters, which a tool may have given, are no UTF-8.
        data = await run_sync(partial(text.encode, errors="replace"))
        headers = {
            **download_headers(name if name.endswith(".txt") else f"{name}.txt"),
            "Content-Type": "text/plain; charset=utf-8",
            "Cache-Control": "private, no-cache",
        }
        return Response(data, headers=headers)

    return router
