"""Finds files and lines below a folder. Runs as a program of its own: standard library alone.

A regular expression can take for ever, and Python's cannot be stopped from another thread, which
it also keeps from running. So what a model asks for is matched here, in a process that interrupts
itself, lives on limited memory and time, and can be killed. It gets the folder as an open
descriptor, follows no symbolic link from there, and opens plain files alone.

Reads one job, JSON, from the standard input; writes one JSON value a line: a hit as soon as its
file is done, then one `end`.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import resource
import signal
import stat
import sys
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Final, TypedDict

LEFT_OUT: Final = frozenset(
    (".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules", ".mypy_cache", ".ruff_cache")
)
"Folders of tools' own files; they are looked through where a path names them."

_DEPTH_MAX = 64
_NAMED_MAX = 5  # files that could not be looked through
_BINARY_BYTES = 8192  # of the beginning, in which a NUL says that a file is no text
_LINE_CHARACTERS = 240  # of a hit's line; what stands around the hit of a longer one
_BEFORE_CHARACTERS = 60


class Job(TypedDict):
    """What to look for."""

    fd: int
    "The folder, or the one file."
    path: str
    "What it is called; stands before the names below it."
    query: str
    "Empty: the files themselves are what is looked for."
    regex: bool
    ignore_case: bool
    pattern: str
    "Of names, or of paths where it holds a `/`; empty = any."
    hits: int
    "How many are wanted."
    files: int
    "How many are looked at."
    file_bytes: int
    "Larger files are left out."
    total_s: float
    file_s: float
    memory_bytes: int
    hidden: list[str]
    "How names begin and end of files that are being written."
    closed: list[list[int]]
    "Device and inode of folders that are not entered."


class End(TypedDict):
    """How it went."""

    files: int
    "How many were looked at."
    why: str
    "What ended it early: `hits`, `files` or `time`; empty = nothing did."
    large: list[str]
    slow: list[str]
    "Files given up, since the expression took too long in them."
    left_out: list[str]
    "Names of folders of tools' own files that were met."
    unread: int
    "Files and folders that could not be opened."
    binary: int


class Slow(Exception):  # noqa: N818 - it is no error of anybody
    """The time for one file is over."""


class _Enough(Exception):  # noqa: N818 - it is no error of anybody
    """There is nothing more to be looked for."""


class Finder:
    """Does one job."""

    def __init__(
        self,
        job: Job,
        emit: Callable[[object], None],
        *,
        within: Callable[[float], AbstractContextManager[None]],
        clock: Callable[[], float],
    ) -> None:
        """Emit what is found; `within` gives a block that ends in `Slow` after so many seconds."""
        self._job, self._emit, self._within, self._clock = job, emit, within, clock
        self._give_up = clock() + job["total_s"]
        self._closed = {(device, inode) for device, inode in job["closed"]}
        self._hits = 0
        self.end = End(files=0, why="", large=[], slow=[], left_out=[], unread=0, binary=0)
        flags = re.MULTILINE | (re.IGNORECASE if job["ignore_case"] else 0)
        query = job["query"] if job["regex"] else re.escape(job["query"])
        with within(job["file_s"]):
            self._expression = re.compile(query, flags)
        plain = not job["regex"] and not job["ignore_case"]
        self._bytes = job["query"].encode(errors="surrogatepass") if plain else b""
        self._name, self._path = _globs(job["pattern"])

    def run(self) -> None:
        """Look everywhere, until there is enough."""
        fd, path = self._job["fd"], self._job["path"]
        try:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                self._look(fd, path)
            else:
                for opened, name in self._files(fd, "" if path == "." else f"{path}/", 0):
                    self._look(opened, name)
        except _Enough:
            pass

    def _files(self, folder: int, above: str, depth: int) -> Generator[tuple[int, str]]:
        """Yield the files below an open folder that fit the pattern, open; the caller reads them.

        In the order of their names, the files of a folder before the folders in it.
        """
        below: list[str] = []
        for name, info in _entries(folder):
            if stat.S_ISDIR(info.st_mode):
                below.append(name)
            elif stat.S_ISREG(info.st_mode) and self._fits(name, f"{above}{name}"):
                with self._opened(name, folder, stat.S_ISREG) as fd:
                    if fd >= 0:
                        yield fd, f"{above}{name}"
        for name in below:
            if name in LEFT_OUT:
                if name not in self.end["left_out"]:
                    self.end["left_out"].append(name)
                continue
            with self._opened(name, folder, stat.S_ISDIR) as fd:
                if fd >= 0 and depth < _DEPTH_MAX:
                    yield from self._files(fd, f"{above}{name}/", depth + 1)

    def _fits(self, name: str, path: str) -> bool:
        first, last = self._job["hidden"]
        if name.startswith(first) and name.endswith(last):
            return False
        if self._path is not None:
            return any(each.match(path) for each in self._path)
        return self._name is None or self._name.match(name) is not None

    @contextmanager
    def _opened(self, name: str, folder: int, wanted: Callable[[int], bool]) -> Generator[int]:
        """Open what was seen as a file or a folder and is one still; -1 where that cannot be."""
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        except OSError:
            self.end["unread"] += 1
            yield -1
            return
        try:
            info = os.fstat(fd)
            is_open = wanted(info.st_mode) and (info.st_dev, info.st_ino) not in self._closed
            yield fd if is_open else -1
        finally:
            os.close(fd)

    def _look(self, fd: int, path: str) -> None:
        end = self.end
        if end["files"] >= self._job["files"]:
            self._stop("files")
        left_s = self._give_up - self._clock()
        if left_s <= 0:
            self._stop("time")
        end["files"] += 1
        if not self._job["query"]:
            self._hit([path, os.fstat(fd).st_size, ""])
            return
        if os.fstat(fd).st_size > self._job["file_bytes"]:
            if len(end["large"]) < _NAMED_MAX:
                end["large"].append(path)
            return
        found: list[tuple[int, str]] = []
        try:
            with self._within(min(self._job["file_s"], left_s)):
                self._read(fd, found)
        except Slow:
            if self._clock() >= self._give_up:
                end["why"] = "time"
            if len(end["slow"]) < _NAMED_MAX:
                end["slow"].append(path)
        except OSError:
            end["unread"] += 1
        for number, line in found:
            self._hit([path, number, line])

    def _read(self, fd: int, found: list[tuple[int, str]]) -> None:
        with open(fd, "rb", closefd=False) as stream:
            data = stream.read(self._job["file_bytes"])
        if b"\0" in data[:_BINARY_BYTES]:
            self.end["binary"] += 1
            return
        if self._bytes and self._bytes not in data:
            return
        wanted = self._job["hits"] - self._hits
        for number, line in enumerate(data.split(b"\n"), 1):
            text = line.decode(errors="replace").removesuffix("\r")
            hit = self._expression.search(text)
            if hit is not None:
                found.append((number, _around(text, hit.start())))
                if len(found) > wanted:
                    return

    def _hit(self, hit: list[object]) -> None:
        if self._hits >= self._job["hits"]:
            self._stop("hits")
        self._hits += 1
        self._emit({"hit": hit})

    def _stop(self, why: str) -> None:
        self.end["why"] = why
        raise _Enough


def _entries(folder: int) -> list[tuple[str, os.stat_result]]:
    found: list[tuple[str, os.stat_result]] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                found.append((entry.name, entry.stat(follow_symlinks=False)))
            except OSError:  # it went meanwhile
                continue
    return sorted(found, key=lambda each: each[0])


def _globs(pattern: str) -> tuple[re.Pattern[str] | None, list[re.Pattern[str]] | None]:
    """Return what names, or what paths have to fit; `*` also stands for folders on the way."""
    if not pattern:
        return None, None
    if "/" not in pattern:
        return re.compile(fnmatch.translate(pattern)), None
    forms = {pattern.removeprefix("./")}
    for form in [*forms]:
        forms.add(form.replace("**/", ""))
    return None, [re.compile(fnmatch.translate(form)) for form in sorted(forms)]


def _around(line: str, at: int) -> str:
    if len(line) <= _LINE_CHARACTERS:
        return line
    begin = max(0, min(at - _BEFORE_CHARACTERS, len(line) - _LINE_CHARACTERS))
    end = begin + _LINE_CHARACTERS
    return f"{'…' if begin else ''}{line[begin:end]}{'…' if end < len(line) else ''}"


@contextmanager
def _alarm(seconds: float) -> Generator[None]:
    """End the block in `Slow` when its time is over; Python's matcher looks for signals."""
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _ring(_signal: int, _frame: FrameType | None) -> None:
    raise Slow


def _emit(value: object) -> None:
    sys.stdout.write(json.dumps(value))
    sys.stdout.write("\n")


def main() -> None:
    """Do the job that stands in the standard input."""
    job: Job = json.loads(sys.stdin.buffer.read())
    resource.setrlimit(resource.RLIMIT_AS, (job["memory_bytes"], job["memory_bytes"]))
    signal.signal(signal.SIGALRM, _ring)
    try:
        finder = Finder(job, _emit, within=_alarm, clock=time.monotonic)
        finder.run()
        _emit({"end": finder.end})
    except Slow:
        _emit({"error": "regex: it takes too long to read; make it simpler"})
    except (re.error, RecursionError, OverflowError) as error:
        _emit({"error": f"regex: {error}"})
    except MemoryError:
        _emit({"error": "it took too much memory; look in fewer or smaller files"})
    sys.stdout.flush()


if __name__ == "__main__":
    main()
