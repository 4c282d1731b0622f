"""Values of a keyed store as what they mean: read when they change, written when it is time."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Generic, Literal, Protocol, TypeVar, cast

import anyio
import msgspec

from everturn_actors.codec import Codec, encode
from everturn_actors.errors import ConflictError, DamagedValueError, JournalError
from everturn_actors.ports import ABSENT, Clock, KeyedStore
from everturn_actors.supervisor import Supervisor

T = TypeVar("T")

DAMAGED: Final = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
"What decoding raises where the data are not what they should be."
REMEDY: Final = "set it right, or remove it to begin anew"
_TRIES_MAX: Final = 100  # of a change; each time another writer was faster

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)  # not with slots: `Form[X](...)` fails
class Form(Generic[T]):
    """How a value is written down."""

    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]
    "Raises one of `DAMAGED` where the data are no such value."
    empty: T
    "What holds where there is nothing."
    remedy: str = REMEDY
    "What to do about damage, for the operator."


def form_of(
    name: str,
    kind: object,
    empty: T,
    *,
    check: Callable[[T], T] = lambda value: value,
    remedy: str = REMEDY,
) -> Form[T]:
    """Return the form of a value that stands under a name, beside the number of the format.

    It is JSON that people can read: `{"version": 1, "cursors": {...}}`. Anything else is damage.

    Args:
        name: Of the field.
        kind: The type of the value, as `Codec` takes it.
        empty: See `Form`.
        check: Returns what was read as it is to be used; raises ValueError where it cannot be.
        remedy: See `Form`.
    """
    sheet = msgspec.defstruct(
        "Sheet", [("version", Literal[1]), (name, kind)], kw_only=True, forbid_unknown_fields=True
    )
    codec = Codec[object](sheet)

    def write(value: T) -> bytes:
        return msgspec.json.format(encode({"version": 1, name: value}), indent=1) + b"\n"

    def read(data: bytes) -> T:
        return check(cast("T", getattr(codec.decode(data), name)))

    return Form(encode=write, decode=read, empty=empty, remedy=remedy)


class Document(Generic[T]):
    """One value of a keyed store. For one event loop; other processes may write it as well."""

    def __init__(self, store: KeyedStore, key: str, form: Form[T]) -> None:
        """Name the value; nothing is read yet."""
        self._store, self._key, self._form = store, key, form
        self._version: str | None = None
        "Of `_known`; None = nothing was read."
        self._known = form.empty
        self._reading = anyio.Lock()

    @property
    def place(self) -> str:
        """Where it stands, for people."""
        return self._store.place(self._key)

    async def read(self) -> T:
        """Return what it says now; where it has not changed, the same object as before.

        Raises:
            DamagedValueError: It is not what it should be; the text says where, and what to do.
            JournalError: It cannot be read.
        """
        # One at a time: what an older look found must not come after what a newer one did.
        async with self._reading:
            if self._version is None or await self._store.version(self._key) != self._version:
                await self._read()
            return self._known

    async def load(self, lost: str) -> T:
        """Return what it says; damaged data are quarantined, and it begins anew.

        Args:
            lost: What to log then.

        Raises:
            JournalError: It cannot be read, or cannot be quarantined.
        """
        try:
            return await self.read()
        except DamagedValueError as error:
            kept_as = await self.quarantine()
            logger.warning(lost, extra={"reason": str(error), "kept_as": kept_as})
            return await self.read()

    async def quarantine(self) -> str:
        """Put what stands there aside; return where it is kept."""
        self._version = None
        return await self._store.quarantine(self._key)

    async def write(self, value: T) -> None:
        """Replace it, whatever it says now; return when that is durable.

        Raises:
            JournalWriteError: What it said before still stands.
        """
        version = await self._store.put(self._key, self._form.encode(value))
        self._version, self._known = version, value

    async def change(self, change: Callable[[T], T]) -> T:
        """Make something else of what it says; return that when it is durable.

        Args:
            change: Is called again where somebody else wrote meanwhile; what it raises passes.

        Raises:
            DamagedValueError: It is not what it should be, and is left as it is.
            JournalError: It cannot be read or written.
            ConflictError: Others write all the time.
        """
        for _ in range(_TRIES_MAX):
            async with self._reading:
                await self._read()
                version, before = self._version, self._known
            after = change(before)
            if after == before:
                return before
            try:
                await self._store.put(self._key, self._form.encode(after), expected=version)
            except ConflictError:
                continue
            return after
        msg = f"{self.place} is written by others all the time; try again"
        raise ConflictError(msg)

    async def _read(self) -> None:
        self._version = None
        value = await self._store.get(self._key)
        try:
            known = self._form.empty if value is None else self._form.decode(value.data)
        except DAMAGED as error:
            said = isinstance(error, ValueError)
            why = str(error) if said else f"it does not hold what it should: {error!r}"
            msg = f"{self.place} is damaged: {why}; {self._form.remedy}"
            raise DamagedValueError(msg) from error
        self._version, self._known = ABSENT if value is None else value.version, known


class WriteBehind(Generic[T]):
    """Writes a document some time after it changed, and again and again until it succeeds.

    For what is a hint: nobody waits for the disk, and a crash loses what the last seconds said.
    """

    def __init__(
        self, document: Document[T], current: Callable[[], T], clock: Clock, *, pause_s: float
    ) -> None:
        """Write nothing yet.

        Args:
            document: Of which this is the only writer.
            current: Returns what it is to say now.
            clock: Makes the pauses.
            pause_s: Between two writes; at most so much is lost in a crash.
        """
        self._document, self._current = document, current
        self._clock, self._pause_s = clock, pause_s
        self._changes = self._written = 0
        self._is_failing = False
        self._writing = anyio.Lock()

    def changed(self) -> None:
        """Take note that there is something new. May be called in any thread."""
        self._changes += 1

    @property
    def is_behind(self) -> bool:
        """Whether there is something new."""
        return self._changes != self._written

    async def run(self) -> None:
        """Write what changed, until cancelled."""
        while True:
            await self._clock.sleep(self._pause_s)
            await self.flush()

    async def flush(self) -> bool:
        """Write what changed now; return whether all of it is durable. The log says where not."""
        async with self._writing:
            changes = self._changes
            if changes == self._written:
                return True
            try:
                await self._document.write(self._current())
            except JournalError as error:
                if not self._is_failing:
                    fields = {"place": self._document.place, "error": str(error)}
                    logger.warning("what is new is not saved; it is tried again", extra=fields)
                self._is_failing = True
                return False
            self._written, self._is_failing = changes, False
            return True


class Writer(Protocol):
    """Writes what is new from time to time."""

    async def run(self) -> None:
        """Write until cancelled."""
        ...

    async def flush(self) -> object:
        """Write what is new now."""
        ...


@asynccontextmanager
async def written_behind(
    writer: Writer, supervisor: Supervisor, name: str, *, close_s: float
) -> AsyncGenerator[None]:
    """Write behind while the block runs, and what is left at its end.

    Args:
        writer: What writes.
        supervisor: Runs it.
        name: Of its task.
        close_s: For the last write; a disk that takes longer hangs.
    """
    try:
        async with anyio.create_task_group() as tasks:
            supervisor.start(tasks, name, writer.run)
            yield
            tasks.cancel_scope.cancel()
    finally:
        with anyio.move_on_after(close_s, shield=True):
            await writer.flush()
