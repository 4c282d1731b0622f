"""How a request of an MCP client reaches the gateway."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from hashlib import sha256
from typing import Any, TypeAlias

from mcp.server.context import ServerRequestContext
from msgspec import Struct

from everturn_actors.json_values import Json
from everturn_gateway.client import Api

Context: TypeAlias = ServerRequestContext[Json, Any]
"""One request of a client, as the protocol's library hands it over."""


class Link(Struct, frozen=True, kw_only=True):
    """The HTTP API as the caller of one request may use it."""

    api: Api
    may_approve: bool
    "Whether the caller may answer for calls that wait."
    may_always: bool
    "Whether it may allow such calls for good."
    repeat_key: str
    "Names the request: the same key is the same message. Empty = the protocol has no name for it."
    has_left: Callable[[], bool]
    "Whether the client is gone, where a request ends early. If not, the request was cancelled."


Connect: TypeAlias = Callable[[Context], AbstractAsyncContextManager[Link]]
"""Opens the link of one request."""


def repeat_key(connection: str, ctx: Context) -> str:
    """Return the name of a request, made of its connection and its id there."""
    return sha256(f"{connection}/{ctx.request_id!r}".encode()).hexdigest()[:32]
