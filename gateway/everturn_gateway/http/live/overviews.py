"""The list of sessions by their last activity, with filters and a search in what rows say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from msgspec import structs
from pydantic import BaseModel, ConfigDict, Field

from everturn_actors.errors import InvalidInputError, JournalError, UnknownSessionError
from everturn_actors.model import SessionStatus
from everturn_actors.ports import Place, SessionFilter, SessionSummary
from everturn_gateway.http.ports import HasSessions
from everturn_gateway.http.schemas.sessions import OverviewList, OverviewRow
from everturn_gateway.session_changes import SessionOverview

LIST_LIMIT: Final = 200  # sessions a page
SEARCHED_MOST: Final = 500  # sessions that one page looks into
_READ_AT_ONCE: Final = 100
_OPEN: Final = frozenset(("approval", "running"))  # of these there are never many
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ListQuery(BaseModel):
    """Which sessions are listed, and in which order."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    after: str = Field(default="", max_length=128, description="`next` of the page before.")
    limit: int = Field(default=50, ge=1, le=LIST_LIMIT)
    order: Literal["created", "activity"] = Field(
        default="created",
        description="created: those that began last first. activity: those in which something"
        " happened last first, with `title` and what else a list shows.",
    )
    agent: str = Field(default="", max_length=128, description="Only those of this agent.")
    channel: str = Field(default="", max_length=128, description="Only those of this channel.")
    status: SessionStatus | None = Field(default=None, description="Only those that stand so.")
    wants: Literal["", "approval", "running", "failed"] = Field(
        default="",
        description="With `order=activity`: those with a call that waits for a person, with a turn"
        " that runs, or whose newest turn failed.",
    )
    archived: bool | None = Field(
        default=None,
        description="Only those that are archived, or only those that are not. Left out: with"
        " `order=activity` those that are not, or that have what `wants` says; else all.",
    )
    q: str = Field(
        default="",
        max_length=200,
        description="With `order=activity`: those that have this in id, chat, title or preview.",
    )

    def within(self, allowed: SessionFilter) -> SessionFilter:
        """Return what is wanted of what is allowed."""
        agents = allowed.agents
        if self.agent:
            agents = frozenset((self.agent,)) & (agents or frozenset((self.agent,)))
        archived = self.archived
        if archived is None and self.order == "activity" and self.wants not in _OPEN:
            archived = False  # what waits for a person is shown, wherever it was put
        return structs.replace(
            allowed,
            agents=agents,
            channel=self.channel,
            status=self.status,
            archived=archived,
        )

    def admits(self, row: SessionOverview) -> bool:
        """Return whether a session is wanted, by what only its row says."""
        match self.wants:
            case "approval" if not row.approvals:
                return False
            case "running" if not row.is_running:
                return False
            case "failed" if not row.has_failed:
                return False
            case _:
                pass
        text = self.q.casefold()
        said = (row.session_id, row.key.chat, row.title, row.first_words, row.preview)
        return not text or any(text in each.casefold() for each in said)


async def read_overviews(
    gateway: HasSessions, query: ListQuery, allowed: SessionFilter
) -> OverviewList:
    """Return a page of the list by activity, what is pinned before all else.

    Raises:
        InvalidInputError: `after` is none of a page before.
    """
    wanted, (pinned, place) = query.within(allowed), _place(query.after)
    if query.wants in _OPEN:
        return OverviewList(sessions=await _open(gateway, query, wanted), next=None)
    found: list[OverviewRow] = []
    # A search that finds little ends, with a place to go on from.
    for _ in range(SEARCHED_MOST // _READ_AT_ONCE + 2):
        # One more than is shown says whether there is another page.
        at_once = _READ_AT_ONCE if query.q or query.wants else query.limit + 1 - len(found)
        rows = await gateway.service.reader.recent(
            before=place, limit=at_once, wanted=structs.replace(wanted, pinned=pinned)
        )
        for row in rows:
            if len(found) == query.limit:
                return OverviewList(sessions=tuple(found), next=_cursor(place, pinned=pinned))
            place = row.updated_at, row.session_id
            overview = await read_overview(gateway, row.session_id, row)
            if overview is not None and query.admits(overview):
                found.append(OverviewRow.overview(overview))
        if len(rows) < at_once:
            if not pinned:
                return OverviewList(sessions=tuple(found), next=None)
            # All that are pinned were shown: the others begin at the newest.
            pinned, place = False, None
    return OverviewList(sessions=tuple(found), next=_cursor(place, pinned=pinned))


async def _open(
    gateway: HasSessions, query: ListQuery, wanted: SessionFilter
) -> tuple[OverviewRow, ...]:
    """Return the sessions with an open turn that are wanted: there are never many."""
    found: list[SessionOverview] = []
    for state in await gateway.service.reader.open_turns():
        summary = SessionSummary.of(state)
        if not wanted.admits(summary):
            continue
        overview = await read_overview(gateway, state.session_id, summary)
        if overview is not None and query.admits(overview):
            found.append(overview)
    found.sort(key=lambda row: row.updated_at, reverse=True)
    return tuple(map(OverviewRow.overview, found[: query.limit]))


async def read_overview(
    gateway: HasSessions, session_id: str, newest: SessionSummary | None = None
) -> SessionOverview | None:
    """Return the row of a session; None where it is gone, or cannot be read.

    `newest` is what the store says of it, see `Changes.overview`.
    """
    try:
        return await gateway.changes.overview(gateway.service, session_id, newest)
    except (UnknownSessionError, JournalError):
        return None  # it was deleted, or is damaged, since the page was read


def _cursor(place: Place | None, *, pinned: bool) -> str:
    number = (place[0] - _EPOCH) // timedelta(microseconds=1) if place else ""
    return f"{'p' * pinned}{number}.{place[1] if place else ''}"


def _place(after: str) -> tuple[bool, Place | None]:
    """Return where a page begins: whether among what is pinned, and behind which session."""
    number, _, session_id = after.removeprefix("p").partition(".")
    pinned = not after or after.startswith("p")
    if not number:
        return pinned, None
    try:
        return pinned, (_EPOCH + timedelta(microseconds=int(number)), session_id)
    except (ValueError, OverflowError):
        msg = "after has to be `next` of a page in the same order"
        raise InvalidInputError(msg) from None
