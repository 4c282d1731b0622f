"""MCP servers as an agent has them: settings for the test's servers, a site, and calls."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import psutil
import pytest
from support.patience import WAIT_S
from support.warm_start import python_command

from everturn_actors.errors import ToolFailedError
from everturn_actors.journal.keyed import MemoryKeyedStore
from everturn_actors.journal.memory import open_memory_store
from everturn_actors.model import ConversationKey, ToolCall
from everturn_actors.ports import Clock, KeyedStore, Tool, ToolContext, ToolOutput
from everturn_actors.testing import ManualClock
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.tools.environment import ServiceLink, ToolEnvironment
from everturn_gateway.tools.marks import MarkedWorkspaces
from everturn_gateway.tools.mcp import (
    McpLimits,
    McpLogins,
    McpServers,
    McpServerSettings,
    McpToolbox,
    SamplingModel,
    open_mcp,
)
from everturn_gateway.tools.mcp.connection import Connection

DEADLINE_S = WAIT_S  # for what has to happen; a machine that runs other things needs its time
_SUPPORT = Path(__file__).parent


def stdio(
    name: str = "test", *, include: tuple[str, ...] = (), is_warm: bool = False
) -> McpServerSettings:
    """Return the official server, as a program; `is_warm` spares it 1.7 s of imports."""
    script = _SUPPORT / "mcp_server.py"
    command, *args = python_command(script) if is_warm else (sys.executable, str(script))
    return McpServerSettings(
        name=name, command=command, args=tuple(args), include=include, timeout_s=60
    )


def raw(
    mode: str = "",
    name: str = "raw",
    *,
    env: Mapping[str, str] | None = None,
    trusted: bool = False,
    timeout_s: float = 60,
) -> McpServerSettings:
    """Return the server that breaks the rules."""
    script = str(_SUPPORT / "mcp_raw.py")
    return McpServerSettings(
        name=name,
        command=sys.executable,
        args=("-S", script, mode),  # without the site's packages it starts in 20 ms
        env=env or {},
        trusted=trusted,
        timeout_s=timeout_s,
    )


def make_site(folder: Path, *, environ: Mapping[str, str] | None = None) -> ToolEnvironment:
    """Return where an agent works, below `folder`."""
    home, files = folder / "agent", folder / "workspace"
    home.mkdir(exist_ok=True)
    files.mkdir(exist_ok=True)
    return ToolEnvironment(
        agent="helper",
        home=home,
        files=files,
        state=folder / ".everturn",
        environ=environ if environ is not None else {"PATH": os.environ["PATH"]},
        secrets=SecretRegistry(),
        link=ServiceLink(),
        marks=MarkedWorkspaces(folder / ".everturn").of(files),
    )


@dataclass(slots=True, kw_only=True)
class McpWorld:
    """Servers that are kept, and an agent that has some."""

    servers: McpServers
    box: McpToolbox
    environment: ToolEnvironment
    clock: ManualClock
    context: ToolContext

    async def call(self, tool: str, /, **arguments: object) -> ToolOutput:
        """Call a tool by the name that the model knows."""
        return await self.run(self.box.tools[tool], **arguments)

    async def run(self, tool: Tool, /, **arguments: object) -> ToolOutput:
        """Call a tool."""
        call = ToolCall(call_id="c1", name=tool.definition.name, arguments=json.dumps(arguments))
        with anyio.fail_after(DEADLINE_S):
            output = await tool.run(call, self.context)
        assert isinstance(output, ToolOutput)
        return output

    async def text(self, tool: str, /, **arguments: object) -> str:
        """Call a tool and return what it says."""
        return (await self.call(tool, **arguments)).text

    async def hanging(self, tool: str, /, **arguments: object) -> str:
        """Call a tool that never answers, for a moment; return why there is no result."""
        connection = self.connection
        connection.settings = replace(connection.settings, timeout_s=0.2)
        try:
            return await self.failure(tool, **arguments)
        finally:
            connection.settings = replace(connection.settings, timeout_s=60)

    async def failure(self, tool: str, /, **arguments: object) -> str:
        """Call a tool and return why there is no result."""
        with pytest.raises(ToolFailedError) as failed:
            await self.call(tool, **arguments)
        return str(failed.value)

    @property
    def connection(self) -> Connection:
        """The connection to the first server."""
        return self.box._connections[0]

    async def until_ended(self, connection: Connection | None = None) -> None:
        """Wait until the present run of a server has ended, to the last process."""
        life = (connection or self.connection)._life
        assert life is not None
        with anyio.fail_after(DEADLINE_S):
            await life.ended.wait()

    async def prepare(self) -> None:
        """Do what stands before each turn."""
        with anyio.fail_after(DEADLINE_S):
            await self.box.prepare()


@asynccontextmanager
async def open_world(
    folder: Path,
    *settings: McpServerSettings,
    limits: McpLimits | None = None,
    environ: Mapping[str, str] | None = None,
    clock: Clock | None = None,
    keyed: KeyedStore | None = None,
    sampling: Mapping[str, SamplingModel] | None = None,
) -> AsyncGenerator[McpWorld]:
    """Open servers for one agent and prepare its first turn."""
    manual = ManualClock()
    environment = make_site(folder, environ=environ)
    logins = McpLogins(keyed or MemoryKeyedStore(), clock or manual, environment.secrets)
    # Nothing here may depend on how fast this machine is.
    patient = limits or McpLimits(turn_wait_s=DEADLINE_S, call_wait_s=DEADLINE_S)
    with _no_failures():
        async with (
            open_memory_store() as store,
            open_mcp(clock=clock or manual, logins=logins, limits=patient) as servers,
        ):
            key = ConversationKey(channel="test", chat="chat", agent="helper")
            world = McpWorld(
                servers=servers,
                box=servers.toolbox(environment, settings, sampling=sampling or {}),
                environment=environment,
                clock=manual,
                context=ToolContext(session_id="s", key=key, store=store),
            )
            await world.prepare()
            yield world


class _Failures(logging.Handler):
    """Keeps what the supervisor of a server did not expect."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == "MCP client failed":
            self.records.append(record)


@contextmanager
def _no_failures() -> Generator[None]:
    """Fail where a server brought down its supervisor: that is a bug of ours."""
    logger, handler = logging.getLogger(Connection.__module__), _Failures()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
    assert [logging.Formatter().format(record) for record in handler.records] == []


def is_running(pid: int) -> bool:
    """Return whether a process is there, and no corpse that waits for its parent."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def gone(pidfd: int) -> None:
    """Wait until the process behind a descriptor has ended."""
    try:
        with anyio.fail_after(DEADLINE_S):
            await anyio.wait_readable(pidfd)
    finally:
        os.close(pidfd)
