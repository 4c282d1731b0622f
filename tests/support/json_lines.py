"""A program that speaks JSON-RPC in lines to a command, and looks at the gateway over HTTP."""

from __future__ import annotations

import json
from typing import Any

import httpx2


def line(method: str, params: object) -> str:
    """Return a request, as a line; its id is its method."""
    return json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params}) + "\n"


async def until(
    http: httpx2.AsyncClient, session: str, name: str, *, count: int = 1
) -> dict[str, Any]:
    """Wait for an event of a session and return it.

    Args:
        http: Leads to the gateway.
        session: Which session.
        name: Of the event.
        count: How many of this name there have to be.
    """
    async with http.sse(f"/api/v1/sessions/{session}/events") as events:
        async for event in events:
            count -= event.event == name
            if not count:
                found: dict[str, Any] = json.loads(event.data)
                return found
    raise AssertionError
