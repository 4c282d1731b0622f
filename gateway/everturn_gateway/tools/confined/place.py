"""What is at the end of a path: read, replaced whole, added to, under a lock. Blocking.

Only plain files are opened, and without waiting (`O_NONBLOCK`): a pipe would wait for its other
end. A file is replaced by a new one that was synced before it took the name, so that after a crash
one of the two stands there, whole.
Source: open(2), `O_NOFOLLOW`, `O_NONBLOCK`; rename(2); flock(2) (Linux man-pages, read 2026-11-22).
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final, TypeAlias

import anyio
from anyio import from_thread

from everturn_actors.errors import ToolFailedError
from everturn_gateway.tools.wording import near, shown

Version: TypeAlias = tuple[int, int, int, int]
"What tells one state of a file from another: device, inode, size, and when it was changed."

TEMPORARY: Final = (".everturn-", ".tmp")
"How the names of files begin and end that are being written; no tool shows them."

_LOCK_S = 5.0  # whoever holds a lock writes one small file
_LOCK_POLL_S = 0.01
_STALE_NS = 600 * 10**9  # a file that is written takes seconds; what is older, a crash left
_NEAR_NAMES = 2000  # of a folder, among which one is looked for that was meant
_PIECE_BYTES = 1 << 20
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_ADD: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
_ANY_WRITE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
_PERMISSIONS = stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO


def is_temporary(name: str) -> bool:
    """Return whether a file of this name is one that is being written."""
    return name.startswith(TEMPORARY[0]) and name.endswith(TEMPORARY[1])


def give_to_owner(fd: int, owner: os.stat_result) -> None:
    """Give a file or folder that was made to whom `owner` belongs, where this user may do that.

    Files of an agent whose commands run as another user are that user's, whoever writes them.
    """
    if owner.st_uid != os.geteuid():
        with suppress(PermissionError):  # not root: it stays this user's, as anybody's file would
            os.fchown(fd, owner.st_uid, owner.st_gid)


def kind_of(info: os.stat_result) -> str:
    """Return what something that is neither file nor folder is, in words."""
    if stat.S_ISLNK(info.st_mode):
        return "a symbolic link"
    if stat.S_ISFIFO(info.st_mode):
        return "a pipe"
    if stat.S_ISSOCK(info.st_mode):
        return "a socket"
    return "a device"


class Place:
    """A name in an open folder. Good while the block is that it was got from.

    What goes wrong on the disk leaves as an `OSError`, which that block puts into words.
    """

    def __init__(
        self,
        folder: int,
        name: str,
        path: str,
        *,
        inside: str,
        refuse_closed: Callable[[int], None],
        needs_sweep: Callable[[os.stat_result], bool],
    ) -> None:
        """Stand for `name` in `folder`, an open descriptor; `path` is what it was asked for as.

        `inside` is where that is, as seen from the root and without links.
        `refuse_closed` refuses a folder that is not entered; `needs_sweep` says whether what a
        crash left in one should be looked for.
        """
        self.path, self.inside = path, inside
        self._folder, self._name = folder, name
        self._refuse_closed, self._needs_sweep = refuse_closed, needs_sweep

    def version(self) -> Version | None:
        """Return which state of the file this is; None where there is none."""
        info = self._info()
        return info and _version(info)

    def open(self) -> int:
        """Open a folder or a plain file for reading; the caller closes the descriptor.

        Raises:
            ToolFailedError: There is nothing, or something else.
        """
        info = self._info()
        if info is None:
            raise self._missing()
        self._refuse_special(info)
        fd = os.open(self._name, _READ, dir_fd=self._folder)
        try:
            info = os.fstat(fd)
            self._refuse_special(info)
            if stat.S_ISDIR(info.st_mode):
                self._refuse_closed(fd)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def read(
        self, limit_bytes: int, *, look: Callable[[int], None] | None = None
    ) -> tuple[bytes, Version]:
        """Return a file's first `limit_bytes`, and which state of it that is.

        `look` is called with the open file, after it was read.

        Raises:
            ToolFailedError: There is nothing, or something that is no plain file.
        """
        fd = self.open()
        try:
            info = os.fstat(fd)
            if stat.S_ISDIR(info.st_mode):
                raise IsADirectoryError(errno.EISDIR, "is a folder")
            data = _read_some(fd, limit_bytes)
            if look is not None:
                look(fd)
            return data, _version(info)
        finally:
            os.close(fd)

    def read_if_there(self, limit_bytes: int) -> tuple[bytes, Version] | None:
        """Return what `read` does, or None where there is nothing.

        Raises:
            ToolFailedError: There is something that is no plain file.
        """
        return None if self._info() is None else self.read(limit_bytes)

    def replace(
        self,
        data: bytes,
        *,
        expected: Version | None = None,
        mode: int = 0o666,
        look: Callable[[int], None] | None = None,
    ) -> int | None:
        """Put `data` in the place of what is there; return when it survives a crash.

        Where it cannot be written the old file stands there still. The new one keeps its
        permissions.

        Args:
            data: The new bytes.
            expected: The state that the file has to be in still; None = whatever is there goes.
            mode: The permissions of a new one, before the umask.
            look: Is called with the new one, open, before it takes the name.

        Returns:
            The size of the file before, in bytes; None where there was none.

        Raises:
            ToolFailedError: There is no plain file, it is read-only, or it changed meanwhile.
        """
        before = self._info()
        if before is not None:
            self._refuse_to_change(before)
        draft = f"{TEMPORARY[0]}{secrets.token_hex(8)}{TEMPORARY[1]}"
        mode = mode if before is None else before.st_mode & _PERMISSIONS
        try:
            written_ns = self._write_draft(draft, data, mode, before, look)
            if expected is not None:
                self._refuse_changed(expected)
            os.replace(draft, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(draft, dir_fd=self._folder)
            raise
        self._sweep(written_ns)
        os.fsync(self._folder)
        return None if before is None else before.st_size

    def remove(self, *, expected: Version | None = None) -> None:
        """Remove a file; return when that survives a crash. One that is gone is no error.

        Args:
            expected: The state that it has to be in still; None = whatever is there goes.

        Raises:
            ToolFailedError: It is no plain file, it is read-only, or it changed meanwhile.
        """
        before = self._info()
        if before is None:
            return
        self._refuse_to_change(before)
        if expected is not None:
            self._refuse_changed(expected)
        os.unlink(self._name, dir_fd=self._folder)
        os.fsync(self._folder)

    def append(self, data: bytes) -> None:
        """Add `data` to the end of a file, which is made if need be; return when it is durable.

        The caller holds the lock: what cannot be written whole is taken back.

        Raises:
            ToolFailedError: There is something that is no plain file, or one that is read-only.
        """
        before = self._info()
        if before is not None:
            self._refuse_to_change(before)
        fd = os.open(self._name, _ADD, 0o666, dir_fd=self._folder)
        try:
            if before is None:
                give_to_owner(fd, os.fstat(self._folder))
            size = os.fstat(fd).st_size
            try:
                _write_all(fd, data)
                os.fsync(fd)
            except OSError:
                os.ftruncate(fd, size)
                raise
        finally:
            os.close(fd)
        if before is None:
            os.fsync(self._folder)

    @contextmanager
    def locked(self) -> Generator[None]:
        """Be the only one to change files of this folder, among all who ask for this lock.

        Raises:
            ToolFailedError: Somebody else held it for too long.
        """
        give_up = time.monotonic() + _LOCK_S
        while not _lock(self._folder):
            if time.monotonic() > give_up:
                msg = f"{shown(self.path)} is in use by someone else; try again"
                raise ToolFailedError(msg)
            _stop_if_cancelled()
            time.sleep(_LOCK_POLL_S)
        try:
            yield
        finally:
            fcntl.flock(self._folder, fcntl.LOCK_UN)

    def _info(self) -> os.stat_result | None:
        """Return what is there, a symbolic link itself; None where nothing is."""
        try:
            return os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _missing(self) -> ToolFailedError:
        names: list[str] = []
        with os.scandir(self._folder) as found:
            for entry in found:
                if len(names) == _NEAR_NAMES:
                    break
                names.append(entry.name)
        hint = f"; near it: {', '.join(like)}" if (like := near(self._name, names)) else ""
        return ToolFailedError(f"there is no {shown(self.path)}{hint}")

    def _refuse_special(self, info: os.stat_result) -> None:
        if not (stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)):
            msg = f"{shown(self.path)} is {kind_of(info)}; only files and folders are opened"
            raise ToolFailedError(msg)

    def _refuse_to_change(self, info: os.stat_result) -> None:
        self._refuse_special(info)
        if stat.S_ISDIR(info.st_mode):
            raise IsADirectoryError(errno.EISDIR, "is a folder")
        if not info.st_mode & _ANY_WRITE:
            msg = f"{shown(self.path)} is read-only; nothing was changed"
            raise ToolFailedError(msg)

    def _refuse_changed(self, expected: Version) -> None:
        if self.version() != expected:
            msg = f"{shown(self.path)} was changed by someone else meanwhile; read it again"
            raise ToolFailedError(msg)

    def _write_draft(
        self,
        draft: str,
        data: bytes,
        mode: int,
        owner: os.stat_result | None,
        look: Callable[[int], None] | None,
    ) -> int:
        """Write a file beside the one that is meant, durably; return the disk's time."""
        is_new = owner is None
        # Until it has its permissions it is nobody else's to read.
        fd = os.open(draft, _NEW, mode if is_new else 0o600, dir_fd=self._folder)
        try:
            give_to_owner(fd, os.fstat(self._folder) if owner is None else owner)
            if not is_new:
                os.fchmod(fd, mode)
            _write_all(fd, data)
            if look is not None:
                look(fd)
            os.fsync(fd)
            return os.fstat(fd).st_mtime_ns
        finally:
            os.close(fd)

    def _sweep(self, now_ns: int) -> None:
        """Remove what a crash left half-written in this folder, by the clock of the disk."""
        if not self._needs_sweep(os.fstat(self._folder)):
            return
        with suppress(OSError), os.scandir(self._folder) as found:
            for entry in found:
                if not is_temporary(entry.name):
                    continue
                if now_ns - entry.stat(follow_symlinks=False).st_mtime_ns > _STALE_NS:
                    os.unlink(entry.name, dir_fd=self._folder)


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_some(fd: int, limit_bytes: int) -> bytes:
    pieces: list[bytes] = []
    while limit_bytes > 0 and (piece := os.read(fd, min(limit_bytes, _PIECE_BYTES))):
        pieces.append(piece)
        limit_bytes -= len(piece)
    return b"".join(pieces)


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _version(info: os.stat_result) -> Version:
    return info.st_dev, info.st_ino, info.st_size, info.st_ctime_ns


def _stop_if_cancelled() -> None:
    with suppress(anyio.NoEventLoopError):  # not called from a worker thread: nobody cancels
        from_thread.check_cancelled()
