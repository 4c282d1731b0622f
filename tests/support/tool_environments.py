"""Where a tool under test works, and how one is called."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from everturn_actors.journal.memory import MemoryDisk, MemoryStore
from everturn_actors.model import Conversation, ConversationKey, ToolCall
from everturn_actors.ports import Tool, ToolContext, ToolOutput
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.tools.environment import ServiceLink, ToolEnvironment
from everturn_gateway.tools.marks import MarkedWorkspaces

SESSION = "20261122T000000000-00000000"


def tool_environment(
    folder: Path = Path("/nonexistent"),
    *,
    agent: str = "test",
    environ: Mapping[str, str] | None = None,
    link: ServiceLink | None = None,
) -> ToolEnvironment:
    """Return where the tools of `agent` work."""
    return ToolEnvironment(
        agent=agent,
        home=folder / "home",
        files=folder / "files",
        state=folder / "state",
        environ=environ or {},
        secrets=SecretRegistry(),
        link=link or ServiceLink(),
        marks=MarkedWorkspaces(folder / "state").of(folder / "files"),
    )


def tool_context(
    *, key: ConversationKey | None = None, conversation: Conversation | None = None
) -> ToolContext:
    """Return where a call runs that needs no session."""
    return ToolContext(
        session_id=SESSION,
        key=key or ConversationKey(channel="test", chat="chat", agent="test"),
        store=MemoryStore(MemoryDisk(), results_max_bytes=1_000_000),
        conversation=conversation or Conversation(),
    )


async def call_tool(
    tool: Tool,
    arguments: Mapping[str, object],
    *,
    context: ToolContext | None = None,
    call_id: str = "c1",
) -> ToolOutput:
    """Run one call of a tool; a plain text is returned as an output that is trusted."""
    call = ToolCall(call_id=call_id, name=tool.definition.name, arguments=json.dumps(arguments))
    output = await tool.run(call, context or tool_context())
    return ToolOutput(text=output) if isinstance(output, str) else output
