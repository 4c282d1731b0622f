"""How far the commands of a tool reach, as its owner wrote it down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from everturn_gateway.plugins import PluginToolSettings, ToolPlan, ToolRequest
from everturn_gateway.tools.shell.confinement.sandbox import Confinement, Limits
from everturn_gateway.yaml_files import SettingsModel, resolved
from everturn_gateway.yaml_files.fields import Count, Text

SandboxKind: TypeAlias = Literal["bwrap", "plain"]

_KERNELS = (Path("/proc"), Path("/sys"), Path("/dev"))
_MIB = 1024**2


class LimitsSettings(SettingsModel):
    """What one command in the sandbox may take of the machine, with all that it starts."""

    max_tasks: Count = 1024
    "Processes and threads at once; a command that starts more is ended."
    max_memory_mib: Count | None = None
    "Memory that it holds; a command that takes more is ended. By default half of the machine's."
    max_file_mib: Count = 8192
    "Of one file that it writes."


class ConfinedSettings(PluginToolSettings):
    """How far the commands of a tool reach."""

    sandbox: SandboxKind = "bwrap"
    "bwrap: they see their workspace and programs; plain: they run as the user `run_as`."
    run_as: Text | None = None
    "plain: the user of its commands, by name, number or UID:GID; not the gateway's own."
    network: bool = False
    "Whether commands in the sandbox reach the network."
    readable: tuple[Text, ...] = ()
    "What they see beside that in the sandbox: files and folders; relative to the agent's folder."
    writable: tuple[Text, ...] = ()
    "The same, for what they may change as well."
    limits: LimitsSettings = LimitsSettings.model_construct()


SettingsT = TypeVar("SettingsT", bound=ConfinedSettings)


class ConfinedConfig(Struct, frozen=True, kw_only=True):
    """A tool that runs commands."""

    confinement: Confinement


class OutOfReach(Struct, frozen=True, kw_only=True):
    """What no command of a model can reach, whatever its owner allows."""

    hidden: tuple[Path, ...] = ()
    "Files with secrets."
    has_open_api: bool = False
    "Whether the gateway's HTTP API asks nobody for a token."

    def confined(self, confinement: Confinement) -> Confinement:
        """Return a confinement in which none of it can be reached."""
        return replace(confinement, hidden=self.hidden, has_open_api=self.has_open_api)


class ReadConfinement(Struct, frozen=True, kw_only=True):
    """How far a tool reaches; faults and warnings name fields of its entry."""

    confinement: Confinement
    faults: tuple[tuple[tuple[str, ...], str], ...] = ()
    warnings: tuple[tuple[tuple[str, ...], str], ...] = ()


def read_confinement(
    section: ConfinedSettings, *, folder: Path, state: Path | None, is_owners: bool = False
) -> ReadConfinement:
    """Return the confinement that a tool asks for.

    Resolves paths: not for the event loop.

    Args:
        section: The values in `agent.yaml`.
        folder: The agent's folder.
        state: The gateway's workspace; None = there is none.
        is_owners: Whether the tool is a program of the owner's, which may run as the gateway does.
    """
    faults: list[str] = []
    is_unconfined = is_owners and section.run_as is None
    if section.run_as is not None and section.sandbox != "plain":
        faults.append("run_as needs sandbox: plain; in the sandbox nobody else is")
    warnings: list[tuple[tuple[str, ...], str]] = []
    if section.sandbox == "plain":
        given = {"readable", "writable", "limits"} & section.model_fields_set
        faults += [f"{name} has no effect with sandbox: plain" for name in sorted(given)]
        if section.run_as is None and not is_owners:
            message = (
                "sandbox: plain runs nothing without run_as, another user than the gateway's own:"
                " that one can read its tokens and write this agent's policy"
            )
            warnings.append((("sandbox",), message))
    places = {
        "readable": tuple(folder / Path(each).expanduser() for each in section.readable),
        "writable": tuple(folder / Path(each).expanduser() for each in section.writable),
    }
    for name, named in places.items():
        for place in named:
            if wrong := _wrong(place, folder, state, is_changed=name == "writable"):
                faults.append(f"{name}: {place} {wrong}")
    confinement = Confinement(
        sandbox="none" if section.sandbox == "plain" and is_unconfined else section.sandbox,
        network=section.network,
        run_as=section.run_as or "",
        readable=places["readable"],
        writable=places["writable"],
        limits=_limits(section.limits),
    )
    told = tuple(((), fault) for fault in faults)
    return ReadConfinement(confinement=confinement, faults=told, warnings=tuple(warnings))


def plan_confined(
    request: ToolRequest, kind: type[SettingsT], config: Callable[[SettingsT, Confinement], object]
) -> ToolPlan:
    """Return the plan of a tool that runs commands in the agent's workspace.

    Args:
        request: What the agent's file says.
        kind: The model of its settings.
        config: Makes what the tool is made of.
    """
    section = request.settings(kind)
    read = read_confinement(section, folder=request.home, state=request.state)
    return ToolPlan(
        settings=config(section, read.confinement),
        reads_workspace=True,
        writes_workspace=True,
        faults=read.faults,
        warnings=read.warnings,
    )


def _limits(section: LimitsSettings) -> Limits:
    limits = Limits(tasks=section.max_tasks, file_bytes=section.max_file_mib * _MIB)
    if section.max_memory_mib is None:
        return limits
    return Limits(
        tasks=limits.tasks,
        file_bytes=limits.file_bytes,
        memory_bytes=section.max_memory_mib * _MIB,
    )


def _wrong(place: Path, folder: Path, state: Path | None, *, is_changed: bool) -> str:
    """Return why commands may not see a place, or change it; empty where they may."""
    try:
        real = resolved(place)
    except OSError as error:
        return f"cannot be used: {error.strerror or error}"
    return next(_changed(real, folder, state) if is_changed else _shown(real, state), "")


def _shown(place: Path, state: Path | None) -> Iterator[str]:
    """Yield why no command may see a place."""
    if place == Path("/"):
        yield "is the whole machine, with every secret on it; name the folders that are needed"
    for kernel in _KERNELS:
        if place.is_relative_to(kernel):
            yield f"lies in {kernel}, of which a command gets its own"
    if state is not None and place.is_relative_to(resolved(state)):
        yield "lies in the gateway's own workspace"


def _changed(place: Path, folder: Path, state: Path | None) -> Iterator[str]:
    """Yield why no command may change a place."""
    yield from _shown(place, state)
    agents = resolved(folder).parent
    if agents.is_relative_to(place) or place.is_relative_to(agents):
        yield "holds agents, or lies in the folder of one: a command could change what rules it"
    if state is not None and resolved(state).is_relative_to(place):
        yield "holds the gateway's own workspace"
