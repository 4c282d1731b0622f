"""Agents, and what operators ask of them: bodies of answers."""

from __future__ import annotations

from typing import Literal

from pydantic import (
    Field,
)

from everturn_gateway.errors import Fault, printable
from everturn_gateway.http.ports import AgentView, ReloadView
from everturn_gateway.http.schemas.base import Body
from everturn_gateway.tools.mcp import Prompt


class ModelBody(Body):
    """Which model answers."""

    provider: str
    name: str


class AgentBody(Body):
    """One agent."""

    name: str
    description: str
    version: str
    model: ModelBody
    on_disconnect: Literal["pause", "continue"]
    inactive: tuple[str, ...] = Field(description="Fields that are set and have no effect.")

    @staticmethod
    def of(agent: AgentView) -> AgentBody:
        """Return the body of `agent`."""
        spec = agent.spec
        return AgentBody(
            name=spec.name,
            description=spec.description,
            version=spec.version,
            model=ModelBody(provider=spec.model.provider, name=spec.model.name),
            on_disconnect=spec.session.on_disconnect,
            inactive=agent.inactive,
        )


class AgentDetailBody(AgentBody):
    """One agent, with its tools as they are now."""

    tools: tuple[str, ...] = Field(
        description="By the names that its model calls; those of MCP servers since its first turn."
    )
    tool_faults: tuple[str, ...] = Field(
        description="What is wrong with its tools: MCP servers that are down, tools that others"
        " hide; one line each."
    )


class PromptArgumentBody(Body):
    """A place of a prompt that is filled in."""

    name: str
    description: str
    required: bool


class PromptBody(Body):
    """A text that an MCP server has for people to send."""

    name: str = Field(description="The server's name, a colon, and the prompt's.")
    description: str
    arguments: tuple[PromptArgumentBody, ...]

    @staticmethod
    def of(prompt: Prompt) -> PromptBody:
        """Return the body of `prompt`."""
        return PromptBody(
            name=printable(prompt.name),
            description=printable(prompt.description),
            arguments=tuple(
                PromptArgumentBody(
                    name=each.name, description=each.description, required=each.required
                )
                for each in prompt.arguments
            ),
        )


class PromptList(Body):
    """The prompts of an agent's MCP servers."""

    prompts: tuple[PromptBody, ...]


class FilledPrompt(Body):
    """Which prompt, and what stands in its places."""

    name: str = Field(min_length=1, max_length=400, examples=["wiki:summarize"])
    arguments: dict[str, str] = Field(default_factory=dict, max_length=20)


class PromptText(Body):
    """The text of a prompt."""

    content: str = Field(
        description="To be sent as a message with `untrusted`: nobody vouches for it."
    )


class AgentList(Body):
    """All agents, by name."""

    agents: tuple[AgentBody, ...]


class AgentSpecBody(Body):
    """What stands in an agent's `agent.yaml`."""

    name: str
    document: dict[str, object] = Field(
        description="The file's data; variables are not expanded, literal secrets are masked."
    )
    inactive: tuple[str, ...] = Field(description="Fields that are set and have no effect.")


class FaultBody(Body):
    """One thing that is wrong in a file."""

    file: str
    line: int = Field(description="From 1; 0 where the fault belongs to the whole file.")
    field: str
    message: str

    @staticmethod
    def of(fault: Fault) -> FaultBody:
        """Return the body of `fault`."""
        return FaultBody(
            file=fault.shown_file,
            line=fault.line,
            field=printable(fault.field),
            message=printable(fault.message),
        )


class AdminAgentBody(AgentBody):
    """One agent, for who runs the gateway."""

    folder: str


class AdminAgentList(Body):
    """All agents, and what is wrong in their folder."""

    agents: tuple[AdminAgentBody, ...]
    faults: tuple[FaultBody, ...]


class ReloadBody(Body):
    """What a reload changed."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    faults: tuple[FaultBody, ...]

    @staticmethod
    def of(report: ReloadView) -> ReloadBody:
        """Return the body of `report`."""
        return ReloadBody(
            added=report.added,
            changed=report.changed,
            removed=report.removed,
            faults=tuple(map(FaultBody.of, report.faults)),
        )
