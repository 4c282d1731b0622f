"""An MCP server that describes its tools as a file says at the moment, over stdio and over HTTP.

    python mcp_changing.py TOOLS.json       a server on standard input and output
    async with open_changing(file) as url:  a server at `url`

The file holds a mapping of names to definitions. Each list reads it; a call of any tool says its
arguments, and where the file was changed since the last list, the server says so first.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import mcp_types as types
from mcp.server import NotificationOptions
from mcp.server.stdio import stdio_server
from support.mcp_server import Context, Service, make_server, open_http, said


class Changing(Service):
    """Tools as a file has them."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file, self._listed = anyio.Path(file), ""

    async def list_tools(
        self, _: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """Answer `tools/list`."""
        del params
        self._listed = await self._file.read_text()
        tools = [
            types.Tool(name=name, description=each["description"], input_schema=each["schema"])
            for name, each in json.loads(self._listed).items()
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Answer `tools/call`."""
        if await self._file.read_text() != self._listed:
            await context.session.send_tool_list_changed()
        return said(f"{params.name} {json.dumps(params.arguments)}")


@asynccontextmanager
async def open_changing(file: Path) -> AsyncGenerator[str]:
    """Serve it on loopback; yield the address of its one endpoint."""
    async with open_http(make_server(Changing(file)).streamable_http_app()) as address:
        yield f"{address}/mcp"


async def main() -> None:
    """Serve standard input and output."""
    server = make_server(Changing(Path(sys.argv[1])))
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, options)


if __name__ == "__main__":
    anyio.run(main)
