"""The plug-in `memory`."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from everturn_actors.ports import Tool
from everturn_gateway.plugins import PluginToolSettings, ToolPlan, ToolPlugin, ToolSetup
from everturn_gateway.tools.config import ToolConfig
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.memory.notes import Notes, folders_of
from everturn_gateway.tools.memory.noting import note_tools
from everturn_gateway.tools.memory.people import People
from everturn_gateway.tools.memory.prompting import PromptNotes
from everturn_gateway.tools.memory.tools import memory_directive, memory_tools


class MemorySettings(PluginToolSettings):
    """What the agent remembers beyond a session."""

    backend: Literal["filesystem"] = "filesystem"
    in_prompt: bool = True
    "Whether MEMORY.md, and what is known of whom the agent talks with, stand in its prompt."
    notes: Literal["off", "ask", "on"] = "off"
    "Whether the agent keeps notes about whom it talks with: it asks them first, or does so."
    notes_after_seconds: Annotated[int, Field(ge=1, le=86_400)] = 240
    "How long a conversation has to rest before the agent is asked for notes about it."


def _make(setup: ToolSetup[MemorySettings]) -> tuple[Tool, ...]:
    environment, settings = setup.part(ToolEnvironment), setup.settings
    tools = memory_tools(environment, clock=setup.clock)
    if settings.notes == "off":
        return tools
    own, _ = folders_of(environment.home, environment.state)
    return (
        *tools,
        *note_tools(People(own), own, asks=settings.notes == "ask", links=environment.links),
    )


def prompt_notes(
    config: ToolConfig, environment: ToolEnvironment, *, window_tokens: int
) -> PromptNotes | None:
    """Return what reads the notes that stand in an agent's prompt; None where none do."""
    settings = memory_settings(config)
    if settings is None or not settings.in_prompt:
        return None
    own, world = folders_of(environment.home, environment.state)
    return PromptNotes(
        own=own,
        notes=Notes(own, world),
        people=People(own),
        links=environment.links,
        window_tokens=window_tokens,
    )


def memory_settings(config: ToolConfig) -> MemorySettings | None:
    """Return how an agent's memory is set; None where it has none."""
    found = (use.plan.settings for use in config.uses if use.plugin.name == MEMORY.name)
    return next((each for each in found if isinstance(each, MemorySettings)), None)


MEMORY: Final = ToolPlugin(
    name="memory",
    interface=1,
    summary="notes that outlast a conversation",
    docs="docs/builtin-tools.md",
    settings=MemorySettings,
    directive=memory_directive,
    plan=lambda request: ToolPlan(settings=request.entries[-1].settings, reaches_out=False),
    make=_make,
)
