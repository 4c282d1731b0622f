"""What a command of an agent finds in its sandbox. Reads the file system."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

from everturn_actors.errors import ToolFailedError
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.shell.confinement import system
from everturn_gateway.tools.shell.confinement.environment import DEFAULT_PATH
from everturn_gateway.tools.shell.confinement.hiding import RULES, secret_places
from everturn_gateway.tools.shell.confinement.mounts import (
    EMPTY,
    HIDDEN,
    PRIVATE,
    READABLE,
    WRITABLE,
    Look,
)
from everturn_gateway.yaml_files import resolved

HOME: Final = "/run/home"
"The home of a confined command: empty, and gone with it."
USER: Final = "agent"
"Who a confined command is to itself, whoever runs the gateway."
USER_ID: Final = 1000
_TMP: Final = Path("/tmp")
_LOOK_AGAIN_S: Final = 60  # at the machine, for a program's folder that was installed meanwhile


def view_of(
    environment: ToolEnvironment,
    *,
    network: bool,
    hidden: Sequence[Path] = (),
    readable: Sequence[Path] = (),
    writable: Sequence[Path] = (),
) -> dict[Path, Look]:
    """Return how each place that a command of an agent finds is to look; later entries win.

    Args:
        environment: Whose command it is.
        network: Whether it has the machine's network.
        hidden: What it does not see, wherever it lies.
        readable: What it sees beside the agent's folder, even where that lies in a hidden place.
        writable: What it can change beside the workspace.

    Raises:
        ToolFailedError: A place cannot be used; with the reason.
    """
    # A path through what commands can change leads where a command wants it to.
    roots = [real(environment.files)]
    for place in writable:
        if not _is_steered(place.expanduser(), roots):
            roots.append(real(place.expanduser()))
    barred = system.barred_places(
        environment.environ, environment.state, environment.home, environment.files
    )
    tools = system.toolchains(_path_outside(environment.environ, roots), barred=barred)
    looks = dict(system_view(network=network, when=int(time.monotonic() // _LOOK_AGAIN_S)))
    looks.update(dict.fromkeys(tools, READABLE))
    around = dict.fromkeys(tool.parent for tool in tools)
    for place in (*secret_places(environment, *around), *hidden):
        with suppress(OSError):  # what leads nowhere cannot be read either
            looks[resolved(place)] = HIDDEN
    rules = real(environment.home)
    _show(looks, rules, READABLE)
    for place in readable:
        if not _is_steered(place.expanduser(), roots):
            _show(looks, place, READABLE)
    state = real(environment.state)
    for place in (environment.files, *writable):
        if real(place) == state:
            msg = f"commands cannot run: {place} is where the gateway keeps its own state"
            raise ToolFailedError(msg)
        if place == environment.files or not _is_steered(place.expanduser(), roots):
            _show(looks, place, WRITABLE)
    looks.update({rules / name: HIDDEN for name in RULES})
    return looks


def _is_steered(place: Path, roots: Sequence[Path]) -> bool:
    """Return whether a link that a command could have made stands on the way to a place.

    A place that is not for us to see is as good as one: it is left out.
    """
    at = Path(place.anchor)
    with suppress(OSError):
        for part in place.parts[1:]:
            if (at / part).is_symlink() and any(at.is_relative_to(root) for root in roots):
                return True
            at = resolved(at / part)
        return False
    return True


def _path_outside(environ: Mapping[str, str], roots: Sequence[Path]) -> dict[str, str]:
    """Return a PATH without folders that commands can change: those are no toolchains of ours."""
    outside: list[str] = []
    for folder in (environ.get("PATH") or DEFAULT_PATH).split(":"):
        with suppress(ToolFailedError):
            found = real(Path(folder))
            is_inside = any(found.is_relative_to(root) for root in roots)
            if not is_inside and not _is_steered(Path(folder), roots):
                outside.append(folder)
    return {**environ, "PATH": ":".join(outside)}


@functools.lru_cache(maxsize=4)
def system_view(*, network: bool, when: int) -> Mapping[Path, Look]:  # noqa: ARG001 - a part of the key
    """Return what commands of every agent find, as it was at a time: it takes hundreds of looks."""
    return MappingProxyType(dict(_found(network=network)))


def _found(*, network: bool) -> Iterator[tuple[Path, Look]]:
    for name in system.EMPTY:
        yield Path(name), EMPTY
    for name in system.PROGRAMS:
        place = Path(name)
        if place.is_symlink():
            yield place, Look(kind="link", source=str(place.readlink()))
        elif place.is_dir():
            yield place, READABLE
    shown = list(system.etc_places(network=network))
    for place in shown:
        yield place, Look(kind="readable", source=str(resolved(place)))
    for place in system.closed_places(iter(shown)):
        yield place, HIDDEN
    yield Path("/var/tmp"), Look(kind="link", source=str(_TMP))
    yield Path("/var/run"), Look(kind="link", source="/run")
    yield _TMP, PRIVATE
    yield Path(HOME), PRIVATE
    for name, text in _MADE_UP.items():
        if name != "hosts" or not network:
            yield Path("/etc", name), Look(kind="data", data=text.encode())


_MADE_UP: Final = {
    "passwd": (
        "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"
        f"{USER}:x:{USER_ID}:{USER_ID}:{USER}:{HOME}:/bin/sh\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    ),
    "group": f"root:x:0:\n{USER}:x:{USER_ID}:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
}
"What stands in files of /etc that would tell who else there is."


def _show(looks: dict[Path, Look], place: Path, look: Look) -> None:
    """Show a place, and lead to it from where it is said to be."""
    place = place.expanduser()
    found = real(place)
    looks[found] = look
    if place == found or any(each.is_relative_to(place) for each in looks):
        return
    if next((looks[outer] for outer in place.parents if outer in looks), EMPTY) == EMPTY:
        looks[place] = Look(kind="link", source=str(found))


def real(place: Path) -> Path:
    """Return where a place is that a command has to see, links resolved.

    Raises:
        ToolFailedError: Its links lead nowhere.
    """
    try:
        return resolved(place)
    except OSError as error:
        msg = f"commands cannot run: {place} cannot be used: {error.strerror or error}"
        raise ToolFailedError(msg) from error
