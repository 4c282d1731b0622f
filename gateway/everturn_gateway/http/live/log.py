"""Pages of a session's log, from either end."""

from __future__ import annotations

from typing import Final

from everturn_actors.events import Event
from everturn_actors.service import TurnService
from everturn_actors.state.serialization import to_record, type_name
from everturn_gateway.http.schemas.sessions import LogPage

READ_EVENTS: Final = 500  # of the log at a time
READS_MOST: Final = 20


async def newest_first(
    service: TurnService, session_id: str, *, before: int, limit: int, types: frozenset[str]
) -> LogPage:
    """Return the last events below `before` (0 = of all).

    Raises:
        UnknownSessionError: There is no such session.
        JournalError: It cannot be read.
    """
    end = (await service.view(session_id)).last_seq
    first = min(before, end + 1) if before else end + 1
    last, found = first - 1, list[Event]()
    for _ in range(READS_MOST):
        if first <= 1 or len(found) >= limit:
            break
        step = limit if not types else READ_EVENTS  # most of a page may be of other types
        after = max(0, first - 1 - step)
        page = await service.history(session_id, after=after, limit=first - 1 - after)
        kept = [e for e in page if e.seq < first and (not types or type_name(e.body) in types)]
        found = [*kept, *found]
        first = after + 1
    if len(found) > limit:
        found = found[-limit:]
        first = found[0].seq  # what was read and not shown comes with the next page
    return _page(found, first=first, last=last, end=end)


async def oldest_first(
    service: TurnService, session_id: str, *, after: int, limit: int, types: frozenset[str]
) -> LogPage:
    """Return the first events above `after`; raises as `newest_first` does."""
    end = (await service.view(session_id)).last_seq
    last, found = after, list[Event]()
    for _ in range(READS_MOST):
        if len(found) >= limit:
            break
        page = await service.history(session_id, after=last, limit=READ_EVENTS)
        if not page:
            last = max(last, end)  # what is missing at the end would be asked for again and again
            break
        last = page[-1].seq
        found += [e for e in page if not types or type_name(e.body) in types]
    if len(found) > limit:
        found = found[:limit]
        last = found[-1].seq
    return _page(found, first=after + 1, last=last, end=end)


def _page(found: list[Event], *, first: int, last: int, end: int) -> LogPage:
    records = tuple(map(to_record, found))
    return LogPage.model_construct(events=records, first=first, last=last, last_event=end)
