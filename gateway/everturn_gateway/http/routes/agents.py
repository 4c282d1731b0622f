"""The agents that people can talk to, and what their turns changed in their workspaces."""

from __future__ import annotations

from typing import Annotated, Protocol, TypeAlias

from anyio.to_thread import run_sync
from fastapi import APIRouter, Path
from starlette.responses import Response

from everturn_actors.errors import ToolFailedError
from everturn_gateway.errors import printable
from everturn_gateway.http.access.callers import CallerOf
from everturn_gateway.http.access.visibility import visible_agents
from everturn_gateway.http.masking import masked
from everturn_gateway.http.openapi import problems
from everturn_gateway.http.ports import HasAgents, HasConfig, HasSessions
from everturn_gateway.http.problems import ProblemError, invalid, problem
from everturn_gateway.http.schemas.agents import (
    AgentBody,
    AgentDetailBody,
    AgentList,
    AgentSpecBody,
    FilledPrompt,
    NoteBody,
    NoteList,
    PromptBody,
    PromptList,
    PromptText,
    SkillList,
    SkillTextBody,
)
from everturn_gateway.http.schemas.base import answer
from everturn_gateway.http.schemas.checkpoints import (
    CheckpointBody,
    CheckpointDetail,
    CheckpointList,
    UndoneBody,
)
from everturn_gateway.tools.checkpoints import UnknownCheckpointError
from everturn_gateway.tools.mcp import McpError, McpRefusedError, UnknownPromptError
from everturn_gateway.tools.memory.notes import Notes, folders_of
from everturn_gateway.tools.skills import Skill, instructions_of

Number: TypeAlias = Annotated[int, Path(ge=1, le=10**9, description="Of the checkpoint.")]


class Host(HasAgents, HasConfig, HasSessions, Protocol):
    """The parts of the gateway that are used here."""


def agents_router(gateway: Host) -> APIRouter:
    """Return the routes under `/api/v1/agents`."""
    router = APIRouter(prefix="/api/v1/agents", tags=["agents"])
    library = gateway.library

    @router.get("", response_model=AgentList)
    async def list_agents(caller: CallerOf) -> Response:
        """List the agents that the caller may talk to, by name."""
        names = visible_agents(caller, library)
        agents = tuple(AgentBody.of(library.file(name)) for name in names)
        return answer(AgentList(agents=agents))

    @router.get("/{name}", response_model=AgentDetailBody, responses=problems(404))
    async def get_agent(name: str) -> Response:
        """Describe one agent, with its tools as they are now."""
        agent = library.file(name)
        tools, faults = library.tool_names(name), library.tool_faults(name)
        return answer(AgentDetailBody.whole(agent, tools, faults))

    @router.get("/{name}/prompts", response_model=PromptList, responses=problems(404))
    async def list_prompts(name: str) -> Response:
        """List the prompts of the agent's MCP servers; those that do not run are started."""
        found = await library.prompts(name)
        return answer(PromptList(prompts=tuple(map(PromptBody.of, found))))

    @router.post(
        "/{name}/prompts", response_model=PromptText, responses=problems(400, 404, 422, 502)
    )
    async def fill_prompt(name: str, body: FilledPrompt) -> Response:
        """Return the text of a prompt with its places filled in; nothing is sent to the agent."""
        try:
            text = await library.prompt_text(name, body.name, body.arguments)
        except UnknownPromptError as error:
            raise ProblemError(problem("unknown-prompt", str(error))) from error
        except McpRefusedError as error:
            raise ProblemError(invalid(printable(error.words))) from error
        except McpError as error:
            raise ProblemError(problem("server-failed", str(error))) from error
        return answer(PromptText(content=printable(text)))

    @router.get("/{name}/memory", response_model=NoteList, responses=problems(404))
    async def read_memory(name: str) -> Response:
        """Read the agent's notes: its own, its days, newest first, and those of all agents."""
        own, world = folders_of(library.file(name).folder, gateway.config.workspace)
        files = await own.run(Notes(own, world).files, reads=True)
        return answer(NoteList(files=tuple(map(NoteBody.of, files))))

    @router.get("/{name}/skills", response_model=SkillList, responses=problems(404))
    async def read_skills(name: str) -> Response:
        """Read the agent's skills, with the instructions of each."""
        skills = library.file(name).tool_config.skills
        found = await run_sync(lambda: tuple(map(_skill, skills)))
        return answer(SkillList(skills=found))

    @router.get("/{name}/spec", response_model=AgentSpecBody, responses=problems(404))
    async def get_agent_spec(name: str) -> Response:
        """Return what stands in the agent's file."""
        agent = library.file(name)
        return answer(
            AgentSpecBody(
                name=agent.spec.name, document=masked(agent.document), inactive=agent.inactive
            )
        )

    return router


def _skill(skill: Skill) -> SkillTextBody:
    try:
        return SkillTextBody.whole(skill, instructions_of(skill))
    except ToolFailedError as error:  # somebody took it away since the agent was loaded
        return SkillTextBody.whole(skill, "", error=str(error))


def checkpoints_router(gateway: Host) -> APIRouter:
    """Return the routes under `/api/v1/agents/{name}/checkpoints`, and `undo` of a session."""
    router = APIRouter(tags=["checkpoints"])
    path = "/api/v1/agents/{name}/checkpoints"

    @router.get(path, response_model=CheckpointList, responses=problems(404))
    async def list_checkpoints(name: str) -> Response:
        """List the turns that changed files of the agent's workspace, newest first."""
        found = await gateway.checkpoints(name).list()
        return answer(CheckpointList(checkpoints=tuple(map(CheckpointBody.of, reversed(found)))))

    @router.get(f"{path}/{{number}}", response_model=CheckpointDetail, responses=problems(404))
    async def get_checkpoint(name: str, number: Number) -> Response:
        """Show what one turn changed."""
        try:
            found, diff = await gateway.checkpoints(name).differences(number)
        except UnknownCheckpointError as error:
            raise ProblemError(problem("unknown-checkpoint", str(error))) from error
        return answer(CheckpointDetail(**CheckpointBody.of(found).model_dump(), diff=diff))

    @router.post(f"{path}/{{number}}/undo", response_model=UndoneBody, responses=problems(404))
    async def undo_checkpoint(name: str, number: Number) -> Response:
        """Take back what a turn changed; files that others changed since are left, and told."""
        return await _undone(gateway, name, number=number)

    @router.post(
        "/api/v1/sessions/{session_id}/undo", response_model=UndoneBody, responses=problems(404)
    )
    async def undo_turn(session_id: str) -> Response:
        """Take back the files of the session's last turn that changed some."""
        state = await gateway.service.view(session_id)
        return await _undone(gateway, state.key.agent, session_id=session_id)

    return router


async def _undone(
    gateway: Host, agent: str, *, number: int | None = None, session_id: str = ""
) -> Response:
    try:
        undone = await gateway.checkpoints(agent).undo(number=number, session_id=session_id)
    except UnknownCheckpointError as error:
        raise ProblemError(problem("unknown-checkpoint", str(error))) from error
    return answer(UndoneBody.of(undone))
