"""Messages by the rest of their log, however far behind them it tells what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from everturn_actors.events import AmbientStored, Announced, Body, Discarded, Event, Received
from everturn_actors.state.queue import AMBIENT_LIMIT, WITHDRAWN
from everturn_gateway.search.standing import as_they_stand

AT = datetime(2026, 5, 7, 12, tzinfo=UTC)


def log(*bodies: Body) -> list[Event]:
    """Return events."""
    return [Event(seq=seq, at=AT, body=body) for seq, body in enumerate(bodies, 1)]


async def standing(events: Sequence[Event]) -> tuple[bool, int]:
    """Return whether the first event is shown, and how far the log was read for that."""
    read_to = 1

    async def read_after(seq: int, limit: int) -> Sequence[Event]:
        nonlocal read_to
        page = [each for each in events if each.seq > seq][:limit]
        read_to = max([read_to, *(each.seq for each in page)])
        return page

    return bool(await as_they_stand(events[:1], read_after)), read_to


async def test_what_was_deleted_during_a_long_turn_is_not_shown() -> None:
    """The log says so at the end of the turn, thousands of events later."""
    gone = Discarded(received=(1,), reason=WITHDRAWN)
    turn = [Announced(text="news")] * 3_000
    for first in (Received(text="my secret"), AmbientStored(text="my secret")):
        assert await standing(log(first, *turn, gone)) == (False, 3_002)
        assert await standing(log(first, *turn)) == (True, 3_001)


async def test_a_log_is_not_read_on_where_it_can_tell_no_more() -> None:
    """Of the oldest ambient messages no turn is told; and missing events tell nothing."""
    ambient = [AmbientStored(text="chatter")] * 3_000
    shown, read_to = await standing(log(*ambient))
    assert shown
    assert AMBIENT_LIMIT < read_to <= 3 * AMBIENT_LIMIT
    events = log(Received(text="hello"), *[Announced(text="news")] * 3_000)
    shown, read_to = await standing([each for each in events if not 50 < each.seq < 60])
    assert shown
    assert read_to < 1_000
