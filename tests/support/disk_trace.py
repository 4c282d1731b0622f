"""Everything durable that a process does to one folder, in order, and what happened outside.

The functions of `os` that change files are wrapped for a while: what they do below the folder is
written down, in the order in which it was done, together with marks for what nobody can take back
- a person was told, a platform was called, a tool ran. `Trace.at` gives the disk and the world as
they stood after any of these operations.

Streams of Python write past the functions of `os`; those that are opened for writing below the
folder get a raw file whose writes come by here. That nothing else passes by is checked by whoever
compares the disk of the whole trace with the real folder.
"""

from __future__ import annotations

import builtins
import io
import os
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias
from unittest import mock

from support.disk_model import Disk, Node, Write

Kind: TypeAlias = Literal[
    "create", "write", "truncate", "sync", "rename", "link", "remove", "mkdir", "rmdir", "pipe",
    "mark",
]  # fmt: skip
Before: TypeAlias = Callable[["Operation"], None]

_WRITING = os.O_WRONLY | os.O_RDWR


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One durable operation, or a mark."""

    number: int
    "From 1, in the order in which they were done; 0 = not done yet."
    kind: Kind
    path: str
    "Below the folder; of a mark what happened, in words."
    to: str = ""
    "rename and link: the new name."
    offset: int = 0
    "write: where; truncate: the new length."
    data: bytes = b""
    "write: the bytes; mark: the world as it stood then."
    file: int = 0
    "write, truncate and sync: which file it is, whatever it is called by now."

    def __str__(self) -> str:
        """Return what a person reads in a report."""
        size = f" {len(self.data)} bytes at {self.offset}" if self.kind == "write" else ""
        return f"{self.number}: {self.kind} {self.path}{f' -> {self.to}' if self.to else ''}{size}"


@dataclass(slots=True)
class Trace:
    """What was done, oldest first, over what stood in the folder before."""

    base: dict[str, bytes | None] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)

    def walk(self) -> Iterator[tuple[Operation, Replay]]:
        """Yield each operation, and the disk right after it; one disk, which goes on."""
        replay = Replay(self.base)
        for operation in self.operations:
            replay.apply(operation)
            yield operation, replay


class Replay:
    """A disk to which operations are done one by one."""

    def __init__(self, base: dict[str, bytes | None]) -> None:
        """Begin with what was there, all of it durable."""
        self.disk = Disk()
        self.world = b""
        self.changed: Node | None = None
        "The file of the newest operation, where it was a write."
        self._files: dict[int, Node] = {}
        for name, data in base.items():
            node = Node("folder") if data is None else Node("file", data=data)
            self.disk.put(name, node)
            node.sync()
            self.disk.folder_of(name)[0].sync()

    def node(self, operation: Operation) -> Node:
        """Return the file or folder that an operation is about."""
        node = self._files.get(operation.file) or self.disk.find(operation.path)
        assert node is not None, f"{operation}: it is not there"
        self._files[operation.file] = node
        return node

    def apply(self, operation: Operation) -> None:
        """Do an operation."""
        disk, path = self.disk, operation.path
        self.changed = None
        match operation.kind:
            case "mark":
                self.world = operation.data
            case "create":
                disk.put(path, Node("file"))
                self._files[operation.file] = disk.folder_of(path)[0].names[path.rpartition("/")[2]]
            case "write":
                self.changed = self.node(operation)
                self.changed.change(Write(operation.offset, operation.data))
            case "truncate":
                self.node(operation).change(Write(operation.offset, None))
            case "sync":
                self.node(operation).sync()
            case "rename":
                disk.rename(path, operation.to)
            case "link":
                node = disk.find(path)
                assert node is not None
                disk.put(operation.to, node)
            case "remove" | "rmdir":
                disk.take(path)
            case "mkdir":
                disk.put(path, Node("folder"))
            case "pipe":
                disk.put(path, Node("pipe"))


# --- recording -----------------------------------------------------------------------------------


class Recorder:
    """Wraps the functions of `os`; `recording` is the way to use one.

    Args of `before`: it is told of each operation before it is done, in the thread that does it;
    it may raise an `OSError` in its place, or keep it waiting.
    """

    def __init__(self, folder: Path, *, before: Before | None = None, syncs: bool = False) -> None:
        """Begin with what stands in the folder now.

        Args:
            folder: Below it everything is written down; real, without links.
            before: See above.
            syncs: Whether the machine's disk is really asked to sync; a replay needs it not.
        """
        self.folder = str(folder)
        self.trace = Trace()
        self.before = before
        self._syncs = syncs
        self._lock = threading.RLock()
        self._paths: dict[int, str] = {}
        "Of open descriptors."
        self._files: dict[int, int] = {}
        self._numbers = 0
        self._real: dict[str, Any] = {}
        self._is_writing_file: set[int] = set()

    def mark(self, what: str, world: bytes) -> None:
        """Note that something happened outside, and how the world stands now."""
        with self._lock:
            self._note("mark", what, data=world)

    def _note(self, kind: Kind, path: str, **more: Any) -> Operation:
        number = len(self.trace.operations) + 1
        operation = Operation(number=number, kind=kind, path=path, **more)
        self.trace.operations.append(operation)
        return operation

    def _ask(self, kind: Kind, path: str, **more: Any) -> None:
        if self.before is not None:
            self.before(Operation(number=0, kind=kind, path=path, **more))

    def _below(self, path: object, dir_fd: int | None = None) -> str | None:
        """Return a path below the folder; None where it is elsewhere."""
        if isinstance(path, int):
            return self._paths.get(path)
        text = os.fsdecode(path)  # type: ignore[arg-type]
        if dir_fd is not None and not text.startswith("/"):
            parent = self._paths.get(dir_fd)
            return None if parent is None else f"{parent}/{text}" if parent else text
        text = os.path.abspath(text)
        if text == self.folder:
            return ""
        return text.removeprefix(f"{self.folder}/") if self._holds(text) else None

    def _holds(self, path: str) -> bool:
        return path.startswith(f"{self.folder}/")

    # --- the functions ---

    def open(
        self,
        path: Any,
        flags: int,
        mode: int = 0o777,
        *,
        dir_fd: int | None = None,
    ) -> int:
        """See `os.open`."""
        real = self._real["open"]
        name = self._below(path, dir_fd)
        if name is None:
            return int(real(path, flags, mode, dir_fd=dir_fd))
        full = f"{self.folder}/{name}"
        creates = bool(flags & os.O_CREAT) and not os.path.lexists(full)
        if creates:
            self._ask("create", name)
        with self._lock:
            fd = int(real(path, flags, mode, dir_fd=dir_fd))
            self._paths[fd] = name
            self._numbers += 1
            self._files[fd] = self._numbers
            if creates:
                self._note("create", name, file=self._numbers)
            elif flags & os.O_TRUNC and os.fstat(fd).st_size == 0:
                self._note("truncate", name, offset=0, file=self._numbers)
            return fd

    def close(self, fd: int) -> None:
        """See `os.close`."""
        with self._lock:
            self._paths.pop(fd, None)
            self._files.pop(fd, None)
        self._real["close"](fd)

    def pwrite(self, fd: int, data: Any, offset: int) -> int:
        """See `os.pwrite`."""
        name = self._paths.get(fd)
        if name is None:
            return int(self._real["pwrite"](fd, data, offset))
        self._ask("write", name, offset=offset, data=bytes(data))
        with self._lock:
            done = int(self._real["pwrite"](fd, data, offset))
            kept = bytes(data)[:done]
            self._note("write", name, offset=offset, data=kept, file=self._files[fd])
            return done

    def write(self, fd: int, data: Any) -> int:
        """See `os.write`."""
        name = self._paths.get(fd)
        if name is None or not self._is_file(fd):
            return int(self._real["write"](fd, data))
        self._ask("write", name, data=bytes(data))
        with self._lock:
            offset = os.lseek(fd, 0, os.SEEK_CUR)
            done = int(self._real["write"](fd, data))
            kept = bytes(data)[:done]
            self._note("write", name, offset=offset, data=kept, file=self._files[fd])
            return done

    def _is_file(self, fd: int) -> bool:
        return os.path.isfile(f"/proc/self/fd/{fd}")

    def ftruncate(self, fd: int, length: int) -> None:
        """See `os.ftruncate`."""
        name = self._paths.get(fd)
        if name is not None:
            self._ask("truncate", name, offset=length)
        with self._lock:
            self._real["ftruncate"](fd, length)
            if name is not None:
                self._note("truncate", name, offset=length, file=self._files[fd])

    def sync(self, which: str, fd: int) -> None:
        """See `os.fsync` and `os.fdatasync`."""
        name = self._paths.get(fd)
        if name is None:
            self._real[which](fd)
            return
        self._ask("sync", name)
        with self._lock:
            if self._syncs:
                self._real[which](fd)
            self._note("sync", name, file=self._files[fd])

    def two(
        self,
        which: Literal["rename", "replace", "link"],
        source: Any,
        target: Any,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
        **more: Any,
    ) -> None:
        """See `os.rename`, `os.replace` and `os.link`."""
        old, new = self._below(source, src_dir_fd), self._below(target, dst_dir_fd)
        kind: Kind = "link" if which == "link" else "rename"
        assert (old is None) == (new is None), f"{source} -> {target} crosses the folder"
        if old is not None and new is not None:
            self._ask(kind, old, to=new)
        with self._lock:
            dirs = {"src_dir_fd": src_dir_fd, "dst_dir_fd": dst_dir_fd}
            self._real[which](source, target, **dirs, **more)
            if old is not None and new is not None:
                self._note(kind, old, to=new)

    def one(
        self,
        which: Literal["unlink", "remove", "rmdir", "mkdir", "mkfifo"],
        path: Any,
        *args: Any,
        dir_fd: int | None = None,
        **more: Any,
    ) -> None:
        """See the function of `os` of this name."""
        kinds: dict[str, Kind] = {
            "unlink": "remove", "remove": "remove", "rmdir": "rmdir", "mkdir": "mkdir",
            "mkfifo": "pipe",
        }  # fmt: skip
        name = self._below(path, dir_fd)
        if name is not None:
            self._ask(kinds[which], name)
        with self._lock:
            self._real[which](path, *args, dir_fd=dir_fd, **more)
            if name is not None:
                self._note(kinds[which], name)

    def _refuse(self, which: str) -> Callable[..., Any]:
        """Return a function that nobody may use here: a replay does not know it."""
        real = self._real[which]

        def call(path: Any, *args: Any, **more: Any) -> Any:
            assert self._below(path) is None, f"os.{which} of {path} is not recorded"
            return real(path, *args, **more)

        return call

    def stream(self, opened: Any, mode: str, real: Callable[..., Any], more: dict[str, Any]) -> Any:
        """See `open` and `os.fdopen`: a stream for writing whose writes come by here."""
        name = self._below(opened)
        if name is None or not set(mode) & set("wax+"):
            return real(opened, mode, **more)
        flags = {"w": os.O_TRUNC, "a": os.O_APPEND, "x": os.O_EXCL}.get(mode[0], 0)
        creates = 0 if mode[0] == "r" else os.O_CREAT
        fd = (
            opened
            if isinstance(opened, int)
            else self.open(opened, flags | creates | os.O_RDWR, 0o666)
        )
        raw = _Raw(self, fd)
        binary: Any = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        if "b" in mode:
            return binary
        return io.TextIOWrapper(binary, encoding=more.get("encoding") or "utf-8")

    @contextmanager
    def installed(self) -> Generator[None]:
        """Wrap the functions for a block."""
        names = (
            "open", "close", "pwrite", "write", "ftruncate", "truncate", "fsync", "fdatasync",
            "rename", "replace", "link", "symlink", "unlink", "remove", "rmdir", "mkdir", "mkfifo",
            "fdopen",
        )  # fmt: skip
        self._real = {name: getattr(os, name) for name in names}
        real_open, real_fdopen = io.open, os.fdopen

        def open_stream(path: Any, mode: str = "r", *args: Any, **more: Any) -> Any:
            more |= dict(zip(("buffering", "encoding", "errors", "newline"), args, strict=False))
            return self.stream(path, mode, real_open, more)

        def fdopen(fd: int, mode: str = "r", *args: Any, **more: Any) -> Any:
            more |= dict(zip(("buffering", "encoding"), args, strict=False))
            return self.stream(fd, mode, real_fdopen, more)

        def wrap(method: Callable[..., None], which: str) -> Callable[..., None]:
            return lambda *args, **more: method(which, *args, **more)

        new: dict[str, Callable[..., Any]] = {
            "open": self.open,
            "close": self.close,
            "pwrite": self.pwrite,
            "write": self.write,
            "ftruncate": self.ftruncate,
            "fdopen": fdopen,
        }
        new |= {which: wrap(self.sync, which) for which in ("fsync", "fdatasync")}
        new |= {which: wrap(self.two, which) for which in ("rename", "replace", "link")}
        new |= {
            which: wrap(self.one, which)
            for which in ("unlink", "remove", "rmdir", "mkdir", "mkfifo")
        }
        new |= {which: self._refuse(which) for which in ("truncate", "symlink")}
        with ExitStack() as stack:
            for name, function in new.items():
                stack.enter_context(mock.patch.object(os, name, function))
            stack.enter_context(mock.patch.object(io, "open", open_stream))
            stack.enter_context(mock.patch.object(builtins, "open", open_stream))
            yield


class _Raw(io.FileIO):
    """A file whose writes come by the recorder."""

    def __init__(self, recorder: Recorder, fd: int) -> None:
        super().__init__(fd, "r+", closefd=False)
        self._recorder, self._fd = recorder, fd

    def write(self, data: Any, /) -> int:
        """Write by way of the recorder."""
        return self._recorder.write(self._fd, bytes(data))

    def truncate(self, size: int | None = None, /) -> int:
        """Cut by way of the recorder."""
        length = self.tell() if size is None else size
        self._recorder.ftruncate(self._fd, length)
        return length

    def close(self) -> None:
        """Close the descriptor, too, once."""
        if not self.closed:
            super().close()
            self._recorder.close(self._fd)
