"""What is too large for the log: one file each, in a folder of the session. Blocking.

Texts of tools stand in one folder, files that came with messages in another; both are kept alike.
Names come from tool calls, and an agent's own tools may write in the workspace: a name is checked
before it is part of a path, and no symbolic link is followed on the way to a file.
Source: open(2), `O_NOFOLLOW` and `O_EXCL` (Linux man-pages, read 2026-11-22).
"""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct, field

from everturn_actors.errors import (
    InvalidInputError,
    JournalError,
    JournalWriteError,
    UnknownSessionError,
)
from everturn_actors.journal.disk import FILE_MODE, make_directory, write_all, write_error
from everturn_actors.journal.log.layout import SessionFiles

logger = logging.getLogger(__name__)

RESULTS_MAX_BYTES = 256 * 1024 * 1024  # of one session: thousands of results of the usual size
MEDIA_MAX_BYTES = 512 * 1024 * 1024  # of one session: all files of two of the largest messages
NAME_MAX = 100  # characters; with what is added while a file is written, any file system takes it
_NAME = re.compile(r"[A-Za-z0-9_-]([A-Za-z0-9._-]*[A-Za-z0-9_-])?")
_TEMPORARY = re.compile(r"\..+\.tmp")
_LINKED = frozenset([errno.ELOOP, errno.ENOTDIR])
_NO_LINKS = "there is a symbolic link in its place, or in that of its folder; it is not followed"


def is_result_name(name: str) -> bool:
    """Return whether a file may be kept under `name`; only such a name may be part of a path."""
    return len(name) <= NAME_MAX and _NAME.fullmatch(name) is not None


def check_result_name(name: str, what: str = "a result") -> None:
    """Refuse a name under which nothing may be kept.

    Raises:
        InvalidInputError: It is no such name.
    """
    if not is_result_name(name):
        message = (
            f"{name[: NAME_MAX + 1]!r} is no name for {what}: it takes up to {NAME_MAX} letters, "
            "digits, '-', '_', and dots inside"
        )
        raise InvalidInputError(message)


def encode_text(text: str) -> bytes:
    """Return a text as its file holds it: UTF-8, in which lone surrogates stand as they are."""
    return text.encode(errors="surrogatepass")


def decode_text(data: bytes) -> str:
    """Return the text of a file.

    Raises:
        UnicodeDecodeError: It is no such text.
    """
    return data.decode(errors="surrogatepass")


class Shelf(Struct, kw_only=True):
    """What is kept of one session, so that a folder of thousands is looked through only once."""

    sizes_bytes: dict[str, int] = field(default_factory=dict[str, int])
    "By name, oldest first."
    total_bytes: int = 0
    newest_ns: int = 0
    "When the newest was written."

    def put(self, name: str, size_bytes: int, written_ns: int) -> None:
        """Add the newest text, in the place of one of the same name."""
        self.total_bytes += size_bytes - self.sizes_bytes.pop(name, 0)
        self.sizes_bytes[name] = size_bytes
        self.newest_ns = written_ns

    def make_room(self, max_bytes: int) -> list[str]:
        """Take the oldest off until all others fit, never the newest; return their names."""
        gone: list[str] = []
        for name in [*self.sizes_bytes][:-1] if self.total_bytes > max_bytes else []:
            self.total_bytes -= self.sizes_bytes.pop(name)
            gone.append(name)
            if self.total_bytes <= max_bytes:
                break
        return gone


