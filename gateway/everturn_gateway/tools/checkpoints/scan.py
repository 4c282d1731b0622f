"""Reads a workspace: which files it has, and what they hold. Blocking; follows no link."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from everturn_gateway.tools.checkpoints.values import FileState
from everturn_gateway.tools.confined.place import is_temporary
from everturn_gateway.tools.marks.attribute import read_mark
from everturn_gateway.tools.marks.walk import Entry, files_below

FILES_MAX: Final = 20_000
FILE_MAX_BYTES: Final = 8 * 1024 * 1024
TOTAL_MAX_BYTES: Final = 256 * 1024 * 1024
IGNORE_FILE: Final = ".everturnignore"
_IGNORE_MAX_BYTES: Final = 64 * 1024
_LEFT_OUT: Final = frozenset(
    (".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules", ".mypy_cache", ".ruff_cache")
)
_SETTLED_NS: Final = 2 * 10**9  # a file that changed just now may change again without a trace
_PERMISSIONS: Final = 0o777

Files = dict[str, FileState]
_Stamp = tuple[int, int, int, int, int]


class TooLargeError(Exception):
    """A workspace is larger than what is kept of one; the text says by what."""


class Scanner:
    """Reads one workspace again and again; what has not changed is not read twice."""

    def __init__(self, root: Path, closed: Callable[[], Iterable[Path]]) -> None:
        """Read `root`, but not what is in the folders that `closed` names."""
        self._root, self._closed = root, closed
        self._known: dict[str, tuple[_Stamp, FileState]] = {}

    def forget(self) -> None:
        """Read everything anew the next time: contents that were kept may be gone."""
        self._known.clear()

    def files(self, keep: Callable[[str, bytes], None]) -> Files:
        """Return what stands in the workspace; `keep` is given each content that is read.

        Files that are larger than `FILE_MAX_BYTES`, or cannot be read, are left out.

        Raises:
            TooLargeError: There is more than is kept.
        """
        if not self._root.is_dir():
            return {}
        left_out = _ignored(self._root)
        closed = [os.path.realpath(each) for each in self._closed()]
        top = os.path.realpath(self._root)
        found: Files = {}
        known: dict[str, tuple[_Stamp, FileState]] = {}
        total = 0
        for entry in files_below(self._root):
            if _is_left_out(entry.path, left_out) or _is_closed(f"{top}/{entry.path}", closed):
                continue
            size = entry.info.st_size
            if size > FILE_MAX_BYTES or is_temporary(entry.name):
                continue
            total += size
            if len(found) == FILES_MAX or total > TOTAL_MAX_BYTES:
                most = f"{FILES_MAX:,} files or {TOTAL_MAX_BYTES // 1024**2} MiB"
                msg = f"it holds more than {most}; name what need not be kept in {IGNORE_FILE}"
                raise TooLargeError(msg)
            state = self._state(entry, known, keep)
            if state is not None:
                found[entry.path] = state
        self._known = known
        return found

    def _state(
        self,
        entry: Entry,
        known: dict[str, tuple[_Stamp, FileState]],
        keep: Callable[[str, bytes], None],
    ) -> FileState | None:
        info = entry.info
        # Permissions and marks are attributes: whoever changes one changes the last time, too.
        stamp = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
        before = self._known.get(entry.path)
        if before is not None and before[0] == stamp:
            known[entry.path] = before
            return before[1]
        try:
            with entry.opened() as fd, open(fd, "rb", closefd=False) as stream:
                data = stream.read(FILE_MAX_BYTES + 1)
        except OSError:  # it went, or belongs to somebody else
            return None
        digest = hashlib.sha256(data).hexdigest()
        keep(digest, data)
        state = FileState(digest=digest, mode=info.st_mode & _PERMISSIONS, mark=_mark(entry))
        if time.time_ns() - info.st_ctime_ns > _SETTLED_NS:
            known[entry.path] = stamp, state
        return state


def _mark(entry: Entry) -> tuple[str, ...]:
    try:  # without its path: what people sent is known by its folder, and stays there
        return read_mark(f"/proc/self/fd/{entry.folder}/{entry.name}")
    except OSError:
        return entry.mark()


def _ignored(root: Path) -> tuple[str, ...]:
    try:
        with (root / IGNORE_FILE).open("rb") as stream:
            text = stream.read(_IGNORE_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ()
    lines = (line.strip().strip("/") for line in text.splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


def _is_left_out(path: str, patterns: Sequence[str]) -> bool:
    parts = path.split("/")
    if not _LEFT_OUT.isdisjoint(parts[:-1]):
        return True
    heads = ("/".join(parts[: n + 1]) for n in range(len(parts)))
    return bool(patterns) and any(
        fnmatch.fnmatchcase(each, pattern)
        for head, part in zip(heads, parts, strict=True)
        for each in {head, part}
        for pattern in patterns
    )


def _is_closed(path: str, closed: Sequence[str]) -> bool:
    return any(path.startswith(f"{each}/") for each in closed)
