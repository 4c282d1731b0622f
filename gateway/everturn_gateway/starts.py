"""When the gateway was started, and how the run before each start had ended.

A kill leaves nothing in the logs of sessions: only whoever starts next can tell of it.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final, Literal, TypeAlias

import anyio
from msgspec import Struct, structs

from everturn_actors.documents import Document, form_of
from everturn_actors.errors import JournalError
from everturn_actors.ports import Clock, KeyedStore

logger = logging.getLogger(__name__)

KEY: Final = "starts.json"
KEY_OF_NODE: Final = "starts/{}.json"
KEPT: Final = 200  # some 100 bytes each
CLOSE_S: Final = 2.0  # for the last write; a disk that takes longer hangs

HowEnded: TypeAlias = Literal["first", "clean", "killed"]


class Run(Struct, frozen=True, kw_only=True):
    """From a start of the gateway to its end."""

    at: datetime
    version: str
    ended_at: datetime | None = None
    "When it was closed; None = it runs, or it was killed."


class Start(Struct, frozen=True, kw_only=True):
    """A start of the gateway."""

    at: datetime
    version: str
    after: HowEnded
    "How the run before it ended; killed = it was not closed, whatever the reason."


class Starts:
    """Keeps when the gateway was started. Made by `open_starts`."""

    def __init__(self, runs: Sequence[Run] = ()) -> None:
        """Take the runs as they are known, oldest first, with the present one."""
        self._runs = tuple(runs)

    def newest(self, most: int = KEPT) -> tuple[Start, ...]:
        """Return the newest starts, the last one first."""
        found: list[Start] = []
        before: Run | None = None
        for run in self._runs:
            after: HowEnded = "first" if before is None else "clean"
            if before is not None and before.ended_at is None:
                after = "killed"
            found.append(Start(at=run.at, version=run.version, after=after))
            before = run
        if len(self._runs) == KEPT:  # of the oldest one nobody knows what was before it
            del found[0]
        return tuple(reversed(found[-most:]))


@asynccontextmanager
async def open_starts(
    store: KeyedStore, clock: Clock, version: str, *, node: str = ""
) -> AsyncGenerator[Starts]:
    """Note that the gateway starts, and at the end of the block that it was closed.

    What cannot be read or written costs this list alone. A block that fails was not closed.

    Args:
        store: Where the list is kept.
        clock: The time.
        version: Of Everturn.
        node: The name of the gateway among those that share the store; empty = it is alone.
    """
    none: tuple[Run, ...] = ()
    key = KEY_OF_NODE.format(node) if node else KEY
    document = Document(store, key, form_of("starts", tuple[Run, ...], none))
    now = Run(at=clock.now(), version=version)
    try:
        before = await document.load("the list of starts is damaged, and begins anew")
    except JournalError as error:
        logger.warning("the list of starts cannot be read", extra={"error": str(error)})
        yield Starts((now,))
        return
    runs = (*before, now)[-KEPT:]
    await _write(document, runs)
    yield Starts(runs)
    with anyio.move_on_after(CLOSE_S, shield=True):
        ended = structs.replace(now, ended_at=clock.now())
        await _write(document, (*runs[:-1], ended))


async def _write(document: Document[tuple[Run, ...]], runs: tuple[Run, ...]) -> None:
    try:
        await document.write(runs)
    except JournalError as error:
        logger.warning("this start cannot be noted", extra={"error": str(error)})


async def read_runs(store: KeyedStore) -> tuple[Run, ...]:
    """Return the runs of the gateway as they are kept, oldest first; changes nothing.

    Raises:
        JournalError: They cannot be read.
    """
    none: tuple[Run, ...] = ()
    document = Document(store, KEY, form_of("starts", tuple[Run, ...], none))
    return await document.load("the list of starts is damaged")
