"""How far the commands of a tool reach, as its owner wrote it down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from everturn_gateway.specs.sections.tools import ConfinedSection, LimitsSection
from everturn_gateway.tools.shell import Confinement, Limits
from everturn_gateway.yaml_files import resolved

_KERNELS = (Path("/proc"), Path("/sys"), Path("/dev"))
_MIB = 1024**2


def read_confinement(
    section: ConfinedSection, *, folder: Path, state: Path | None
) -> tuple[Confinement, list[str]]:
    """Return the confinement that a tool asks for, and every fault of it, in words.

    Resolves paths: not for the event loop.

    Args:
        section: The values in `agent.yaml`.
        folder: The agent's folder.
        state: The gateway's workspace; None = there is none.
    """
    faults: list[str] = []
    if section.sandbox == "plain":
        given = {"readable", "writable", "limits"} & section.model_fields_set
        faults += [f"{name} has no effect with sandbox: plain" for name in sorted(given)]
    places: dict[str, tuple[Path, ...]] = {}
    for name, written in (("readable", section.readable), ("writable", section.writable)):
        places[name] = tuple(folder / Path(each).expanduser() for each in written)
        for place in places[name]:
            try:
                real = resolved(place)
            except OSError as error:
                faults.append(f"{name}: {place} cannot be used: {error.strerror or error}")
                continue
            wrongs = _shown(real, state) if name == "readable" else _changed(real, folder, state)
            if wrong := next(wrongs, ""):
                faults.append(f"{name}: {place} {wrong}")
    confinement = Confinement(
        sandbox=section.sandbox,
        network=section.network,
        run_as=section.run_as or "",
        readable=places["readable"],
        writable=places["writable"],
        limits=_limits(section.limits),
    )
    return confinement, faults


def _limits(section: LimitsSection) -> Limits:
    limits = Limits(tasks=section.max_tasks, file_bytes=section.max_file_mib * _MIB)
    if section.max_memory_mib is None:
        return limits
    return Limits(
        tasks=limits.tasks,
        file_bytes=limits.file_bytes,
        memory_bytes=section.max_memory_mib * _MIB,
    )


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
