"""Sees which of some files are opened, by whomever: inotify, through libc.

A watch belongs to the file, not to its name, and is told of every process, in whatever sandbox. An
event says which file, not who; so whoever asks learns what was opened in a span of time.
Source: inotify(7) (Linux man-pages, read 2026-11-23).
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import threading
import weakref
from collections.abc import Collection, Generator
from contextlib import contextmanager
from typing import Final

from msgspec import Struct, field

_OPEN, _ATTRIB, _OVERFLOW, _IGNORED = 0x20, 0x4, 0x4000, 0x8000
_EVENT: Final = struct.Struct("iIII")
_READ_BYTES: Final = 64 * 1024


class Seen(Struct, eq=False):
    """What happened to watched files in a span of time."""

    opened: set[int] = field(default_factory=set[int])
    "Watches of files that were opened."
    changed: set[int] = field(default_factory=set[int])
    "Those whose attributes changed, the number of their names included."
    gone: set[int] = field(default_factory=set[int])
    "Those that are no more."
    is_incomplete: bool = False
    "Whether there was more than could be kept."

    @property
    def touched(self) -> set[int]:
        """Watches of files that were read, or whose marks may have been taken away."""
        return self.opened | (self.changed - self.gone)


class OpenWatch:
    """Watches files; asks the kernel for nothing before the first. Safe to use from threads."""

    def __init__(self) -> None:
        """Watch nothing."""
        self._fd = -1
        self._spans: set[Seen] = set()
        self._one = threading.Lock()

    def add(self, fd: int) -> int | None:
        """Watch an open file; return the number of the watch, the same for the same file.

        None where the system watches no more files, or none at all.
        """
        if sys.platform != "linux":
            return None
        with self._one:
            if self._fd < 0:
                self._fd = _libc().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
                if self._fd < 0:
                    return None
                weakref.finalize(self, os.close, self._fd)
            path = f"/proc/self/fd/{fd}".encode()
            watch = _libc().inotify_add_watch(self._fd, path, _OPEN | _ATTRIB)
        return watch if watch >= 0 else None

    def begin(self) -> Seen:
        """Begin a span; what happened before is not in it."""
        with self._one:
            self._drain()
            seen = Seen()
            self._spans.add(seen)
        return seen

    def look(self) -> None:
        """Bring all spans up to now."""
        with self._one:
            self._drain()

    @contextmanager
    def own(self, watches: Collection[int]) -> Generator[None]:
        """Open some of the files oneself: that is in no span."""
        self.look()
        try:
            yield
        finally:
            with self._one:
                self._drain(but=watches)

    def end(self, seen: Seen) -> None:
        """End a span; it is up to now."""
        with self._one:
            self._drain()
            self._spans.discard(seen)

    def _drain(self, but: Collection[int] = ()) -> None:
        if self._fd < 0:
            return
        now = Seen()
        self._read(now)
        now.opened.difference_update(but)
        for each in self._spans:
            each.opened |= now.opened
            each.changed |= now.changed
            each.gone |= now.gone
            each.is_incomplete |= now.is_incomplete

    def _read(self, seen: Seen) -> None:
        while self._fd >= 0:
            try:
                data = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                return
            at = 0
            while at < len(data):
                watch, mask, _, length = _EVENT.unpack_from(data, at)
                at += _EVENT.size + length
                seen.is_incomplete |= bool(mask & _OVERFLOW)
                for bit, those in (
                    (_OPEN, seen.opened),
                    (_ATTRIB, seen.changed),
                    (_IGNORED, seen.gone),
                ):
                    if mask & bit:
                        those.add(watch)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
