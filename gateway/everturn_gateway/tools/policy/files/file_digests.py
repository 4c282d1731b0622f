"""What stands in files of a workspace now, so that a change of it is seen. Blocking.

A file counts by its content, a large one by its size and the times and number that the file system
keeps of it: the time of change cannot be set by a program. A folder counts by all that is in it. A
link counts by what it leads to. What is not there counts as well: that it comes is a change.

Source: stat(2), `st_ctime`; open(2), `O_NOFOLLOW`, `O_NONBLOCK` (Linux man-pages).
"""

from __future__ import annotations

import glob
import hashlib
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from everturn_actors.model import FileDigest
from everturn_gateway.tools.confined import is_temporary
from everturn_gateway.tools.policy.files.named_files import looks_like_file

_ABSENT: Final = "absent"
ALL_FILES: Final = "(all files)"
"Stands for a workspace with more files than are looked at."
MAX_DIGESTS: Final = 64  # of one call; a call that names more is bound to all files
MAX_ENTRIES: Final = 300_000  # files and folders that one look goes over: a second or two
_CONTENT_BYTES = 16 * 1024**2  # of one file that is read; a larger one counts by its times
_FOLDER_BYTES = 4 * 1024**2  # of one folder that are read; the files beyond count by their times
_PIECE_BYTES = 1 << 20
_DIGEST_BYTES = 16
_MAX_MATCHES = 2000  # of a glob
_WILD: Final = frozenset("*?[")
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def digests(
    workspace: Path, names: Collection[str], *, all_files: bool = False
) -> tuple[FileDigest, ...]:
    """Return what stands in the files that `names` mean, by path, sorted.

    Never fails: what cannot be read counts as such.

    Args:
        workspace: The folder that relative names start from, absolute.
        names: Words that may be paths below it, relative or absolute, or globs. Words that name
            nothing are left out, unless they look like files; so are files elsewhere.
        all_files: Count every file of the workspace, by the first part of its path.
    """
    look = _Look(Path(os.path.realpath(workspace)))
    try:
        if not all_files:
            found = look.named(names)
            if found is not None:
                return _sorted(found)
        return _sorted(look.everything() | (look.named(names) or {}))
    except _TooManyError:
        return (FileDigest(path=ALL_FILES, digest=f"over {MAX_ENTRIES}"),)


def paths_of(workspace: Path, names: Collection[str]) -> tuple[str, ...]:
    """Return which files and folders `names` mean, as seen from the workspace, without links.

    A folder ends with `/`; the workspace itself, and what lies elsewhere, is left out, as is what
    comes beyond `MAX_DIGESTS`. Reads no file.
    """
    look = _Look(Path(os.path.realpath(workspace)))
    found: dict[str, None] = {}
    for name in names:
        for match in (name, *((look.matches(name) or []) if not _WILD.isdisjoint(name) else ())):
            real = os.path.realpath(os.path.normpath(look.root / match))
            if real == str(look.root) or not _is_below(real, look.root):
                continue
            if os.path.lexists(real) or looks_like_file(match):
                path = os.path.relpath(real, look.root)
                found[f"{path}/" if os.path.isdir(real) else path] = None
    return tuple(found)[:MAX_DIGESTS]


def _sorted(found: dict[str, str]) -> tuple[FileDigest, ...]:
    return tuple(
        FileDigest(path=path, digest=digest, is_there=digest != _ABSENT)
        for path, digest in sorted(found.items())
    )


class _TooManyError(Exception):
    """There are more files than are looked at."""


