"""The requests that a session sent to its model, as its log tells of them, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from anyio.to_thread import run_sync

from everturn_actors.events import (
    ContextReduced,
    Event,
    ModelCallFailed,
    ModelReplied,
    ReplyBroken,
    StepStarted,
    Summarised,
)
from everturn_actors.model import PromptFingerprint, Usage
from everturn_actors.service import TurnService
from everturn_actors.state.serialization import utc_text
from everturn_gateway.http.live.log import READ_EVENTS, READS_MOST
from everturn_gateway.http.schemas.context import ReportedBody, RequestList, RequestRow
from everturn_gateway.usage import NANODOLLARS

REQUESTS_MOST: Final = 500  # on a page


async def read_requests(
    service: TurnService, session_id: str, *, before: int, limit: int
) -> RequestList:
    """Return the last requests that were begun below event `before` (0 = of all).

    Raises:
        UnknownSessionError: There is no such session.
        JournalError: It cannot be read.
    """
    end = (await service.view(session_id)).last_seq
    first = min(before, end + 1) if before else end + 1
    events: list[Event] = []
    begun = 0
    # One more than is asked for: what was hidden since the one before counts for the next.
    for _ in range(READS_MOST):
        if first <= 1 or begun > limit:
            break
        after = max(0, first - 1 - READ_EVENTS)
        page = await service.history(session_id, after=after, limit=first - 1 - after)
        kept = [event for event in page if event.seq < first]
        begun += sum(isinstance(event.body, StepStarted) for event in kept)
        events = [*kept, *events]
        first = after + 1
    rows = await run_sync(requests_of, events)  # thousands of events take some milliseconds
    shown = rows[-limit:]
    is_more = first > 1 or len(rows) > limit
    older = shown[0].started_seq if len(rows) > limit else first
    return RequestList.model_construct(
        requests=tuple(reversed(shown)), next=older if is_more else None
    )


def requests_of(events: Sequence[Event]) -> list[RequestRow]:
    """Return the requests that began among these events, oldest first. Pure."""
    rows: list[RequestRow] = []
    started: tuple[Event, StepStarted] | None = None
    tries = reductions = 0
    for event in events:
        match event.body:
            case StepStarted() as body:
                if started is not None:
                    rows.append(_row(*started, None, tries=tries, reductions=reductions))
                    reductions = 0
                started, tries = (event, body), 1
            case ModelReplied() if started is not None:
                rows.append(_row(*started, event, tries=tries, reductions=reductions))
                started, reductions = None, 0
            case ModelCallFailed() | ReplyBroken():
                tries += 1
            case ContextReduced() | Summarised():
                reductions += 1
            case _:
                pass
    if started is not None:
        rows.append(_row(*started, None, tries=tries, reductions=reductions))
    return rows


def _row(
    at: Event, step: StepStarted, end: Event | None, *, tries: int, reductions: int
) -> RequestRow:
    reply = end.body if end is not None and isinstance(end.body, ModelReplied) else None
    usage = reply.usage if reply else Usage()
    sent = reply.fingerprint if reply else PromptFingerprint()
    return RequestRow.model_construct(
        turn=step.turn,
        step=step.step,
        started_seq=at.seq,
        replied_seq=end.seq if end else 0,
        at=utc_text(at.at),
        model=step.model,
        fallback=reply.fallback if reply else "",
        estimated_tokens=sent.units // 100,
        reported=ReportedBody.model_construct(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
            cache_written_tokens=usage.cache_written_tokens,
            cost_nanodollars=usage.cost_nanodollars,
        ),
        cost_usd=usage.cost_nanodollars / NANODOLLARS,
        seconds=(end.at - at.at).total_seconds() if end else None,
        tries=tries,
        reductions=reductions,
        is_cache_miss=sent.is_cache_miss,
    )
