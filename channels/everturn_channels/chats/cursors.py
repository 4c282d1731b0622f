"""How far a channel has read.

A cursor is a hint, not the truth: what was taken is in the journals, which know a message that
comes a second time. So it is written rarely, and after a crash it may be a second old.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import anyio

from everturn_actors.documents import Document, Form, WriteBehind, form_of, written_behind
from everturn_actors.errors import JournalError
from everturn_actors.ports import Clock, KeyedStore
from everturn_actors.supervisor import Supervisor
from everturn_channels.errors import ChannelError, SetupError

NAMES_MAX: Final = 10_000  # the oldest go; a bot that reads more chats at a time is rare
FIRST_MAX: Final = 20  # who keeps more has one for each chat, and each write holds all of them
NAME_LIMIT: Final = 200  # characters
VALUE_LIMIT: Final = 4_096  # characters, as programs may leave; platforms' cursors have some twenty
PAUSE_S: Final = 1.0  # between two writes
LOOK_S: Final = 60.0  # at what other gateways put
_FLUSH_S: Final = 5.0  # for the last write; a disk that takes longer hangs
CURSORS_KEY: Final = "channels/{name}.json"

_Values: TypeAlias = dict[str, str]


class Cursors:
    """The cursors of one channel, by name. `open_cursors` makes one."""

    def __init__(
        self,
        document: Document[_Values | None],
        clock: Clock,
        *,
        values: _Values | None,
        is_shared: bool = False,
    ) -> None:
        self._document, self._is_shared = document, is_shared
        self._flushing = anyio.Lock()
        self._unwritten: _Values = {}
        "What was put here, and may not be in the file yet; where others write it, too."
        self._values = dict(values or {})
        "By name, the one that was put longest ago first."
        self._is_new = values is None
        self._clock = clock
        self._writer = WriteBehind(document, lambda: self._values, clock, pause_s=PAUSE_S)
        self._changed = anyio.Event()

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

        The first value of a name is in the file when this returns, for the first `FIRST_MAX` names.
        Without it a channel that is killed soon after its first login begins anew, and takes what
        was written since for old news.

        Raises:
            ChannelError: The name or the value is too long.
        """
        if len(name) > NAME_LIMIT or len(value) > VALUE_LIMIT:
            msg = (
                f"the cursor {name[:NAME_LIMIT]!r} cannot be kept: a name has at most {NAME_LIMIT} "
                f"characters, a value {VALUE_LIMIT}"
            )
            raise ChannelError(msg)
        is_first = name not in self._values and len(self._values) < FIRST_MAX
        self._is_new = False
        is_same = self._values.pop(name, None) == value
        self._values[name] = value
        if is_same:
            return
        if self._is_shared:
            self._unwritten[name] = value
        while len(self._values) > NAMES_MAX:
            del self._values[next(iter(self._values))]
        self._writer.changed()
        self._changed.set()  # first: what becomes of the first write, others follow
        if is_first:
            await self.flush()

    async def run(self) -> None:
        """Write what changed, at most once in `PAUSE_S`, until cancelled. Idle, it sleeps.

        Where others write as well it looks each minute at what they put.
        """
        while True:
            if self._is_shared:
                with anyio.move_on_after(LOOK_S):
                    await self._changed.wait()
                async with self._flushing:
                    await self._adopt()
            else:
                await self._changed.wait()
            self._changed = anyio.Event()
            if not await self.flush():
                self._changed.set()
            await self._clock.sleep(PAUSE_S)

    async def flush(self) -> bool:
        """Write what changed now; return whether it is durable. The log says where not."""
        if not self._is_shared:
            return await self._writer.flush()
        async with self._flushing:  # or an older look would be adopted after a newer write
            written = dict(self._unwritten)
            if written:
                await self._adopt()
            is_durable = await self._writer.flush()
            if is_durable:
                for name, value in written.items():
                    if self._unwritten.get(name) == value:
                        del self._unwritten[name]
            return is_durable

    async def _adopt(self) -> None:
        """Take over what other gateways put, or the write would set their cursors back."""
        try:
            kept = await self._document.read()
        except JournalError:  # what is written next says so, or mends it
            return
        for name, value in dict(kept or {}).items():
            if name not in self._unwritten:
                self._values[name] = value


@asynccontextmanager
async def open_cursors(
    store: KeyedStore,
    name: str,
    clock: Clock,
    *,
    supervisor: Supervisor | None = None,
    is_shared: bool = False,
) -> AsyncGenerator[Cursors]:
    """Open the cursors of a channel, and write them until the block ends.

    With `is_shared` other gateways write them as well: of each name the last that was put stays.

    Damaged ones are quarantined and the channel begins as if it had never run. That loses at most
    what was written while the gateway was away, and the log says so; the other way round, a
    channel without cursors that counts as an old one reads its chats from their beginning, and
    the journals know only the messages of sessions that have not ended.

    What the block raises leaves it in an exception group.

    Raises:
        SetupError: They are there and may not be read.
    """
    document = Document(store, CURSORS_KEY.format(name=name), _FORM)
    try:
        values = await document.load(
            "cursors are damaged, and the channel begins anew: what was written while the gateway"
            " was away is not read"
        )
    except JournalError as error:
        msg = f"how far the channel has read: {error}; set owner and permissions right"
        raise SetupError(msg) from error
    cursors = Cursors(document, clock, values=values, is_shared=is_shared)
    runs = supervisor or Supervisor(clock)
    async with written_behind(cursors, runs, f"cursors:{name}", close_s=_FLUSH_S):
        yield cursors


_FORM: Final[Form[_Values | None]] = form_of("cursors", _Values, None)
