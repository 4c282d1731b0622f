"""The files of agents, for administrators: tried before they stand, read, replaced.

Whoever writes them runs programs on this machine, so it is switched on by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, Protocol, TypeAlias, TypeVar

from anyio.to_thread import run_sync
from fastapi import APIRouter, Header, Path
from starlette.responses import Response

from everturn_actors.errors import ToolFailedError
from everturn_gateway.errors import Fault, GatewayError
from everturn_gateway.http.masking import masked
from everturn_gateway.http.openapi import problems
from everturn_gateway.http.ports import HasAgents, HasConfig
from everturn_gateway.http.problems import ProblemError, invalid, problem
from everturn_gateway.http.schemas.agents import (
    DraftFiles,
    FaultBody,
    FaultList,
    FileBody,
    FileList,
    NewText,
    WrittenFile,
)
from everturn_gateway.http.schemas.base import answer
from everturn_gateway.specs.agent_files import (
    AgentFilesError,
    EditableFile,
    FileChangedError,
    data_of,
)

T = TypeVar("T")
FilePath: TypeAlias = Annotated[
    str, Path(max_length=500, description="As seen from the agent's folder: `agent.yaml`.")
]
IfMatch: TypeAlias = Annotated[
    str,
    Header(
        alias="If-Match",
        max_length=100,
        description="The `ETag` of the file that is replaced.",
    ),
]
IfNoneMatch: TypeAlias = Annotated[
    str,
    Header(alias="If-None-Match", max_length=100, description="`*`: there is no such file yet."),
]
_PATH: Final = "/api/v1/admin/agents/{name}"
_CLOSED: Final = problem(
    "editing-closed",
    "whoever changes an agent's files runs programs on this machine: set console: {edit_agents:"
    " true} in everturn.yaml to let administrators do it from here",
)


class Host(HasAgents, HasConfig, Protocol):
    """The parts of the gateway that are used here."""


def agent_files_router(gateway: Host) -> APIRouter:
    """Return the routes of an agent's files."""
    router = APIRouter(prefix=_PATH, tags=["administration"])
    library = gateway.library

    @router.post("/validate", response_model=FaultList, responses=problems(403, 404, 422))
    async def validate(name: str, body: DraftFiles) -> Response:
        """Tell what is wrong with an agent, or would be with other texts in its files."""
        if body.files:
            _check_open(gateway)
        folder = library.folder(name)
        faults = await _in_thread(lambda: folder.faults(body.files))
        return answer(FaultList(faults=_bodies(faults)))

    @router.get("/files", response_model=FileList, responses=problems(403, 404))
    async def list_files(name: str) -> Response:
        """List the files of an agent; its memory and its workspace are left out."""
        _check_open(gateway)
        return answer(FileList(files=await _in_thread(library.folder(name).paths)))

    @router.get("/files/{path:path}", response_model=FileBody, responses=problems(403, 404, 422))
    async def read_file(name: str, path: FilePath) -> Response:
        """Return a text of an agent; its `ETag` says which version that is."""
        _check_open(gateway)
        folder = library.folder(name)
        found = await _in_thread(lambda: folder.read(path))
        if found is None:
            raise ProblemError(problem("unknown-file", f"the agent has no file {path!r}"))
        _refuse_secrets(gateway, found)
        body = FileBody(path=found.path, version=found.version, text=found.text)
        return answer(body, headers={"ETag": f'"{found.version}"'})

    _add_write(router, gateway)
    return router


def _add_write(router: APIRouter, gateway: Host) -> None:
    """Add the route that writes a file of an agent, where nobody changed it meanwhile."""

    @router.put(
        "/files/{path:path}",
        response_model=WrittenFile,
        responses=problems(403, 404, 412, 422, 428),
    )
    async def write_file(
        name: str,
        path: FilePath,
        body: NewText,
        if_match: IfMatch = "",
        if_none_match: IfNoneMatch = "",
    ) -> Response:
        """Replace a text of an agent as a whole, and read the agents again.

        One that is not valid then goes on as it was before.
        """
        _check_open(gateway)
        if not if_match and if_none_match != "*":
            raise ProblemError(
                problem(
                    "version-missing",
                    "send the ETag of the file as If-Match, or If-None-Match: * for a new one",
                )
            )
        folder, version = gateway.library.folder(name), if_match.strip('"')
        standing = await _in_thread(lambda: folder.read(path))
        if standing is not None:
            _refuse_secrets(gateway, standing)
        written = await _in_thread(lambda: folder.write(path, body.text, version=version))
        await gateway.library.reload()
        faults = await _in_thread(lambda: folder.faults({}))
        body_now = WrittenFile(path=path, version=written, faults=_bodies(faults))
        return answer(body_now, headers={"ETag": f'"{written}"'})


def _check_open(gateway: Host) -> None:
    """Refuse, where nobody has switched it on.

    Raises:
        ProblemError: It is closed (403).
    """
    if not gateway.config.console.edit_agents:
        raise ProblemError(_CLOSED)


def _bodies(faults: tuple[Fault, ...]) -> tuple[FaultBody, ...]:
    return tuple(map(FaultBody.of, faults))


async def _in_thread(work: Callable[[], T]) -> T:
    """Do blocking work with files; what refuses them becomes an answer.

    Raises:
        ProblemError: It was refused.
    """
    try:
        return await run_sync(work)
    except FileChangedError as error:
        raise ProblemError(problem("file-changed", str(error))) from error
    except (AgentFilesError, ToolFailedError) as error:
        raise ProblemError(invalid(str(error))) from error
    except (GatewayError, OSError) as error:
        raise ProblemError(problem("not-written", str(error))) from error


def _refuse_secrets(gateway: Host, file: EditableFile) -> None:
    """Show no file with a secret in it: what is masked could not be written back.

    Raises:
        ProblemError: It holds one.
    """
    held = {"": data_of(file)}
    is_known = any(secret in file.text for secret in gateway.config.secrets)
    if is_known or masked(held) != held:
        raise ProblemError(
            invalid(
                f"{file.path} holds a secret as it is, so it is not shown: put ${{NAME}} in its"
                " place, and the secret into the environment"
            )
        )
