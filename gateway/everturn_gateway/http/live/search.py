"""A search through what was said in all sessions that a caller may see."""

from __future__ import annotations

from contextlib import suppress
from datetime import date
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from everturn_actors.errors import JournalError, UnknownSessionError
from everturn_actors.ports import SessionFilter
from everturn_actors.ports.search import MessageQuery, SearchPlace, SearchRole
from everturn_actors.state.serialization import utc_text
from everturn_gateway.http.access.visibility import sees_state
from everturn_gateway.http.live.overviews import ListQuery
from everturn_gateway.http.ports import HasSessions
from everturn_gateway.http.schemas.base import Body, Timestamp
from everturn_gateway.principals import Principal
from everturn_gateway.search.finding import Found, find, snippet
from everturn_gateway.search.logs import ServiceLogs

QUERY_CHARACTERS: Final = 200
QUERY_PATTERN: Final = r'[^\s"]'  # somewhere there is a word
CURSOR_PATTERN: Final = r"^[0-9]{0,6}$"


class SearchParameters(BaseModel):
    """What is looked for, and where."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    q: str = Field(
        min_length=1,
        max_length=QUERY_CHARACTERS,
        pattern=QUERY_PATTERN,
        description="A question or words: any of them, in any form, the best match first;"
        ' what stands in "quotes" has to stand there as it is.',
    )
    agent: str = Field(default="", max_length=128, description="Only sessions with this agent.")
    channel: str = Field(default="", max_length=128, description="Only those of this channel.")
    session: str = Field(default="", max_length=64, description="Only this session, by its id.")
    sender: str = Field(
        default="", max_length=128, description="Only messages of people who are called so."
    )
    since: date | None = Field(default=None, description="Only from this day on, UTC.")
    until: date | None = Field(default=None, description="Only to this day, UTC.")
    after: str = Field(default="", pattern=CURSOR_PATTERN, description="`next` of the page before.")
    limit: int = Field(default=20, ge=1, le=100)

    def within(self, allowed: SessionFilter) -> SessionFilter:
        """Return which of the sessions that are allowed are searched."""
        return ListQuery(agent=self.agent, channel=self.channel).within(allowed)

    def query(self, sessions: SessionFilter) -> MessageQuery:
        """Return what the index is asked for, of these sessions."""
        return MessageQuery(
            text=self.q,
            places=places_of(sessions, self.session),
            sender=self.sender,
            since=self.since,
            until=self.until,
            limit=self.limit,
            offset=int(self.after or 0),
        )


class SearchHit(Body):
    """An event in which something was found."""

    session_id: str
    title: str
    agent: str
    channel: str
    chat: str
    seq: int = Field(description="Number of the event.")
    at: Timestamp
    role: SearchRole = Field(
        description="Who said it; call: what a tool was asked for, tool: what it gave, summary:"
        " what stands for older messages."
    )
    snippet: str = Field(description="The words around what was found, in one line.")


class SearchPage(Body):
    """What was found, the best first."""

    hits: tuple[SearchHit, ...]
    next: str | None = Field(description="`after` of the next page; null where there is none.")
    searched_to: Timestamp | None = Field(
        description="Only sessions in which something happened after that were searched: the index"
        " is being made anew. Null = all were."
    )


async def search(
    gateway: HasSessions, query: MessageQuery, wanted: SessionFilter, viewer: Principal
) -> SearchPage:
    """Return a page of what was found in the wanted sessions, as far as a viewer may see them."""
    service = gateway.service

    async def may_see(session_id: str) -> bool:
        row = await service.reader.summary(session_id)
        if row is None or not wanted.admits(row):
            return False
        with suppress(JournalError, UnknownSessionError):
            # The head of a snapshot may be behind the log, where a disk was full.
            return viewer.sees_all or sees_state(viewer, await service.view(session_id))
        return False

    page = await find(gateway.messages, query, ServiceLogs(service), may_see)
    hits = [hit for each in page.found if (hit := await _hit(gateway, each)) is not None]
    return SearchPage(
        hits=tuple(hits),
        next=None if page.next_offset is None else str(page.next_offset),
        searched_to=None if page.searched_to is None else utc_text(page.searched_to),
    )


def places_of(wanted: SessionFilter, session_id: str = "") -> tuple[SearchPlace, ...]:
    """Return where sessions stand that a filter admits, for the index."""
    place = SearchPlace(
        session_id=session_id,
        agents=wanted.agents,
        channel=wanted.channel,
        seen_by=wanted.seen_by,
    )
    return () if place == SearchPlace() else (place,)


async def _hit(gateway: HasSessions, found: Found) -> SearchHit | None:
    try:
        overview = await gateway.changes.overview(gateway.service, found.session_id)
    except (UnknownSessionError, JournalError):  # it is gone since it was read
        return None
    return SearchHit(
        session_id=found.session_id,
        title=overview.title,
        agent=overview.key.agent,
        channel=overview.key.channel,
        chat=overview.key.chat,
        seq=found.event.seq,
        at=utc_text(found.event.at),
        role=found.role,
        snippet=snippet(found),
    )
