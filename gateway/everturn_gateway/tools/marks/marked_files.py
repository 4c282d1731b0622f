"""The marked files of a workspace: which there are, who opened them, and what came of it.

A command is *behind text from outside* where it has the network, where such text was shown to the
model that wrote it, or where it opened a marked file. All files that change while it runs get its
sources, by the time of their last change (`ctime`), which no program can set.

What is in memory is found again after a restart: a note beside the sessions says whether a
workspace has marks, and one walk then finds them. Without that note nothing is walked or watched.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import anyio
from anyio import to_thread
from msgspec import Struct, field
from msgspec.structs import replace

from everturn_actors.outside import together
from everturn_gateway.tools.marks.attribute import add_mark, read_mark
from everturn_gateway.tools.marks.open_watch import OpenWatch, Seen
from everturn_gateway.tools.marks.walk import Entry, files_below, is_tree, may_be_marked

logger = logging.getLogger(__name__)
T = TypeVar("T")

FOLDER: Final = "outside"  # in the gateway's workspace: a note for each workspace with marks
_WATCHED_MOST: Final = 20_000  # files of one workspace; with more, all marks count as read
_THREADS: Final = 4  # of one workspace: a slow disk must not take those of the journal
_COARSE_CLOCK: Final = 5  # CLOCK_REALTIME_COARSE, by which Linux stamps files
_STEPPED_NS: Final = 10**9  # a clock that is so far behind was set back
_SOME: Final = "files with text from outside"


class Run(Struct, eq=False):
    """A command while it runs, as `MarkedFiles.begin` returns it."""

    since_ns: int
    "When it began, or was last seen to be clean: by the clock that stamps files."
    behind: tuple[str, ...]
    "The text from outside that is behind it, whatever it opens; by source."
    opened: tuple[str, ...] = ()
    "That of the files which it opened, as far as that is known."
    seen: Seen = field(default_factory=Seen)
    began_ns: int = 0
    "When it began."
    looked_s: float = field(default_factory=time.monotonic)
    "When `since_ns` was, by a clock that nobody sets."

    @property
    def sources(self) -> tuple[str, ...]:
        """Both."""
        return together(self.opened, self.behind)


class MarkedFiles:
    """The marks in one workspace. What is not async blocks, and may be called from threads."""

    def __init__(self, root: Path, *, state: Path, watch: OpenWatch) -> None:
        """Look after a workspace; nothing is read before it is needed.

        Args:
            root: The workspace.
            state: The gateway's own, which is never marked, also where it stands in this one.
            watch: Sees which files are opened.
        """
        self.root = root
        digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
        self._state, self._note, self._watch = state, state / FOLDER / digest, watch
        self._one = threading.RLock()
        self._threads = anyio.CapacityLimiter(_THREADS)
        self._has_marks: bool | None = None  # None = not known
        self._keeps_marks = sys.platform == "linux"
        self._is_learned = False
        self._is_blind = False  # not all marked files can be watched
        self._watched: dict[int, tuple[str, ...]] = {}
        self._between = Seen()  # since the last run
        self._runs: list[Run] = []
        self._beside: tuple[Path, ...] = ()

    def look_at(self, folders: Iterable[Path]) -> None:
        """Look after these folders as well: the agent's commands write there, too."""
        new = [each for each in folders if each not in self._beside]
        if new:
            with self._one:
                self._beside = (*self._beside, *new)
                self._is_learned = False

    # --- files ---

    def sources(self, fd: int, path: str) -> tuple[str, ...]:
        """Return the text from outside in an open file, by source; empty = there is none.

        What a command has just written, and has not been marked yet, counts as well.

        Raises:
            OSError: The mark cannot be read.
        """
        found = read_mark(fd, path)
        if not self._runs:
            return found
        with self._one:
            for run in self._tainted():
                if os.fstat(fd).st_ctime_ns >= _since(run):
                    found = together(run.sources, found)
        return found

    def mark(self, fd: int, sources: Iterable[str]) -> None:
        """Add sources to the mark of an open file; nothing where there are none.

        Raises:
            OSError: See `attribute.add_mark`.
        """
        sources = tuple(sources)
        if not sources:
            return
        with self._one:
            self._take_note()
            if add_mark(fd, sources):
                self._add_watch(fd, read_mark(fd))
            elif self._keeps_marks:
                self._keeps_marks = False
                logger.warning(
                    "files here keep no extended attributes: text from outside in them is not known"
                    " for what it is later",
                    extra={"folder": str(self.root)},
                )

    @contextmanager
    def reading(self) -> Generator[None]:
        """Open files for the gateway itself: no command that runs counts as having read them."""
        with self._one:
            if not self._runs or not self._watched:
                yield
                return
            with self._watch.own(self._watched):
                yield

    @property
    def may_have_marks(self) -> bool:
        """Whether any file may hold text from outside: without it there is nothing to look for."""
        with self._one:
            return self._knows_marks() or any(run.sources for run in self._runs)

    # --- commands ---

    @asynccontextmanager
    async def running(self, sources: Iterable[str] = ()) -> AsyncGenerator[Run]:
        """Run a command in the block; after it, `Run` says what was behind it.

        All files that changed meanwhile are marked then. Without marks, and without `sources`,
        it costs nothing.
        """
        run = await self.in_thread(partial(self.begin, sources))
        try:
            yield run
        finally:
            with anyio.CancelScope(shield=True):
                await self.in_thread(partial(self.end, run))

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do blocking work with marks; where there are none, and nothing to do, at once."""
        if self._has_marks is False and not any(run.sources for run in self._runs):
            return work()
        return await to_thread.run_sync(work, limiter=self._threads)

    def begin(
        self,
        sources: Iterable[str] = (),
        *,
        since_ns: int | None = None,
        has_gap: bool = False,
    ) -> Run:
        """Follow a command that is about to begin.

        Args:
            sources: The text from outside that is behind it, as is known now.
            since_ns: When it began, where that was before, see `Run.since_ns`.
            has_gap: Whether nobody saw what it opened until now: then it may be any marked file.
        """
        with self._one:
            self._learn()
            start_ns = now_ns() if since_ns is None else since_ns
            run = Run(start_ns, tuple(sources), began_ns=start_ns)
            for other in self._tainted():
                self._sweep(other)
            if has_gap and self._knows_marks():
                run.opened = together(run.opened, self._all_sources())
            run.seen = self._watch.begin()
            self._runs.append(run)
        return run

    def look(self, run: Run) -> None:
        """Bring a command that goes on up to now: what is behind it, and the files it changed."""
        with self._one:
            self._settle(run)
            if run.sources:
                self._sweep(run)

    def end(self, run: Run) -> None:
        """Bring a command up to its end. Once more is nothing."""
        with self._one:
            if run not in self._runs:
                return
            for other in self._tainted():
                self._sweep(other)
            self.look(run)
            self._runs.remove(run)
            self._watch.end(run.seen)
            if not self._runs:
                self._between.changed.clear()

    # --- what is known ---

    def _tainted(self) -> list[Run]:
        """Return the commands that run behind text from outside, brought up to now."""
        for run in self._runs:
            self._settle(run)
        return [run for run in self._runs if run.sources]

    def _settle(self, run: Run) -> None:
        was_s, was_ns = time.monotonic(), now_ns()
        self._watch.look()
        seen = run.seen
        if self._watched and (seen.is_incomplete or self._is_blind):
            run.opened = together(run.opened, self._all_sources())
        for each in seen.touched & self._watched.keys():
            run.opened = together(run.opened, self._watched[each])
        if not run.sources:
            # What it wrote until here holds nothing of what it may open from here on.
            run.since_ns, run.looked_s = was_ns, was_s

    def _all_sources(self) -> tuple[str, ...]:
        return together((s for each in self._watched.values() for s in each), (_SOME,))

    def _knows_marks(self) -> bool:
        if self._has_marks is None:
            self._has_marks = self._note.exists()
        return self._has_marks

    def _take_note(self) -> None:
        """Keep for good that there are marks, before the first of them."""
        if self._knows_marks():
            return
        self._note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._note.write_text(f"{self.root}\n")
        self._has_marks = True

    def _learn(self) -> None:
        """Find all marked files, where that is not known; or the owner may have changed some."""
        if not self._knows_marks():
            return
        self._watch.look()
        if self._between.changed - self._between.gone and not self._runs:
            self._is_learned = False
        if self._is_learned:
            return
        self._watch.end(self._between)
        self._between = self._watch.begin()
        self._watched.clear()
        self._is_blind = False
        for entry in self._files():
            if sources := entry.mark():
                try:
                    with entry.opened() as fd:
                        self._add_watch(fd, sources)
                except OSError as error:
                    self._is_blind = True
                    _cannot(self.root, entry, error)
        self._is_learned = True

    def _files(self) -> Iterator[Entry]:
        yield from files_below(self.root, self._state)
        for folder in self._beside:
            # With their whole path: no folder in there is an inbox.
            for entry in files_below(folder, self._state):
                yield replace(entry, path=f"{folder}/{entry.path}")

    def _add_watch(self, fd: int, sources: tuple[str, ...]) -> None:
        watch = self._watch.add(fd) if len(self._watched) < _WATCHED_MOST else None
        if watch is not None:
            self._watched[watch] = sources
        elif not self._is_blind:
            self._is_blind = True
            logger.warning(
                "not all files with text from outside can be watched; every command counts as"
                " having read them",
                extra={"folder": str(self.root), "watched": len(self._watched)},
            )

    def _sweep(self, run: Run) -> None:
        """Mark the files that changed since text from outside is behind a command."""
        if not self._keeps_marks:
            return
        since_ns, is_new = _since(run), False
        self._take_note()
        for entry in self._files():
            if entry.info.st_ctime_ns < since_ns or not may_be_marked(entry.path):
                continue
            if set(run.sources) <= set(entry.mark()):
                continue
            try:
                with entry.opened() as fd:
                    if not is_tree(entry.path, fd):
                        self.mark(fd, run.sources)
                        is_new = True
            except OSError as error:
                _cannot(self.root, entry, error)
        for other in self._runs if is_new else ():
            # It may have read them before they were marked, and written them on.
            if other is not run:
                other.opened = together(other.opened, run.sources)
                other.since_ns = max(other.began_ns, min(other.since_ns, since_ns))


class MarkedWorkspaces:
    """The marks in all workspaces of a gateway."""

    def __init__(self, state: Path) -> None:
        """Keep notes in the gateway's own workspace."""
        self._state, self._watch = state, OpenWatch()
        self._every: dict[Path, MarkedFiles] = {}

    def of(self, root: Path) -> MarkedFiles:
        """Return the marks in one workspace, the same object each time."""
        if root not in self._every:
            self._every[root] = MarkedFiles(root, state=self._state, watch=self._watch)
        return self._every[root]


def now_ns() -> int:
    """Return the time by the clock that stamps files, in nanoseconds."""
    return time.clock_gettime_ns(_COARSE_CLOCK) if sys.platform == "linux" else time.time_ns()


def _since(run: Run) -> int:
    """Return `since_ns` by the clock as it goes now: it may have been set back."""
    lasted_ns = int((time.monotonic() - run.looked_s) * 10**9)
    by_now = now_ns() - lasted_ns
    return by_now if by_now < run.since_ns - _STEPPED_NS else run.since_ns


def _cannot(root: Path, entry: Entry, error: OSError) -> None:
    fields = {"folder": str(root), "file": entry.path, "error": str(error)}
    logger.warning("a file with text from outside cannot be marked or watched", extra=fields)
