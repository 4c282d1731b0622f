"""What of sessions goes, by age, by size and by agent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from support.tables import table

from everturn_actors.ports.maintenance import StoredSizes
from everturn_gateway.config.keep import KeepConfig, SessionsKeepSettings
from everturn_gateway.retention.planning import KeptSession, plan_sessions

NOW = datetime(2026, 11, 26, tzinfo=UTC)
MB = 1_000_000


def session(name: str, age_days: float, agent: str = "a", media: int = 0) -> KeptSession:
    """Return a session of one megabyte and its files."""
    sizes = StoredSizes(log=MB - media, media=media, archive=0)
    then = NOW - timedelta(days=age_days)
    return KeptSession(session_id=name, agent=agent, updated_at=then, sizes=sizes)


ROWS = (
    session("new", 0),
    session("week", 7, media=10),
    session("old", 400),
    session("b-new", 1, "b"),
    session("b-old", 20, "b", media=10),
)
OLD = {("session", "old"), ("session", "b-old")}


@table(
    "keep, goes",
    [
        ({}, set()),
        ({"days": 365}, {("session", "old")}),
        ({"days": 7}, OLD),  # not at the very age
        ({"media_days": 5}, {("media", "week"), ("media", "b-old")}),
        (
            {"days": 365, "media_days": 5, "agents": {"b": {"days": 10}}},
            {*OLD, ("media", "week")},
        ),
        ({"agents": {"b": {"media_days": 5}}}, {("media", "b-old")}),
        # A share of its own is not in that of all; the newest stay.
        ({"megabytes": 2}, {*OLD, ("session", "week")}),
        ({"megabytes": 2, "agents": {"b": {"megabytes": 1}}}, OLD),
        # What goes by its age takes no room.
        ({"days": 100, "megabytes": 4}, {("session", "old")}),
        ({"days": 100, "megabytes": 3, "media_days": 1}, {*OLD, ("media", "week")}),
    ],
)
def test_what_goes(keep: dict[str, object], goes: set[tuple[str, str]]) -> None:
    """Each session once, as a whole or in parts."""
    config: KeepConfig = SessionsKeepSettings.model_validate(keep).value()
    steps = plan_sessions(ROWS, config, NOW)

    assert config.is_set == bool(keep)
    assert len(steps) == len({(step.what, step.name) for step in steps})
    assert {(step.what, step.name) for step in steps} == goes
