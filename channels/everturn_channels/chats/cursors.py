"""How far a channel has read, kept in a file of its own.

A cursor is a hint, not the truth: what was taken is in the journals, which know a message that
comes a second time. So the file is written seldom, and after a crash it may be a second old.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import anyio
from anyio import to_thread

from everturn_actors.ports import Clock
from everturn_actors.supervisor import Supervisor
from everturn_channels.errors import ChannelError, SetupError
from everturn_channels.files import quarantine, read_kept, replace_kept

NAMES_MAX: Final = 10_000  # the oldest go; a bot that reads more chats at a time is rare
NAME_LIMIT: Final = 200  # characters
VALUE_LIMIT: Final = 1_000  # characters; platforms' cursors have some twenty
PAUSE_S: Final = 1.0  # between two writes
_FLUSH_S: Final = 5.0  # for the last write; a disk that takes longer hangs
_VERSION: Final = 1

logger = logging.getLogger(__name__)


class Cursors:
    """The cursors of one channel, by name. `open_cursors` makes one."""

    def __init__(self, path: Path, clock: Clock, values: dict[str, str], *, is_new: bool) -> None:
        self._path = path
        self._clock = clock
        self._values = values
        "By name, the one that was put longest ago first."
        self._is_new = is_new
        self._changed = anyio.Event()
        self._version: int = 0
        "Counts the changes."
        self._written: int = 0
        "The version that the file holds."
        self._is_failing = False
        self._writing = anyio.Lock()

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever kept: no earlier run left a file, and nothing was put since.

        It turns False with the first `put`, so that a channel that lost its connection soon after
        its very first login reads what it missed. So put a first value as soon as it is known
        where things stand.
        """
        return self._is_new

    def get(self, name: str) -> str:
        """Return what was kept under `name`; empty = nothing."""
        return self._values.get(name, "")

    async def put(self, name: str, value: str) -> None:
        """Keep `value`: in memory at once, in the file within seconds or when the cursors close.

        The very first value is in the file when this returns. Without it a channel that is killed
        soon after its first login begins anew, and takes what was written since for old news.

        Raises:
            ChannelError: The name or the value is too long.
        """
        if len(name) > NAME_LIMIT or len(value) > VALUE_LIMIT:
            msg = (
                f"the cursor {name[:NAME_LIMIT]!r} cannot be kept: a name has at most {NAME_LIMIT} "
                f"characters, a value {VALUE_LIMIT}"
            )
            raise ChannelError(msg)
        is_first, self._is_new = self._is_new, False
        is_same = self._values.pop(name, None) == value
        self._values[name] = value
        if is_same:
            return
        while len(self._values) > NAMES_MAX:
            del self._values[next(iter(self._values))]
        self._version += 1
        self._changed.set()  # first: what becomes of the first write, others follow
        if is_first:
            await self.flush()

    async def keep_writing(self) -> None:
        """Write what changed, at most once in `PAUSE_S`, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            await self.flush()
            if self._is_failing:
                self._changed.set()
            await self._clock.sleep(PAUSE_S)

    async def flush(self) -> None:
        """Write what changed now; where that fails the log says so, and it is tried again."""
        async with self._writing:  # one draft at a time
            await self._flush()

    async def _flush(self) -> None:
        version = self._version
        if version == self._written:
            return
        data = _encoded(self._values)
        try:
            # A write that has begun is waited for, also when cancelled: another would spoil its
            # draft.
            await to_thread.run_sync(partial(replace_kept, self._path, data))
        except OSError as error:
            if not self._is_failing:
                logger.error(  # noqa: TRY400 - the words say it all
                    "cursors cannot be written: after a crash, messages may be read again",
                    extra={"path": str(self._path), "error": str(error)},
                )
            self._is_failing = True
        else:
            self._written, self._is_failing = version, False


@asynccontextmanager
async def open_cursors(
    path: Path, clock: Clock, *, supervisor: Supervisor | None = None
) -> AsyncGenerator[Cursors]:
    """Open the cursors that are kept in `path`, and write them until the block ends.

    A damaged file is put aside and the channel begins as if it had never run. That loses at most
    what was written while the gateway was away, and the log says so; the other way round, a
    channel without cursors that counts as an old one reads its chats from their beginning, and
    the journals know only the messages of sessions that have not ended.

    What the block raises leaves it in an exception group.

    Raises:
        SetupError: The file is there and may not be read.
    """
    supervisor = supervisor or Supervisor(clock)
    values = await to_thread.run_sync(partial(_read, path))
    cursors = Cursors(path, clock, values or {}, is_new=values is None)
    try:
        async with anyio.create_task_group() as tasks:
            supervisor.start(tasks, f"cursors:{path.stem}", cursors.keep_writing)
            yield cursors
            tasks.cancel_scope.cancel()
    finally:
        with anyio.move_on_after(_FLUSH_S, shield=True):
            await cursors.flush()


def _encoded(values: dict[str, str]) -> bytes:
    return json.dumps({"version": _VERSION, "cursors": values}, indent=0).encode() + b"\n"


def _read(path: Path) -> dict[str, str] | None:
    """Return what a file holds; None where there is none, or one that says nothing.

    Raises:
        SetupError: It may not be read.
    """
    try:
        data = read_kept(path)
        return None if data is None else _values_from(json.loads(data))
    except OSError as error:
        msg = (
            f"{path}, how far the channel has read, cannot be read: {error.strerror or error}; "
            "set owner and permissions right"
        )
        raise SetupError(msg) from error
    except (ValueError, RecursionError) as error:
        aside = quarantine(path)
        logger.warning(
            "cursors are damaged, and the channel begins anew: what was written while the gateway "
            "was away is not read",
            extra={"path": str(path), "kept_as": str(aside), "error": str(error)},
        )
        return None


def _values_from(whole: Any) -> dict[str, str]:  # noqa: ANN401 - whatever a file holds
    match whole:
        case {"version": 1, "cursors": dict()}:
            found = cast("dict[str, object]", whole["cursors"])
            values = {name: value for name, value in found.items() if isinstance(value, str)}
            if len(values) == len(found):
                return values
        case _:
            pass
    msg = "it does not hold what it should"
    raise ValueError(msg)
