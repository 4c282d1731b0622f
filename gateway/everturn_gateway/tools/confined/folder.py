"""One folder, what is below it, and nothing else, whatever a path says. Blocking: not for the loop.

A path is walked from the folder down, one name after the other; each is opened relative to the
folder above it, and without following a symbolic link (`O_NOFOLLOW`). Links are read here, and
walked like the rest of the path: one that leads outside is refused, and one that takes the place of
a folder after it was looked at is not followed. `..` goes back to the folder that was opened
before, never to what the disk calls the parent.

A hard link is the file itself, and cannot be told from it: whoever could make one could read it.
Source: open(2), `O_NOFOLLOW` and `dirfd` (Linux man-pages, read 2026-11-22).
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

import anyio
from anyio import to_thread

from everturn_actors.errors import ToolFailedError
from everturn_gateway.tools.confined.place import Place, give_to_owner, is_temporary
from everturn_gateway.tools.wording import shown

T = TypeVar("T")

_FOLDERS_MAX = 64  # in a path; each is an open descriptor while it is walked
_ENTRIES_MAX = 10_000  # of one folder, where few are expected
_LINKS_MAX = 40  # as the kernel has it
_SWEPT_MAX = 4096  # folders
_PATH_CHARACTERS = 4096  # as the kernel has it
_THREADS = 8  # of one agent's files; a disk that hangs must not take those of the journal
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY
_WHY: Final = {
    errno.ENOENT: "there is no such file or folder",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.EISDIR: "it is a folder",
    errno.EEXIST: "something else is there already",
    errno.ELOOP: "symbolic links in it go round in a circle, or it changed meanwhile",
    errno.ENAMETOOLONG: "a name in it is too long; 255 bytes are the most",
    errno.ENOSPC: "the disk is full; nothing was changed",
    errno.EDQUOT: "the disk is full; nothing was changed",
    errno.EFBIG: "it would be larger than a file may be here; nothing was changed",
    errno.EROFS: "the disk is read-only; nothing was changed",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
}


class Confined:
    """A folder, with paths that stay in it."""

    def __init__(
        self,
        root: Path,
        *,
        what: str,
        closed: Callable[[], Iterable[Path]] = tuple,
        made_by_reading: bool = False,
    ) -> None:
        """Confine paths to `root`, which is made, for this user alone, when it is written to.

        Args:
            root: The folder, absolute. It may be a symbolic link itself, and stand below some.
            what: What it is to the model, for example `the workspace`.
            closed: Names the folders that are not entered; asked again with each path.
            made_by_reading: Whether it is made as soon as something is looked for in it.
        """
        self.root = root
        self._what, self._closed = what, closed
        self._made_by_reading = made_by_reading
        self._threads = anyio.CapacityLimiter(_THREADS)
        self._swept: set[tuple[int, int]] = set()

    async def run(self, work: Callable[[], T], *, reads: bool = False) -> T:
        """Do blocking work in a thread.

        Work that only `reads` is left to itself when the call is cancelled; other work is waited
        for, so that it is never done after the call was.
        """
        return await to_thread.run_sync(work, abandon_on_cancel=reads, limiter=self._threads)

    @contextmanager
    def place(self, path: str, *, create: bool = False) -> Generator[Place]:
        """Find where `path` leads, whether something is there or not.

        With `create`, folders that are missing on the way are made, durably.

        Raises:
            ToolFailedError: It leads outside, or nowhere. Also in place of any `OSError` of the
                block, in words for the model.
        """
        steps: list[int] = []
        names: list[str] = []
        with _translated(path):
            try:
                steps.append(self._open_root(create=create))
                closed = self.closed()
                _refuse_closed(closed, path, steps[0])
                name = self._walk(path, steps, names, closed, enter=partial(_enter, create=create))
                yield Place(
                    steps[-1],
                    name,
                    path,
                    inside=_joined(names, name),
                    refuse_closed=partial(_refuse_closed, closed, path),
                    needs_sweep=self._needs_sweep,
                )
            finally:
                for fd in steps:
                    os.close(fd)

    @contextmanager
    def opened(self, path: str) -> Generator[int]:
        """Open a folder or a plain file for reading.

        Raises:
            ToolFailedError: See `place`; or it is something else.
        """
        with self.place(path) as place:
            fd = place.open()
            try:
                yield fd
            finally:
                os.close(fd)

    def where(self, path: str) -> str:
        """Return where a path leads, as seen from the folder and without links.

        Nothing has to be there, and nothing is made but the folder itself; below what is not there,
        the path counts as it is written.

        Raises:
            ToolFailedError: It leads outside, or nowhere.
        """
        steps: list[int] = []
        names: list[str] = []
        with _translated(path):
            try:
                steps.append(self._open_root(create=True))
                name = self._walk(path, steps, names, self.closed())
            finally:
                for fd in steps:
                    os.close(fd)
        return _joined(names, name)

    def is_there(self) -> bool:
        """Return whether the folder was made."""
        return self.root.is_dir()

    def entries(self, path: str) -> list[tuple[str, bool]]:
        """Return the files and folders in a folder, up to a bound, and which are folders.

        Sorted by name; symbolic links and special files are left out. A folder that is not there
        has none.

        Raises:
            ToolFailedError: It cannot be read.
        """
        if not self.is_there():
            return []
        with self.place(path) as place:
            if place.version() is None:
                return []
            fd = place.open()
            try:
                with os.scandir(fd) as entries:
                    found = [
                        (entry.name, entry.is_dir(follow_symlinks=False))
                        for entry in islice(entries, _ENTRIES_MAX)
                        if entry.is_dir(follow_symlinks=False)
                        or entry.is_file(follow_symlinks=False)
                    ]
            finally:
                os.close(fd)
        return sorted(each for each in found if not is_temporary(each[0]))

    def closed(self) -> frozenset[tuple[int, int]]:
        """Return device and inode of the folders that are not entered."""
        found: set[tuple[int, int]] = set()
        for folder in self._closed():
            with suppress(OSError):
                info = folder.stat()
                found.add((info.st_dev, info.st_ino))
        return frozenset(found)

    def _needs_sweep(self, folder: os.stat_result) -> bool:
        """Say once of each folder that what a crash left in it should be looked for."""
        known = (folder.st_dev, folder.st_ino)
        if known in self._swept:
            return False
        if len(self._swept) >= _SWEPT_MAX:
            self._swept.clear()
        self._swept.add(known)
        return True

    def _open_root(self, *, create: bool) -> int:
        try:
            return os.open(self.root, _FOLDER)
        except FileNotFoundError:
            if not create and not self._made_by_reading:
                raise
            make_private(self.root)
            return os.open(self.root, _FOLDER)

    def _walk(
        self,
        path: str,
        steps: list[int],
        names: list[str],
        closed: frozenset[tuple[int, int]],
        *,
        enter: Callable[[str, int], int] | None = None,
    ) -> str:
        """Open the folders of a path, and return the last name; `.` where it ends in a folder.

        Args:
            path: The path.
            steps: The root; gets the folders below it, opened.
            names: Gets their names.
            closed: What is not entered.
            enter: Opens a folder; without it, what is not there counts by its name alone.
        """
        _refuse_unusable(path)
        todo, links = deque(self._names(path, path)), 0
        while todo:
            name = todo.popleft()
            if name in {"", "."}:
                continue
            if name == "..":
                if len(steps) == 1:
                    raise self._outside(path)
                os.close(steps.pop())
                names.pop()
                continue
            target = _link_target(name, steps[-1])
            if target is not None:
                links += 1
                if links > _LINKS_MAX:
                    raise OSError(errno.ELOOP, "too many links")
                if target.startswith("/"):
                    while len(steps) > 1:
                        os.close(steps.pop())
                    names.clear()
                todo.extendleft(reversed(self._names(target, path)))
                continue
            if all(rest in {"", "."} for rest in todo):
                return name
            if len(steps) > _FOLDERS_MAX:
                msg = f"{shown(path)}: it is deeper than {_FOLDERS_MAX} folders"
                raise ToolFailedError(msg)
            try:
                steps.append((enter or partial(_enter, create=False))(name, steps[-1]))
            except FileNotFoundError:
                if enter is not None:
                    raise
                return self._unmade([name, *todo], names, path)
            names.append(name)
            _refuse_closed(closed, path, steps[-1])
        return "."

    def _unmade(self, rest: list[str], names: list[str], path: str) -> str:
        """Go down folders that are not there, and return the last name."""
        for name in rest:
            if name in {"", "."}:
                continue
            if name != "..":
                names.append(name)
            elif names:
                names.pop()
            else:
                raise self._outside(path)
        return names.pop() if names else "."

    def _names(self, path: str, whole: str) -> list[str]:
        """Return the names of a path below the root; an absolute one has to begin with it."""
        if not path.startswith("/"):
            return path.split("/")
        for root in (str(self.root), os.path.realpath(self.root)):
            above = root.rstrip("/")
            if path == above or path.startswith(f"{above}/"):
                return path[len(above) :].split("/")
        raise self._outside(whole)

    def _outside(self, path: str) -> ToolFailedError:
        return ToolFailedError(
            f"{shown(path)} leads out of {self._what}; give a path inside, for example notes/a.md"
        )


def _joined(names: list[str], name: str) -> str:
    return "/".join(names if name == "." else (*names, name)) or "."


@contextmanager
def _translated(path: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        why = _WHY.get(error.errno or 0) or error.strerror or str(error)
        msg = f"{shown(path) or '.'}: {why}"
        raise ToolFailedError(msg) from error


def _refuse_closed(closed: frozenset[tuple[int, int]], path: str, folder: int) -> None:
    if closed:
        info = os.fstat(folder)
        if (info.st_dev, info.st_ino) in closed:
            msg = f"{shown(path)}: this folder is the gateway's own, and closed to file tools"
            raise ToolFailedError(msg)


def _refuse_unusable(path: str) -> None:
    if len(path) > _PATH_CHARACTERS:
        msg = f"{shown(path)} is too long for a path"
        raise ToolFailedError(msg)
    try:
        usable = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        usable = False
    if not usable:
        msg = f"{shown(path)} is no path: it holds a character that no file name can"
        raise ToolFailedError(msg)


def _link_target(name: str, folder: int) -> str | None:
    """Return where a symbolic link points; None for everything else, and for nothing."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno in {errno.EINVAL, errno.ENOENT}:
            return None
        raise


def _enter(name: str, folder: int, *, create: bool) -> int:
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        if not create:
            raise
    made = False
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)
        made = True
        os.fsync(folder)
    fd = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
    if made:
        give_to_owner(fd, os.fstat(folder))
    return fd


def make_private(folder: Path) -> None:
    """Make a folder, and those above it, for this user alone, where they are not there.

    Raises:
        OSError: One of them could not be made.
    """
    for each in (*reversed(folder.parents), folder):
        if not each.is_dir():
            with suppress(FileExistsError):
                each.mkdir(mode=0o700)
