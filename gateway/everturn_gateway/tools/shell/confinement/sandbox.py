"""Confines the commands of an agent with bubblewrap, or runs them plainly where that was chosen.

A confined command sees what it needs and nothing else: the system's programs, the little of /etc
that a C library reads (`system`), the agent's workspace, writable, and its folder, read-only. What
else there is on the machine does not exist for it, unless the agent's owner lists it. It has a /tmp
and a home of its own, sees no other process, and no network unless that is allowed; what it may ask
of the kernel is filtered (`filters`), and a warden holds it to its limits (`warden`).
Source: bwrap(1), bubblewrap 0.11.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import shutil
import subprocess
import sys
from binascii import b2a_base64
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, TypeAlias

import anyio.to_thread
from msgspec import Struct, field

from everturn_actors.errors import ToolFailedError
from everturn_gateway.tools.confined import make_private
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.shell.confinement import system, view, warden
from everturn_gateway.tools.shell.confinement.environment import DEFAULT_PATH
from everturn_gateway.tools.shell.confinement.filters import call_filter
from everturn_gateway.tools.shell.confinement.mounts import Look, is_there, mount_options
from everturn_gateway.tools.shell.confinement.run_as import (
    give_folder,
    other_user_line,
    plain_fault,
)

SandboxKind: TypeAlias = Literal["bwrap", "plain", "none"]

_PROBE_S: Final = 10  # a probe that takes longer has failed
HOME: Final = view.HOME
"The home of a confined command: empty, and gone with it."
_NICE: Final = 5  # whoever waits for the gateway comes before a command that computes
_OPEN_FILES: Final = 4096
_FIRST: Final = (
    *("/bin/sh", "-c", 'exec 3>&2 2>/dev/null; (exec 2>&3 3>&-; exec "$@"); exit $?', "sh"),
)
"""The first process inside: it collects those whose parents are gone, and ends with the command.

What it has to say of a signal that ended the command, nobody is to read: the exit code says it.

Not bubblewrap's own, of which /proc/1/exe leads to the program outside: its owner, whom a command
is outside, could change its mode there. Source: CVE-2019-5736, of runc, for the way.
"""
_REMEDY: Final = (
    "whoever runs this agent can {}, or have commands run as another user (`sandbox: plain` with"
    " `run_as`, `everturn help shell-and-processes`)"
)


def _half_of_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


class Limits(Struct, frozen=True, kw_only=True):
    """What a confined command may take of the machine, with all that it starts."""

    tasks: int = 1024
    "Processes and threads at once."
    memory_bytes: int = field(default_factory=_half_of_memory)
    "Memory that it holds, all together; by default half of what the machine has."
    file_bytes: int = 8 * 1024**3
    "Of one file that it writes."


class Confinement(Struct, frozen=True, kw_only=True):
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
    readable: tuple[Path, ...] = ()
    "What its owner shows beside the workspace, read-only; a `~` is the gateway's home."
    writable: tuple[Path, ...] = ()
    "The same, writable."
    limits: Limits = field(default_factory=Limits)
    bwrap: Path | None = None
    "The program; by default the one on the gateway's PATH."

    @property
    def reaches_network(self) -> bool:
        """Whether what a command prints may come from the network."""
        return self.network or self.sandbox != "bwrap"


def command_line(
    environment: ToolEnvironment,
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
    `writable` and `readable` are shown beside what the confinement shows, even where they lie in a
    hidden place; `cwd` is not. Reads the file system: tasks await `confine` instead.

    Raises:
        ToolFailedError: There is no bash, or the sandbox cannot be had; the text says what the
            agent's owner can do.
    """
    argv = (_bash(environment), "-c", "--", command) if isinstance(command, str) else tuple(command)
    if confinement.sandbox == "none":
        return argv
    if confinement.sandbox == "plain":
        return (*_as_other_user(environment, confinement, cwd or environment.files), *argv)
    if isinstance(command, str):
        argv = ("bash", *argv[1:])  # the one in there: ours may be one that it does not see
    bwrap = _find(environment.environ, confinement)
    ability = _ability(bwrap, network=confinement.network)
    looks = view.view_of(
        environment,
        network=confinement.network,
        hidden=confinement.hidden,
        readable=(*confinement.readable, *readable),
        writable=(*confinement.writable, *writable),
    )
    line = _bubblewrap(
        bwrap, looks, ability, network=confinement.network, limits=confinement.limits
    )
    return (*line, "--chdir", str(view.real(cwd or environment.files)), "--", *_FIRST, *argv)


