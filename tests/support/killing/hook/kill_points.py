"""Counts what a process does to the files of one folder, and ends it by SIGKILL at the n-th.

For a gateway that runs as it always does: nothing of this is in it. `os.write`, `os.fsync`,
`os.replace` and the like, and files opened for writing, are replaced by ones that count and then
do the same. Each is noted in a trace, one line each, before it is done: `17 write .everturn/x`.

Standard library alone: it is loaded before anything else.
"""

from __future__ import annotations

import builtins
import io
import os
import shutil  # noqa: F401 - it looks at the functions of `os` when it is loaded: before they change
import signal
import stat
import threading
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

T = TypeVar("T")
Moment: TypeAlias = Literal["before", "half", "after"]
"When the process ends: before the operation, with half of the bytes of a write, or after it."

ROOT: Final = "KILL_POINTS_ROOT"
TRACE: Final = "KILL_POINTS_TRACE"
AT: Final = "KILL_POINTS_AT"
_HALVES_FROM: Final = 2  # bytes; less has no half


@dataclass(frozen=True, slots=True, kw_only=True)
class KillPoint:
    """Where a process ends."""

    number: int
    "Of the operation, from 1; 0 = nowhere."
    moment: Moment = "before"


class Counter:
    """Counts operations and ends the process at one of them."""

    def __init__(self, root: Path, trace: Path, at: KillPoint) -> None:
        self._root, self._at = os.path.join(os.path.realpath(root), ""), at
        self._trace = os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._lock = threading.Lock()
        self._count = 0
        self._write = os.write

    def place(self, path: object, dir_fd: int | None = None) -> str | None:
        """Return a path or descriptor relative to the folder; None where it is outside."""
        try:
            if isinstance(path, int):
                whole = os.readlink(f"/proc/self/fd/{path}")
            else:
                text = os.fsdecode(cast("os.PathLike[str]", path))
                base = os.getcwd() if dir_fd is None else os.readlink(f"/proc/self/fd/{dir_fd}")
                whole = os.path.normpath(os.path.join(base, text))
        except (OSError, TypeError):
            return None
        return whole.removeprefix(self._root) if whole.startswith(self._root) else None

    def around(
        self,
        kind: str,
        place: str,
        do: Callable[[], T],
        half: Callable[[], object] | None = None,
    ) -> T:
        """Do one operation, unless the process ends before it, in its middle or after it."""
        with self._lock:
            self._count += 1
            number = self._count
            self._write(self._trace, f"{number} {kind} {place}\n".encode(errors="replace"))
        if number != self._at.number:
            return do()
        if self._at.moment == "half" and half is not None:
            half()
        if self._at.moment != "after":
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return do()
        finally:  # also where it failed, such as to remove what is not there
            os.kill(os.getpid(), signal.SIGKILL)


def install_from_environment() -> None:
    """Begin to count where the environment asks for it; what asked is taken out of it."""
    if ROOT in os.environ:
        install(os.environ)


def install(environ: MutableMapping[str, str]) -> None:
    """Begin to count as `environ` says, and take that out of it."""
    number, _, moment = environ.pop(AT).partition(":")
    at = KillPoint(number=int(number), moment=cast("Moment", moment))
    counter = Counter(Path(environ.pop(ROOT)), Path(environ.pop(TRACE)), at)
    _count_descriptors(counter)
    _count_paths(counter)
    _count_files(counter)


def environment(root: Path, trace: Path, at: KillPoint) -> Mapping[str, str]:
    """Return what has to stand in the environment of a process that is to be counted."""
    return {ROOT: str(root), TRACE: str(trace), AT: f"{at.number}:{at.moment}"}


def _is_kept(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def _count_descriptors(counter: Counter) -> None:
    """Replace what works on descriptors."""
    real: dict[str, Callable[..., Any]] = {
        name: getattr(os, name) for name in ("write", "pwrite", "fsync", "fdatasync", "ftruncate")
    }

    def counted(name: str) -> Callable[..., Any]:
        does = real[name]

        def call(descriptor: int, *rest: Any) -> Any:
            place = counter.place(descriptor) if _is_kept(descriptor) else None
            if place is None:
                return does(descriptor, *rest)
            half: Callable[[], object] | None = None
            if name in {"write", "pwrite"}:
                data, where = memoryview(rest[0]), rest[1:]
                if len(data) >= _HALVES_FROM:

                    def half() -> object:
                        return does(descriptor, data[: len(data) // 2], *where)

            return counter.around(name, place, lambda: does(descriptor, *rest), half)

        return call

    for name in real:
        setattr(os, name, counted(name))


def _count_paths(counter: Counter) -> None:
    """Replace what works on paths; of two paths the last one is named."""
    one = ("mkdir", "rmdir", "unlink", "remove", "truncate", "mkfifo")
    two = ("rename", "replace", "link")

    def counted(name: str) -> Callable[..., Any]:
        does: Callable[..., Any] = getattr(os, name)

        def call(*args: Any, **named: Any) -> Any:
            folder = named.get("dir_fd", named.get("dst_dir_fd"))
            place = counter.place(args[1 if name in two else 0], folder)
            if place is None or (name == "mkdir" and os.path.isdir(args[0])):
                return does(*args, **named)
            return counter.around(name, place, lambda: does(*args, **named))

        return call

    for name in (*one, *two):
        setattr(os, name, counted(name))
    opens = os.open

    def call(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        def does() -> int:
            return opens(path, flags, mode, dir_fd=dir_fd)

        place = counter.place(path, dir_fd) if flags & (os.O_CREAT | os.O_TRUNC) else None
        if place is None or not _changes(path, flags, dir_fd):
            return does()
        return counter.around("create", place, does)

    os.open = call


def _changes(path: Any, flags: int, dir_fd: int | None) -> bool:
    """Whether opening it so makes a file, or empties one."""
    try:
        size_bytes = os.stat(path, dir_fd=dir_fd).st_size
    except OSError:
        return bool(flags & os.O_CREAT)
    return bool(flags & os.O_TRUNC) and size_bytes > 0


class _CountedFile(io.FileIO):
    """A file whose writes are counted."""

    counter: Counter
    place: str

    def write(self, data: Any, /) -> int:
        """Write, as `FileIO` does."""
        whole, writes = memoryview(data), super().write

        def half() -> object:
            return writes(whole[: len(whole) // 2])

        given = half if len(whole) >= _HALVES_FROM else None
        return self.counter.around("write", self.place, lambda: writes(whole), given)


def _count_files(counter: Counter) -> None:
    """Replace `open`, and so `Path.write_text`, `os.fdopen` and the like."""
    opens: Callable[..., Any] = io.open

    def call(
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,  # noqa: FBT002 - as the one it replaces
        opener: Any = None,
    ) -> Any:
        writes = not {*mode}.isdisjoint("wxa+")
        place = counter.place(file) if writes else None
        if place is None or (isinstance(file, int) and not _is_kept(file)):
            return opens(file, mode, buffering, encoding, errors, newline, closefd, opener)
        raw_mode = mode.replace("b", "").replace("t", "")

        def does() -> _CountedFile:
            return _CountedFile(file, raw_mode, closefd=closefd, opener=opener)

        flags = os.O_CREAT | (os.O_TRUNC if "w" in mode else 0)
        makes = not isinstance(file, int) and "r" not in mode and _changes(file, flags, None)
        raw = counter.around("create", place, does) if makes else does()
        raw.counter, raw.place = counter, place
        if buffering == 0:
            return raw
        kept = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return kept if "b" in mode else io.TextIOWrapper(kept, encoding, errors, newline)

    io.open = builtins.open = call
