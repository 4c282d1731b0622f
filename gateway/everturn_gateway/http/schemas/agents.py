"""Agents, and what operators ask of them: bodies of answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import (
    Field,
)

from everturn_gateway.errors import Fault, printable
from everturn_gateway.http.ports import AgentView, ReloadView
from everturn_gateway.http.schemas.base import Body
from everturn_gateway.tools.mcp import Prompt
from everturn_gateway.tools.memory.notes import NoteFile
from everturn_gateway.tools.skills import Skill


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


class ToolPolicyBody(Body):
    """What rules the tools of an agent."""

    mode: str = Field(description="What becomes of calls that no pattern names.")
    allow: int = Field(description="How many patterns allow calls.")
    deny: int = Field(description="How many patterns refuse calls.")


class SkillBody(Body):
    """A skill that an agent may read."""

    name: str
    description: str


class AgentDetailBody(AgentBody):
    """One agent, with its tools as they are now."""

    context_policy: str = Field(description="How its conversations are made to fit.")
    tool_policy: ToolPolicyBody
    skills: tuple[SkillBody, ...]

    tools: tuple[str, ...] = Field(
        description="By the names that its model calls; those of MCP servers since its first turn."
    )
    tool_faults: tuple[str, ...] = Field(
        description="What is wrong with its tools: MCP servers that are down, tools that others"
        " hide; one line each."
    )

    @staticmethod
    def whole(agent: AgentView, tools: Sequence[str], faults: Sequence[str]) -> AgentDetailBody:
        """Return the body of `agent`, with its tools and their faults as they are now."""
        config, context = agent.tool_config, agent.spec.session.context.policy
        policy = config.policy
        return AgentDetailBody(
            **AgentBody.of(agent).model_dump(),
            context_policy=context.name if context is not None else "everturn",
            tool_policy=ToolPolicyBody(
                mode=policy.mode, allow=len(policy.allow), deny=len(policy.deny)
            ),
            skills=tuple(
                SkillBody(name=printable(each.name), description=printable(each.description))
                for each in config.skills
            ),
            tools=tuple(map(printable, tools)),
            tool_faults=tuple(map(printable, faults)),
        )


class SkillTextBody(SkillBody):
    """A skill with what its agent reads of it."""

    allowed_tools: tuple[str, ...] = Field(description="What it allows while it is followed.")
    instructions: str = Field(description="At most 256 KiB of them.")
    error: str = Field(description="Why they cannot be read; empty = they can.")

    @staticmethod
    def whole(skill: Skill, instructions: str, *, error: str = "") -> SkillTextBody:
        """Return the body of `skill`."""
        return SkillTextBody(
            name=printable(skill.name),
            description=printable(skill.description),
            allowed_tools=tuple(map(printable, skill.allowed_tools)),
            instructions=instructions,
            error=error,
        )


class SkillList(Body):
    """The skills of an agent, by name."""

    skills: tuple[SkillTextBody, ...]


class NoteBody(Body):
    """A file of notes."""

    path: str = Field(
        description="`MEMORY.md`, `daily/2026-11-22.md`; `world/people.md` is shared by all agents."
    )
    text: str

    @staticmethod
    def of(file: NoteFile) -> NoteBody:
        """Return the body of `file`."""
        return NoteBody(path=printable(file.path), text=file.text)


class NoteList(Body):
    """What an agent remembers."""

    files: tuple[NoteBody, ...]


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


class DraftFiles(Body):
    """Texts that are tried in the place of an agent's files."""

    files: dict[str, str] = Field(
        default_factory=dict,
        max_length=50,
        description="By path, as seen from the agent's folder; none: the files as they stand.",
    )


class FaultList(Body):
    """What is wrong, or would be."""

    faults: tuple[FaultBody, ...]


class FileList(Body):
    """The files of an agent's folder."""

    files: tuple[str, ...]


class FileBody(Body):
    """A text of an agent."""

    path: str
    version: str = Field(description="What `If-Match` takes, as the `ETag` has it.")
    text: str


class NewText(Body):
    """What a file of an agent is to hold."""

    text: str


class WrittenFile(Body):
    """A file that was written, and what is wrong with the agent now."""

    path: str
    version: str = Field(description="What `If-Match` takes, as the `ETag` has it.")
    faults: tuple[FaultBody, ...] = Field(
        description="Where there are some, the agent goes on as it was before."
    )


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
