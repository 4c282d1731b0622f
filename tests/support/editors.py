"""An editor: the official client side of the Agent Client Protocol, and `everturn acp`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, cast

import anyio
from acp import Client, spawn_agent_process
from acp.client.connection import ClientSideConnection
from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    AllowedOutcome,
    DeniedOutcome,
    PermissionOption,
    RequestPermissionResponse,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    UserMessageChunk,
)
from support.command import environment
from support.warm_start import everturn_command


@dataclass(slots=True)
class Editor:
    """What the editor was told, and what its person answers."""

    answers: list[str] = field(default_factory=list[str])
    "Ids of options, one for each question; without one the person thinks for ever."
    updates: list[Any] = field(default_factory=list[Any])
    asked: list[tuple[ToolCallUpdate, list[PermissionOption]]] = field(
        default_factory=list[tuple[ToolCallUpdate, list[PermissionOption]]]
    )
    changed: anyio.Event = field(default_factory=anyio.Event)

    async def session_update(self, session_id: str, update: object, **_rest: object) -> None:
        """Keep what is told."""
        assert session_id
        self.updates.append(update)
        self.changed.set()

    async def request_permission(
        self,
        session_id: str,
        tool_call: ToolCallUpdate,
        options: list[PermissionOption],
        **_rest: object,
    ) -> RequestPermissionResponse:
        """Answer as was said before."""
        assert session_id
        self.asked.append((tool_call, options))
        self.changed.set()
        if not self.answers:
            await anyio.sleep_forever()
        answer = self.answers.pop(0)
        if answer == "dismiss":
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        chosen = AllowedOutcome(outcome="selected", option_id=answer)
        return RequestPermissionResponse(outcome=chosen)

    def on_connect(self, conn: object) -> None:
        """Need no way back."""

    async def until(self, text: str) -> None:
        """Wait until the agent has said `text`, or was asked about it."""
        while text not in self.said() and text not in str(self.asked):
            self.changed = anyio.Event()
            await self.changed.wait()

    def said(self) -> str:
        """Return what the agent said."""
        return _text(self.updates, AgentMessageChunk)

    def thought(self) -> str:
        """Return what was told beside that."""
        return _text(self.updates, AgentThoughtChunk)

    def person(self) -> str:
        """Return what people said, where that was replayed."""
        return _text(self.updates, UserMessageChunk)

    def calls(self) -> list[ToolCallStart]:
        """Return the calls of tools that began."""
        return [each for each in self.updates if isinstance(each, ToolCallStart)]

    def plans(self) -> list[list[tuple[str, str]]]:
        """Return the plans that were told, each with its entries and how far they are."""
        return [
            [(entry.content, entry.status) for entry in each.entries]
            for each in self.updates
            if isinstance(each, AgentPlanUpdate)
        ]

    def states(self, call: ToolCallStart) -> list[str | None]:
        """Return the states that a call went through."""
        later = [
            each.status
            for each in self.updates
            if isinstance(each, ToolCallProgress) and each.tool_call_id == call.tool_call_id
        ]
        return [call.status, *later]


_Chunk: TypeAlias = AgentMessageChunk | AgentThoughtChunk | UserMessageChunk


def _text(updates: list[Any], kind: type[_Chunk]) -> str:
    chunks = [each.content for each in updates if isinstance(each, kind)]
    return "".join(each.text for each in chunks if isinstance(each, TextContentBlock))


@asynccontextmanager
async def open_editor(
    folder: Path, editor: Editor, *arguments: str
) -> AsyncGenerator[ClientSideConnection]:
    """Start `everturn acp` in a folder and connect to it."""
    async with spawn_agent_process(
        cast("Client", editor),
        *everturn_command(),
        "acp",
        *arguments,
        cwd=folder,
        env=environment(),
    ) as (agent, _process):
        await agent.initialize(protocol_version=1)
        yield agent
