"""The checkpoints of workspaces: made around calls that may change files, and taken back."""

from __future__ import annotations

import difflib
import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread
from msgspec.structs import replace

from everturn_actors.errors import ToolFailedError
from everturn_actors.ports import Clock, ToolContext
from everturn_gateway.tools.checkpoints.scan import FILE_MAX_BYTES, Scanner, TooLargeError
from everturn_gateway.tools.checkpoints.store import (
    CheckpointStore,
    OpenCall,
    UnknownCheckpointError,
)
from everturn_gateway.tools.checkpoints.values import Change, Checkpoint, FileState, Undone
from everturn_gateway.tools.confined import Confined
from everturn_gateway.tools.confined.place import Place
from everturn_gateway.tools.environment import ToolEnvironment

logger = logging.getLogger(__name__)

FOLDER: Final = "checkpoints"  # in the gateway's workspace
_PERMISSIONS: Final = 0o777
_THREADS: Final = 4  # of one workspace: a slow disk must not take those of the journal
_DIFF_CHARACTERS: Final = 200_000
_CHANGED: Final = "it was changed since, and is left as it is"
_GONE: Final = "what it held before is not kept any more"


class Checkpoints:
    """Those of one agent's workspace."""

    def __init__(
        self,
        environment: ToolEnvironment,
        workspace: Confined,
        closed: Callable[[], Iterable[Path]],
        clock: Clock,
    ) -> None:
        """Look after a workspace; nothing is read yet.

        Args:
            environment: Where the agent works.
            workspace: Its workspace, with paths that stay in it.
            closed: Names the folders in there that are not the agent's.
            clock: Says when something was about to change.
        """
        name = hashlib.sha256(os.fsencode(environment.files)).hexdigest()[:32]
        scanner = Scanner(environment.files, closed)
        self._store = CheckpointStore(environment.state / FOLDER / name, scanner)
        self._workspace, self._marks = workspace, environment.marks
        self._root, self._clock = environment.files, clock
        self._is_told = False
        self._threads = anyio.CapacityLimiter(_THREADS)

    async def begin(self, context: ToolContext) -> OpenCall | None:
        """Write down what the workspace is before a call; None where that cannot be.

        The call runs all the same, and the log says why it cannot be taken back.
        """
        turn = context.conversation.current
        if turn is None:
            return None
        work = partial(self._store.begin, context.session_id, turn.number, self._clock.now())
        opened: OpenCall | None = None
        # Shielded: a note that nobody holds on to would stand for a call that runs for ever.
        with anyio.CancelScope(shield=True):
            try:
                opened = await to_thread.run_sync(work, limiter=self._threads)
            except (TooLargeError, OSError) as error:
                self._tell(error)
        return opened

    async def end(self, opened: OpenCall | None) -> None:
        """Write down what a call changed, also where it was cut short."""
        if opened is None:
            return
        with anyio.CancelScope(shield=True):
            try:
                await to_thread.run_sync(self._store.end, opened, limiter=self._threads)
            except (TooLargeError, OSError) as error:
                self._tell(error)

    def _tell(self, error: Exception) -> None:
        level = logging.DEBUG if self._is_told else logging.WARNING
        self._is_told = True
        told = "what agents change in a workspace cannot be taken back"
        logger.log(level, told, extra={"folder": str(self._root), "reason": str(error)})

    async def list(self) -> tuple[Checkpoint, ...]:
        """Return the turns that changed files, oldest first."""
        return await to_thread.run_sync(self._store.settled, limiter=self._threads)

    async def differences(self, number: int) -> tuple[Checkpoint, str]:
        """Return a checkpoint and what changed, as a unified diff; shortened where it is long.

        Raises:
            UnknownCheckpointError: There is none of this number.
        """
        return await to_thread.run_sync(self._differences, number, limiter=self._threads)

    def _differences(self, number: int) -> tuple[Checkpoint, str]:
        self._store.settled()
        found = self._store.checkpoint(number)
        lines: list[str] = []
        size = 0
        for path, change in sorted(found.changes.items()):
            before, after = (
                None if state is None else self._store.content(state)
                for state in (change.before, change.after)
            )
            for line in diff_lines(path, before, after):
                size += len(line) + 1
                if size > _DIFF_CHARACTERS:
                    return found, "\n".join((*lines, "... and more, which is not shown"))
                lines.append(line)
        return found, "\n".join(lines)

    async def undo(self, *, number: int | None = None, session_id: str = "") -> Undone:
        """Take back what a turn changed; files that others changed since are left, and told.

        Args:
            number: Of the checkpoint; None = the newest that was not taken back.
            session_id: Only of this session; empty = of any.

        Raises:
            UnknownCheckpointError: There is none.
            OSError: It cannot be read or written; done again, it goes on.
        """
        return await self._workspace.run(partial(self._undo, number, session_id))

    def _undo(self, number: int | None, session_id: str) -> Undone:
        self._store.settled()
        with self._store.locked():
            found = self._chosen(number, session_id)
            self._store.write(replace(found, state="undoing"))
            restored: list[str] = []
            left: dict[str, str] = {}
            for path, change in found.changes.items():
                why = self._restore(path, change)
                if why:
                    left[path] = why
                else:
                    restored.append(path)
            done = replace(found, state="undone")
            self._store.write(done)
        return Undone(checkpoint=done, restored=tuple(restored), left=left)

    def _chosen(self, number: int | None, session_id: str) -> Checkpoint:
        if number is not None:
            found = self._store.checkpoint(number)
            if found.state == "undone" or (session_id and found.session_id != session_id):
                msg = f"checkpoint {number} is taken back already"
                raise UnknownCheckpointError(msg)
            return found
        for each in reversed(self._store.checkpoints()):
            if each.state != "undone" and session_id in {"", each.session_id}:
                return each
        msg = "there is nothing to take back: no turn changed files, or all are taken back"
        raise UnknownCheckpointError(msg)

    def _restore(self, path: str, change: Change) -> str:
        """Make a file what it was before; return why not, empty where it is."""
        before = change.before
        content = None if before is None else self._store.content(before)
        if before is not None and content is None:
            return _GONE
        try:
            with self._workspace.place(path, create=before is not None) as place:
                version = place.version()
                now = None if version is None else _state_of(place)
                if _same(now, before):
                    return ""
                if not _same(now, change.after):
                    return _CHANGED
                if before is None or content is None:
                    place.remove(expected=version)
                else:
                    look = partial(self._as_before, before)
                    place.replace(content, expected=version, mode=before.mode, look=look)
        except ToolFailedError as error:
            return str(error)
        return ""

    def _as_before(self, before: FileState, fd: int) -> None:
        os.fchmod(fd, before.mode)
        self._marks.mark(fd, before.mark)


