"""Files that are kept whole. Blocking: call it in a worker thread."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct

from everturn_actors.errors import DamagedValueError
from everturn_actors.journal.disk import sync_directory, use_error, write_error
from everturn_actors.journal.keyed.checks import check_version, version_of
from everturn_actors.journal.keyed.draft import draft_of
from everturn_actors.ports import ABSENT
from everturn_actors.ports.keyed import VALUE_MAX_BYTES

_ASIDE_MAX: Final = 1000  # damaged files of one name; more means that something loops

_Stamp: TypeAlias = tuple[int, int, int, int]


class Stamped(Struct, frozen=True, kw_only=True):
    """The version of a file, and by what it is known again."""

    version: str
    stamp: _Stamp | None
    "What changes with a file: a store gives it another inode, `chmod` another ctime. None: absent."


def read_value(path: Path) -> bytes | None:
    """Return what a file holds; None where there is none.

    Raises:
        DamagedValueError: It is no file, or larger than any that is written here.
        JournalError: It is there and cannot be read.
    """
    with reading(path):
        try:
            if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for
                why = "it is no file"
                raise DamagedValueError(why, path=path)
            with path.open("rb") as file:
                data = file.read(VALUE_MAX_BYTES + 1)
        except FileNotFoundError:
            return None
    if len(data) > VALUE_MAX_BYTES:
        msg = f"it has more than {VALUE_MAX_BYTES} bytes, and was not written by Everturn"
        raise DamagedValueError(msg, path=path)
    return data


def read_version(path: Path, *, known: Stamped | None) -> Stamped:
    """Return the version of a file; it is not read again where it is as it was."""
    stamp = _stamp_of(path)  # first: what is written meanwhile is read again
    if known is not None and known.stamp == stamp:
        return known
    data = read_value(path) if stamp is not None else None
    return Stamped(version=ABSENT if data is None else version_of(data), stamp=stamp)


def replace_value(path: Path, data: bytes, expected: str | None) -> None:
    """Replace a file that has the version that is expected; return when it is durable.

    Raises:
        ConflictError: It has another one.
        JournalWriteError: It was not written.
    """
    with writing(path), draft_of(path) as draft:
        if expected is not None:
            check_version(read_value(path), expected, str(path))
        draft.publish(data)


def delete(path: Path) -> None:
    """Remove a file, and what a crash left beside it; return when that is durable."""
    if not path.parent.is_dir():
        return
    with writing(path), draft_of(path):
        for name in (path, torn_of(path)):
            name.unlink(missing_ok=True)
        sync_directory(path.parent)


def quarantine(path: Path) -> Path:
    """Rename a damaged file to a free name beside it, and return that."""
    with writing(path), draft_of(path):
        if not os.path.lexists(path):
            return path
        for number in range(1, _ASIDE_MAX):
            end = "damaged" if number == 1 else f"damaged-{number}"
            quarantine_path = path.with_name(f"{path.name}.{end}")
            if not os.path.lexists(quarantine_path):
                path.rename(quarantine_path)
                sync_directory(path.parent)
                return quarantine_path
        why = f"{_ASIDE_MAX} damaged files have its name; look into them"
        raise OSError(errno.EEXIST, why)


def names_in(folder: Path) -> list[str]:
    """Return all names in a folder; none where there is no folder."""
    with reading(folder):
        try:
            return os.listdir(folder)  # thousands, and no paths are needed
        except FileNotFoundError:
            return []


def torn_of(path: Path) -> Path:
    """Return where the rest of a line is kept that a crash cut short."""
    return path.with_name(f"{path.name}.torn")


@contextmanager
def reading(path: Path) -> Generator[None]:
    """Say what cannot be read in the words of an operator."""
    try:
        yield
    except OSError as error:
        raise use_error(error, path) from error


@contextmanager
def writing(path: Path) -> Generator[None]:
    """Say what cannot be written in the words of an operator."""
    try:
        yield
    except OSError as error:
        raise write_error(error, path) from error


def _stamp_of(path: Path) -> _Stamp | None:
    with reading(path):
        try:
            found = path.stat()
        except FileNotFoundError:
            return None
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
