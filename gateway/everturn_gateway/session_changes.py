"""What a list says of each session, kept as sessions change: states, not messages.

Whoever shows a list takes the rows that changed since it looked last. Nothing is queued for it, and
memory does not depend on how many look.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Final

import anyio
from msgspec import Struct, structs

from everturn_actors.events import Announced, Discarded, Edited, Event, ModelReplied, Received
from everturn_actors.model import MEMORY, ConversationKey, Labels, SessionStatus, Usage
from everturn_actors.ports import Observer, PassingObserver, SessionSummary
from everturn_actors.service import TurnService
from everturn_actors.state.session_state import SessionState
from everturn_gateway.search.standing import as_they_stand

ROWS_MAX: Final = 10_000  # some 700 bytes each
TITLE_CHARACTERS: Final = 80
PREVIEW_CHARACTERS: Final = 160
_TASK_HEAD: Final = re.compile(r"\A\[Scheduled task [^\n]*\]\n")
_FIRST_EVENTS: Final = 8  # among which the first message of a session stands
_SAID: Final = (ModelReplied, Received, Announced)
_TAKEN_BACK: Final = frozenset((Discarded, Edited))


class SessionOverview(Struct, frozen=True, kw_only=True):
    """One session, as far as a list tells of it."""

    session_id: str
    key: ConversationKey
    status: SessionStatus
    created_at: datetime
    updated_at: datetime
    principal: str
    shared_with: tuple[str, ...]
    labels: Labels
    first_words: str
    "Of its first message; empty = nobody has said any, or they are not known yet."
    preview: str
    "The first words of what was said last."
    last_seq: int
    turns: int
    is_running: bool
    approvals: int
    "Calls that wait for a person."
    has_failed: bool
    "Whether its newest turn failed."
    usage: Usage
    is_gone: bool = False
    "Whether it was deleted."

    @property
    def title(self) -> str:
        """What somebody called it, or its first words."""
        return self.labels.title or self.first_words


class Changes(PassingObserver):
    """Observes sessions for an observer of its own, and keeps the newest row of those that changed.

    Each change has a version; rows that were only read have none.
    """

    def __init__(self, observer: Observer) -> None:
        """Begin with nothing known."""
        super().__init__(observer)
        self._rows: dict[str, SessionOverview] = {}
        "The one that was touched last stands at the end."
        self._versions: dict[str, int] = {}
        "By session, ascending."
        self._forgotten = 0
        "The newest version of which the row is not kept any more."
        self._changed = anyio.Event()
        self._has_waiters = False
        self._lookers = 0
        self._has_lookers = anyio.Event()
        self.version = 0
        "Of the newest change."
        self.boot = secrets.token_hex(8)
        "Names this run of the gateway: versions of another one mean nothing."

    # --- Observer ---

    def durable(
        self, before: SessionState | None, after: SessionState, events: Sequence[Event]
    ) -> None:
        """See `Observer.durable`."""
        super().durable(before, after, events)
        known = self._rows.pop(after.session_id, None)
        self._put(_row(after, events, known))

    # --- for lists ---

    def knows(self, version: int) -> bool:
        """Return whether every change after `version` is still known."""
        return self._forgotten <= version <= self.version

    def since(self, version: int) -> list[SessionOverview]:
        """Return the rows that changed after `version`, the newest change first."""
        found: list[SessionOverview] = []
        for session_id in reversed(self._versions):
            if self._versions[session_id] <= version:
                break
            found.append(self._rows[session_id])
        return found

    async def wait(self, version: int) -> None:
        """Wait until something changed after `version`."""
        while self.version <= version:
            self._has_waiters = True
            await self._changed.wait()

    @contextmanager
    def looked_at(self) -> Generator[None]:
        """Count somebody who looks at rows as they change, for a block."""
        self._lookers += 1
        self._has_lookers.set()
        try:
            yield
        finally:
            self._lookers -= 1
            if not self._lookers:
                self._has_lookers = anyio.Event()

    async def until_looked_at(self) -> None:
        """Return when somebody looks."""
        await self._has_lookers.wait()

    def gone(self, session_id: str) -> None:
        """Take note that a session was deleted."""
        known = self._rows.pop(session_id, None)
        if known is not None:
            self._put(structs.replace(known, is_gone=True))

    async def overview(
        self, service: TurnService, session_id: str, newest: SessionSummary | None = None
    ) -> SessionOverview:
        """Return the row of a session, which is read where it is not known.

        Args:
            service: Reads it.
            session_id: The session.
            newest: What the store says of it: a row that is behind is read again, as that of a
                session is on which another process works.

        Raises:
            UnknownSessionError: There is no such session.
            JournalError: It cannot be read.
        """
        known = self._rows.get(session_id)
        if newest is not None and known is not None and _is_behind(known, newest):
            known = None
        if known is not None and not known.is_gone and (known.first_words or not known.turns):
            return known
        row = await self._read(service, session_id, known)
        self._rows[session_id] = row
        self._forget_some()
        return row

    async def read_again(self, service: TurnService, session_id: str) -> None:
        """Take note that a session changed without being told: read its row, which is a new one.

        Raises:
            UnknownSessionError: There is no such session.
            JournalError: It cannot be read.
        """
        row = await self._read(service, session_id, None)
        self._rows.pop(session_id, None)
        self._put(row)

    async def _read(
        self, service: TurnService, session_id: str, known: SessionOverview | None
    ) -> SessionOverview:
        state = await service.view(session_id)
        row = _row(state, (), known)
        if not row.first_words and row.turns:

            async def read_after(seq: int, limit: int) -> Sequence[Event]:
                return await service.history(session_id, after=seq, limit=limit)

            first = await read_after(0, _FIRST_EVENTS)
            standing = await as_they_stand(first, read_after, with_ambient=False)
            texts = (each.body.text for each in standing if isinstance(each.body, Received))
            words = _first_words(_task(next(texts, "")), TITLE_CHARACTERS) or state.key.chat
            row = structs.replace(row, first_words=words)
        newer = self._rows.get(session_id)
        if newer is not None and newer.last_seq > row.last_seq:  # it changed while it was read
            row = structs.replace(newer, first_words=newer.first_words or row.first_words)
        return row

    def _put(self, row: SessionOverview) -> None:
        self.version += 1
        self._versions.pop(row.session_id, None)
        self._versions[row.session_id] = self.version
        self._rows[row.session_id] = row
        if len(self._rows) > ROWS_MAX:
            self._forget_some()
        if self._has_waiters:
            self._has_waiters = False
            changed, self._changed = self._changed, anyio.Event()
            changed.set()

    def _forget_some(self) -> None:
        while len(self._rows) > ROWS_MAX:
            session_id = next(iter(self._rows))
            del self._rows[session_id]
            self._forgotten = max(self._forgotten, self._versions.pop(session_id, 0))


def _is_behind(row: SessionOverview, newest: SessionSummary) -> bool:
    if row.updated_at == newest.updated_at:
        return row.labels != newest.labels
    return row.updated_at < newest.updated_at


def _row(
    state: SessionState, events: Sequence[Event], known: SessionOverview | None
) -> SessionOverview:
    """Return the row of a session, after `events`; `known` is the one before them."""
    turn = state.open_turn
    newest = state.newest_turn if turn is None else None
    # What waits for the first turn may be changed or deleted; what was is not to be read here.
    if known is not None and any(type(each.body) in _TAKEN_BACK for each in events):
        first_words = known.first_words if known.turns else ""
        known = structs.replace(known, first_words=first_words, preview="")
    return SessionOverview(
        session_id=state.session_id,
        key=state.key,
        status=state.status,
        created_at=state.created_at,
        updated_at=state.updated_at,
        principal=state.principal,
        shared_with=state.shared_with,
        labels=state.labels,
        first_words=(known.first_words if known is not None else "") or _title(state),
        preview=_said(state, events)
        or (known.preview if known is not None else "")
        or _preview(state),
        last_seq=state.last_seq,
        turns=state.turns,
        is_running=turn is not None and state.status == "active",
        approvals=len(state.open_approvals) if turn is not None else 0,
        has_failed=newest is not None and newest.outcome == "failed",
        usage=state.usage,
    )


def _said(state: SessionState, events: Sequence[Event]) -> str:
    for event in reversed(events):
        body = event.body
        if isinstance(body, _SAID) and body.text:
            turn = state.open_turn or state.newest_turn
            if turn is not None and all(user.sender == MEMORY for user in turn.heard):
                return ""  # the gateway asks the agent for itself, and nobody reads that
            return _first_words(body.text, PREVIEW_CHARACTERS)
    return ""


def _title(state: SessionState) -> str:
    """Return the first words of a session, where its state still holds them."""
    if state.waiting and not state.turns:
        return _first_words(_task(state.waiting[0].text), TITLE_CHARACTERS)
    turn = state.held_turns[0] if state.held_turns else state.open_turn
    if turn is None or turn.number != 1 or not turn.users:
        return ""
    return _first_words(_task(turn.users[0].as_text), TITLE_CHARACTERS)


def _task(text: str) -> str:
    """Return what a scheduled task asks for, without the line that says which one it is."""
    return _TASK_HEAD.sub("", text, count=1)


def _preview(state: SessionState) -> str:
    """Return what was said last, of what the state holds."""
    turn = state.open_turn or state.newest_turn
    if turn is None:
        return _first_words(state.waiting[-1].text, PREVIEW_CHARACTERS) if state.waiting else ""
    replies = (step.reply.text for step in reversed(turn.steps) if step.reply.text)
    asked = turn.users[-1].as_text if turn.users else ""
    return _first_words(next(replies, asked), PREVIEW_CHARACTERS)


def _first_words(text: str, characters: int) -> str:
    """Return the beginning of a text in one line; what it costs does not depend on its length."""
    line = " ".join(text[: characters * 2].split())
    return line if len(line) <= characters else f"{line[: characters - 1]}…"
