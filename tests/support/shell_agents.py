"""An agent with a shell, whose commands wait for a person as its policy says."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import yaml
from support.gateway import HttpGateway, open_http_gateway, write_agent
from support.patience import WAIT_S

from everturn_actors.events import ApprovalAsked, CallFinished, Event
from everturn_actors.model import Reply, ToolCall
from everturn_gateway.config.settings import ServerConfig

DEADLINE_S = WAIT_S


def running(command: str, call_id: str = "c1") -> Reply:
    """Return a reply that runs a command."""
    arguments = json.dumps({"command": command})
    call = ToolCall(call_id=call_id, name="bash", arguments=arguments)
    return Reply(text="I will look.", calls=(call,), stop_reason="tool_calls")


def write_shell_agent(folder: Path, tools: Sequence[str] = ("bash",), **policy: Any) -> None:
    """Write the agent `second`, which has a shell, or these tools, and this tool policy."""
    file = write_agent(folder / "agents", name="second")
    document = yaml.safe_load(file.read_text())
    document["spec"]["tools"] = [{"type": "builtin", "name": each} for each in tools]
    file.write_text(yaml.safe_dump(document))
    if policy:
        (file.parent / "policy.yaml").write_text(yaml.safe_dump(policy))


@asynccontextmanager
async def shell_agent(
    folder: Path, *, server: ServerConfig | None = None, **policy: Any
) -> AsyncGenerator[HttpGateway]:
    """Open a gateway whose agent `second` has a shell and this tool policy."""
    await anyio.to_thread.run_sync(partial(write_shell_agent, folder, **policy))
    with anyio.fail_after(DEADLINE_S):
        async with open_http_gateway(folder, server=server) as gateway:
            yield gateway


async def until_asked(gateway: HttpGateway, session_id: str) -> ApprovalAsked:
    """Wait until a call waits for a person."""
    async with aclosing(gateway.service.watch(session_id, after=0)) as updates:
        async for update in updates:
            if isinstance(update, Event) and isinstance(update.body, ApprovalAsked):
                return update.body
    raise AssertionError


async def results(gateway: HttpGateway, session_id: str) -> list[str]:
    """Return the text of each result in the log."""
    log = await gateway.service.history(session_id, after=0, limit=200)
    return [event.body.text for event in log if isinstance(event.body, CallFinished)]
