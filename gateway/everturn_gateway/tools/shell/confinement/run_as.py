"""Commands without a sandbox, as another user: `sandbox: plain` with `run_as`.

A process can read and write what its user can, and the gateway's user can read its tokens and write
its policies. So a plain command never runs as that user: it runs as one that the owner names, and
only where that user, tried at each start, can neither read nor change what rules the agent. Where
that cannot be had, nothing runs, and the reason names the way out.

The user is changed by setpriv of util-linux, together with its groups, without any capability and
with `no_new_privs`, so that no setuid program gives a right back. Sources: setpriv(1);
capabilities(7), "Effect of user ID changes on capabilities"; prctl(2), `PR_SET_NO_NEW_PRIVS`.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from everturn_actors.errors import ToolFailedError
from everturn_gateway.tools.environment import ToolEnvironment
from everturn_gateway.tools.shell.confinement.environment import DEFAULT_PATH
from everturn_gateway.yaml_files import resolved

PROCESSES_MOST: Final = 1024  # of one user at the same time, all its commands together
_PROBE_S: Final = 20  # to try some hundred files; one that takes longer has failed
_FILES_MOST: Final = 10_000  # of an agent's folder; more cannot be tried at each command
_SHOWN_MOST: Final = 3  # files that a refusal names
_ARGUMENTS_BYTES: Final = 100_000  # of one call of the probe; the kernel takes 128 KiB a word
_NUMBERS: Final = re.compile(r"(\d+)(?::(\d+))?")
_LARGEST_ID: Final = 2**32 - 2

_PROTECTED_HARDLINKS: Final = Path("/proc/sys/fs/protected_hardlinks")  # proc_sys_fs(5)

# Bits of CapEff in /proc/self/status; capabilities(7), linux/capability.h.
_RIGHTS: Final[Mapping[str, int]] = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "FOWNER": 3,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
    "SYS_PTRACE": 19,
}
"To become another user; to give files to it and take what it wrote; to find and end what it left."

# Really tried, by the user itself: the kernel's answer counts, with access lists and all.
_PROBE: Final = r"""
here=$1; shift
if [ -n "$here" ]; then
  cd "$here" 2>/dev/null || echo "files $here"
fi
for each; do
  path=${each#?}
  # Its owner gives himself any right on it.
  [ "${each%"$path"}" != f ] && [ -O "$path" ] && echo "owns $path"
  case $each in
    r*) if [ -d "$path" ]; then
          { [ -r "$path" ] || [ -x "$path" ]; } && echo "reads $path"
        elif [ -f "$path" ]; then
          { true < "$path"; } 2>/dev/null && echo "reads $path"
        fi ;;
    w*) if [ -d "$path" ]; then
          # Of a sticky folder nobody takes what belongs to others.
          [ -w "$path" ] && ! [ -k "$path" ] && echo "writes $path"
        else
          [ -w "$path" ] && echo "writes $path"
        fi ;;
    f*) [ -r "$path" ] && [ -w "$path" ] && [ -x "$path" ] || echo "files $path"; continue ;;
    p*) [ -w "$path" ] && echo "writes $path" ;;  # what it holds is the user's own: sticky or not
  esac
