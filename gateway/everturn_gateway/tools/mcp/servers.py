"""The MCP servers of all agents: who has which, and the tools that come of it."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType

import anyio
import anyio.abc
from msgspec.structs import replace

from everturn_actors.ports import Clock
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.mcp.connection import Connection, McpLimits
from everturn_gateway.tools.mcp.errors import UnknownPromptError
from everturn_gateway.tools.mcp.listing import Listing, Prompt
from everturn_gateway.tools.mcp.names import exposed_names, renamed
from everturn_gateway.tools.mcp.oauth import McpLogins
from everturn_gateway.tools.mcp.prompts import GET
from everturn_gateway.tools.mcp.requests.sampling import SamplingModel
from everturn_gateway.tools.mcp.results import Answer
from everturn_gateway.tools.mcp.settings import McpServerSettings
from everturn_gateway.tools.mcp.tool import McpTool

logger = logging.getLogger(__name__)


class McpToolbox:
    """The MCP tools of one version of an agent."""

    def __init__(
        self,
        connections: Sequence[Connection],
        *,
        taken: Collection[str],
        turn_wait_s: float,
        has_namesakes: bool,
        sampling: Mapping[str, SamplingModel],
    ) -> None:
        self._has_namesakes, self._sampling = has_namesakes, sampling
        self._connections, self._taken = tuple(connections), frozenset(taken)
        self._turn_wait_s = turn_wait_s
        self._made_of: tuple[Listing | None, ...] = ()
        self._tools: Mapping[str, McpTool] = MappingProxyType({})
        self._renamed: tuple[str, ...] = ()
        self._compose()

    @property
    def tools(self) -> Mapping[str, McpTool]:
        """The tools by the name that the model calls, as they were when last prepared."""
        return self._tools

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong with the servers now, one line each; empty where all is well."""
        found = ["two MCP servers have the same name; the first is used"] * self._has_namesakes
        for connection in self._connections:
            lines = [connection.fault] if connection.fault else []
            lines += connection.known.faults if connection.known else ()
            found += [f"MCP server {connection.settings.name!r}: {line}" for line in lines]
        return (*found, *self._renamed)

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """What people may send, by the names `server:prompt`."""
        return tuple(
            replace(prompt, name=f"{connection.settings.name}:{prompt.name}")
            for connection in self._connections
            for prompt in (connection.known.prompts if connection.known else ())
        )

    async def prompt_text(self, name: str, arguments: Mapping[str, str]) -> str:
        """Return the text of a prompt with its places filled in.

        Args:
            name: One of those in `prompts`.
            arguments: What stands in its places.

        Raises:
            UnknownPromptError: There is no such prompt.
            McpError: The server does not say; the text tells why.
        """
        server, _, prompt = name.partition(":")
        for connection in self._connections:
            known = connection.known.prompts if connection.known else ()
            if connection.settings.name == server and any(each.name == prompt for each in known):
                asked: dict[str, object] = {"name": prompt, "arguments": dict(arguments)}
                answer = await connection.call(GET, asked)
                assert isinstance(answer, Answer), "only tools ask"
                return connection.environment.secrets.mask(answer.text)
        raise UnknownPromptError(name, tuple(each.name for each in self.prompts))

    async def prepare(self) -> Mapping[str, McpTool]:
        """Bring the tools up to date before a turn, and return them.

        Servers that are not up are started. Only those whose tools were never listed are waited
        for, side by side, up to a deadline; where all are known this returns at once. A server
        that is down keeps its tools, so that the prompt stays as it is: a call starts it, or says
        why not. Never raises.
        """
        unknown: list[Connection] = []
        for connection in self._connections:
            connection.wake()
            if connection.known is None:
                unknown.append(connection)
        if unknown:
            with anyio.move_on_after(self._turn_wait_s):
                async with anyio.create_task_group() as tasks:
                    for connection in unknown:
                        tasks.start_soon(connection.first_listing)
        self._compose()
        return self._tools

    def _compose(self) -> None:
        """Make the tools of what is known; nothing changes while that does not."""
        known = tuple(connection.known for connection in self._connections)
        if all(a is b for a, b in zip(known, self._made_of, strict=False)) and self._made_of:
            return
        offered = [
            (connection, tool)
            for connection in self._connections
            for tool in (connection.known.tools if connection.known else ())
        ]
        names = exposed_names(
            ((connection.settings.name, tool.name) for connection, tool in offered),
            taken=self._taken,
        )
        self._made_of = known
        before, self._renamed = self._renamed, renamed(names, taken=self._taken)
        for line in self._renamed:
            if line not in before:
                logger.warning("a tool has the name of another", extra={"tool": line})
        self._tools = MappingProxyType(
            {
                name: McpTool(name, tool, connection, self._sampling.get(connection.settings.name))
                for connection, tool in offered
                for name in (names[connection.settings.name, tool.name],)
            }
        )


