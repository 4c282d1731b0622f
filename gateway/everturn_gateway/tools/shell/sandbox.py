"""Confines the commands of an agent with bubblewrap, or runs them plainly where that was chosen.

In the sandbox the agent's workspace is writable, `/tmp` is private to the command, the rest of the
file system is read-only, secret places are hidden (`hiding`), other processes are not visible, and
the network is cut off unless it is allowed. Source: bwrap(1), bubblewrap 0.11.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

import anyio.to_thread

from everturn_actors.errors import ToolFailedError
from everturn_gateway.documents import resolved
from everturn_gateway.tools.confined import make_private
from everturn_gateway.tools.shell.environment import DEFAULT_PATH
from everturn_gateway.tools.shell.hiding import secret_places
from everturn_gateway.tools.shell.run_as import give_folder, other_user_line, plain_fault
from everturn_gateway.tools.site import ToolSite

SandboxKind: TypeAlias = Literal["bwrap", "plain", "none"]

TMP_BYTES: Final = 512 * 1024**2  # of a command's private /tmp, which is kept in memory
_PROBE_S: Final = 10  # a probe that takes longer has failed
HOME: Final = "/run/home"
"The home of a confined command: empty, and gone with it."
_REMEDY: Final = (
    "whoever runs this agent can {}, or have commands run as another user (`sandbox: plain` with"
    " `run_as`, docs/shell-and-processes.md)"
)

# What of a new /proc sets up the kernel: where the gateway runs as root, its owner may write there,
# without any capability.
_KERNEL: Final = tuple(
    Path("/proc", name) for name in ("acpi", "bus", "fs", "irq", "scsi", "sys", "sysrq-trigger")
)

_Kind: TypeAlias = Literal["readable", "writable", "hidden", "private"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """How far the commands of a tool reach."""

    sandbox: SandboxKind
    """bwrap: confined. plain: as another user, `run_as`. none: as the gateway's own user, for
    programs that the agent's owner wrote, never for a command of a model.
    """
    network: bool = False
    "Whether confined commands reach the network. Plain ones always do."
    hidden: tuple[Path, ...] = ()
    "Files and folders to hide beside the known ones: key files that the configuration names."
    run_as: str = ""
    "The user of plain commands: a name, a number, or UID:GID."
    has_open_api: bool = False
    "Whether the gateway's HTTP API asks nobody for a token."
    bwrap: Path | None = None
    "The program; by default the one on the gateway's PATH."

    @property
    def reaches_network(self) -> bool:
        """Whether what a command prints may come from the network."""
        return self.network or self.sandbox != "bwrap"


def command_line(
    site: ToolSite,
    confinement: Confinement,
    command: str | Sequence[str],
    *,
    cwd: Path | None = None,
    writable: Sequence[Path] = (),
    readable: Sequence[Path] = (),
) -> tuple[str, ...]:
    """Return the argv that runs `command` as confined as it has to be.

    A string is a script for bash, handed over as one argument; a sequence is run as it is. It runs
    in `cwd` (the agent's workspace); start the argv in the same folder, for plain commands.
    `writable` and `readable` are shown beside the workspace and the agent's folder, even where
    they lie in a hidden place; `cwd` is not. Reads the file system: tasks await `confine` instead.

    Raises:
        ToolFailedError: There is no bash, or the sandbox cannot be had; the text says what the
            agent's owner can do.
    """
    argv = (_bash(site), "-c", "--", command) if isinstance(command, str) else tuple(command)
    if confinement.sandbox == "none":
        return argv
    if confinement.sandbox == "plain":
        return (*_as_other_user(site, confinement, cwd or site.files), *argv)
    bwrap = _find(site.environ, confinement)
    ability = _ability(bwrap, network=confinement.network)
    shown = _shown(site, confinement, writable, readable)
    return (
        str(bwrap),
        *_walls(network=confinement.network),
        *_mounts(shown, sized=ability.sized),
        "--chdir",
        str(_real(cwd or site.files)),
        "--",
        *argv,
    )


async def confine(
    site: ToolSite,
    confinement: Confinement,
    command: str | Sequence[str],
    *,
    cwd: Path | None = None,
    writable: Sequence[Path] = (),
    readable: Sequence[Path] = (),
) -> tuple[str, ...]:
    """Make sure that the workspace is there and return `command_line`, off the event loop.

    Raises:
        ToolFailedError: As `command_line`, or the workspace cannot be made.
    """

    def prepare() -> tuple[str, ...]:
        try:
            is_new = not site.files.exists()
            make_private(site.files)
            if is_new and confinement.sandbox == "plain" and confinement.run_as:
                with suppress(ValueError):  # the next step says what is wrong with it
                    give_folder(site.files, confinement.run_as)
            return command_line(
                site, confinement, command, cwd=cwd, writable=writable, readable=readable
            )
        except OSError as error:
            msg = f"the agent's workspace cannot be used: {error.strerror or error}"
            raise ToolFailedError(msg) from error

    return await anyio.to_thread.run_sync(prepare)


def sandbox_fault(
    environ: Mapping[str, str], confinement: Confinement, site: ToolSite | None = None
) -> str | None:
    """Return why commands cannot be confined here, and what to do; None where they can.

    Starts a process: not for the event loop.

    Args:
        environ: The gateway's environment.
        confinement: How far they are to reach.
        site: Whose commands; without one, what a plain command would reach is not tried.
    """
    if confinement.sandbox == "plain" and site is not None:
        fault = plain_fault(
            site,
            confinement.run_as,
            secret=confinement.hidden,
            has_open_api=confinement.has_open_api,
        )
        return fault or None
    if confinement.sandbox != "bwrap":
        return None
    try:
        _ability(_find(environ, confinement), network=confinement.network)
    except ToolFailedError as error:
        return str(error)
    return None


def _as_other_user(site: ToolSite, confinement: Confinement, cwd: Path) -> tuple[str, ...]:
    return other_user_line(
        site,
        confinement.run_as,
        cwd=cwd,
        secret=confinement.hidden,
        has_open_api=confinement.has_open_api,
    )


# --- the program ---


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ability:
    """What a bwrap that works can do."""

    sized: bool
    "Whether it can limit the size of a tmpfs (from 0.7 on)."


def _find(environ: Mapping[str, str], confinement: Confinement) -> Path:
    if confinement.bwrap is not None:
        return confinement.bwrap
    found = shutil.which("bwrap", path=environ.get("PATH") or DEFAULT_PATH)
    if found is None:
        remedy = _REMEDY.format("install bubblewrap (the package of that name)")
        msg = (
            f"commands cannot run: the sandbox needs bubblewrap, and it is not installed; {remedy}"
        )
        raise ToolFailedError(msg)
    return Path(found)


@functools.cache
def _ability(bwrap: Path, *, network: bool) -> _Ability:
    """Build an empty sandbox once; remembered where that works, so that a repair needs no restart.

    Raises:
        ToolFailedError: It does not work; with bubblewrap's own words.
    """
    why = ""
    for sized in (True, False):
        private: dict[Path, _Kind] = {Path("/tmp").resolve(): "private"}  # noqa: S108 - its own
        argv = [str(bwrap), *_walls(network=network), *_mounts(private, sized=sized), "--", "true"]
        try:
            done = subprocess.run(  # noqa: S603 - all of it is ours
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PROBE_S,
                check=False,
                env={"PATH": DEFAULT_PATH + ":/run/current-system/sw/bin"},
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            why = str(error)
            break
        if done.returncode == 0:
            return _Ability(sized=sized)
        why = done.stderr.decode(errors="replace").strip()[:300]
        if "--size" not in why:
            break
    remedy = _REMEDY.format(
        "let this user create user namespaces (sysctl kernel.unprivileged_userns_clone, "
        "user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns; in a container "
        "its security options)"
    )
    msg = f"commands cannot run: bubblewrap cannot build a sandbox here ({why or 'no reason'}); "
    raise ToolFailedError(msg + remedy)


def _bash(site: ToolSite) -> str:
    found = shutil.which("bash", path=site.environ.get("PATH") or DEFAULT_PATH)
    if found is None:
        msg = "commands cannot run: bash is not installed; whoever runs this agent can install it"
        raise ToolFailedError(msg)
    return found


# --- what it is told ---


def _walls(*, network: bool) -> tuple[str, ...]:
    return (
        "--unshare-user-try",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        *(() if network else ("--unshare-net",)),
        "--die-with-parent",
        "--new-session",
        "--cap-drop",
        "ALL",
        "--ro-bind",
        "/",
        "/",
    )


def _shown(
    site: ToolSite, confinement: Confinement, writable: Sequence[Path], readable: Sequence[Path]
) -> dict[Path, _Kind]:
    """Return how each place that is not merely read-only is to look; later entries win."""
    shown: dict[Path, _Kind] = {}
    for place in (*secret_places(site), *confinement.hidden):
        with suppress(OSError):  # what leads nowhere cannot be read either
            shown[resolved(place)] = "hidden"
    # Sockets of other programs lie in /run; a read-only mount would not keep anybody from them.
    shown[Path("/run").resolve()] = "hidden"
    for needed in ("/run/current-system", "/etc/resolv.conf"):  # NixOS; systemd-resolved
        shown[Path(needed).resolve()] = "readable"
    for own in ("/tmp", "/var/tmp"):  # noqa: S108 - these are made private
        shown[Path(own).resolve()] = "private"
    shown[Path(HOME)] = "private"
    for place in (site.home, *readable):
        shown[_real(place)] = "readable"
    state = _real(site.state)
    for place in (site.files, *writable):
        folder = _real(place)
        if folder == state:
            msg = f"commands cannot run: {folder} is where the gateway keeps its own state"
            raise ToolFailedError(msg)
        shown[folder] = "writable"
        for name in ("agent.yaml", "policy.yaml", "policy.local.yaml"):
            # A workspace that is the agent's own folder must not let it change its own rules.
            if folder == _real(site.home):
                shown[folder / name] = "readable"
    return shown


def _real(place: Path) -> Path:
    """Return where a folder is that a command has to see.

    Raises:
        ToolFailedError: Its links lead nowhere.
    """
    try:
        return resolved(place)
    except OSError as error:
        msg = f"commands cannot run: {place} cannot be used: {error.strerror or error}"
        raise ToolFailedError(msg) from error


def _mounts(shown: Mapping[Path, _Kind], *, sized: bool) -> list[str]:
    """Return the mounts, outer ones first, so that an inner one shows through what hides it."""
    line: list[str] = ["--proc", "/proc", "--dev", "/dev"]
    for part in _KERNEL:
        if _is_there(part):
            line += ("--ro-bind", str(part), str(part))
    sealed: list[str] = []
    for place in sorted(shown, key=lambda path: (len(path.parts), path)):
        kind, covered = shown[place], _cover(place, shown) in {"hidden", "private"}
        if (covered and kind == "hidden") or not (kind == "private" or _is_there(place)):
            continue
        path = str(place)
        match kind:
            case "readable":
                line += ("--ro-bind", path, path)
            case "writable":
                line += ("--bind", path, path)
            case "private":
                line += (*(("--size", str(TMP_BYTES)) if sized else ()), "--tmpfs", path)
            case "hidden" if place.is_dir():
                line += ("--tmpfs", path)
                sealed += ("--remount-ro", path)
            case "hidden":
                # A device on a mount for which devices are off: opening it is refused.
                line += ("--ro-bind", os.devnull, path)
    return line + sealed


def _cover(place: Path, shown: Mapping[Path, _Kind]) -> _Kind:
    """Return how the innermost place around `place` looks."""
    for outer in place.parents:
        if outer in shown:
            return shown[outer]
    return "readable"


def _is_there(place: Path) -> bool:
    try:
        return place.exists()
    except OSError:  # not for us to see either
        return False