async def confine(
    environment: ToolEnvironment,
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
            make_private(environment.files)
            if confinement.sandbox == "plain" and confinement.run_as:
                with suppress(ValueError):  # the next step says what is wrong with it
                    give_folder(environment.files, confinement.run_as)
            return command_line(
                environment,
                confinement,
                command,
                cwd=cwd,
                writable=writable,
                readable=readable,
            )
        except OSError as error:
            msg = f"the agent's workspace cannot be used: {error.strerror or error}"
            raise ToolFailedError(msg) from error

    return await anyio.to_thread.run_sync(prepare)


def sandbox_fault(
    environ: Mapping[str, str], confinement: Confinement, environment: ToolEnvironment | None = None
) -> str | None:
    """Return why commands cannot be confined here, and what to do; None where they can.

    Starts a process: not for the event loop.

    Args:
        environ: The gateway's environment.
        confinement: How far they are to reach.
        environment: Whose commands; without one, what a plain command would reach is not tried.
    """
    if confinement.sandbox == "plain" and environment is not None:
        fault = plain_fault(
            environment,
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


def _as_other_user(
    environment: ToolEnvironment, confinement: Confinement, cwd: Path
) -> tuple[str, ...]:
    return other_user_line(
        environment,
        confinement.run_as,
        cwd=cwd,
        secret=confinement.hidden,
        has_open_api=confinement.has_open_api,
    )


def unseen_places(
    environ: Mapping[str, str], confinement: Confinement, *own: Path
) -> tuple[list[Path], list[Path]]:
    """Return what a command does not see that it might be thought to.

    First the folders of programs on the PATH of `environ`, then what the confinement lists and is
    not there. `own` are places of the gateway's, which make no folder around them a toolchain.
    """
    given = [each.expanduser() for each in (*confinement.readable, *confinement.writable)]
    missing = [place for place in given if not is_there(place)]
    seen = [view.real(place) for place in given if place not in missing]
    tools = system.toolchains(environ, barred=system.barred_places(environ, *own))
    return system.unseen(environ, (*tools, *seen)), missing


# --- the program ---


class _Ability(Struct, frozen=True, kw_only=True):
    """What a bwrap that works can do."""

    sized: bool
    "Whether it can limit the size of a tmpfs (from 0.7 on)."
    user: tuple[str, ...]
    "The options by which a command gets a user of its own."


_AS_USER: Final = ("--uid", str(view.USER_ID), "--gid", str(view.USER_ID))
_USERS: Final = (
    ("--unshare-user", "--disable-userns", *_AS_USER),
    ("--unshare-user", *_AS_USER),  # before 0.8
    ("--unshare-user-try",),  # root, on a machine that has no user namespaces
)


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
    looks = dict(view.system_view(network=network, when=0))
    for user, sized in itertools.product(_USERS, (True, False)):
        ability = _Ability(sized=sized, user=user)
        line = _bubblewrap(bwrap, looks, ability, network=network, limits=Limits())
        try:
            done = subprocess.run(
                (*line, "--", *_FIRST, "true"),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PROBE_S,
                check=False,
                env={"PATH": DEFAULT_PATH + ":/run/current-system/sw/bin"},
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            why = why or str(error)
            break
        if done.returncode == 0:
            return ability
        # The first of them says most: the others are for older programs and kernels.
        why = why or done.stderr.decode(errors="replace").strip()[:300]
    remedy = _REMEDY.format(
        "let this user create user namespaces (sysctl kernel.unprivileged_userns_clone, "
        "user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns; in a container "
        "its security options)"
    )
    msg = f"commands cannot run: bubblewrap cannot build a sandbox here ({why or 'no reason'}); "
    raise ToolFailedError(msg + remedy)


def _bash(environment: ToolEnvironment) -> str:
    found = shutil.which("bash", path=environment.environ.get("PATH") or DEFAULT_PATH)
    if found is None:
        msg = "commands cannot run: bash is not installed; whoever runs this agent can install it"
        raise ToolFailedError(msg)
    return found


# --- what it is told ---


def _bubblewrap(
    bwrap: Path,
    looks: Mapping[Path, Look],
    ability: _Ability,
    *,
    network: bool,
    limits: Limits,
) -> tuple[str, ...]:
    """Return the warden's line, up to where the command's own options begin."""
    allowed = call_filter(network=network)
    first = [] if allowed is None else [allowed]
    mounts, data = mount_options(looks, sized=ability.sized, data_fd=warden.DATA_FD + len(first))
    order: warden.Order = {
        "data": [b2a_base64(each, newline=False).decode() for each in (*first, *data)],
        "tasks": limits.tasks,
        "memory_bytes": limits.memory_bytes,
        "file_bytes": limits.file_bytes,
        "files": _OPEN_FILES,
        "nice": _NICE,
    }
    return (
        *(sys.executable, "-I", "-S", warden.__file__, json.dumps(order)),
        *(str(bwrap), "--info-fd", str(warden.INFO_FD), "--block-fd", str(warden.BLOCK_FD)),
        *(() if allowed is None else ("--seccomp", str(warden.DATA_FD))),
        *ability.user,
        *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *(() if network else ("--unshare-net",)),
        *("--hostname", "sandbox", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        "--as-pid-1",
        *("--setenv", "USER", view.USER, "--setenv", "LOGNAME", view.USER),
        *mounts,
    )
