"""Sessions as resources of MCP: their list, and their messages page by page."""

from __future__ import annotations

import re
from typing import Final

import orjson
from mcp import MCPError
from mcp_types import (
    INVALID_PARAMS,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from everturn_actors.errors import UnknownSessionError
from everturn_actors.ports import SessionSummary
from everturn_channels.terminal.client import HISTORY_MAX, Said
from everturn_gateway.client import SessionClient

PAGE: Final = 50  # sessions
JSON: Final = "application/json"
TEMPLATE: Final = "everturn://sessions/{session}{?after}"
_URI: Final = re.compile(r"everturn://sessions/([^/?#]+)(?:\?after=m(\d{1,15}))?")


async def list_sessions(client: SessionClient, cursor: str) -> ListResourcesResult:
    """Return a page of the sessions that the caller may see, newest first."""
    found = await client.sessions(after=cursor, limit=PAGE)
    more = found[-1].session_id if len(found) == PAGE else None
    return ListResourcesResult(resources=[*map(_resource, found)], next_cursor=more)


def templates() -> ListResourceTemplatesResult:
    """Return how the address of a session is made."""
    template = ResourceTemplate(
        name="session",
        title="A session's messages",
        uri_template=TEMPLATE,
        description=f"Up to {HISTORY_MAX} messages, oldest first; `next` is the address of more.",
        mime_type=JSON,
    )
    return ListResourceTemplatesResult(resource_templates=[template])


async def read_session(client: SessionClient, uri: str) -> ReadResourceResult:
    """Return messages of a session.

    Raises:
        MCPError: There is no such resource that the caller may see.
    """
    found = _URI.fullmatch(uri)
    if found is None:
        raise _unknown(uri)
    session_id, after = found[1], int(found[2] or 0)
    try:
        page = await client.history.messages(session_id, after=after)
    except UnknownSessionError:
        raise _unknown(uri) from None
    is_full = sum(said.role != "gap" for said in page) >= HISTORY_MAX
    body = {
        "session": session_id,
        "messages": [*map(_message, page)],
        "next": _address(session_id, f"?after=m{page[-1].seq}") if is_full else None,
    }
    text = orjson.dumps(body).decode()
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=JSON, text=text)])


def _resource(session: SessionSummary) -> Resource:
    return Resource(
        name=session.session_id,
        title=f"{session.key.agent}, {session.created_at:%Y-%m-%d %H:%M} UTC",
        uri=_address(session.session_id),
        description=f"{session.status}; last used {session.updated_at:%Y-%m-%d %H:%M} UTC",
        mime_type=JSON,
    )


def _message(said: Said) -> dict[str, str | None]:
    at = said.at.isoformat() if said.at else None
    return {"id": f"m{said.seq}", "at": at, "role": said.role, "text": said.text}


def _address(session_id: str, query: str = "") -> str:
    return f"everturn://sessions/{session_id}{query}"


def _unknown(uri: str) -> MCPError:
    return MCPError(INVALID_PARAMS, f"there is no resource {uri}", {"uri": uri})