class _Look(Struct):
    """One look at a workspace."""

    root: Path
    "The workspace, without links."
    entries: int = 0
    "Files and folders that were looked at."
    content_left: int = 0
    "Bytes of the present folder that are still read."
    seen: set[str] = field(default_factory=set[str])
    "Folders that were gone into on the present way."

    def named(self, names: Collection[str]) -> dict[str, str] | None:
        """Return the digest of what each name means, by path; None = it is too many, or all."""
        found: dict[str, str] = {}
        for name in names:
            self._add(name, found)
            if not _WILD.isdisjoint(name):
                matches = self.matches(name)
                if matches is None:
                    return None
                for match in matches:
                    self._add(match, found)
            if len(found) > MAX_DIGESTS or "." in found:
                return None
        return found

    def everything(self) -> dict[str, str]:
        """Return the digest of each file and folder at the top; of many, the rest as one."""
        found: dict[str, str] = {}
        rest = hashlib.sha256()
        for name in self._listed(str(self.root)):
            path = str(self.root / name)
            shown, digest = self._shown(name, path), self._digest(path)
            if len(found) < MAX_DIGESTS - 1:
                found[shown] = digest
            else:
                rest.update(f"{shown}\0{digest}\n".encode("utf-8", "surrogateescape"))
                found["(other files)"] = rest.hexdigest()[: 2 * _DIGEST_BYTES]
        return found

    def matches(self, name: str) -> list[str] | None:
        """Return the files that a glob fits, whole paths; None = too many, or not to be told."""
        if ".." in name.split("/"):  # it may lead out, and in again by another name
            return None
        pattern = str(self.root / name)
        if not pattern.startswith(f"{self.root}/"):
            return []
        found: list[str] = []
        # A glob that cannot be read matches nothing, as in a shell.
        with suppress(OSError, ValueError):
            found = sorted(islice(glob.iglob(pattern), _MAX_MATCHES + 1))
        self.entries += len(found)
        return None if len(found) > _MAX_MATCHES else found

    def _add(self, name: str, found: dict[str, str]) -> None:
        path = os.path.normpath(self.root / name)
        real = os.path.realpath(path)
        if self.root.is_relative_to(real):  # the workspace itself, or what it lies in
            found["."] = ""
            return
        if not (_is_below(path, self.root) or _is_below(real, self.root)):
            return
        shown = os.path.relpath(path, self.root) if _is_below(path, self.root) else path
        if not os.path.lexists(path):
            if looks_like_file(name):
                found[shown] = _ABSENT
            return
        found[self._shown(shown, path)] = self._digest(path)

    @staticmethod
    def _shown(name: str, path: str) -> str:
        clean = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        return f"{clean}/" if os.path.isdir(path) else clean

    def _digest(self, path: str) -> str:
        """Return what stands at a path now."""
        self.content_left, self.seen = _FOLDER_BYTES, set()
        digest = hashlib.sha256()
        for line in self._lines(path, "", is_top=True):
            digest.update(line)
        return digest.hexdigest()[: 2 * _DIGEST_BYTES]

    def _lines(self, path: str, name: str, *, is_top: bool = False) -> Iterator[bytes]:
        """Yield what tells the state of a file, or of all that a folder holds."""
        self.entries += 1
        if self.entries > MAX_ENTRIES:
            raise _TooManyError
        head = name.encode("utf-8", "surrogateescape") + b"\0"
        real = path
        try:
            info = os.lstat(path)
            if stat.S_ISLNK(info.st_mode):
                real = os.path.realpath(path)
                head += os.readlink(path).encode("utf-8", "surrogateescape") + b"\0"
                info = os.stat(real)
        except OSError as error:
            yield head + f"{_ABSENT} {error.errno}\n".encode()
            return
        if stat.S_ISDIR(info.st_mode):
            yield head + b"/\n"
            yield from self._folder(real)
        elif stat.S_ISREG(info.st_mode):
            limit = _CONTENT_BYTES if is_top else self.content_left
            yield head + self._file(real, info, limit) + b"\n"
        else:
            yield head + f"special {info.st_mode} {info.st_rdev}\n".encode()

    def _folder(self, real: str) -> Iterator[bytes]:
        # Through links a folder may hold itself. What lies above the workspace is not its affair.
        if real in self.seen or not _is_below(real, self.root):
            yield f"elsewhere {real}\n".encode("utf-8", "surrogateescape")
            return
        self.seen.add(real)
        for name in self._listed(real):
            yield from self._lines(f"{real}/{name}", name)
        yield b"\\\n"

    @staticmethod
    def _listed(folder: str) -> list[str]:
        try:
            return sorted(name for name in os.listdir(folder) if not is_temporary(name))
        except OSError:
            return []

    def _file(self, real: str, info: os.stat_result, limit_bytes: int) -> bytes:
        """Return the state of a plain file: its content where that is small enough and ours."""
        times = f"{info.st_ino} {info.st_size} {info.st_mtime_ns} {info.st_ctime_ns}".encode()
        if info.st_size > limit_bytes or not _is_below(real, self.root):
            return b"times " + times
        try:
            content = _content(real, limit_bytes)
        except OSError:
            return b"closed " + times
        self.content_left -= info.st_size
        return b"content " + content if content else b"times " + times


def _content(path: str, limit_bytes: int) -> bytes:
    """Return the hash of a file's content; nothing where it is larger than it was, or no file.

    Raises:
        OSError: It cannot be read.
    """
    fd = os.open(path, _READ)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return b""
        digest, left = hashlib.sha256(), limit_bytes + 1
        while left > 0 and (piece := os.read(fd, min(left, _PIECE_BYTES))):
            digest.update(piece)
            left -= len(piece)
        return digest.digest() if left > 0 else b""
    finally:
        os.close(fd)


def _is_below(path: str, root: Path) -> bool:
    return Path(path) == root or Path(path).is_relative_to(root)
