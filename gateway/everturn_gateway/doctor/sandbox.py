"""What is to be said of the sandbox in which the commands of an agent run."""

from __future__ import annotations

import functools
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from everturn_gateway.config.settings import Config
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.private_environ import process_environ
from everturn_gateway.specs import AgentFile
from everturn_gateway.tools.config import confinements, may_write
from everturn_gateway.tools.environment import ServiceLink, ToolEnvironment
from everturn_gateway.tools.factory import FILES_FOLDER
from everturn_gateway.tools.marks import MarkedWorkspaces, keeps_marks
from everturn_gateway.tools.shell import sandbox_fault, unseen_places
from everturn_gateway.tools.shell.settings import OutOfReach

_METADATA: Final = ("169.254.169.254", 80)
"Where a machine in a cloud asks for its own keys: at Amazon, Google, Microsoft and most others."
_ANSWER_S: Final = 0.5  # it is on the same machine, as good as


def sandbox_notes(config: Config, agent: AgentFile, secrets: SecretRegistry) -> Iterator[str]:
    """Yield what is to be said of how far an agent's commands reach, and how far not.

    Starts processes, and connects to a metadata address where a command could: not for the event
    loop.
    """
    if fault := _sandbox_fault(config, agent, secrets):
        yield f"its commands cannot run: {fault}"
    if note := _marks_note(config, agent):
        yield note
    confined = [each for each in confinements(agent.tool_config) if each.sandbox == "bwrap"]
    if any(each.network for each in confined):
        if not config.server.api_token:
            yield (
                "its commands reach the network, and there this gateway, which asks for no"
                " token: one of them could allow the next; set server.api_token"
            )
        if _metadata_answers():
            yield (
                f"its commands reach the network, and there {_METADATA[0]}, where a cloud"
                " gives the machine's keys to whoever asks; close it:"
                " `everturn help shell-and-processes`"
            )
    unseen, missing = dict[Path, None](), dict[Path, None]()
    for each in confined:
        folders, gone = unseen_places(process_environ(), each, config.workspace, agent.folder)
        unseen |= dict.fromkeys(folders)
        missing |= dict.fromkeys(gone)
    if unseen:
        yield (
            f"its commands do not see {_listed(unseen)} of the PATH; where they need a program in"
            " there, name the folder of its installation in `readable`"
        )
    if missing:
        yield f"its commands are to see {_listed(missing)}, and that is not there"


def _marks_note(config: Config, agent: AgentFile) -> str | None:
    """Return what is to be said where files of an agent's workspace keep no marks."""
    files = agent.files or config.workspace / FILES_FOLDER / agent.spec.name
    if not may_write(agent.tool_config) or not files.is_dir():
        return None
    with suppress(OSError):  # what cannot be written to keeps no text from outside
        if not keeps_marks(files):
            return (
                f"files in {files} keep no extended attributes: text from outside that is written"
                " there is not known for what it is later; move the workspace to another disk"
            )
    return None


def _listed(places: dict[Path, None]) -> str:
    return ", ".join(map(str, places))


def _sandbox_fault(config: Config, agent: AgentFile, secrets: SecretRegistry) -> str | None:
    """Return why an agent's commands cannot be confined on this machine."""
    environ = process_environ()
    files = (agent.files or config.workspace / FILES_FOLDER / agent.spec.name).absolute()
    site = ToolEnvironment(
        agent=agent.spec.name,
        home=agent.folder.absolute(),
        files=files,
        state=config.workspace,
        environ=environ,
        secrets=secrets,
        link=ServiceLink(),
        marks=MarkedWorkspaces(config.workspace).of(files),
    )
    beyond = OutOfReach(hidden=config.private_files, has_open_api=not config.server.api_token)
    faults = (
        sandbox_fault(environ, beyond.confined(each), site)
        for each in confinements(agent.tool_config)
    )
    return next((fault for fault in faults if fault), None)


@functools.cache
def _metadata_answers() -> bool:
    try:
        socket.create_connection(_METADATA, _ANSWER_S).close()
    except OSError:
        return False
    return True
