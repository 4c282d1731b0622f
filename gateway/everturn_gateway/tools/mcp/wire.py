"""The protocol, through the official client: hands are shaken, tools listed and called.

The only module through which the rest of the gateway reaches `mcp`. It takes half a second and
26 MB to import, so it is imported when the first server is started, in a thread.

A server that speaks 2025-11-25 or older is met with `initialize`, one that speaks 2026-07-28 alone
then with `server/discover`. Not the other way round: servers in use end at a first message that
they do not know.
"""

from __future__ import annotations

import logging
import re
from base64 import b64decode
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread
import msgspec
from mcp import MCPError
from mcp.client import ClientSession, IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
    URL_ELICITATION_REQUIRED,
    BlobResourceContents,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequest,
    GetPromptRequestParams,
    GetPromptResult,
    ImageContent,
    Implementation,
    InputRequiredResult,
    PaginatedRequestParams,
    PromptListChangedNotification,
    ReadResourceRequest,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
    TextResourceContents,
    ToolListChangedNotification,
)
from mcp_types import Tool as WireTool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec.structs import replace
from pydantic import BaseModel, TypeAdapter, ValidationError

from everturn_actors.json_values import as_object
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.mcp import prompts, resources
from everturn_gateway.tools.mcp.errors import (
    McpAnswerError,
    McpError,
    McpExpiredError,
    McpGoneError,
    McpHttpError,
    McpRefusedError,
    McpStartError,
)
from everturn_gateway.tools.mcp.listing import (
    Listing,
    Prompt,
    RemoteDefinition,
    listing_of,
    shortened,
)
from everturn_gateway.tools.mcp.oauth import McpLogins
from everturn_gateway.tools.mcp.oauth.renewal import LoginAuth
from everturn_gateway.tools.mcp.requests.incoming import (
    AskedSession,
    Asker,
    pages_of,
    wanted_of,
)
from everturn_gateway.tools.mcp.requests.values import NOTHING, Result, Sent, roots_of
from everturn_gateway.tools.mcp.results import Answer
from everturn_gateway.tools.mcp.settings import McpServerSettings
from everturn_gateway.tools.mcp.transports.sifting import Sifting
from everturn_gateway.tools.mcp.transports.stdio import NO_MESSAGE, UNUSABLE, open_stdio
from everturn_gateway.tools.mcp.transports.streamable import EXPIRED, STATUS, open_streamable
from everturn_gateway.tools.mcp.transports.streams import Incoming, Outgoing, Traffic

PAGES_MOST: Final = 32  # of a list of tools
REFUSAL_CHARACTERS: Final = 2000  # of what a server says with an error
_WHO: Final = Implementation(name="everturn", version=version("everturn"))
_RESULT: Final[TypeAdapter[CallToolResult | InputRequiredResult]] = TypeAdapter(
    CallToolResult | InputRequiredResult
)

# How the protocol's client puts what happened on this side; the codes are also used by servers.
_LOST: Final = ("Connection closed", "SSE stream")
_UNREADABLE: Final = ("Failed to parse", "Error parsing")
_OURS: Final = re.compile(
    r"its answer (?:has more than \d+ MiB|holds more than [\d,]+ values); ask for less"
    r"|its answer broke off"
)

ResultT = TypeVar("ResultT")

logger = logging.getLogger(__name__)

# What goes wrong with a server is told by us, once and bounded; the client would log a traceback
# for each line that a server writes wrongly.
for _noisy in ("mcp", "client"):
    logging.getLogger(_noisy).setLevel(logging.CRITICAL)


