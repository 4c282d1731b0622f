"""What the index knows of a session, from its files or from an append. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from everturn_actors.events import SessionShared, SessionStarted
from everturn_actors.journal.index.activity import Row
from everturn_actors.model import Labels
from everturn_actors.ports import SessionSummary

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class News(Struct, frozen=True):
    """What an append says about its session."""

    agent: str | None
    updated_at: datetime | None
    "None = nothing happened but that somebody sorted it."
    is_ended: bool | None
    "None = as it was."
    channel: str
    viewers: tuple[str, ...]
    "Principals that began it or were given it, since the index was written."
    labels: Labels | None = None
    "None = as they were."


def rows_read(found: Mapping[str, SessionSummary | None]) -> Iterator[Row]:
    """Yield a row for each session; one that cannot be read has no agent, and is never idle."""
    for session_id, row in found.items():
        yield Row(session_id, "", 0, is_ended=True) if row is None else row_of(row)


def row_of(summary: SessionSummary) -> Row:
    """Return the row of a session as its files have it."""
    is_ended = summary.status == "ended"
    updated_us = microseconds(summary.updated_at)
    viewers = tuple(filter(None, (summary.principal, *summary.shared_with)))
    return Row(
        summary.session_id,
        summary.key.agent,
        updated_us,
        is_ended=is_ended,
        channel=summary.key.channel,
        pinned=summary.labels.pinned,
        archived=summary.labels.archived,
        viewers=viewers,
    )


def row_of_news(session_id: str, news: News) -> Row:
    """Return what an append changes in the row of a session; None in a field = as it was."""
    labels = news.labels
    return Row(
        session_id,
        news.agent,
        None if news.updated_at is None else microseconds(news.updated_at),
        is_ended=news.is_ended,
        channel=news.channel,
        pinned=None if labels is None else labels.pinned,
        archived=None if labels is None else labels.archived,
        viewers=news.viewers,
    )


def with_viewer(viewers: tuple[str, ...], body: SessionStarted | SessionShared) -> tuple[str, ...]:
    """Return who may see a session from this event on; one from whom it was taken stays.

    A row too many costs a look at the session's files, which say that it is not theirs.
    """
    return (*viewers, body.principal) if body.principal else viewers


def microseconds(moment: datetime) -> int:
    """Return a time as the index keeps it."""
    return (moment - EPOCH) // timedelta(microseconds=1)
