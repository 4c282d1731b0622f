"""What a server asks, as the protocol's client receives it, given to the call that it belongs to.

Imports `mcp`, which takes half a second: nothing but `wire` imports this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeAlias

from mcp.client import ClientRequestContext, ClientSession
from mcp.client.session import MessageHandlerFnT
from mcp_types import (
    INVALID_REQUEST,
    CreateMessageRequest,
    CreateMessageResult,
    ElicitRequest,
    ElicitResult,
    ErrorData,
    Implementation,
    InputRequest,
    InputRequiredResult,
    InputResponse,
    ListRootsRequest,
    ListRootsResult,
)
from pydantic import BaseModel

from everturn_actors.json_values import as_object, is_list, is_object
from everturn_gateway.tools.mcp.errors import McpError
from everturn_gateway.tools.mcp.requests.values import (
    ELICIT,
    RefusedError,
    Response,
    ServerQuestions,
    ServerRequest,
)
from everturn_gateway.tools.mcp.transports.sifting import Sifting

Asker: TypeAlias = Callable[[ServerRequest], Awaitable[Response]]
"Answers what a server asks in one call."

_CALL: Final[ContextVar[Asker | None]] = ContextVar("everturn_mcp_call", default=None)
"The call on whose own stream something came: what came over HTTP carries it, stdio has one stream."
_URLS_MOST: Final = 5


class AskedSession(ClientSession):
    """The protocol's client, which is asked in the middle of calls."""

    def __init__(
        self,
        *,
        dispatcher: Sifting,
        message_handler: MessageHandlerFnT,
        client_info: Implementation,
        may_sample: bool,
        roots: Response | None,
    ) -> None:
        """Say to the server what it may ask for.

        Args:
            dispatcher: Carries the messages.
            message_handler: Hears what the server says by itself.
            client_info: Who this is.
            may_sample: Whether the server may use a model.
            roots: Where the server works; None = it is not told.
        """
        super().__init__(
            dispatcher=dispatcher,
            message_handler=message_handler,
            client_info=client_info,
            # What is asked does not come to these: they only say to the server that it may ask.
            elicitation_callback=_never,
            sampling_callback=_never if may_sample else None,
            list_roots_callback=_never if roots is not None else None,
        )
        self._roots = roots
        self._open: list[Asker] = []

    @contextmanager
    def asking(self, asker: Asker | None) -> Generator[None]:
        """Give what the server asks in the middle of a call of this task to `asker`."""
        if asker is None:
            yield
            return
        token = _CALL.set(asker)
        self._open.append(asker)
        try:
            yield
        finally:
            self._open.remove(asker)
            _CALL.reset(token)

    async def dispatch_input_request(
        self, ctx: ClientRequestContext, request: InputRequest
    ) -> InputResponse | ErrorData:
        """Answer what the server asks while a call is open."""
        if isinstance(request, ListRootsRequest) and self._roots is not None:
            return ListRootsResult.model_validate(self._roots)
        asker = _CALL.get() or (self._open[0] if len(self._open) == 1 else None)
        if asker is None:
            why = "several calls are at work" if self._open else "no call is at work"
            return ErrorData(code=INVALID_REQUEST, message=f"{why}: nobody knows whom to ask")
        try:
            response = await asker(asked(request))
        except McpError as error:
            return ErrorData(code=INVALID_REQUEST, message=str(error))
        return _RESPONSES[request.method].model_validate(response)


_RESPONSES: Final[dict[str, type[ElicitResult | CreateMessageResult | ListRootsResult]]] = {
    "elicitation/create": ElicitResult,
    "sampling/createMessage": CreateMessageResult,
    "roots/list": ListRootsResult,
}


def asked(request: ElicitRequest | CreateMessageRequest | ListRootsRequest) -> ServerRequest:
    """Return a request as the rest of the gateway knows it."""
    params: BaseModel | None = request.params
    if params is None:
        return ServerRequest(method=request.method)
    found = params.model_dump(by_alias=True, mode="json", exclude_none=True)
    return ServerRequest(method=request.method, params=found)


def wanted_of(result: InputRequiredResult) -> ServerQuestions:
    """Return what a server wants to know before it answers."""
    requests = {key: asked(each) for key, each in (result.input_requests or {}).items()}
    return ServerQuestions(requests=requests, state=result.request_state)


def pages_of(data: object) -> ServerQuestions | None:
    """Return the pages that a person has to open before a call is made again; None where none.

    Source: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
    """
    pages = as_object(data).get("elicitations")
    found = [each for each in pages[:_URLS_MOST] if is_object(each)] if is_list(pages) else []
    requests = {
        str(number): ServerRequest(method=ELICIT, params={**each, "mode": "url"})
        for number, each in enumerate(found)
    }
    return ServerQuestions(requests=requests, is_plain=True) if requests else None


async def _never(*_: object, **__: object) -> ErrorData:
    raise RefusedError