class McpServers:
    """Every connection of the gateway to an MCP server; one for each agent and server."""

    def __init__(
        self, tasks: anyio.abc.TaskGroup, clock: Clock, limits: McpLimits, logins: McpLogins
    ) -> None:
        self._tasks, self._clock, self._limits, self._logins = tasks, clock, limits, logins
        self._connections: dict[tuple[str, str], Connection] = {}

    def toolbox(
        self,
        environment: ToolEnvironment,
        servers: Sequence[McpServerSettings],
        *,
        taken: Collection[str] = (),
        sampling: Mapping[str, SamplingModel] = MappingProxyType({}),
    ) -> McpToolbox:
        """Return the tools of an agent that has these servers from now on.

        Connections that stay as they were are kept; those of servers that are gone or set
        otherwise are closed once no call is at work in them. Nothing is started yet.

        Args:
            environment: Where the agent works.
            servers: In the order in which their tools are offered. Of two with the same name
                there is the first.
            taken: Names of the agent's other tools, which no tool of a server gets.
            sampling: The models that servers may use, by the server's name.
        """
        named: dict[str, McpServerSettings] = {}
        for settings in servers:
            named.setdefault(settings.name, settings)
        connections = [self._connection(environment, settings) for settings in named.values()]
        for key in [key for key in self._connections if key[0] == environment.agent]:
            if self._connections[key] not in connections:
                self._connections.pop(key).retire()
        return McpToolbox(
            connections,
            taken=taken,
            turn_wait_s=self._limits.turn_wait_s,
            has_namesakes=len(named) < len(servers),
            sampling=sampling,
        )

    def retire(self, agent: str) -> None:
        """Close the servers of an agent that is gone, once no call is at work in them."""
        for key in [key for key in self._connections if key[0] == agent]:
            self._connections.pop(key).retire()

    def _connection(self, environment: ToolEnvironment, settings: McpServerSettings) -> Connection:
        key = (environment.agent, settings.name)
        found = self._connections.get(key)
        if found is not None:
            if found.settings == settings and _is_same(found.environment, environment):
                return found
            found.retire()
        for secret in settings.secrets():
            environment.secrets.add(secret)
        made = Connection(
            settings,
            environment,
            tasks=self._tasks,
            clock=self._clock,
            limits=self._limits,
            logins=self._logins,
        )
        self._connections[key] = made
        return made

    def close(self) -> None:
        """End every server."""
        for connection in self._connections.values():
            connection.close()


def _is_same(one: ToolEnvironment, other: ToolEnvironment) -> bool:
    """Return whether a server that runs at one site is the one that would run at the other."""
    return (one.home, one.files, one.environ) == (other.home, other.files, other.environ)


@asynccontextmanager
async def open_mcp(
    *, clock: Clock, logins: McpLogins, limits: McpLimits | None = None
) -> AsyncGenerator[McpServers]:
    """Yield what holds the gateway's MCP servers; when the block ends, none of them runs.

    Nothing is started or imported until an agent that has a server begins a turn.
    """
    async with anyio.create_task_group() as tasks:
        servers = McpServers(tasks, clock, limits or McpLimits(), logins)
        try:
            yield servers
        finally:
            servers.close()
            tasks.cancel_scope.cancel()