class CheckpointedWorkspaces:
    """The checkpoints of all workspaces; agents that share one share its checkpoints."""

    def __init__(self, clock: Clock) -> None:
        """Know of none yet."""
        self._clock = clock
        self._known: dict[Path, Checkpoints] = {}

    def of(
        self,
        environment: ToolEnvironment,
        workspace: Confined,
        closed: Callable[[], Iterable[Path]],
    ) -> Checkpoints:
        """Return those of an agent's workspace; the arguments are those of `Checkpoints`."""
        if environment.files not in self._known:
            made = Checkpoints(environment, workspace, closed, self._clock)
            self._known[environment.files] = made
        return self._known[environment.files]


def _state_of(place: Place) -> FileState | None:
    modes: list[int] = []
    data, _ = place.read(
        FILE_MAX_BYTES + 1, look=lambda fd: modes.append(os.fstat(fd).st_mode & _PERMISSIONS)
    )
    return FileState(digest=hashlib.sha256(data).hexdigest(), mode=modes[0])


def _same(one: FileState | None, other: FileState | None) -> bool:
    return other is None if one is None else one.is_like(other)


def diff_lines(path: str, before: bytes | None, after: bytes | None) -> Iterator[str]:
    """Yield the lines of a unified diff of one file; a line of words where it is no text."""
    texts = [_text(each) for each in (before, after)]
    if None in texts:
        yield f"Binary file {path} differs"
        return
    old, new = (str(text).splitlines() for text in texts)
    yield from difflib.unified_diff(old, new, f"a/{path}", f"b/{path}", lineterm="", n=3)


def _text(data: bytes | None) -> str | None:
    if data is None:
        return ""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
