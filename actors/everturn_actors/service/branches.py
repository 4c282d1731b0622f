"""Sessions that begin with what was said before: in another session, or elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime

import anyio
from anyio.lowlevel import checkpoint
from msgspec import Struct, field
from msgspec.structs import replace

from everturn_actors.errors import CannotBranchError, JournalError
from everturn_actors.events import (
    Body,
    Branched,
    CallFinished,
    Discarded,
    Event,
    Labelled,
    ModelReplied,
    Received,
    SessionEnded,
    SessionShared,
    SessionStarted,
    Spoken,
    StatusChanged,
    Summarised,
)
from everturn_actors.ids import result_name
from everturn_actors.model import ConversationKey, Labels
from everturn_actors.ports import SessionStore
from everturn_actors.service.bindings import Bindings
from everturn_actors.service.conversations import new_id
from everturn_actors.service.files import named, save
from everturn_actors.service.stateless import History
from everturn_actors.session.runtime import Runtime
from everturn_actors.state.apply import apply
from everturn_actors.state.recovery import close_turn
from everturn_actors.state.session_state import SessionState
from everturn_actors.state.validation import check_uploads, replay

EVENTS_MAX = 20_000  # of another session that one begins with; they are held in memory meanwhile
_PAGE_EVENTS = 500
FORKED = "the conversation was forked here"
NOT_RUN = "The conversation was forked before this call had a result. It does not run again here."


class Copied(Struct, frozen=True, kw_only=True):
    """A part of another session, from its beginning on."""

    session_id: str
    last: int
    "The event of the last message of it; the turn that answers it is a part, too."
    is_cut: bool = False
    "Whether it ends with that very event: what is open there is closed, and runs no more."


class _Begun(Struct, kw_only=True):
    """The log of a new session, as it is made."""

    events: list[Event] = field(default_factory=list[Event])
    state: SessionState | None = None
    copied: int = 0
    "The last event that is of the other session."
    media: set[str] = field(default_factory=set[str])
    results: set[str] = field(default_factory=set[str])

    def add_own(self, at: datetime, *bodies: Body) -> None:
        """Add what the session it comes from does not hold."""
        for body in bodies:
            self.add(Event(seq=len(self.events) + 1, at=at, body=body))

    def add(self, event: Event) -> None:
        self.events.append(event)
        self.state = apply(self.state, event)
        match event.body:
            case Received(attachments=attached):
                self.media.update(each.name for each in attached)
            case Spoken(attachments=attached) | ModelReplied(images=attached):
                self.media.update(each.name for each in attached)
            case CallFinished(attachments=attached, path=path):
                self.media.update(each.name for each in attached)
                self.results.add(path)
            case Summarised(path=path):
                self.results.add(path)
            case _:
                pass

    @property
    def rests(self) -> bool:
        """Whether all that was said so far is answered."""
        state = self.state
        return state is not None and state.open_turn is None and not state.waiting


class Branches:
    """Begins sessions with a history; the one it comes from stays as it is."""

    def __init__(self, *, store: SessionStore, runtime: Runtime, bindings: Bindings) -> None:
        """Only `open_service` makes one."""
        self._store, self._runtime, self._bindings = store, runtime, bindings
        self._making: set[str] = set()

    async def begin(
        self,
        key: ConversationKey,
        *,
        principal: str = "",
        copied: Copied | None = None,
        told: History | None = None,
    ) -> str:
        """Begin the current session of `key` with a history; return its id when it is durable.

        What the agent's tools gave in a part of another session is in it; of what is told, the
        words alone.

        Args:
            key: The conversation. It goes on in the new session.
            principal: Whom that belongs to; empty = nobody.
            copied: The part of another session that it begins with.
            told: What the caller says that was said after that.

        Raises:
            CannotBranchError: The part does not end with a finished turn, its events are no longer
                there, or there are too many of them. Nothing has changed.
            UnknownAgentError: No such agent.
            InvalidInputError: A file of what is told is refused.
            JournalError: It cannot be read or written.
        """
        self._runtime.agents.get(key.agent)
        key = self._bindings.known_as(key)
        session_id = new_id(self._runtime, key)
        first = SessionStarted(
            session_id=session_id,
            key=key,
            principal=principal,
            branch_of=copied.session_id if copied is not None else "",
        )
        begun, now = _Begun(), self._runtime.now()
        if copied is None:
            begun.add_own(now, first)
        else:
            await self._copy(copied, first, begun)
            begun.add_own(now, *_own_beginning(begun, by=principal))
        history = told or History()
        for upload in history.uploads:
            check_uploads([upload])
        self._making.add(session_id)
        try:
            await self._write(session_id, begun, copied, history, by=principal)
        except BaseException:
            # Whoever asked is told that it failed; what could not be removed, the next start does.
            with anyio.CancelScope(shield=True), suppress(JournalError):
                await self._store.delete(session_id)
            raise
        finally:
            self._making.discard(session_id)
        async with self._bindings.deciding(key):
            await self._store.bind(key, session_id)
            self._bindings.bind(key, session_id)
        return session_id

    def is_half(self, state: SessionState) -> bool:
        """Return whether a crash left a branch without all that it begins with."""
        return state.is_branching and state.session_id not in self._making

    async def _write(
        self, session_id: str, begun: _Begun, copied: Copied | None, history: History, *, by: str
    ) -> None:
        """Write a new session: its end says that all is there.

        The mark makes the next start look at it: where that end is missing, nobody was told of
        this session, and it is removed.
        """
        store, now, state = self._store, self._runtime.now(), begun.state
        assert state is not None
        ends: list[Body] = []
        if copied is not None:
            await store.mark_active(session_id)
            ends.append(Branched(of=copied.session_id, at_seq=begun.copied, by=by))
        after = len(begun.events)
        bodies = [*ends, *replay(history.turns, after=after + len(ends), turns=state.turns)]
        own = [Event(seq=n, at=now, body=body) for n, body in enumerate(bodies, after + 1)]
        if copied is None:
            begun.events += own
        await store.append(session_id, begun.events, expected_seq=0)
        if copied is not None:
            await self._copy_files(copied.session_id, session_id, begun)
        await save(store, session_id, history.uploads, await named(history.uploads))
        if copied is not None:
            await store.append(session_id, own, expected_seq=after)
            await store.mark_passive(session_id)

    async def _copy(self, copied: Copied, first: SessionStarted, begun: _Begun) -> None:
        """Take the part of another session over, under the beginning of the new one."""
        while len(begun.events) < EVENTS_MAX:
            after = len(begun.events)
            page = await self._store.read(copied.session_id, after=after, limit=_PAGE_EVENTS)
            for seq, event in enumerate(page, after + 1):
                body = event.body
                if event.seq != seq:
                    msg = f"events {seq} to {event.seq - 1} of the session are no longer kept"
                    raise CannotBranchError(msg)
                if isinstance(body, SessionStarted):
                    body = replace(first, instructions=body.instructions, seen=body.seen)
                if isinstance(body, SessionEnded):  # the branch goes on
                    begun.copied = seq - 1
                    return
                begun.add(Event(seq=seq, at=event.at, body=body))
                if seq >= copied.last and (begun.rests or copied.is_cut):
                    begun.copied = seq
                    return
            if not page:
                msg = "the turn that it would begin behind is not over"
                raise CannotBranchError(msg)
            await checkpoint()  # a long log takes its time
        msg = f"a branch begins with at most {EVENTS_MAX} events"
        raise CannotBranchError(msg)

    async def _copy_files(self, of: str, to: str, begun: _Begun) -> None:
        """Take over what is still there of the files that the events name."""
        store = self._store
        for name in sorted(begun.media):
            data = await store.read_media(of, name)
            if data is not None:
                await store.save_media(to, name, data)
        for name in _names(begun.results):
            text = await store.read_result(of, name)
            if text is not None:
                await store.save_result(to, name, text)


def _own_beginning(begun: _Begun, *, by: str) -> list[Body]:
    """Return what is said first in a branch of what it took over: what is not so here."""
    state = begun.state
    assert state is not None
    bodies: list[Body] = []
    if state.open_turn is not None:
        bodies += close_turn(state.open_turn, "cancelled", FORKED, by, text=NOT_RUN)
    if state.waiting:
        gone = tuple(user.seq for user in state.waiting)
        bodies.append(Discarded(received=gone, reason=FORKED))
    if state.status == "paused":
        bodies.append(StatusChanged(status="active"))
    for other in state.shared_with:  # who was given that session was not given this one
        bodies.append(SessionShared(principal=other, by=by, is_withdrawn=True))
    labels = state.labels  # a title says what it is about; where it stands is its own
    if labels.pinned or labels.archived:
        bodies.append(Labelled(labels=Labels(title=labels.title), by=by))
    return bodies


def _names(paths: Iterable[str]) -> list[str]:
    return sorted(result_name(path) for path in paths if path)
