"""Files of lines that are appended to. Blocking: call it in a worker thread."""

from __future__ import annotations

import logging
import os
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
    """Return the whole lines of each file; empty where there is none."""
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
        check_bytes(len(_lines(path)), expected_bytes, str(path))
        draft.publish(lines)


def _lines_or_error(path: Path) -> bytes | JournalError:
    try:
        return _lines(path)
    except JournalError as error:
        return error


def _lines(path: Path) -> bytes:
    """Return the whole lines of a file.

    Raises:
        JournalError: It cannot be read.
    """
    with reading(path):
        try:
            with path.open("rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                if size > VALUE_MAX_BYTES:
                    msg = f"it has {size} bytes, more than any that is written by Everturn"
                    raise DamagedValueError(msg, path=path)
                data = file.readall()
        except FileNotFoundError:
            return b""
    return data[: data.rfind(b"\n") + 1]


def _cut_torn(path: Path, fd: int, expected_bytes: int) -> None:
    """Cut off what a crash left of a line, and keep it beside the file.

    Raises:
        ConflictError: The file does not hold so many bytes of lines.
    """
    size = os.fstat(fd).st_size
    if size == expected_bytes:
        return
    check_bytes(len(_lines(path)), expected_bytes, str(path))
    torn = os.pread(fd, size - expected_bytes, expected_bytes)
    replace_file(torn_of(path), torn)
    logger.warning(
        "a write was cut short by a crash; nobody was told that it was done",
        extra={"path": str(path), "kept_as": str(torn_of(path)), "found_bytes": len(torn)},
    )
    os.ftruncate(fd, expected_bytes)


def _cut(path: Path, fd: int, size_bytes: int) -> None:
    try:
        os.ftruncate(fd, size_bytes)
        os.fdatasync(fd)
    except OSError as error:  # the next append sees that the file is too long
        logger.warning(
            "a failed append could not be undone", extra={"path": str(path), "error": str(error)}
        )
