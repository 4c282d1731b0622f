"""What an MCP client can ask: the agents as tools, the sessions as resources."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar
from uuid import uuid4

import anyio
import msgspec
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
    Tool,
)

from everturn_actors.errors import CoreError, InvalidInputError
from everturn_actors.model import ConversationKey
from everturn_actors.supervisor import attempt
from everturn_channels.errors import ChannelError
from everturn_channels.terminal.conversation import Conversation
from everturn_gateway.client import SessionClient
from everturn_gateway.client.agents import AgentSummary, list_agents
from everturn_gateway.mcp_server import resources
from everturn_gateway.mcp_server.agent_call import RESULT_SCHEMA, AgentCall
from everturn_gateway.mcp_server.elicitation import Round, answer_in, decision_of, round_of
from everturn_gateway.mcp_server.link import Connect, Context, Link

T = TypeVar("T")

logger = logging.getLogger(__name__)

NAME: Final = "everturn"
CHANNEL: Final = "http"  # whose conversations those of MCP clients are
STOP_S: Final = 10.0  # for closing a turn that its client cancels
_INSTRUCTIONS: Final = (
    "Each tool asks one agent of this Everturn gateway, and answers when its turn is done. Give"
    " `session` of an answer with the next question to go on with the same conversation. The"
    " resources are the sessions, with their messages."
)
_NO_TOOL_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]")
_DESCRIPTION_CHARACTERS: Final = 1000


class _Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a call of an agent takes."""

    text: str
    session: str = ""


_ARGUMENTS_SCHEMA: Final[dict[str, object]] = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "minLength": 1, "description": "What to ask the agent."},
        "session": {
            "type": "string",
            "description": "Goes on in this session, as an earlier answer named it."
            " Without it a new conversation begins.",
        },
    },
    "required": ["text"],
    "additionalProperties": False,
}


def make_server(connect: Connect, *, version: str) -> Server[dict[str, object]]:
    """Return the server of MCP.

    Args:
        connect: Opens the way of one request to the gateway.
        version: Of this program.
    """
    # Its lines at INFO name the sessions of clients, whose ids should stay between the two.
    logging.getLogger("mcp").setLevel(logging.WARNING)
    handlers = _Handlers(connect)
    server = Server(
        NAME,
        title="Everturn",
        version=version,
        instructions=_INSTRUCTIONS,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_resource_templates,
        on_read_resource=handlers.read_resource,
    )
    server.middleware.clear()  # a turn is traced, not the request that brought its message
    return server


class _Begun(msgspec.Struct):
    """How far a call of an agent has come, for when it is cancelled."""

    session_id: str = ""
    seq: int = 0


