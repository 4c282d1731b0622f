"""The tools of one version of an agent, which may change while it lives."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, ItemsView, Iterator, Mapping
from typing import TypeAlias

from anyio import to_thread

from everturn_actors.ports import Tool
from everturn_gateway.errors import Fault
from everturn_gateway.tools.mcp import McpToolbox, Prompt, UnknownPromptError
from everturn_gateway.tools.searching import ToolSearch

logger = logging.getLogger(__name__)

Found: TypeAlias = tuple[Mapping[str, Tool], tuple[Fault, ...]]
"Tools by name, and what is wrong with those that could not be had."


class Toolbox(Mapping[str, Tool]):
    """Tools by the name that the model calls; a live mapping.

    Its own tools stand first, in the order in which they were given, then those of MCP servers: the
    definitions are the head of every request, and stay as they are while nothing changes. Where
    there are too many, some are deferred: they stand behind two tools that find and call them.
    """

    def __init__(
        self,
        own: Mapping[str, Tool],
        *,
        look: Callable[[], Found],
        connect: Callable[[], McpToolbox] | None,
        guard: Callable[[Tool], Tool],
        hidden: Callable[[], tuple[str, ...]] = tuple,
        search: ToolSearch,
    ) -> None:
        """Hold `own`.

        Args:
            own: The tools, guarded, but for those of MCP servers.
            look: Looks for them anew; reads folders, in a thread.
            connect: Takes over the MCP servers of the agent, in the first turn; None = it has none.
            guard: Puts a tool of a server behind the agent's rules.
            hidden: Says of its own tools which others of them have the names of, one line each.
            search: Decides which are deferred.
        """
        self._own, self._look, self._connect, self._guard = dict(own), look, connect, guard
        self._hidden, self._search = hidden, search
        self._searching = {each.definition.name: guard(each) for each in search.tools}
        self._told: tuple[str, ...] = ()
        self._servers: McpToolbox | None = None
        self._theirs: dict[str, tuple[Tool, Tool]] = {}
        self._all: Mapping[str, Tool] = self._own
        self._compose()

    def __getitem__(self, name: str) -> Tool:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def items(self) -> ItemsView[str, Tool]:
        """Return the tools by name: each turn asks twice, and `Mapping` looks each of them up."""
        return self._all.items()

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong with the tools now, one line each: MCP servers, tools that others hide."""
        return (*(self._servers.faults if self._servers is not None else ()), *self._told)

    def deferred(self) -> Collection[str]:
        """Return the names of the tools that stand in no request; see `Agent.deferred`."""
        return self._search.deferred

    async def prepare(self) -> None:
        """Bring up what the tools need, before a turn; see `Agent.prepare`."""
        if self._connect is not None:
            self._servers, self._connect = self._connect(), None
        if self._servers is not None:
            await self._servers.prepare()
            self._compose()

    async def prompts(self) -> tuple[Prompt, ...]:
        """Return what people may send that MCP servers have written, as it is now.

        Servers that were never asked are started, as before a turn.
        """
        await self.prepare()
        return self._servers.prompts if self._servers is not None else ()

    async def prompt_text(self, name: str, arguments: Mapping[str, str]) -> str:
        """Return the text of a prompt; see `McpToolbox.prompt_text`.

        Raises:
            McpError: There is no such prompt, or its server does not say.
        """
        await self.prepare()
        if self._servers is None:
            raise UnknownPromptError(name, ())
        return await self._servers.prompt_text(name, arguments)

    async def reload(self) -> str:
        """Look for tools and skills again; return in words what changed and what is wrong."""
        found, faults = await to_thread.run_sync(self._look)
        before, self._own = self._own, dict(found)
        self._compose()
        added = sorted(found.keys() - before.keys())
        removed = sorted(before.keys() - found.keys())
        lines = [f"new: {', '.join(added)}"] if added else []
        lines += [f"gone: {', '.join(removed)}"] if removed else []
        lines += [f"faulty: {fault}" for fault in faults]
        return "\n".join(lines or ["nothing was added or removed; changed tools were read again"])

    def _compose(self) -> None:
        """Put all tools together; a tool of a server that is still the same stays guarded."""
        guarded: dict[str, tuple[Tool, Tool]] = {}
        for name, tool in self._servers.tools.items() if self._servers is not None else ():
            known = self._theirs.get(name)
            is_same = known is not None and known[0] is tool
            guarded[name] = known if known and is_same else (tool, self._guard(tool))
        self._theirs = guarded
        others = {name: tool for name, (_, tool) in guarded.items() if name not in self._own}
        self._all = {**self._own, **others}
        if self._search.take(self._all):
            self._all = {**self._own, **self._searching, **others}
        told = (*self._hidden(), *(_hidden_text(name) for name in guarded if name in self._own))
        for line in told:
            if line not in self._told:
                logger.warning("a tool is hidden by another", extra={"tool": line})
        self._told = told


def _hidden_text(name: str) -> str:
    return f"tool {name} of an MCP server is hidden by a tool of the agent's own with that name"
