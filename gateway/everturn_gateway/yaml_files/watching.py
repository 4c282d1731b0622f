"""Notice when files in a folder change, whatever becomes of the folder itself."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import NoReturn, TypeAlias

import anyio
from anyio import to_thread
from anyio.abc import TaskStatus
from msgspec import Struct
from watchfiles import (
    Change,
    awatch,  # pyright: ignore[reportUnknownVariableType] - it names trio, which is not installed
)

from everturn_gateway.yaml_files.paths import resolved

logger = logging.getLogger(__name__)

POLL_MS = 500  # a folder that is missing, or made anew, is noticed after this
_DEBOUNCE_MS = 200  # editors write a file in several steps

Wanted: TypeAlias = Callable[[Change, str], bool]
"Whether a change of a path is to be told."
_Identity: TypeAlias = tuple[int, int]


async def watch_folder(
    folder: Path,
    on_change: Callable[[], Awaitable[object]],
    *,
    wanted: Callable[[Path], Wanted],
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
        poll_ms: How often to look whether the folder is there and still the same; and to call
            `on_change`, where the system cannot tell of changes.
        task_status: Of `TaskGroup.start`; started when no later change can be missed.
    """
    watch = _Watch(folder, on_change, _Once(task_status.started))
    can_watch, before = True, None
    is_first = True
    while True:
        found = await _identity(folder)
        if found is not None and can_watch:
            try:
                await watch.until_replaced(
                    found, wanted=wanted, recursive=recursive, poll_ms=poll_ms
                )
            except _NoWatchError as error:
                can_watch = await _identity(folder) is None
                logger.warning(
                    "a folder cannot be watched, it is read again and again instead",
                    extra={"folder": str(folder), "reason": str(error)},
                )
        else:
            # Of a folder that is not there, there is news only once.
            if is_first or found is not None or before is not None:
                await on_change()
            watch.ready()
            await anyio.sleep(poll_ms / 1000)
        before, is_first = found, False


class _Watch(Struct, frozen=True):
    folder: Path
    on_change: Callable[[], Awaitable[object]]
    ready: Callable[[], None]

    async def until_replaced(
        self, folder: _Identity, *, wanted: Callable[[Path], Wanted], recursive: bool, poll_ms: int
    ) -> None:
        """Tell of changes until the folder is gone, or another one is in its place."""
        # As the watch names what changed.
        try:
            root = await to_thread.run_sync(resolved, self.folder)
        except OSError as error:
            raise _NoWatchError(str(error)) from error
        fresh = True
        async with aclosing(
            _rounds(root, wanted(root), recursive=recursive, poll_ms=poll_ms)
        ) as rounds:
            async for is_changed in rounds:
                # The first round says that the watch stands: what changed before it is read now.
                if is_changed or fresh:
                    await self.on_change()
                fresh = False
                self.ready()
                if await _identity(self.folder) != folder:
                    return


async def _rounds(
    root: Path, wanted: Wanted, *, recursive: bool, poll_ms: int
) -> AsyncGenerator[bool]:
    """Yield whether something changed, every now and then.

    Raises:
        _NoWatchError: The system cannot tell.
    """
    try:
        rounds = awatch(
            root,
            watch_filter=wanted,
            debounce=_DEBOUNCE_MS,
            rust_timeout=poll_ms,
            yield_on_timeout=True,
            recursive=recursive,
        )
        async with aclosing(rounds):
            async for changes in rounds:
                yield bool(changes)
    except (OSError, RuntimeError, ExceptionGroup) as error:
        raise _NoWatchError(str(error)) from error


class _NoWatchError(Exception):
    """The system cannot tell of changes in this folder."""


class _Once:
    """Calls something the first time it is called."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def __call__(self) -> None:
        call, self._call = self._call, None
        if call:
            call()


async def _identity(folder: Path) -> _Identity | None:
    """Return which folder it is: one made anew has to be watched anew; None = there is none."""
    try:
        found = await anyio.Path(folder).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
