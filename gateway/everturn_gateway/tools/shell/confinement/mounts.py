"""What a confined command sees, place by place, and how bubblewrap is told.

A sandbox begins with an empty, read-only root. A place shows what is below it as well, until an
inner place says something else.
"""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

from msgspec import Struct

Kind: TypeAlias = Literal["readable", "writable", "hidden", "private", "empty", "link", "data"]

PRIVATE_BYTES: Final = 512 * 1024**2
"Of each private folder, which is kept in memory."

# What of a new /proc sets up the kernel: where the gateway runs as root, its owner may write there,
# without any capability.
_KERNEL: Final = tuple(
    Path("/proc", name) for name in ("acpi", "bus", "fs", "irq", "scsi", "sys", "sysrq-trigger")
)
_TELLING: Final = ("cmdline", "keys", "key-users")
"Of the whole machine, and not needed; what the kernel was started with may hold secrets."


class Look(Struct, frozen=True, kw_only=True):
    """How one place looks in the sandbox."""

    kind: Kind
    source: str = ""
    "Where it comes from, by default from the same place; of a link, where it leads."
    data: bytes = b""
    "What stands in a file that is made up."


READABLE: Final = Look(kind="readable")
WRITABLE: Final = Look(kind="writable")
HIDDEN: Final = Look(kind="hidden")
PRIVATE: Final = Look(kind="private")
EMPTY: Final = Look(kind="empty")


def mount_options(
    looks: Mapping[Path, Look], *, sized: bool, data_fd: int
) -> tuple[list[str], list[bytes]]:
    """Return bubblewrap's options for these places, and what it reads from descriptors.

    Outer places come first, so that an inner one shows through what hides it.

    Args:
        looks: The places; links resolved, but for what is a link itself.
        sized: Whether the size of a private folder can be limited.
        data_fd: The descriptor of the first that is read; the others follow.
    """
    size = ("--size", str(PRIVATE_BYTES)) if sized else ()
    line: list[str] = ["--proc", "/proc", "--dev", "/dev", *size, "--tmpfs", "/dev/shm"]
    for part in filter(is_there, _KERNEL):
        line += ("--ro-bind", str(part), str(part))
    for private in _private_parts():
        line += ("--ro-bind", os.devnull, private)
    data: list[bytes] = []
    sealed = ["--remount-ro", "/dev"]
    for place in sorted(looks, key=lambda path: (len(path.parts), path)):
        look, path = looks[place], str(place)
        source = look.source or path
        match look.kind:
            case "readable" if is_there(Path(source)):
                line += ("--ro-bind", source, path)
            case "writable" if is_there(place):
                line += ("--bind", path, path)
            case "private":
                line += (*size, "--tmpfs", path)
            case "empty":
                line += ("--dir", path)
            case "link":
                line += ("--symlink", source, path)
            case "data":
                line += ("--ro-bind-data", str(data_fd + len(data)), path)
                data.append(look.data)
            case "hidden" if _is_shown(place, looks) and is_there(place):
                if place.is_dir():
                    line += ("--tmpfs", path)
                    sealed += ("--remount-ro", path)
                else:
                    # A device on a mount for which devices are off: opening it is refused.
                    line += ("--ro-bind", os.devnull, path)
            case _:  # it is not there
                pass
    return [*line, *sealed, "--remount-ro", "/"], data


@functools.cache
def _private_parts() -> tuple[str, ...]:
    """Return the files of /proc that are root's alone, who may be the gateway's user, and others.

    They tell where things lie in the machine's memory.
    """
    with os.scandir("/proc") as entries:
        return tuple(
            sorted(
                entry.path
                for entry in entries
                if entry.is_file(follow_symlinks=False)
                and (entry.name in _TELLING or not entry.stat().st_mode & stat.S_IROTH)
            )
        )


def _is_shown(place: Path, looks: Mapping[Path, Look]) -> bool:
    """Return whether what is around a place shows it."""
    for outer in place.parents:
        if outer in looks:
            return looks[outer].kind in {"readable", "writable"}
    return False


def is_there(place: Path) -> bool:
    """Return whether a place is there, for us to see. Reads the file system."""
    try:
        return place.exists()
    except OSError:
        return False