class WireSession:
    """One connection on which hands were shaken. Its methods may run side by side."""

    def __init__(
        self,
        client: AskedSession,
        dispatcher: Sifting,
        outgoing: Outgoing,
        traffic: Traffic,
        settings: McpServerSettings,
    ) -> None:
        self._client, self._dispatcher, self._settings = client, dispatcher, settings
        self._outgoing, self._traffic = outgoing, traffic

    @property
    def protocol(self) -> str:
        """The revision of the protocol that both speak."""
        return self._client.protocol_version or ""

    @property
    def why(self) -> str:
        """Why the connection ended; empty while it has not."""
        return self._traffic.why

    @property
    def words(self) -> str:
        """What the server said at its end."""
        return self._traffic.words

    def cut(self) -> None:
        """Send nothing more, so that nothing holds up the end."""
        self._outgoing.cut()

    async def listing(self) -> Listing:
        """Return the tools of the server that the agent is offered.

        Raises:
            McpError: They cannot be had.
        """
        offers = self._client.server_capabilities
        has_resources = offers is not None and offers.resources is not None
        tools: list[RemoteDefinition] = []
        cursor: str | None = None
        self._dispatcher.faults.clear()
        # A server of resources alone does not know the request for a list of tools.
        pages = 0 if has_resources and offers and offers.tools is None else PAGES_MOST
        for _ in range(pages):
            after = PaginatedRequestParams(cursor=cursor)
            page = await self._asked(partial(self._client.list_tools, params=after))
            tools += map(_definition, page.tools)
            cursor = page.next_cursor
            if not cursor:
                break
        else:
            if pages:
                self._dispatcher.faults.append(
                    f"only the first {PAGES_MOST} pages of its list are read"
                )
        if has_resources:
            tools += resources.DEFINITIONS
        found: tuple[Prompt, ...] = ()
        if offers is not None and offers.prompts is not None:
            try:
                found = await self._list_prompts()
            except (McpAnswerError, McpHttpError, McpRefusedError) as error:
                # They are for people to choose; the tools are none the worse.
                self._dispatcher.faults.append(f"its prompts cannot be listed: {error}")
        listing = listing_of(tools, self._settings, self._dispatcher.faults)
        return replace(listing, prompts=found)

    async def _list_prompts(self) -> tuple[Prompt, ...]:
        """Return the prompts of the server by name: as many as a person looks through."""
        found: dict[str, Prompt] = {}
        cursor: str | None = None
        for _ in range(PAGES_MOST):
            after = PaginatedRequestParams(cursor=cursor)
            page = await self._asked(partial(self._client.list_prompts, params=after))
            for each in page.prompts:
                found.setdefault(each.name, msgspec.convert(_plain(each), Prompt))
            cursor = page.next_cursor
            if not cursor or len(found) >= prompts.PROMPTS_MOST:
                break
        return tuple(found[name] for name in sorted(found)[: prompts.PROMPTS_MOST])

    async def call(
        self,
        name: str,
        arguments: dict[str, Any],
        *,
        asker: Asker | None = None,
        sent: Sent = NOTHING,
    ) -> Result:
        """Call a tool, or return what the server wants to know first. Cancellation stops it.

        Args:
            name: As the server calls it.
            arguments: Of the call.
            asker: Answers what the server asks while the call is open; None = nobody does.
            sent: What it wanted to know.

        Raises:
            McpError: There is no result, or none that can be used.
        """
        if name == resources.LIST:
            return await self._list_resources(arguments.get("cursor"))
        if name == resources.READ:
            return await self._read_resource(arguments.get("uri"))
        if name == prompts.GET:
            return await self._prompt(arguments)
        params = CallToolRequestParams.model_validate(
            {
                "name": name,
                "arguments": arguments,
                "inputResponses": sent.responses or None,
                "requestState": sent.state,
            }
        )
        # Not `call_tool`: it also judges the result by a schema of the server's, which may be one
        # that takes for ever, and which nobody here relies on.
        request = CallToolRequest(params=params)
        try:
            with self._client.asking(asker):
                result = await self._asked(partial(self._client.send_request, request, _RESULT))
        except McpRefusedError as error:
            if error.code == URL_ELICITATION_REQUIRED and (pages := pages_of(error.data)):
                return pages
            raise
        if isinstance(result, InputRequiredResult):
            return wanted_of(result)
        text = "".join(part.text for part in result.content if isinstance(part, TextContent))
        images = [part.data for part in result.content if isinstance(part, ImageContent)]
        return await _answer(text, images, is_error=bool(result.is_error))

    async def _list_resources(self, cursor: object) -> Answer:
        after = PaginatedRequestParams(cursor=cursor if isinstance(cursor, str) else None)
        page = await self._asked(partial(self._client.list_resources, params=after))
        found: list[dict[str, Any]] = [_plain(each) for each in page.resources]
        templates: list[dict[str, object]] = []
        if not after.cursor:
            try:
                more = await self._asked(self._client.list_resource_templates)
                templates = [_plain(each) for each in more.resource_templates]
            except McpRefusedError:
                pass  # it has none
        return Answer(text=resources.page_text(found, templates, page.next_cursor))

    async def _prompt(self, asked: Mapping[str, Any]) -> Answer:
        params = GetPromptRequestParams(name=asked["name"], arguments=asked["arguments"])
        request = GetPromptRequest(params=params)
        result = await self._asked(partial(self._client.send_request, request, GetPromptResult))
        said = (each.content for each in result.messages)
        return Answer(text="".join(part.text for part in said if isinstance(part, TextContent)))

    async def _read_resource(self, uri: object) -> Answer:
        if not isinstance(uri, str):
            raise McpRefusedError(words="uri has to be a text", code=INVALID_PARAMS)
        request = ReadResourceRequest(params=ReadResourceRequestParams(uri=uri))
        result = await self._asked(partial(self._client.send_request, request, ReadResourceResult))
        text = "".join(c.text for c in result.contents if isinstance(c, TextResourceContents))
        images = [c.blob for c in result.contents if isinstance(c, BlobResourceContents)]
        return await _answer(text, images)

    async def ping(self) -> None:
        """Return when the server has shown that it is there.

        Raises:
            McpError: It is not.
        """
        try:
            if self.protocol in MODERN_PROTOCOL_VERSIONS:
                await self._asked(self._client.list_tools)
            else:
                await self._asked(self._client.send_ping)
        except McpRefusedError:
            pass  # who refuses is there

    async def watch(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` when the server says that its tools changed, for as long as it can.

        Servers of older revisions say so without being asked.
        """
        capabilities = self._client.server_capabilities
        tools = capabilities.tools if capabilities is not None else None
        if tools is None or not tools.list_changed:
            return
        try:
            async with listen(self._client, tools_list_changed=True) as changes:
                async for _ in changes:
                    on_change()
        except ListenNotSupportedError:
            pass
        except (MCPError, SubscriptionLost) as error:
            extra = {"server": self._settings.name, "error": str(error)}
            logger.debug("MCP server tells no more of changes to its tools", extra=extra)

    async def _asked(self, ask: Callable[[], Awaitable[ResultT]]) -> ResultT:
        try:
            return await ask()
        except MCPError as error:
            raise _failure(error, self._traffic) from error
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            msg = f"its answer does not follow the protocol: {place}: {first['msg']}"
            raise McpAnswerError(msg) from error


def _failure(error: MCPError, traffic: Traffic) -> McpError:
    """Return what an error of the protocol's client means."""
    data = as_object(error.data)
    status = data.get(STATUS)
    if data.get(UNUSABLE) is True:
        return McpAnswerError(error.message)
    if data.get(EXPIRED) is True:
        return McpExpiredError("its session has expired")
    if isinstance(status, int):
        return McpHttpError(error.message, status=status)
    if error.code in {CONNECTION_CLOSED, PARSE_ERROR} and (ours := _OURS.search(error.message)):
        return McpAnswerError(ours[0])
    if error.message.startswith(_UNREADABLE):
        return McpAnswerError(NO_MESSAGE)
    if traffic.why or error.message.startswith(_LOST):
        why = traffic.why or "the connection ended before it answered"
        return McpGoneError(why, words=traffic.words)
    words = error.message.strip() or f"error {error.code}"
    return McpRefusedError(words=words[:REFUSAL_CHARACTERS], code=error.code, data=error.data)


async def _answer(text: str, images: Sequence[str], *, is_error: bool = False) -> Answer:
    found = await anyio.to_thread.run_sync(_decoded, images) if images else ()
    return Answer(text=text, is_error=is_error, images=found)


def _plain(entry: BaseModel) -> dict[str, object]:
    return entry.model_dump(by_alias=True, mode="json", exclude_none=True)


def _decoded(images: Sequence[str]) -> tuple[bytes, ...]:
    """Return images as bytes; what is no base64 is an image without any."""
    found: list[bytes] = []
    for data in images:
        try:
            found.append(b64decode(data))
        except ValueError:
            found.append(b"")
    return tuple(found)


def _definition(tool: WireTool) -> RemoteDefinition:
    hints = tool.annotations
    return RemoteDefinition(
        name=tool.name,
        description=shortened(tool.description or ""),
        parameters=tool.input_schema,
        read_only=bool(hints and hints.read_only_hint),
        repeatable=bool(hints and hints.idempotent_hint),
    )


@asynccontextmanager
async def open_session(
    settings: McpServerSettings,
    environment: ToolEnvironment,
    logins: McpLogins,
    *,
    on_change: Callable[[], None],
    on_end: Callable[[], None],
) -> AsyncGenerator[WireSession]:
    """Start or reach a server and shake hands with it.

    Args:
        settings: The server.
        environment: Where the agent works.
        logins: At servers that ask for one.
        on_change: Called when the server says that its tools changed.
        on_end: Called when the connection has ended by itself; `why` then says why.

    Raises:
        McpError: The server cannot be started or reached, or is none.
    """
    traffic = Traffic(on_end)

    async def hear(message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification | PromptListChangedNotification):
            on_change()
        await anyio.lowlevel.checkpoint()

    async with AsyncExitStack() as stack:
        auth = None if settings.is_signed else LoginAuth(settings.url, logins)
        transport = open_stdio(settings, environment, traffic) if settings.command else None
        incoming, outgoing = await stack.enter_async_context(
            transport or open_streamable(settings, auth)
        )
        sending = Outgoing(outgoing, traffic)
        dispatcher = Sifting(Incoming(incoming, traffic), sending)
        client = AskedSession(
            dispatcher=dispatcher,
            message_handler=hear,
            client_info=_WHO,
            may_sample=settings.sampling is not None,
            roots=roots_of(settings, environment),
        )
        await stack.enter_async_context(client)
        try:
            await _shake_hands(client)
        except MCPError as error:
            failure = _failure(error, traffic)
            if isinstance(failure, McpRefusedError):
                msg = "it refuses to begin"
                raise McpStartError(msg, words=failure.words) from error
            raise failure from error
        yield WireSession(client, dispatcher, sending, traffic, settings)


async def _shake_hands(client: ClientSession) -> None:
    try:
        try:
            await client.initialize()
        except MCPError as error:
            if error.code not in {UNSUPPORTED_PROTOCOL_VERSION, METHOD_NOT_FOUND}:
                raise
            await client.discover()
    except ValidationError as error:
        msg = "what it answers is not the Model Context Protocol"
        raise McpStartError(msg) from error
    except RuntimeError as error:
        # So the client says that the revisions of both do not meet.
        msg = "it speaks no revision of the protocol that is known here"
        raise McpStartError(msg, words=str(error)) from error