def save(
    files: SessionFiles,
    folder: Path,
    name: str,
    data: bytes,
    *,
    max_bytes: int,
    shelf: Shelf | None,
) -> Shelf:
    """Keep `data` under a name that was checked; then let the oldest go until all fit.

    Args:
        files: Whose it is.
        folder: Where: the session's `results` or `media`.
        name: Of the file.
        data: All of it.
        max_bytes: How much is kept of the session in this folder.
        shelf: What the last save there returned, where nobody else touched the files since; None =
            look.

    Raises:
        UnknownSessionError: The session was never written, or deleted.
        JournalWriteError: See `SessionStore.save_result`.
    """
    if not files.log.exists():
        raise UnknownSessionError(files.session_id)
    try:
        make_directory(folder)
        with _opened(folder) as fd:
            found = shelf or _look(files, folder, fd)
            written_ns = _replace(fd, name, data, after_ns=found.newest_ns)
            found.put(name, len(data), written_ns)
            gone = found.make_room(max_bytes)
            for old in gone:  # after a crash they may be there again, and go with the next save
                _unlink(files, folder, fd, old)
    except OSError as error:
        path = folder / name
        if error.errno in _LINKED:
            raise JournalWriteError(_NO_LINKS, path=path) from error
        raise write_error(error, path) from error
    if gone:
        logger.info(
            "the oldest files of a session were removed, to make room for a new one",
            extra={"session_id": files.session_id, "folder": folder.name, "files": len(gone)},
        )
    return found


def read_text(folder: Path, name: str) -> str | None:
    """Return the text of this name, or None where there is none.

    Raises:
        JournalError: It is there and cannot be read.
    """
    data = read(folder, name)
    try:
        return None if data is None else decode_text(data)
    except UnicodeDecodeError as error:
        message = f"byte {error.start + 1}: this is not UTF-8; the file was damaged or replaced"
        raise JournalError(message, path=folder / name) from error


def read(folder: Path, name: str) -> bytes | None:
    """Return the file of this name, or None where there is none.

    Raises:
        JournalError: It is there and cannot be read.
    """
    if not is_result_name(name):
        return None
    path = folder / name
    try:
        with _opened(folder) as opened:
            # Not blocking: a pipe of this name would wait for its other end.
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=opened)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                message = "it is no plain file"
                raise JournalError(message, path=path)
            with os.fdopen(fd, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(fd)
    except FileNotFoundError:
        return None
    except OSError as error:
        why = f"it cannot be read: {error.strerror or error}"
        message = _NO_LINKS if error.errno in _LINKED else why
        raise JournalError(message, path=path) from error


@contextmanager
def _opened(folder: Path) -> Generator[int]:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield fd
    finally:
        os.close(fd)


def _look(files: SessionFiles, folder: Path, fd: int) -> Shelf:
    """Return what is in a folder; what a crash left half-written is removed."""
    found: list[tuple[int, str, int]] = []
    with os.scandir(fd) as entries:
        for entry in entries:
            if _TEMPORARY.fullmatch(entry.name):
                _unlink(files, folder, fd, entry.name)
            elif is_result_name(entry.name) and entry.is_file(follow_symlinks=False):
                info = entry.stat(follow_symlinks=False)
                found.append((info.st_mtime_ns, entry.name, info.st_size))
    shelf = Shelf()
    for written_ns, name, size_bytes in sorted(found):
        shelf.put(name, size_bytes, written_ns)
    return shelf


def _replace(folder: int, name: str, data: bytes, *, after_ns: int) -> int:
    """Put a file in its place, durably; return its time.

    That is later than `after_ns`, whatever the clock says: files are stamped in steps of some
    milliseconds, and clocks are set back.
    """
    temporary = f".{name}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE, dir_fd=folder)
    try:
        try:
            write_all(fd, data, 0)
            written_ns = os.fstat(fd).st_mtime_ns
            if written_ns <= after_ns:
                written_ns = after_ns + 1
                os.utime(fd, ns=(written_ns, written_ns))
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    os.fsync(folder)
    return written_ns


def _unlink(files: SessionFiles, folder: Path, fd: int, name: str) -> None:
    try:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=fd)
    except OSError as error:  # it takes room until it can be; what was to be saved is
        logger.warning(
            "an old file of a session could not be removed",
            extra={
                "session_id": files.session_id,
                "path": str(folder / name),
                "error": str(error),
            },
        )
