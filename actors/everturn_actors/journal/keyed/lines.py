"""Files of lines that are appended to. Blocking: call it in a worker thread."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from everturn_actors.errors import DamagedValueError, JournalError
from everturn_actors.journal.disk import replace_file, write_all
from everturn_actors.journal.keyed.checks import check_bytes
from everturn_actors.journal.keyed.draft import draft_of
from everturn_actors.journal.keyed.whole import reading, torn_of, writing
from everturn_actors.ports.keyed import VALUE_MAX_BYTES

logger = logging.getLogger(__name__)


def read_lines(paths: Sequence[Path]) -> tuple[bytes | JournalError, ...]:
    """Return what each file holds; nothing where there is none."""
    return tuple(map(_lines_or_error, paths))


def append_lines(path: Path, lines: bytes, expected_bytes: int) -> None:
    """Make lines durable behind those of a file.

    Raises:
        ConflictError: The file does not hold so many bytes of lines.
        JournalWriteError: They were not written; the file is cut back to where it was.
    """
    with writing(path), draft_of(path, makes_folder=not expected_bytes) as draft:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            check_bytes(0, expected_bytes, str(path))
            draft.publish(lines)
            return
        try:
            _cut_torn(path, fd, expected_bytes)
            try:
                write_all(fd, lines, expected_bytes)
                os.fdatasync(fd)
            except OSError:
                _cut(path, fd, expected_bytes)
                raise
        finally:
            os.close(fd)


def rewrite_lines(path: Path, lines: bytes, expected_bytes: int) -> None:
    """Replace a file of lines; return when that is durable.

    Raises:
        ConflictError: The file does not hold so many bytes of lines.
        JournalWriteError: It was not written; the old one stands.
    """
    with writing(path), draft_of(path, makes_folder=not expected_bytes) as draft:
        check_bytes(len(_bytes_of(path)), expected_bytes, str(path))
        draft.publish(lines)


def _lines_or_error(path: Path) -> bytes | JournalError:
    try:
        return _bytes_of(path)
    except JournalError as error:
        return error


def _bytes_of(path: Path) -> bytes:
    """Return what a file holds; nothing where there is none.

    Raises:
        JournalError: It cannot be read.
    """
    with reading(path):
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # no pipe is waited for
        except FileNotFoundError:
            return b""
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                why = "it is no file"
                raise DamagedValueError(why, path=path)
            if found.st_size > VALUE_MAX_BYTES:
                msg = f"it has {found.st_size} bytes, more than any that is written by Everturn"
                raise DamagedValueError(msg, path=path)
            with os.fdopen(fd, "rb", buffering=0, closefd=False) as file:
                return file.readall()
        finally:
            os.close(fd)


def _cut_torn(path: Path, fd: int, expected_bytes: int) -> None:
    """Cut off what a crash left of a line, and keep it beside the file.

    Raises:
        ConflictError: The file does not hold so many bytes of lines.
    """
    size = os.fstat(fd).st_size
    if size == expected_bytes:
        return
    data = _bytes_of(path)
    torn = data[expected_bytes:]
    if not torn or b"\n" in torn or not data[:expected_bytes].endswith(b"\n"[:expected_bytes]):
        check_bytes(size, expected_bytes, str(path))
    _keep_torn(path, torn)
    os.ftruncate(fd, expected_bytes)


def _keep_torn(path: Path, torn: bytes) -> None:
    replace_file(torn_of(path), torn)
    logger.warning(
        "a write was cut short by a crash; nobody was told that it was done",
        extra={"path": str(path), "kept_as": str(torn_of(path)), "found_bytes": len(torn)},
    )


def _cut(path: Path, fd: int, size_bytes: int) -> None:
    try:
        os.ftruncate(fd, size_bytes)
        os.fdatasync(fd)
    except OSError as error:  # the next append sees that the file is too long
        logger.warning(
            "a failed append could not be undone", extra={"path": str(path), "error": str(error)}
        )
