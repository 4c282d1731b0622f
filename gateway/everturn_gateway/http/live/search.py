"""A search through what was said in all sessions: their logs, read backwards in time.

No index can be wrong here, or has to be kept. The sessions in which something happened last are
read first, each from its newest event on; when the time is over, the answer says where it goes on.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, TypeAlias

import anyio
from anyio.to_thread import run_sync
from msgspec import Struct, field, structs
from pydantic import Field

from everturn_actors.errors import JournalError, UnknownSessionError
from everturn_actors.events import (
    Announced,
    CallFinished,
    Edited,
    Event,
    ModelReplied,
    Received,
    SilentMessage,
    Summarised,
)
from everturn_actors.ports import Place, SessionFilter, SessionSummary
from everturn_actors.state.serialization import utc_text
from everturn_gateway.http.access.visibility import sees_state
from everturn_gateway.http.ports import Gateway
from everturn_gateway.http.schemas.base import Body, Instant
from everturn_gateway.principals import Principal

SEARCH_S: Final = 2.0
SEARCHES_MOST: Final = 2  # at the same time; others wait for them
QUERY_CHARACTERS: Final = 200
QUERY_PATTERN: Final = r'[^\s"]'  # somewhere there is a word
CURSOR_PATTERN: Final = r"^([0-9]{1,16}\.[0-9A-Za-z-]{1,64}\.[0-9]{1,15})?$"
SNIPPET_CHARACTERS: Final = 200
_BEFORE: Final = 60  # characters of a snippet before what was found
PAGE_EVENTS: Final = 2_000  # some 8 ms of a thread
_SESSIONS_AT_ONCE: Final = 32
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WORD: Final = re.compile(r'"([^"]+)"|([^\s"]+)')


SearchRole: TypeAlias = Literal["user", "assistant", "call", "tool", "summary"]


class SearchHit(Body):
    """An event in which something was found."""

    session_id: str
    title: str
    agent: str
    channel: str
    chat: str
    seq: int = Field(description="Number of the event.")
    at: Instant
    role: SearchRole = Field(
        description="Who said it; call: what a tool was asked for, tool: what it gave, summary:"
        " what stands for older messages."
    )
    snippet: str = Field(description="The words around what was found, in one line.")


class SearchPage(Body):
    """What was found, in the session that was used last first, the newest first in each."""

    hits: tuple[SearchHit, ...]
    next: str | None = Field(
        description="`after` of the next page; null when everything was read. A page may be short,"
        " or empty, where the time was over."
    )
    searched_to: Instant | None = Field(
        description="Sessions in which something happened after that were read; null = all were."
    )


class Wanted(Struct, frozen=True, kw_only=True):
    """What is looked for, and where."""

    words: tuple[str, ...]
    "Folded; a text has to have all of them."
    sessions: SessionFilter
    limit: int
    after: str = ""
    "Where the page before ended, like `CURSOR_PATTERN`."


class _Place(Struct, frozen=True, kw_only=True):
    """Where a search stands."""

    session: Place | None = None
    "The last session that was begun, or read to its beginning; None = none was."
    before: int = 0
    "In that session, the event below which it goes on; 0 = it was read to its beginning."


class _Match(Struct, frozen=True):
    """A text in which something was found."""

    event: Event
    role: SearchRole
    text: str


class Search:
    """Searches the sessions of a gateway."""

    def __init__(
        self, gateway: Gateway, *, deadline_s: float = SEARCH_S, page_events: int = PAGE_EVENTS
    ) -> None:
        """Begin with nobody searching.

        Args:
            gateway: Where.
            deadline_s: After so long a page is answered as it is.
            page_events: Of a log, read at a time.
        """
        self._gateway, self._deadline_s, self._page_events = gateway, deadline_s, page_events
        self._room = anyio.CapacityLimiter(SEARCHES_MOST)

    async def page(self, wanted: Wanted, viewer: Principal) -> SearchPage:
        """Return hits, those in the session that was used last first, the newest first in each."""
        async with self._room:
            run = _Run(
                gateway=self._gateway,
                wanted=wanted,
                viewer=viewer,
                until_s=anyio.current_time() + self._deadline_s,
                page_events=self._page_events,
                place=_read_place(wanted.after),
            )
            is_over = await run.fill()
        place = run.place.session
        return SearchPage(
            hits=tuple(run.hits),
            next=None if is_over else _cursor(run.place),
            searched_to=None if is_over or place is None else utc_text(place[0]),
        )


class _Run(Struct, kw_only=True):
    """One page of a search, as it is made."""

    gateway: Gateway
    wanted: Wanted
    viewer: Principal
    until_s: float
    page_events: int
    place: _Place
    hits: list[SearchHit] = field(default_factory=list[SearchHit])

    async def fill(self) -> bool:
        """Find hits until there are enough, or the time is over; return whether all was read."""
        begun = self.place
        if begun.session is not None and begun.before:
            row = await self.gateway.service.reader.summary(begun.session[1])
            # Somebody may have deleted or lost it since the page before.
            if row is not None and self.wanted.sessions.admits(row):
                row = structs.replace(row, updated_at=begun.session[0])
                if not await self._read(row, None):
                    return False
        async with aclosing(self._rows(begun.session)) as chunks:
            async for rows in chunks:
                ahead = await self._read_ahead(rows)
                for row in rows:
                    if not await self._read(row, ahead.get(row.session_id)):
                        return False
        return True

    async def _rows(self, place: Place | None) -> AsyncGenerator[Sequence[SessionSummary]]:
        """Yield the sessions behind a place, some at a time."""
        reader, wanted = self.gateway.service.reader, self.wanted.sessions
        while rows := await reader.recent(before=place, limit=_SESSIONS_AT_ONCE, wanted=wanted):
            yield rows
            place = rows[-1].updated_at, rows[-1].session_id

    async def _read_ahead(self, rows: Sequence[SessionSummary]) -> Mapping[str, list[_Match]]:
        """Return what is found in sessions that one page holds, as most are; read side by side."""
        service, page_events = self.gateway.service, self.page_events
        whole: dict[str, tuple[Event, ...]] = {}

        async def read(session_id: str) -> None:
            with suppress(JournalError):  # `doctor` tells of it
                page = await service.history(session_id, after=0, limit=page_events)
                if len(page) < page_events:
                    whole[session_id] = page

        async with anyio.create_task_group() as tasks:
            for row in rows:
                tasks.start_soon(read, row.session_id)
        return await run_sync(_all_matches, whole, self.wanted.words)

    async def _read(self, row: SessionSummary, ahead: list[_Match] | None) -> bool:
        """Add the hits of a session; return whether the search may go on with the next one."""
        place = row.updated_at, row.session_id
        with suppress(JournalError, UnknownSessionError):
            async with aclosing(self._pages(row, ahead)) as pages:
                async for first, matches in pages:
                    if matches and not await self._is_seen(row.session_id):
                        break
                    for match in matches:
                        self.hits.append(await self._hit(row, match))
                        if len(self.hits) == self.wanted.limit:
                            self.place = _Place(session=place, before=match.event.seq)
                            return False
                    if first > 1 and anyio.current_time() >= self.until_s:
                        self.place = _Place(session=place, before=first)
                        return False
        self.place = _Place(session=place)
        return anyio.current_time() < self.until_s

    async def _is_seen(self, session_id: str) -> bool:
        """Return whether a session is open to its reader by its log; lists go by its snapshot."""
        viewer = self.viewer
        return viewer.sees_all or sees_state(viewer, await self.gateway.service.view(session_id))

    async def _pages(
        self, row: SessionSummary, ahead: list[_Match] | None
    ) -> AsyncGenerator[tuple[int, list[_Match]]]:
        """Yield what is found in a session, the newest page of its log first.

        With each page the number below which there may be more; 1 = there is none.
        """
        if ahead is not None:
            yield 1, ahead
            return
        service, session_id = self.gateway.service, row.session_id
        is_begun = self.place.session == (row.updated_at, session_id)
        before = self.place.before if is_begun else (await service.view(session_id)).last_seq + 1
        while before > 1:
            after = max(0, before - 1 - self.page_events)
            page = await service.history(session_id, after=after, limit=before - 1 - after)
            events = [event for event in page if event.seq < before]
            yield after + 1, await run_sync(_matches, events, self.wanted.words)
            before = after + 1

    async def _hit(self, row: SessionSummary, match: _Match) -> SearchHit:
        overview = await self.gateway.changes.overview(self.gateway.service, row.session_id)
        return SearchHit(
            session_id=row.session_id,
            title=overview.title,
            agent=row.key.agent,
            channel=row.key.channel,
            chat=row.key.chat,
            seq=match.event.seq,
            at=utc_text(match.event.at),
            role=match.role,
            snippet=_snippet(match.text, self.wanted.words),
        )


def words_of(query: str) -> tuple[str, ...]:
    """Return the words of a query like `QUERY_PATTERN`, folded; what stands in quotes is one."""
    return tuple(_fold(quoted or word) for quoted, word in _WORD.findall(query))


def _all_matches(
    pages: Mapping[str, Sequence[Event]], words: Sequence[str]
) -> Mapping[str, list[_Match]]:
    return {session_id: _matches(events, words) for session_id, events in pages.items()}


def _matches(events: Sequence[Event], words: Sequence[str]) -> list[_Match]:
    """Return the events in which all words stand in one text, the newest first."""
    found: list[_Match] = []
    for event in reversed(events):
        for role, text in _texts(event):
            folded = _fold(text)
            if all(word in folded for word in words):
                found.append(_Match(event, role, text))
                break
    return found


def _texts(event: Event) -> Iterator[tuple[SearchRole, str]]:
    """Yield what was said or done with an event, and by whom."""
    match event.body:
        case Received(text=text, attachments=attachments):
            yield "user", "\n".join((text, *(each.file_name for each in attachments)))
        case SilentMessage(text=text) | Edited(text=text):
            yield "user", text
        case Announced(text=text):
            yield "assistant", text
        case ModelReplied(text=text, calls=calls):
            yield "assistant", text
            for call in calls:
                yield "call", f"{call.name} {call.arguments}"
        case CallFinished(text=text):
            yield "tool", text
        case Summarised(text=text):
            yield "summary", text
        case _:
            pass


def _fold(text: str) -> str:
    # As people type it: `STRASSE` finds `Straße`, and é is found however it was written.
    return text.casefold() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def _snippet(text: str, words: Sequence[str]) -> str:
    """Return the part of a text around the first of the words in it, in one line."""
    folded = _fold(text)
    at = min(folded.find(word) for word in words)
    if len(folded) != len(text):  # folding made it longer or shorter: some characters beside it
        at = at * len(text) // max(len(folded), 1)
    begin = max(0, at - _BEFORE)
    part = " ".join(text[begin : begin + SNIPPET_CHARACTERS].split())
    end = "…" if begin + SNIPPET_CHARACTERS < len(text) else ""
    return f"{'…' if begin else ''}{part}{end}"


def _cursor(place: _Place) -> str:
    if place.session is None:
        return ""
    number = (place.session[0] - _EPOCH) // timedelta(microseconds=1)
    return f"{number}.{place.session[1]}.{place.before}"


def _read_place(after: str) -> _Place:
    if not after:
        return _Place()
    number, session_id, before = after.split(".")
    at = _EPOCH + timedelta(microseconds=int(number))
    return _Place(session=(at, session_id), before=int(before))
