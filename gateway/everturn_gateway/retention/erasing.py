"""Erases what a person said, in all sessions, and keeps a record that it was done.

A session in which nobody else spoke is removed as a whole. In the others their words are taken out
of the log, the snapshot, the files beside them and the index; what others said stays. What the
agents noted of them goes, too.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncGenerator, Callable
from datetime import datetime
from typing import Final

import anyio
import orjson
from anyio import to_thread
from msgspec import Struct, field

from everturn_actors.errors import (
    ConflictError,
    CoreError,
    InvalidInputError,
    JournalError,
    ToolFailedError,
    UnknownAgentError,
    UnknownSessionError,
)
from everturn_actors.events import Event
from everturn_actors.model import ConversationKey
from everturn_actors.ports import Clock, KeyedStore, SessionStore, SessionSummary
from everturn_actors.ports.maintenance import Maintenance
from everturn_actors.ports.search import MessageIndex
from everturn_actors.service import TurnService
from everturn_actors.sqlite_cache import CacheError
from everturn_actors.state.serialization import utc_text
from everturn_gateway.config.links import PRINCIPAL
from everturn_gateway.retention.scrubbing import Person, Scrubbing, Traces
from everturn_gateway.search.index import ERASURES_KEY, StoreMessageIndex
from everturn_gateway.search.table import IndexedSession
from everturn_gateway.tools.memory.editing import OwnNotes
from everturn_gateway.tools.memory.people import PersonNote

logger = logging.getLogger(__name__)

_PAGE: Final = 200
_PAGE_EVENTS: Final = 500
_TRIES: Final = 5


class Erased(Struct, frozen=True, kw_only=True):
    """How far an erasure is, and what it did."""

    looked: int = 0
    "Sessions that were looked at."
    removed: int = 0
    "Sessions that were removed as a whole."
    rewritten: int = 0
    "Sessions from which the person's words were taken."
    messages: int = 0
    "Of the person, in those."
    left: tuple[str, ...] = ()
    "What was not erased, and why: a session at work, a file in an agent's workspace."


class _Tally(Struct):
    looked: int = 0
    removed: int = 0
    rewritten: int = 0
    messages: int = 0
    left: list[str] = field(default_factory=list[str])

    def as_record(self) -> Erased:
        return Erased(
            looked=self.looked,
            removed=self.removed,
            rewritten=self.rewritten,
            messages=self.messages,
            left=tuple(self.left),
        )


def person_of(text: str) -> Person:
    """Return who is meant by `CHANNEL:ID` or `principal:NAME`.

    Raises:
        InvalidInputError: Nobody is.
    """
    channel, colon, sender = text.partition(":")
    if not colon or not channel or not sender.strip():
        msg = (
            f"{text[:100]!r} names nobody: it reads CHANNEL:ID, such as telegram:123456, as logs"
            " and exports have the id, or principal:NAME for who has a token"
        )
        raise InvalidInputError(msg)
    return Person("" if channel == PRINCIPAL else channel, sender.strip())


class Eraser(Struct, frozen=True, kw_only=True):
    """What an erasure works on."""

    service: TurnService
    store: SessionStore
    maintenance: Maintenance | None
    messages: MessageIndex
    keyed: KeyedStore
    clock: Clock
    notes: Callable[[ConversationKey, str], OwnNotes]
    "Returns what an agent noted of the people of a conversation."
    on_gone: Callable[[str], None]
    "Is told of each session that was removed."
    owns: Callable[[str, ConversationKey], bool]
    "Whether a session is this process's to work on."
    erasing: anyio.Lock
    "Held while one erasure works."

    async def erase(self, person: Person) -> AsyncGenerator[Erased]:
        """Erase what a person said; yield how far it is, and at last what was done.

        The record is written before the last one is yielded. Run again, it does what is left.

        Raises:
            InvalidInputError: The store cannot write sessions anew.
            JournalError: The store cannot be read, or the record not be kept.
        """
        if self.maintenance is None:
            msg = "this store cannot write sessions anew, so nothing can be erased from them"
            raise InvalidInputError(msg)
        async with self.erasing:
            tally, after = _Tally(), ""
            while page := await self.store.sessions(after=after, limit=_PAGE):
                for row in page:
                    tally.looked += 1
                    if not person.channel or row.key.channel == person.channel:
                        await self._in_session(row, person, tally)
                after = page[-1].session_id
                yield tally.as_record()
            if isinstance(self.messages, StoreMessageIndex):
                await self.messages.purge()
            await self._keep_record(person, tally.as_record())
            yield tally.as_record()

    async def _in_session(self, row: SessionSummary, person: Person, tally: _Tally) -> None:
        session_id = row.session_id
        try:
            traces = await self._traces(session_id, person)
            if not self.owns(session_id, row.key) and (traces.seqs or traces.titles):
                tally.left.append(f"session {session_id}: another node has it; erase there, too")
                return
            is_theirs = self._is_theirs(row, person, traces)
            is_alone = is_theirs and not traces.others - {person.sender}
            if is_alone or traces.seqs:
                await self._forget_notes(row, traces.seqs, is_alone=is_alone)
            if is_alone:
                await self.service.delete(session_id)
                self.on_gone(session_id)
                tally.removed += 1
                tally.messages += len(traces.seqs)
            elif traces.seqs or traces.titles:
                await self._rewrite(row, person, traces)
                tally.rewritten += 1
                tally.messages += len(traces.seqs)
            tally.left += [
                f"the agent {row.key.agent} keeps {path} in its workspace, which they sent"
                for path in sorted(traces.saved)
            ]
        except UnknownSessionError:
            return
        except CoreError as error:
            logger.warning(
                "a session could not be erased from",
                extra={"session_id": session_id, "error": str(error)},
            )
            tally.left.append(f"session {session_id}: {error}")

    async def _forget_notes(self, row: SessionSummary, seqs: set[int], *, is_alone: bool) -> None:
        """Take out what the agent noted of them, before the session that the notes name is gone."""

        def is_gone(note: PersonNote) -> bool:
            session_id, _, seq = note.place.rpartition(":")
            return is_alone or (session_id == row.session_id and seq.isdigit() and int(seq) in seqs)

        try:
            notes = self.notes(row.key, row.principal)
        except (UnknownAgentError, ToolFailedError):  # there is no agent, or it keeps none
            return
        await notes.erase(is_gone)

    def _is_theirs(self, row: SessionSummary, person: Person, traces: Traces) -> bool:
        if not person.channel:
            return row.principal == person.sender
        return bool(traces.seqs) or row.key.chat == person.sender

    async def _traces(self, session_id: str, person: Person) -> Traces:
        traces, after = Traces(), 0
        while page := await self.store.read(session_id, after=after, limit=_PAGE_EVENTS):
            await to_thread.run_sync(_see, traces, page, person)
            after = page[-1].seq
        return traces

    async def _rewrite(self, row: SessionSummary, person: Person, traces: Traces) -> None:
        """Take a person's words out of a session.

        Raises:
            JournalError: It cannot be written, or is at work.
        """
        assert self.maintenance is not None
        async with self.service.maintenance.held(row.session_id) as is_held:
            if not is_held:
                msg = "it is at work; cancel its turn, or wait, and erase once more"
                raise JournalError(msg)
            # What was said since the first look is looked at, too.
            traces = await self._traces(row.session_id, person)
            loaded = await self.store.inspect(row.session_id)
            if loaded is not None and loaded.snapshot is not None:
                await to_thread.run_sync(traces.see_state, loaded.snapshot)
            await self.maintenance.rewrite(row.session_id, Scrubbing(person, traces))
            await self.messages.forget(row.session_id)
        if isinstance(self.messages, StoreMessageIndex):
            session = IndexedSession(
                session_id=row.session_id,
                key=row.key,
                created_at=row.created_at,
                principal=row.principal,
                shared_with=row.shared_with,
            )
            try:
                await self.messages.read_session(session)
            except CacheError as error:  # a cache, and put away: it is made anew
                logger.warning("the index is made anew", extra={"error": str(error)})

    async def _keep_record(self, person: Person, done: Erased) -> None:
        """Write down that it was done, and not of whom: the digest tells who asks."""
        line = record_line(person, done, self.clock.now())
        for attempt in range(_TRIES):
            (there,) = await self.keyed.read([ERASURES_KEY])
            if isinstance(there, JournalError):
                raise there
            try:
                whole = len(there[: there.rfind(b"\n") + 1])
                await self.keyed.append(ERASURES_KEY, line, expected_bytes=whole)
            except ConflictError:
                if attempt == _TRIES - 1:
                    raise
            else:
                if isinstance(self.messages, StoreMessageIndex):
                    await self.messages.erased(whole, whole + len(line))
                return


def record_line(person: Person, done: Erased, at: datetime) -> bytes:
    """Return the record of an erasure: when, of whom by a digest, and how much."""
    digest = hashlib.sha256(str(person).encode()).hexdigest()
    record = {
        "at": utc_text(at),
        "person_sha256": digest,
        "sessions_removed": done.removed,
        "sessions_rewritten": done.rewritten,
        "messages": done.messages,
        "left": len(done.left),
    }
    return orjson.dumps(record) + b"\n"


def _see(traces: Traces, page: tuple[Event, ...], person: Person) -> None:
    for event in page:
        traces.see(event, person)
