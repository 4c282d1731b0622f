"""Notice when files in a folder change, whatever becomes of the folder itself."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

import anyio
from anyio import to_thread
from anyio.abc import TaskStatus
from watchfiles import Change, watch

from everturn_gateway.yaml_files.paths import resolved

logger = logging.getLogger(__name__)

POLL_MS: Final = 750  # how soon a change is noticed
_STEP_MS: Final = 50  # editors write a file in several steps: none within this, and it is whole
_DEBOUNCE_MS: Final = 200  # but nobody waits for longer than this
_AT_ONCE_MS: Final = 1

WatchFilter: TypeAlias = Callable[[Change, str], bool]
"Whether a change of a path is to be told."


async def watch_folder(
    folder: Path,
    on_change: Callable[[], Awaitable[object]],
    *,
    wanted: Callable[[Path], WatchFilter],
    recursive: bool = True,
    poll_ms: int = POLL_MS,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Call `on_change` at first, and then whenever a file in a folder changes, until cancelled.

    It is also called when the folder goes or comes, and again and again where the system cannot
    tell of changes. One call has returned before the next is made.

    Args:
        folder: The folder; it need not be there.
        on_change: Reads it; what it raises ends the watch.
        wanted: Makes, for the folder with its links resolved, what chooses the changes to tell.
        recursive: Whether folders in it are watched too.
        poll_ms: How often to look whether something changed; and to call `on_change`, where the
            system cannot tell of changes.
        task_status: Of `TaskGroup.start`; started when no later change can be missed.
    """
    changes = _Changes(folder, wanted, recursive=recursive)
    is_started = False
    try:
        while True:
            # The system collects what changes meanwhile. To wait for it in a thread would keep
            # that thread for good, and wake it twenty times a second.
            if await to_thread.run_sync(changes.has_news):
                await on_change()
            if not is_started:
                task_status.started()
                is_started = True
            await anyio.sleep(poll_ms / 1000)
    finally:
        changes.close()


class _Changes:
    """What the system tells of a folder, and of another one that takes its place."""

    def __init__(
        self, folder: Path, wanted: Callable[[Path], WatchFilter], *, recursive: bool
    ) -> None:
        self._folder = folder
        self._wanted = wanted
        self._recursive = recursive
        self._identity: tuple[int, int] | None = None
        self._is_first = True
        self._can_watch = True
        self._rounds: Generator[set[tuple[Change, str]]] | None = None

    def has_news(self) -> bool:
        """Return whether the folder may be another than at the last call. Not for the loop.

        The first time it always is.
        """
        identity, before = self._identify(), self._identity
        if self._is_first or identity != before:
            self._is_first, self._identity = False, identity
            self._begin()  # what changes from here on is told; what did before is read now
            return True
        if identity is None:
            return False
        if self._rounds is None:
            return True  # nobody tells: whoever asks has to read it
        try:
            return bool(next(self._rounds))
        except (OSError, RuntimeError) as error:
            self._give_up(error)
            return True

    def close(self) -> None:
        """Let the system forget the folder."""
        if self._rounds is not None:
            self._rounds.close()
            self._rounds = None

    def _identify(self) -> tuple[int, int] | None:
        """Return which folder it is: one made anew has to be watched anew; None = there is none."""
        try:
            found = self._folder.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _begin(self) -> None:
        self.close()
        if self._identity is None or not self._can_watch:
            return
        try:
            root = resolved(self._folder)  # as the system names what changed
            self._rounds = watch(
                root,
                watch_filter=self._wanted(root),
                debounce=_DEBOUNCE_MS,
                step=_STEP_MS,
                rust_timeout=_AT_ONCE_MS,
                yield_on_timeout=True,
                recursive=self._recursive,
            )
            next(self._rounds)  # from here on the system collects
        except (OSError, RuntimeError) as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self.close()
        if self._identify() is None:  # it went meanwhile, which the next look sees
            self._identity = None
            return
        self._can_watch = False
        logger.warning(
            "a folder cannot be watched, it is read again and again instead",
            extra={"folder": str(self._folder), "reason": str(error)},
        )
