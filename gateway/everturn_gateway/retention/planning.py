"""Which sessions go, and which parts of others. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from everturn_actors.ports.maintenance import Part, StoredSizes
from everturn_gateway.config.keep import Keep, KeepConfig

MEGABYTE: Final = 1_000_000
What: TypeAlias = Literal["session", "media", "results", "archive", "usage", "job"]


class KeptSession(Struct, frozen=True, kw_only=True):
    """A session, as far as it matters whether it stays."""

    session_id: str
    agent: str
    updated_at: datetime
    sizes: StoredSizes = StoredSizes()


class Step(Struct, frozen=True, kw_only=True):
    """One thing that goes."""

    what: What
    name: str
    "The id of the session, the key of the usage, or the name of the job's file."
    reason: str
    "In words, after its name."
    agent: str = ""
    size_bytes: int = 0
    unused_since: datetime | None = None
    "Of a session: it stays where something happened in it later."


def plan_sessions(rows: Iterable[KeptSession], keep: KeepConfig, now: datetime) -> list[Step]:
    """Return what goes of sessions, in any order in which it may be done.

    Args:
        rows: Those that may go: neither pinned nor at work.
        keep: What is kept.
        now: The time, UTC.
    """
    steps: list[Step] = []
    stay: list[KeptSession] = []
    for row in rows:
        limit = keep.of(row.agent).days
        if limit and now - row.updated_at > timedelta(days=limit):
            steps.append(_gone(row, f"nothing happened in it for {limit:g} days"))
        else:
            stay.append(row)
    too_large = {row.session_id: why for row, why in _beyond(stay, keep)}
    for row in stay:
        if row.session_id in too_large:
            steps.append(_gone(row, too_large[row.session_id]))
        else:
            steps += _parts(row, keep.of(row.agent), now)
    return steps


def _beyond(rows: Sequence[KeptSession], keep: KeepConfig) -> Iterator[tuple[KeptSession, str]]:
    """Yield the sessions that do not fit, each once for whatever limit it is beyond."""
    newest_first = sorted(rows, key=lambda row: row.updated_at, reverse=True)
    limits = [("", keep.megabytes)] if keep.megabytes else []
    limits += [(name, each.megabytes) for name, each in keep.agents.items() if each.megabytes]
    for agent, megabytes in limits:
        total = 0
        own = {name for name, each in keep.agents.items() if each.megabytes}
        for row in newest_first:
            if row.agent != agent if agent else row.agent in own:
                continue
            total += row.sizes.total
            if total > megabytes * MEGABYTE:
                whose = f" of {agent}" if agent else ""
                yield row, f"newer sessions{whose} fill {megabytes:g} MB"


def _parts(row: KeptSession, keep: Keep, now: datetime) -> Iterator[Step]:
    limits: tuple[tuple[Part, float], ...] = (
        ("media", keep.media_days),
        ("results", keep.results_days),
        ("archive", keep.archives_days),
    )
    for part, limit in limits:
        size = row.sizes.of(part)
        if limit and size and now - row.updated_at > timedelta(days=limit):
            yield Step(
                what=part,
                name=row.session_id,
                agent=row.agent,
                size_bytes=size,
                reason=f"nothing happened in the session for {limit:g} days",
                unused_since=row.updated_at,
            )


def _gone(row: KeptSession, reason: str) -> Step:
    return Step(
        what="session",
        name=row.session_id,
        agent=row.agent,
        size_bytes=row.sizes.total,
        reason=reason,
        unused_since=row.updated_at,
    )