done
:
"""


class OtherUser(Struct, frozen=True, kw_only=True):
    """Whom a command runs as."""

    name: str
    "As the owner wrote it."
    uid: int
    gid: int
    "Its one group."


def find_user(text: str) -> OtherUser:
    """Return the user of a name, of a number, or of `UID:GID`.

    Raises:
        ValueError: There is none, it is root, or it is the gateway's own; the text says so.
    """
    if (numbers := _NUMBERS.fullmatch(text)) is not None:
        uid = int(numbers[1])
        gid = int(numbers[2]) if numbers[2] else _group_of(uid)
    else:
        try:
            found = pwd.getpwnam(text)
        except (KeyError, ValueError):
            msg = f"there is no user {text!r} on this machine; `useradd --system` makes one"
            raise ValueError(msg) from None
        uid, gid = found.pw_uid, found.pw_gid
    if not 0 < uid <= _LARGEST_ID or not 0 < gid <= _LARGEST_ID:
        msg = (
            f"{text!r} is root, of root's group, or no number of a user; name one that owns nothing"
            " else"
        )
        raise ValueError(msg)
    if uid in {os.getuid(), os.geteuid()}:
        msg = f"{text!r} is the user that the gateway runs as; name another one"
        raise ValueError(msg)
    return OtherUser(name=text, uid=uid, gid=gid)


def other_user_line(
    environment: ToolEnvironment,
    run_as: str,
    *,
    cwd: Path,
    secret: Sequence[Path],
    has_open_api: bool,
) -> tuple[str, ...]:
    """Return the words before a command line that make it run as another user.

    Tries, as that user, whether it is kept from what rules the agent. Starts a process, some
    milliseconds: not for the event loop.

    Args:
        environment: Whose command it is.
        run_as: The user; empty = none was named.
        cwd: Where the command runs.
        secret: Files of the gateway that hold secrets: its configuration, keys.
        has_open_api: Whether the gateway's HTTP API asks nobody for a token.

    Raises:
        ToolFailedError: It cannot be had; the text says what the agent's owner can do.
    """
    try:
        user = _usable_user(run_as)
        line = (*_setpriv(environment.environ), *_words(user))
        if has_open_api:
            why = (
                "whoever reaches the gateway's port without a token may answer its questions, and a"
                " command reaches it; set server.api_token in everturn.yaml"
            )
        else:
            why = _reachable(environment, line, user, cwd, secret)
    except (ValueError, OSError, subprocess.SubprocessError) as error:
        line, why = (), str(error)
    if why:
        msg = f"commands cannot run with `sandbox: plain`: {why}"
        raise ToolFailedError(msg)
    return (*line, "--")


def plain_fault(
    environment: ToolEnvironment, run_as: str, *, secret: Sequence[Path], has_open_api: bool
) -> str:
    """Return why plain commands would be refused here, and what to do; empty where they run.

    The arguments are those of `other_user_line`. A workspace that is not there yet is no fault.
    """
    try:
        other_user_line(
            environment, run_as, cwd=environment.files, secret=secret, has_open_api=has_open_api
        )
    except ToolFailedError as error:
        return str(error)
    return ""


def give_folder(folder: Path, run_as: str) -> None:
    """Give an empty folder of the gateway's to the user that works in it.

    One that holds something, or belongs to somebody else, is left as it is: its owner decides.

    Raises:
        OSError: It cannot be given away.
        ValueError: See `find_user`.
    """
    user = find_user(run_as)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(folder, flags)
    try:
        is_mine = os.fstat(descriptor).st_uid == os.geteuid()
        if is_mine and not os.listdir(descriptor):  # of the folder that was opened
            os.fchown(descriptor, user.uid, user.gid)
    finally:
        os.close(descriptor)


def _usable_user(run_as: str) -> OtherUser:
    """Return the user, where this process may become it.

    Raises:
        ValueError: None is named, or this process has not the right.
    """
    if not run_as:
        msg = (
            "it would run them as the gateway's own user, who can read its tokens and write its"
            " policy; use `sandbox: bwrap`, or name another user with `run_as`"
            " (`everturn help shell-and-processes`)"
        )
        raise ValueError(msg)
    user = find_user(run_as)
    if _PROTECTED_HARDLINKS.exists() and _PROTECTED_HARDLINKS.read_text().strip() == "0":
        msg = (
            "this kernel lets a user make hard links to files of others, which the gateway would"
            " take for its own; set `sysctl fs.protected_hardlinks=1`"
        )
        raise ValueError(msg)
    has = _rights()
    if missing := [name for name, bit in _RIGHTS.items() if not has >> bit & 1]:
        msg = (
            f"to run them as {user.name} the gateway has to be root, or to have the capabilities"
            f" {', '.join(missing)} besides (in a container: cap_add); or use `sandbox: bwrap`"
        )
        raise ValueError(msg)
    return user


def _rights() -> int:
    """Return the capabilities of this process, one bit each."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


