"""Which sessions there are, and which of them are current or active, in files."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import datetime
from functools import partial

from everturn_actors.errors import UnknownSessionError
from everturn_actors.ids import is_session_id
from everturn_actors.journal.commit import Mark
from everturn_actors.journal.files.base import OnFiles
from everturn_actors.journal.index import entries as index
from everturn_actors.journal.index.listing import BEGINNING, Place
from everturn_actors.model import ConversationKey
from everturn_actors.ports import ALL_SESSIONS, SessionFilter, SessionSummary
from everturn_actors.ports import Place as Recent


class FileIndex(OnFiles):
    """`SessionIndex` on plain files; see there for what each method promises."""

    async def sessions(
        self, *, after: str, limit: int, wanted: SessionFilter = ALL_SESSIONS
    ) -> tuple[SessionSummary, ...]:
        """See `SessionStore.sessions`."""
        work = partial(self._listing.page, after=after, limit=limit, wanted=wanted)
        return await self._in_thread(work, self._layout.sessions)

    async def recent(
        self, *, before: Recent | None, limit: int, wanted: SessionFilter = ALL_SESSIONS
    ) -> tuple[SessionSummary, ...]:
        """See `SessionStore.recent`."""
        work = partial(self._listing.recent, before=before, limit=limit, wanted=wanted)
        return await self._in_thread(work, self._layout.sessions)

    async def summary(self, session_id: str) -> SessionSummary | None:
        """See `SessionStore.summary`."""
        if not is_session_id(session_id):
            return None
        work = partial(self._listing.summary, session_id)
        return await self._in_thread(work, self._layout.sessions)

    async def agents(self) -> tuple[str, ...]:
        """See `SessionStore.agents`."""
        return await self._in_thread(self._listing.agents, self._layout.sessions)

    async def idle(self, agent: str, *, before: datetime) -> AsyncGenerator[SessionSummary]:
        """See `SessionStore.idle`."""
        place: Place | None = BEGINNING
        while place is not None:
            work = partial(self._listing.idle, agent, before, place)
            rows, place = await self._in_thread(work, self._layout.sessions)
            for row in rows:
                yield row

    async def keep_index(self) -> None:
        """Keep the index of sessions up to date; never returns."""
        await self._listing.run(partial(self._in_thread, path=self._layout.index))

    async def rebuild_list(self) -> None:
        """Forget the index of sessions, so that it is made anew from their files."""
        await self._in_thread(self._listing.rebuild, self._layout.index)

    async def bind(
        self, key: ConversationKey, session_id: str, *, instead_of: str | None = None
    ) -> str:
        """See `SessionStore.bind`."""
        if not is_session_id(session_id):
            raise UnknownSessionError(session_id)
        work = partial(index.bind, self._layout, key, session_id, instead_of)
        return await self._in_thread(work, self._layout.pointer(key))

    async def bound(self, key: ConversationKey) -> str:
        """See `SessionStore.bound`."""
        work = partial(index.bound, self._layout, key)
        return await self._in_thread(work, self._layout.pointer(key))

    async def mark_active(self, session_id: str) -> None:
        """See `SessionStore.mark_active`. Markers share their syncs with each other."""
        path = self._layout.marker(session_id)
        if session_id in self._active:
            return
        job = Mark(path=path)
        await self._writer.write(job, lambda: None)
        self._note(job)
        self._active.add(session_id)

    async def mark_passive(self, session_id: str) -> None:
        """See `SessionStore.mark_passive`. From here on nothing of the session is in memory."""
        if not is_session_id(session_id):
            return
        self._handles.forget(session_id)
        self._active.discard(session_id)
        work = partial(index.mark_passive, self._layout, session_id)
        await self._in_thread(work, self._layout.marker(session_id))

    async def active(self) -> tuple[str, ...]:
        """See `SessionStore.active`."""
        return await self._in_thread(partial(index.active_ids, self._layout), self._layout.active)
