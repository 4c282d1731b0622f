"""The MCP server of one client, over standard input and output."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import uuid4

import anyio
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from everturn_gateway.client import Api
from everturn_gateway.mcp_server.link import Context, Link, repeat_key
from everturn_gateway.mcp_server.server import make_server


async def serve_stdio(api: Api, *, version: str) -> None:
    """Answer the client at standard input until it closes that; running turns go on then.

    Args:
        api: Of the gateway.
        version: Of this program.
    """
    connection, has_left = uuid4().hex, anyio.Event()

    @asynccontextmanager
    async def connect(ctx: Context) -> AsyncGenerator[Link]:
        yield Link(
            api=api,
            may_approve=True,
            may_always=True,
            repeat_key=repeat_key(connection, ctx),
            has_left=has_left.is_set,
        )

    server = make_server(connect, version=version)
    send, receive = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    async with stdio_server() as (read, write), anyio.create_task_group() as tasks:

        async def relay() -> None:
            """Note that the client leaves before the requests that it leaves behind are ended."""
            async with send:
                async for message in read:
                    await send.send(message)
                has_left.set()

        tasks.start_soon(relay)
        await server.run(receive, write, server.create_initialization_options())
        tasks.cancel_scope.cancel()
