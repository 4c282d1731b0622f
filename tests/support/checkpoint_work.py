"""An agent that changes the files of its workspace, behind what keeps checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from anyio import to_thread
from support.tool_environments import call_tool, tool_context, tool_environment

from everturn_actors.model import Conversation, OpenTurn, ToolCall, ToolDefinition, UserMessage
from everturn_actors.ports import ToolCapabilities, ToolContext
from everturn_actors.testing import START, ManualClock
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.tools.checkpoints import Checkpoints
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.files.workspace import closed_in, workspace_of
from everturn_gateway.tools.policy import GuardedTool, Policy
from everturn_gateway.tools.policy.guarding import Beside

T = TypeVar("T")
COMMAND = ToolCapabilities(kind="bash")


def checkpoints_of(site: ToolEnvironment) -> Checkpoints:
    """Return the checkpoints of a workspace, as after a start."""
    closed = partial(closed_in, site)
    return Checkpoints(site, workspace_of(site), closed, ManualClock())


class Work:
    """An agent that changes files."""

    def __init__(self, folder: Path) -> None:
        self.site = tool_environment(folder)
        self.files = self.site.files
        self.files.mkdir(parents=True, exist_ok=True)
        self.checkpoints = checkpoints_of(self.site)

    def write(self, **texts: str) -> None:
        """Write files, by name without the ending."""
        for name, text in texts.items():
            (self.files / f"{name}.txt").write_text(text)

    async def now(self) -> dict[str, str]:
        """Return what stands in the workspace."""
        return await others(
            lambda: {each.stem: each.read_text() for each in sorted(self.files.glob("*.txt"))}
        )

    async def turn(
        self,
        number: int,
        *deeds: Callable[[], object],
        capabilities: ToolCapabilities = COMMAND,
    ) -> None:
        """Do something in a turn, each deed in a call of its own."""
        for deed in deeds:
            await self.call(number, deed, capabilities)

    async def call(
        self, number: int, deed: Callable[[], object], capabilities: ToolCapabilities
    ) -> None:
        """Do something in one call, behind all that stands around a tool."""
        tool = GuardedTool(
            Act(deed, capabilities),
            agent="test",
            secrets=SecretRegistry(),
            policy=Policy(),
            beside=Beside(checkpoints=self.checkpoints),
        )
        await call_tool(tool, {}, context=context_of(number))


class Act:
    """A tool that does what it is told."""

    definition = ToolDefinition(name="act", description="", parameters={"type": "object"})

    def __init__(self, deed: Callable[[], object], capabilities: ToolCapabilities) -> None:
        self._deed, self.capabilities = deed, capabilities

    async def run(self, _call: ToolCall, _context: ToolContext) -> str:
        """Do it."""
        await others(self._deed)
        return "done"


async def others(deed: Callable[[], T]) -> T:
    """Do something with files, as somebody outside of the loop does."""
    return await to_thread.run_sync(deed)


def context_of(number: int) -> ToolContext:
    """Return where the calls of a turn run."""
    users = (UserMessage(seq=1, text="go"),)
    turn = OpenTurn(number=number, users=users, started_at=START)
    return tool_context(conversation=Conversation(current=turn))