def _setpriv(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the program that changes the user, behind the one that bounds what it may start."""
    path = environ.get("PATH") or DEFAULT_PATH
    bound, change = (shutil.which(name, path=path) for name in ("prlimit", "setpriv"))
    if bound is None or change is None:
        msg = "changing the user needs setpriv and prlimit; install util-linux"
        raise ValueError(msg)
    return (bound, f"--nproc={PROCESSES_MOST}", "--core=0", "--", change)


def _words(user: OtherUser) -> tuple[str, ...]:
    return (
        *(f"--reuid={user.uid}", f"--regid={user.gid}", "--clear-groups"),
        *("--inh-caps=-all", "--ambient-caps=-all", "--no-new-privs", "--pdeathsig=keep"),
    )


def _reachable(
    environment: ToolEnvironment,
    become: Sequence[str],
    user: OtherUser,
    cwd: Path,
    secret: Sequence[Path],
) -> str:
    """Try as the user what it can reach; return what is wrong, empty where nothing is."""
    state, files = resolved(environment.state), resolved(environment.files)
    if files.is_relative_to(state):
        return (
            f"the agent's workspace {files} lies in the gateway's state, which {user.name} must not"
            " enter; set spec.workspace in agent.yaml to a folder elsewhere"
        )
    here = str(resolved(cwd)) if files.is_dir() else ""
    tried = [f"f{files}"] if files.is_dir() else []
    tried += [f"r{each}" for each in _unreadable(environment, secret)]
    tried += [f"w{each}" for each in _unchangeable(environment, secret)]
    # Who can put a link in the place of the workspace leads the gateway's own tools anywhere.
    tried += [f"p{each.parent}" for each in _both(environment.files)]
    found: list[str] = []
    for some in _batches(tried):
        done = subprocess.run(
            [*become, "--", "/bin/sh", "-c", _PROBE, "sh", here, *some],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_S,
            check=False,
            cwd="/",
            env={"PATH": DEFAULT_PATH, "LC_ALL": "C.UTF-8"},
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()[:300]
            return f"this process cannot become {user.name} ({said or done.returncode})"
        found += done.stdout.decode(errors="surrogateescape").splitlines()
        here = ""
    return _told(found, user)


def _told(found: Sequence[str], user: OtherUser) -> str:
    by_kind: dict[str, list[str]] = {}
    for line in found:
        kind, _, path = line.partition(" ")
        if path not in by_kind.setdefault(kind, []):
            by_kind[kind].append(path)
    if paths := by_kind.get("reads", []):
        return (
            f"{user.name} can read {_some(paths)}; take that from others (chmod o-rwx, and see to"
            " its group), or name another user with `run_as`"
        )
    if paths := by_kind.get("owns", []):
        return (
            f"{_some(paths)} belongs to {user.name}, who can give itself any right on it; give it"
            " to the gateway's user (chown), or name another user with `run_as`"
        )
    if paths := by_kind.get("writes", []):
        return (
            f"{user.name} can change {_some(paths)}, and so what rules the agent; take that from"
            " it (chown, chmod), or name another user with `run_as`"
        )
    if paths := by_kind.get("files", []):
        return (
            f"{user.name} cannot work in {_some(paths)}; give it to that user"
            f" (chown -R {user.uid}:{user.gid}), and let it pass through the folders above"
            " (chmod o+x)"
        )
    return ""


def _some(paths: Sequence[str]) -> str:
    more = len(paths) - _SHOWN_MOST
    shown = ", ".join(paths[:_SHOWN_MOST])
    return f"{shown} and {more} more" if more > 0 else shown


def _batches(words: Sequence[str]) -> Iterator[list[str]]:
    batch, size = list[str](), 0
    for word in words:
        batch.append(word)
        size += len(os.fsencode(word)) + 1
        if size > _ARGUMENTS_BYTES:
            yield batch
            batch, size = [], 0
    yield batch


# --- what rules the agent ---


_RULES: Final = ("agent.yaml", "policy.yaml", "policy.local.yaml")


def _unreadable(environment: ToolEnvironment, secret: Sequence[Path]) -> list[Path]:
    """Return the files and folders that the user must not be able to read."""
    found = [environment.state, *secret]
    for home in _homes(environment):
        found += [home / name for name in _RULES]
    return [each for place in found for each in _both(place)]


def _unchangeable(environment: ToolEnvironment, secret: Sequence[Path]) -> list[Path]:
    """Return what the user must not be able to write, or to put something else in the place of.

    These are the files that rule agents, what an agent's folder holds besides - skills, programs,
    notes - and the programs that the gateway runs; and the folders above each.
    """
    own = [Path(__file__).parents[2], Path(sys.executable), Path(sys.prefix)]
    programs = map(Path, filter(None, environment.environ.get("PATH", "").split(os.pathsep)))
    found = dict.fromkeys([environment.state, *secret, *own, *programs])
    for home in _homes(environment):
        found[home] = None
        found |= dict.fromkeys(home / name for name in _RULES)
    found |= dict.fromkeys(_inside(environment.home, environment.files))
    for place in tuple(found):
        for each in _both(place):
            found |= dict.fromkeys((each, *each.parents))
    return list(found)


def _homes(environment: ToolEnvironment) -> list[Path]:
    """Return the folder of the agent, and those of the other agents beside it."""
    found = [environment.home]
    with suppress(OSError):
        found += [
            each
            for each in sorted(environment.home.parent.iterdir())
            if each != environment.home and (each / "agent.yaml").exists()
        ]
    return found


def _inside(home: Path, files: Path) -> list[Path]:
    """Return all that an agent's folder holds, but for a workspace in it.

    Raises:
        ValueError: That is too much to be tried at each command.
    """
    found: list[Path] = []
    for folder, folders, names in os.walk(home):
        at = Path(folder)
        # A link into the workspace counts: what the agent is made of would be the user's.
        folders[:] = [
            name for name in folders if (at / name).is_symlink() or not _is_below(at / name, files)
        ]
        found += [at / name for name in (*folders, *names)]
        if len(found) > _FILES_MOST:
            msg = (
                f"{home} holds over {_FILES_MOST} files, too many to be tried at each command; keep"
                " in an agent's folder what makes the agent"
            )
            raise ValueError(msg)
    return found


def _both(place: Path) -> tuple[Path, ...]:
    """Return a place as it is written, and where its links lead."""
    with suppress(OSError, RuntimeError):
        return tuple(dict.fromkeys((place.absolute(), place.resolve())))
    return (place.absolute(),)


def _is_below(place: Path, files: Path) -> bool:
    return any(each.is_relative_to(other) for each in _both(place) for other in _both(files))


def _group_of(uid: int) -> int:
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return uid  # as containers have it, where nobody has an entry
