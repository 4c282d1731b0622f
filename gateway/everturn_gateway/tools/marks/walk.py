"""Goes through the files of a workspace for their marks. Blocking; follows no link."""

from __future__ import annotations

import logging
import os
import stat
import zlib
from collections.abc import Collection, Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from everturn_gateway.tools.marks.attribute import read_mark, trust

logger = logging.getLogger(__name__)

ENTRIES_MOST: Final = 500_000  # of one workspace; a walk over so many takes seconds
_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_HEAD_BYTES: Final = 64  # of an object of git, in which its kind stands
_MESSAGES: Final = frozenset(("MERGE_MSG", "SQUASH_MSG", "TAG_EDITMSG"))


class Entry(Struct, frozen=True, kw_only=True):
    """A plain file that a walk came by."""

    path: str
    "As seen from the workspace."
    name: str
    folder: int
    "Its folder, open as long as the walk stands here."
    info: os.stat_result

    @contextmanager
    def opened(self) -> Generator[int]:
        """Open it; one that nobody may read is readable for that long.

        Raises:
            OSError: It belongs to somebody else, or is another by now.
        """
        with ExitStack() as stack:
            try:
                fd = os.open(self.name, _OPEN, dir_fd=self.folder)
            except PermissionError:
                fd = os.open(stack.enter_context(self._readable()), _OPEN & ~os.O_NOFOLLOW)
            stack.callback(os.close, fd)
            if not os.path.samestat(os.fstat(fd), self.info):
                raise FileNotFoundError(self.path)
            yield fd

    @contextmanager
    def _readable(self) -> Generator[str]:
        """Let the owner read it for as long as the block lasts; returns a path that is it."""
        # A descriptor that only names the file: the name may be another's in the next moment.
        named = os.open(self.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.folder)
        try:
            if not os.path.samestat(os.fstat(named), self.info):
                raise FileNotFoundError(self.path)
            itself, mode = f"/proc/self/fd/{named}", stat.S_IMODE(self.info.st_mode)
            os.chmod(itself, mode | stat.S_IRUSR)  # no path, a descriptor
            try:
                yield itself
            finally:
                os.chmod(itself, mode)
        finally:
            os.close(named)

    def mark(self) -> tuple[str, ...]:
        """Return its mark, without opening it if it can be read; a file that went has none."""
        try:
            return read_mark(f"/proc/self/fd/{self.folder}/{self.name}", self.path)
        except PermissionError:
            with suppress(OSError), self.opened() as fd:
                return read_mark(fd, self.path)
        except OSError:
            pass
        return ()


class Marked(Struct, frozen=True, kw_only=True):
    """A file with text from outside."""

    path: str
    "As seen from the workspace."
    sources: tuple[str, ...]


def files_below(root: Path, closed: Path | None = None) -> Generator[Entry]:
    """Yield the plain files below a folder, up to `ENTRIES_MOST`.

    A warning is logged where there are more, and where a folder cannot be read.

    Args:
        root: The folder; it may be a link.
        closed: A folder that is not entered.
    """
    top = os.path.realpath(root)
    left_out = _identity(closed)
    count = 0
    for above, folders, names, folder in os.fwalk(top, onerror=_cannot_read):
        inside = os.path.relpath(above, top)
        prefix = "" if inside == "." else f"{inside}/"
        if left_out is not None:
            folders[:] = [name for name in folders if _identity_at(name, folder) != left_out]
        for name in names:
            count += 1
            if count > ENTRIES_MOST:
                fields = {"folder": str(root), "files": ENTRIES_MOST}
                logger.warning("a workspace has too many files to look at all marks", extra=fields)
                return
            with suppress(OSError):
                info = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISREG(info.st_mode):
                    yield Entry(path=f"{prefix}{name}", name=name, folder=folder, info=info)


def marked_below(root: Path, closed: Path | None = None) -> list[Marked]:
    """Return the files with text from outside below a folder, by path; see `files_below`."""
    found = [
        Marked(path=each.path, sources=sources)
        for each in files_below(root, closed)
        if (sources := each.mark())
    ]
    return sorted(found, key=lambda each: each.path)


def trust_files(root: Path, paths: Collection[str], closed: Path | None = None) -> None:
    """Say of marked files that their owner trusts them: their marks are empty from now on.

    Raises:
        OSError: One of them cannot be changed.
    """
    for each in files_below(root, closed):
        if each.path in paths:
            with each.opened() as fd:
                trust(fd)


def may_be_marked(path: str) -> bool:
    """Return whether a file of a workspace is one that is marked; pure.

    Of what git keeps, those are with the texts of people: the objects, and messages that wait to be
    committed. All else - the index, the references - every command of git reads.
    """
    parts = path.split("/")
    if ".git" not in parts[:-1]:
        return True
    inside = parts[parts.index(".git") + 1 :]
    if "objects" not in inside:
        return inside[-1] in _MESSAGES
    inside = inside[inside.index("objects") + 1 :]
    return inside[0] != "info" and (inside[0] != "pack" or inside[-1].endswith(".pack"))


def is_tree(path: str, fd: int) -> bool:
    """Return whether an open file is an object of git that lists names, and holds no text."""
    if "/objects/" not in path:
        return False
    try:
        head = zlib.decompressobj().decompress(os.pread(fd, _HEAD_BYTES, 0), 5)
    except (OSError, zlib.error):
        return False
    return head == b"tree "


def _cannot_read(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # it went meanwhile, or was never made
        fields = {"folder": str(error.filename), "error": str(error)}
        logger.warning("a folder cannot be looked through for text from outside", extra=fields)


def _identity(folder: Path | None) -> tuple[int, int] | None:
    if folder is None:
        return None
    with suppress(OSError):
        info = folder.stat()
        return info.st_dev, info.st_ino
    return None


def _identity_at(name: str, folder: int) -> tuple[int, int] | None:
    with suppress(OSError):
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        return info.st_dev, info.st_ino
    return None