class _Handlers:
    """One method for each request of the protocol."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect

    async def list_tools(
        self, ctx: Context, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        """Return the agents that the caller may talk to; all on one page."""
        del params

        async def work(link: Link) -> ListToolsResult:
            agents = await list_agents(link.api)
            return ListToolsResult(tools=[_tool(name, each) for name, each in _named(agents)])

        return await self._answered(ctx, work)

    async def call_tool(
        self, ctx: Context, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        """Ask an agent. A cancelled request stops the turn; a client that leaves does not."""
        begun = _Begun()
        left: list[Callable[[], bool]] = []

        async def work(link: Link) -> CallToolResult | InputRequiredResult:
            left.append(link.has_left)
            try:
                return await _ask_agent(ctx, link, params, begun)
            except (CoreError, ChannelError) as error:  # the client's model may do better
                return CallToolResult(content=[TextContent(text=str(error))], is_error=True)

        try:
            return await self._answered(ctx, work)
        except anyio.get_cancelled_exc_class():
            if begun.seq and not any(has_left() for has_left in left):
                with anyio.move_on_after(STOP_S, shield=True):
                    await self._stop(ctx, begun)
            raise

    async def list_resources(
        self, ctx: Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """Return a page of the sessions that the caller may see."""
        cursor = (params.cursor if params else None) or ""
        return await self._answered(
            ctx, lambda link: resources.list_sessions(SessionClient(link.api), cursor)
        )

    async def list_resource_templates(
        self, ctx: Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """Return how the address of a session is made."""
        del ctx, params
        return resources.templates()

    async def read_resource(
        self, ctx: Context, params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        """Return messages of a session."""
        return await self._answered(
            ctx, lambda link: resources.read_session(SessionClient(link.api), str(params.uri))
        )

    async def _answered(self, ctx: Context, work: Callable[[Link], Awaitable[T]]) -> T:
        """Return what `work` gives, with a link to the gateway.

        Raises:
            MCPError: The gateway refuses, or failed; nothing of a fault is told but that.
        """
        done: list[T] = []

        async def run(link: Link) -> None:
            done.append(await work(link))

        failure: Exception | None = None
        async with self._connect(ctx) as link:
            failure = await attempt(partial(run, link))  # a task group around would wrap it
        match failure:
            case None:
                return done[0]
            case MCPError():
                raise failure
            case InvalidInputError():
                raise MCPError(INVALID_PARAMS, str(failure)) from failure
            case CoreError() | ChannelError():
                raise MCPError(INTERNAL_ERROR, str(failure)) from failure
            case _:
                logger.error("a request of an MCP client failed", exc_info=failure)
                msg = "the gateway failed while it handled this request; its log says why"
                raise MCPError(INTERNAL_ERROR, msg) from failure

    async def _stop(self, ctx: Context, begun: _Begun) -> None:
        async def stop(link: Link) -> None:
            conversation = Conversation(SessionClient(link.api), session_id=begun.session_id)
            await conversation.stop(begun.seq)

        try:
            await self._answered(ctx, stop)
        except MCPError as error:
            logger.warning(
                "a cancelled turn may go on",
                extra={"session_id": begun.session_id, "reason": error.message},
            )


def _named(agents: tuple[AgentSummary, ...]) -> list[tuple[str, AgentSummary]]:
    """Return each agent with the name of its tool; no two are the same."""
    named: dict[str, AgentSummary] = {}
    for agent in agents:
        name = f"ask_{_NO_TOOL_NAME.sub('_', agent.name)}"[:128]
        while name in named:
            name = f"{name[:127]}_"
        named[name] = agent
    return [*named.items()]


def _tool(name: str, agent: AgentSummary) -> Tool:
    about = f"Asks the agent {agent.name}. {agent.description}".strip()
    return Tool(
        name=name,
        title=agent.name,
        description=about[:_DESCRIPTION_CHARACTERS],
        input_schema=_ARGUMENTS_SCHEMA,
        output_schema=RESULT_SCHEMA,
    )


async def _ask_agent(
    ctx: Context, link: Link, params: CallToolRequestParams, begun: _Begun
) -> CallToolResult | InputRequiredResult:
    """Hand in the message, or go on where a question was asked, and follow the turn."""
    agents = dict(_named(await list_agents(link.api)))
    agent = agents.get(params.name)
    if agent is None:
        msg = f"there is no tool {params.name!r}; there are: {', '.join(agents) or 'none'}"
        raise MCPError(INVALID_PARAMS, msg)
    if params.request_state is not None:
        state = round_of(params.request_state)
        begun.session_id, begun.seq = state.session, state.seq
        return await _go_on(ctx, link, params, state)
    asked, client = _arguments(params.arguments or {}), SessionClient(link.api)
    key = link.repeat_key or uuid4().hex
    session_id = await _session(client, agent.name, asked.session, chat=f"mcp/{key}")
    conversation = Conversation(client, session_id=session_id, new_id=lambda: key)
    begun.session_id = session_id
    # A message that is accepted while its request is cancelled has to be known, to be stopped.
    with anyio.CancelScope(shield=True):
        begun.seq = await conversation.hand_in(asked.text)
    return await AgentCall(ctx, link, conversation, begun.seq).run()


async def _session(client: SessionClient, agent: str, session_id: str, *, chat: str) -> str:
    """Return the session to go on in; a new one where none is named.

    Raises:
        InvalidInputError: It belongs to another agent.
    """
    if not session_id:
        return await client.open(ConversationKey(channel=CHANNEL, chat=chat, agent=agent))
    status = await client.status(session_id)
    if status.key.agent != agent:
        msg = f"the session {session_id} belongs to the agent {status.key.agent!r}"
        raise InvalidInputError(msg)
    return session_id


async def _go_on(
    ctx: Context, link: Link, params: CallToolRequestParams, state: Round
) -> CallToolResult | InputRequiredResult:
    conversation = Conversation(SessionClient(link.api), session_id=state.session)
    answer = answer_in(params.input_responses)
    decided = decision_of(answer) if answer is not None else (None, "")
    dismissed = state.dismissed
    if decided[0] is None:
        dismissed += (f"{state.call_id}:{state.arguments_hash}",)
    call = AgentCall(
        ctx, link, conversation, state.seq, seen_seq=state.seen_seq, dismissed=dismissed
    )
    await call.decide(decided, state)
    return await call.run()


def _arguments(given: dict[str, object]) -> _Arguments:
    """Return the arguments of a call.

    Raises:
        InvalidInputError: They are not as the tool's schema says.
    """
    try:
        asked = msgspec.convert(given, _Arguments)
    except msgspec.ValidationError as error:
        msg = f"the arguments are not as the tool's schema says: {error}"
        raise InvalidInputError(msg) from None
    if not asked.text.strip():
        msg = "the text is empty"
        raise InvalidInputError(msg)
    return asked
