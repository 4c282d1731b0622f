"""A session as a file, as it was or for people to read."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Final

import orjson
from anyio.to_thread import run_sync
from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from everturn_actors.events import Event
from everturn_actors.gaps import jumps
from everturn_actors.service import TurnService
from everturn_actors.state.serialization import encode_event
from everturn_gateway.http.live.markdown import ExportFormat, MarkdownExport
from everturn_gateway.http.live.openai_export import OpenAIExport
from everturn_gateway.http.openapi import SessionId, download, problems
from everturn_gateway.http.ports import HasSessions
from everturn_gateway.http.schemas.messages import GapBody
from everturn_gateway.http.uploads import download_headers

PAGE_EVENTS: Final = 200  # in memory at a time
_TYPES: Final = {
    "markdown": ("md", "text/markdown; charset=utf-8"),
    "jsonl": ("jsonl", "application/x-ndjson"),
    "openai": ("openai.jsonl", "application/x-ndjson"),
}


_TEXT: Final = {"schema": {"type": "string"}}


def exports_router(gateway: HasSessions) -> APIRouter:
    """Return the route `/api/v1/sessions/{id}/export`."""
    router = APIRouter(prefix="/api/v1/sessions/{session_id}", tags=["sessions"])
    service = gateway.service

    @router.get(
        "/export",
        response_class=Response,
        responses={
            **download(
                "The session, as a download",
                {kind.partition(";")[0]: _TEXT for _, kind in _TYPES.values()},
            ),
            **problems(404),
        },
    )
    async def export_session(
        session_id: SessionId,
        form: Annotated[
            ExportFormat,
            Query(
                alias="format",
                description="markdown: for people. jsonl: the events as in the log, one a line; a"
                " line of the type `gap` says which are no longer kept, and why. openai: one line"
                " with the messages of OpenAI's chat format.",
            ),
        ] = "markdown",
    ) -> Response:
        """Write a session out from its first event to its last of now."""
        end = (await service.view(session_id)).last_seq
        ending, media_type = _TYPES[form]
        headers = {**download_headers(f"{session_id}.{ending}"), "Cache-Control": "no-store"}
        pages = _pages(service, session_id, end)
        if form == "markdown":
            written = _markdown(pages, end)
        elif form == "openai":
            written = _openai(pages)
        else:
            written = _lines(service, session_id, pages, end)
        # What cannot be read is said in place of the file; once that has begun, nothing can be.
        first = await anext(written, b"")
        return StreamingResponse(_all(first, written), headers=headers, media_type=media_type)

    return router


async def _all(first: bytes, rest: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    async with aclosing(rest):
        yield first
        async for each in rest:
            yield each


async def _pages(
    service: TurnService, session_id: str, end: int
) -> AsyncGenerator[tuple[Event, ...]]:
    """Yield the events up to `end`, oldest first; what comes meanwhile is not among them."""
    after = 0
    while after < end:
        page = await service.history(session_id, after=after, limit=min(PAGE_EVENTS, end - after))
        if not page:
            return
        after = page[-1].seq
        yield page


async def _markdown(pages: AsyncGenerator[tuple[Event, ...]], end: int) -> AsyncGenerator[bytes]:
    export = MarkdownExport()
    async with aclosing(pages):
        async for page in pages:
            yield await run_sync(_told, export, page)
    yield export.missing(end + 1).encode()


async def _openai(pages: AsyncGenerator[tuple[Event, ...]]) -> AsyncGenerator[bytes]:
    export = OpenAIExport()
    async with aclosing(pages):
        async for page in pages:
            for event in page:
                export.read(event)
    yield await run_sync(export.line)


async def _lines(
    service: TurnService, session_id: str, pages: AsyncGenerator[tuple[Event, ...]], end: int
) -> AsyncGenerator[bytes]:
    last = 0
    async with aclosing(pages):
        async for page in pages:
            numbers = [event.seq for event in page]
            yield await _gaps(service, session_id, jumps(numbers, after=last))
            yield await run_sync(_recorded, page)
            last = numbers[-1]
    if last < end:
        yield await _gaps(service, session_id, [(last + 1, end)])


def _told(export: MarkdownExport, page: tuple[Event, ...]) -> bytes:
    # Halves of characters, which a model may have written, are no UTF-8.
    return "".join(map(export.write, page)).encode(errors="replace")


def _recorded(page: tuple[Event, ...]) -> bytes:
    return b"".join(encode_event(event) + b"\n" for event in page)


async def _gaps(service: TurnService, session_id: str, runs: list[tuple[int, int]]) -> bytes:
    """Return lines for runs of events that are not kept; they stand before what follows them."""
    gaps = await service.reader.explain_gaps(session_id, runs) if runs else ()
    return b"".join(
        orjson.dumps({"type": "gap", **GapBody.of(gap).model_dump()}) + b"\n" for gap in gaps
    )
