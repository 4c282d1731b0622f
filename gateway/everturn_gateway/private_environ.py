"""The environment of the gateway's process, out of reach of the programs that it starts.

Keys and tokens come as environment variables. The kernel shows the environment that a process was
started with to every process of the same user, in `/proc/PID/environ`, whatever the process does to
its variables later; and its memory as well, to a debugger. So a process that runs agents is sealed:
variables that are not known to be harmless are moved into memory of this module, wiped from what
the kernel shows, and the process is marked as one that nobody of its user may look into.

What stays open: a process of root's that may debug others reads any memory. Sources: proc(5),
`/proc/pid/environ`; prctl(2), `PR_SET_DUMPABLE`; ptrace(2), "Ptrace access mode checking".
"""

from __future__ import annotations

import os
import re
import sys
from collections import ChainMap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

_HARMLESS: Final = frozenset(
    (
        *("COLORTERM", "COLUMNS", "DISPLAY", "FORCE_COLOR", "HOME", "HOSTNAME", "INVOCATION_ID"),
        *("JOURNAL_STREAM", "LANG", "LANGUAGE", "LINES", "LOGNAME", "NOTIFY_SOCKET", "NO_COLOR"),
        *("OLDPWD", "PATH", "PWD", "SHELL", "SHLVL", "SSL_CERT_DIR", "SSL_CERT_FILE", "TEMP"),
        *("TERM", "TERM_PROGRAM", "TMP", "TMPDIR", "TZ", "TZDIR", "USER", "VIRTUAL_ENV"),
        *("WATCHDOG_PID", "WATCHDOG_USEC", "_"),
    )
)
"Variables that everybody may see; libraries look for them whenever they like."
_HARMLESS_BEGINNINGS: Final = ("LC_", "LD_", "MALLOC_", "PROMPT_TOOLKIT_", "PYTHON", "XDG_")
_FOR_LIBRARIES: Final = (
    *("ALL_PROXY", "DBUS_SESSION_BUS_ADDRESS", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"),
)
"Read by libraries when a connection is made; an address may hold a password."
_FOR_LIBRARIES_BEGINNING: Final = "OTEL_"
_PR_SET_DUMPABLE: Final = 4
# Fields of /proc/self/stat, counted after the name, which is the second of them; proc(5).
_ENV_START: Final = 47
_ENV_END: Final = 48

_SECRET_NAME: Final = re.compile(r"auth|credential|key|pass|secret|token", re.IGNORECASE)

_private: dict[str, str] = {}
_beside: dict[str, str] = {}
"What stands in the file beside the configuration; what the process was started with goes first."
_is_claimed = False
_read_beside: Callable[[], Mapping[str, str]] = dict[str, str]


def process_environ() -> Mapping[str, str]:
    """Return the environment of this process, sealed or not; a live view.

    It is what it was started with, and what stands in the file beside its configuration. It is what
    `${NAME}` in files stands for. Never pass it to a process.
    """
    return ChainMap(_private, os.environ, _beside)


def use_beside(read: Callable[[], Mapping[str, str]]) -> None:
    """Take further variables from `read`, now and whenever they are read again.

    What `read` raises is raised; the variables are then those of before.
    """
    global _read_beside  # noqa: PLW0603 - a process has one environment
    _read_beside = read
    read_beside_again()


def read_beside_again() -> None:
    """Read the variables of `use_beside` again: for whoever reads files of agents anew."""
    found = dict(_read_beside())
    _beside.update(found)  # other threads look meanwhile, and miss nothing
    for name in _beside.keys() - found.keys():
        del _beside[name]


def claim_process() -> None:
    """Say that this process is Everturn's own, so that `seal_process` may change it.

    A program that embeds the gateway keeps the environment that its other parts know.
    """
    global _is_claimed  # noqa: PLW0603 - a process has one environment
    _is_claimed = True


def seal_process() -> bool:
    """Take the secrets out of what others can read of this process; return whether it was done.

    `os.environ` keeps what libraries look for, `process_environ` has all. Does nothing where the
    process was not claimed. Done twice, it does no harm. Takes some milliseconds, once; call it
    before anything is started for an agent.

    What was started before, and holds a copy of the variables, is not reached.
    """
    if not _is_claimed:
        return False
    shown = [name for name in os.environ if not is_harmless(name)]
    for name in shown:
        value = os.environ.pop(name)
        if _is_for_libraries(name):
            # Set anew it lies in memory of its own, beside what the kernel shows.
            os.environ[name] = value
        else:
            _private[name] = value
    if sys.platform == "linux":
        _hide()
    return True


def shown_above() -> tuple[str, ...]:
    """Return which processes above this one show secrets of its environment, one line each.

    What started the gateway was often given the same variables: `docker run --init`, a script. That
    process is not sealed, and programs of this user read it. Names that tell a secret count.
    """
    secret = {name for name in _private if _private[name] and _SECRET_NAME.search(name)}
    found: list[str] = []
    pid = os.getppid()
    while secret and pid > 0:
        folder = Path("/proc", str(pid))
        try:
            fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            entries = set((folder / "environ").read_bytes().split(b"\0"))
            name = (folder / "comm").read_text(errors="replace").strip()
        except OSError:  # another user's, or gone
            break
        shown = [
            each for each in sorted(secret) if os.fsencode(f"{each}={_private[each]}") in entries
        ]
        if shown:
            found.append(f"process {pid} ({name}): {', '.join(shown)}")
        pid = int(fields[1])
    return tuple(found)


def is_harmless(name: str) -> bool:
    """Return whether a variable of this name may stay where others can read it. Pure."""
    return name in _HARMLESS or name.startswith(_HARMLESS_BEGINNINGS)


def _is_for_libraries(name: str) -> bool:
    upper = name.upper()
    return upper in _FOR_LIBRARIES or upper.startswith(_FOR_LIBRARIES_BEGINNING)


def _hide() -> None:
    """Wipe the environment that the kernel shows, and let nobody of this user look inside."""
    import ctypes  # noqa: PLC0415 - takes milliseconds, and most commands need it not

    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    # QEMU, which runs images of other processors, leaves the last fields out.
    is_told = len(fields) > _ENV_END
    start, end = (int(fields[_ENV_START]), int(fields[_ENV_END])) if is_told else (0, 0)
    if 0 < start < end:
        at = start
        for entry in ctypes.string_at(start, end - start).split(b"\0"):
            name = os.fsdecode(entry.partition(b"=")[0])
            if entry and not is_harmless(name):
                ctypes.memset(at, 0, len(entry))
            at += len(entry) + 1
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
