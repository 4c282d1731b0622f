"""What goes to and fro when a server asks something in the middle of a call. Pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

import anyio
from msgspec import Struct, field

from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.mcp.errors import McpError
from everturn_gateway.tools.mcp.results import Answer
from everturn_gateway.tools.mcp.settings import McpServerSettings

ELICIT: Final = "elicitation/create"
SAMPLE: Final = "sampling/createMessage"
ROOTS: Final = "roots/list"

Response: TypeAlias = Mapping[str, object]
"What a request is answered with, as the protocol has it."


class RefusedError(McpError):
    """What a server asks is refused; the text says why, for the server and for the model."""


class ServerRequest(Struct, frozen=True, kw_only=True):
    """Something that a server asks."""

    method: str
    params: dict[str, object] = field(default_factory=dict[str, object])


class ServerQuestions(Struct, frozen=True, kw_only=True):
    """What a server wants to know before it answers a call that is made again then."""

    requests: dict[str, ServerRequest]
    state: str | None = None
    "Goes back to the server as it is."
    is_plain: bool = False
    "Whether the call is made again as it was: the server learns of the answers in another way."


class Sent(Struct, frozen=True, kw_only=True):
    """What goes with a call that is made again."""

    responses: dict[str, Response] = field(default_factory=dict[str, Response])
    state: str | None = None


NOTHING: Final = Sent()


def roots_of(settings: McpServerSettings, environment: ToolEnvironment) -> Response | None:
    """Return what a server that asks where it works is told; None = one elsewhere, nothing.

    A program on this machine is told the agent's workspace.
    """
    if not settings.command:
        return None
    return {"roots": [{"uri": environment.files.as_uri(), "name": "workspace"}]}


Respond: TypeAlias = Callable[[ServerRequest, anyio.Event], Awaitable[Response]]
"""Answers a request of an open call; the event is set when the server does not wait any more.

Raises:
    RefusedError: It is refused.
"""

Result: TypeAlias = Answer | ServerQuestions
