"""Where the tools of one agent work, and what a tool may say beyond the core's Protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from msgspec import Struct

from everturn_actors.errors import ToolFailedError
from everturn_actors.model import ToolCall
from everturn_actors.ports import Tool, ToolCapabilities
from everturn_actors.ports.search import MessageIndex
from everturn_actors.service import TurnService
from everturn_gateway.config.links import NO_LINKS, Links
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.scheduler.client import SchedulerClient
from everturn_gateway.tools.marks import MarkedFiles


class ServiceLink:
    """The way to what a gateway has open, for tools that are made before it is."""

    def __init__(self) -> None:
        self._service: TurnService | None = None
        self._schedules: SchedulerClient | None = None
        self.messages: MessageIndex | None = None
        "Finds what was said; None = there is no index here."

    def connect(
        self,
        service: TurnService,
        schedules: SchedulerClient | None = None,
        messages: MessageIndex | None = None,
    ) -> None:
        """Make these the ones that tools reach; without `schedules` nothing can be scheduled."""
        self._service, self._schedules, self.messages = service, schedules, messages

    @property
    def service(self) -> TurnService:
        """The open service. No call runs before it is there."""
        assert self._service is not None, "tools run in turns, and turns in a service"
        return self._service

    @property
    def schedules(self) -> SchedulerClient:
        """The scheduled jobs.

        Raises:
            ToolFailedError: This gateway runs none.
        """
        if self._schedules is None:
            msg = "this gateway runs no scheduled jobs, so none can be made, listed or called off"
            raise ToolFailedError(msg)
        return self._schedules


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEnvironment:
    """What the tools of one agent may use."""

    agent: str
    "The agent's name."
    home: Path
    "The agent's folder, absolute."
    files: Path
    "The agent's workspace, absolute: commands run here, file tools reach nothing else."
    state: Path
    "The gateway's workspace (`.everturn`), absolute. No tool lets the model in there."
    environ: Mapping[str, str] = field(repr=False)
    "The gateway's environment. Nothing of it reaches a command unless it is named."
    secrets: SecretRegistry = field(repr=False)
    link: ServiceLink = field(repr=False)
    marks: MarkedFiles = field(repr=False)
    "Which files of the workspace hold text from outside."
    links: Links = NO_LINKS
    "Who is one person in several chats."


@runtime_checkable
class RunsCommands(Protocol):
    """A tool of which a call may run a shell command; the policy judges the command."""

    def command_of(self, call: ToolCall) -> str | None:
        """Return the command that the call would run; None where it runs none."""
        ...


class CommandPlace(Struct, frozen=True, kw_only=True):
    """Where the command of a call would run, for whoever judges it by what it would meet there."""

    root: Path
    "The workspace, absolute; links may be in the path."
    folder: Path
    "Where it begins: the workspace or a folder in it."
    path: str
    "Where programs are looked for, as in PATH."
    is_sealed: bool
    "Whether it runs in the sandbox, without network: then code of the workspace may be allowed."
    is_typed: bool = False
    "Whether it is no command line but what a running program is given to read."


@runtime_checkable
class PlacesCommands(Protocol):
    """A tool that can say where the command of a call would run."""

    def place_of(self, call: ToolCall) -> CommandPlace:
        """Return where the command of the call would run."""
        ...


class FileWrite(Struct, frozen=True, kw_only=True):
    """What a call would write, as it stands when it is judged."""

    root: Path
    "The workspace."
    path: str
    "The file, as seen from the workspace, without links."
    head: bytes | None = None
    "How the new content begins; None = not known."


@runtime_checkable
class WritesFiles(Protocol):
    """A tool that writes files of the workspace by itself."""

    async def write_of(self, call: ToolCall) -> FileWrite | None:
        """Return which file the call would write; None where it would fail before."""
        ...


@runtime_checkable
class JudgedByCall(Protocol):
    """A tool of which some calls reach less far than others."""

    def capabilities_of(self, call: ToolCall) -> ToolCapabilities:
        """Return how this call may be run, for the policy: as the tool says, or more tamely."""
        ...


def capabilities_of(tool: Tool, call: ToolCall) -> ToolCapabilities:
    """Return what the policy has to know of a call of `tool`."""
    return tool.capabilities_of(call) if isinstance(tool, JudgedByCall) else tool.capabilities
