"""The transport to an MCP server that is a program: JSON messages, one a line.

The official client's own transport reads lines of any length, passes on the environment of its
process, and leaves what a killed server had started; the protocol itself stays the client's.

Imports `mcp`, which takes half a second: nothing but `wire` imports this.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final, TypeGuard

import anyio
import orjson
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from everturn_actors.json_values import is_object
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.mcp.settings import McpServerSettings
from everturn_gateway.tools.mcp.transports.lines import (
    ENDS_BYTES,
    LINE_BYTES,
    VALUES_MOST,
    FloodError,
    Oversized,
    answered,
    holds_too_much,
)
from everturn_gateway.tools.mcp.transports.process import ServerProcess, open_server_process
from everturn_gateway.tools.mcp.transports.streams import Item, Receiving, Sending, Traffic

NOISE_LINES: Final = 1000  # in a row that are no messages; servers that print a banner print few
DRAIN_S: Final = 0.5  # to read what a server wrote before it ended
UNUSABLE: Final = "everturn_unusable"
"In the data of an error that stands for an answer that cannot be used."
NO_MESSAGE: Final = "its answer is no message of the protocol"


@asynccontextmanager
async def open_stdio(
    settings: McpServerSettings, environment: ToolEnvironment, traffic: Traffic
) -> AsyncGenerator[tuple[Receiving, Sending]]:
    """Start a server and yield the streams to it; when the block ends, it is gone.

    Raises:
        McpStartError: It cannot be started.
    """
    to_client, incoming = anyio.create_memory_object_stream[Item]()
    outgoing, from_client = anyio.create_memory_object_stream[SessionMessage]()
    async with (
        to_client,
        incoming,
        outgoing,
        from_client,
        open_server_process(settings, environment) as server,
        anyio.create_task_group() as tasks,
    ):
        all_read = anyio.Event()
        tasks.start_soon(_read, server, to_client, traffic, all_read)
        tasks.start_soon(_watch, server, traffic, all_read)
        tasks.start_soon(_write, server, from_client, traffic)
        try:
            yield incoming, outgoing
        finally:
            tasks.cancel_scope.cancel()


async def _read(
    server: ServerProcess,
    to_client: MemoryObjectSendStream[Item],
    traffic: Traffic,
    all_read: anyio.Event,
) -> None:
    noise = 0
    async with to_client:
        while noise <= NOISE_LINES:
            try:
                lines = await server.read()
            except anyio.EndOfStream:
                all_read.set()
                traffic.end(*await server.obituary())
                return
            except FloodError:
                traffic.end("it sends a message that does not end")
                return
            for line in lines:
                message = message_of(line)
                if message is None:
                    noise += 1
                    continue
                noise = 0
                try:
                    await to_client.send(SessionMessage(message))
                except anyio.BrokenResourceError:
                    return  # the client is gone
        traffic.end("what it writes to its standard output are no messages")


async def _watch(server: ServerProcess, traffic: Traffic, all_read: anyio.Event) -> None:
    """End the connection with the server, also where what it started still holds its output."""
    await server.wait()
    with anyio.move_on_after(DRAIN_S):
        await all_read.wait()
    traffic.end(*await server.obituary())


async def _write(
    server: ServerProcess, from_client: MemoryObjectReceiveStream[SessionMessage], traffic: Traffic
) -> None:
    async with from_client:
        async for item in from_client:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                await server.write(text.encode() + b"\n")
            except anyio.BrokenResourceError:
                # How it ended is for the reader to say; it may also have closed its input alone.
                traffic.end(*await server.obituary())
                return


def message_of(line: bytes | Oversized) -> JSONRPCMessage | None:
    """Return the message of a line; None where it is none.

    Where it is none that can be used, and answers a request, it is an error for that request: who
    waits for the answer is told at once.
    """
    if isinstance(line, Oversized):
        why = f"its answer has more than {LINE_BYTES // 1024**2} MiB; ask for less"
        return _error(line.request_id, why)
    if holds_too_much(line):
        why = f"its answer holds more than {VALUES_MOST:,} values; ask for less"
        return _error(answered(line[:ENDS_BYTES], line[-ENDS_BYTES:]), why)
    try:
        # A byte that is no text is no reason to lose an answer.
        found: object = orjson.loads(line.decode("utf-8", "replace"))
    except orjson.JSONDecodeError:
        return _error(answered(line[:ENDS_BYTES], line[-ENDS_BYTES:]), NO_MESSAGE)
    if not is_object(found):
        return None
    result, request_id = found.get("result"), found.get("id")
    if is_object(result) and _is_id(request_id) and "method" not in found:
        # What is in it is looked at where it is used, and once.
        return JSONRPCResponse.model_construct(jsonrpc="2.0", id=request_id, result=result)
    try:
        return jsonrpc_message_adapter.validate_python(found, by_name=False)
    except ValidationError:
        return None if "method" in found else _error(request_id, NO_MESSAGE)


def _is_id(value: object) -> TypeGuard[int | str]:
    """Whether a value can be the id of a request; to Python, `true` is a number equal to 1."""
    return isinstance(value, int | str) and not isinstance(value, bool)


def _error(request_id: object, why: str) -> JSONRPCError | None:
    if not _is_id(request_id):
        return None
    error = ErrorData(code=PARSE_ERROR, message=why, data={UNUSABLE: True})
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=error)
