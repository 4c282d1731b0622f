"""Sessions that begin with what was said before: in another session, or elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

from anyio.lowlevel import checkpoint
from msgspec import Struct, field
from msgspec.structs import replace

from everturn_actors.errors import CannotBranchError
from everturn_actors.events import (
    CallFinished,
    Event,
    Labelled,
    Received,
    SessionShared,
    SessionStarted,
    Summarised,
)
from everturn_actors.ids import result_name
from everturn_actors.model import ConversationKey, Labels
from everturn_actors.ports import SessionStore
from everturn_actors.service.conversations import new_id
from everturn_actors.service.files import named, save
from everturn_actors.service.stateless import History
from everturn_actors.session.bindings import Bindings
from everturn_actors.session.runtime import Runtime
from everturn_actors.state.apply import apply
from everturn_actors.state.session_state import SessionState
from everturn_actors.state.validation import check_uploads, replay

EVENTS_MAX = 20_000  # of another session that one begins with; they are held in memory meanwhile
_PAGE_EVENTS = 500


class Copied(Struct, frozen=True, kw_only=True):
    """A part of another session, from its beginning on."""

    session_id: str
    last: int
    "The event of the last message of it; the turn that answers it is a part, too."


class _Begun(Struct, kw_only=True):
    """The log of a new session, as it is made."""

    events: list[Event] = field(default_factory=list[Event])
    state: SessionState | None = None
    media: set[str] = field(default_factory=set[str])
    results: set[str] = field(default_factory=set[str])

    def add(self, event: Event) -> None:
        self.events.append(event)
        self.state = apply(self.state, event)
        match event.body:
            case Received(attachments=attached):
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
        session_id, key = new_id(self._runtime), self._bindings.known_as(key)
        first = SessionStarted(session_id=session_id, key=key, principal=principal)
        begun = _Begun()
        if copied is None:
            begun.add(Event(seq=1, at=self._runtime.now(), body=first))
        else:
            await self._copy(copied, first, begun)
        history = told or History()
        for upload in history.uploads:
            check_uploads([upload])
        assert begun.state is not None
        now = self._runtime.now()
        for other in begun.state.shared_with:  # who was given that session was not given this one
            withdrawn = SessionShared(principal=other, by=principal, is_withdrawn=True)
            begun.add(Event(seq=len(begun.events) + 1, at=now, body=withdrawn))
        labels = begun.state.labels  # a title says what it is about; where it stands is its own
        if labels.pinned or labels.archived:
            begun.add(
                Event(
                    seq=len(begun.events) + 1,
                    at=now,
                    body=Labelled(labels=Labels(title=labels.title), by=principal),
                )
            )
        after = len(begun.events)
        bodies = replay(history.turns, after=after, turns=begun.state.turns)
        begun.events += [
            Event(seq=n, at=now, body=body) for n, body in enumerate(bodies, after + 1)
        ]
        await self._store.append(session_id, begun.events, expected_seq=0)
        if copied is not None:
            await self._copy_files(copied.session_id, session_id, begun)
        await save(self._store, session_id, history.uploads, await named(history.uploads))
        async with self._bindings.deciding(key):
            await self._store.bind(key, session_id)
            self._bindings.bind(key, session_id)
        return session_id

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
                begun.add(Event(seq=seq, at=event.at, body=body))
                if seq >= copied.last and begun.rests:
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


def _names(paths: Iterable[str]) -> list[str]:
    return sorted(result_name(path) for path in paths if path)
