"""`/remind`: what it reads, and the job that it makes, once."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from support.gateway import open_http_gateway
from support.tables import table

from everturn_actors.model import ConversationKey
from everturn_channels.texts import reminder_how
from everturn_gateway.channels.reminders import read_reminder, remind

NOW = datetime(2026, 11, 26, 17, 0, tzinfo=UTC)  # 18:00 in Berlin
KEY = ConversationKey(channel="http", chat="7", agent="test")


@table(
    ("argument", "at", "text"),
    [
        ("20m tea", "2026-11-26T18:20:00+01:00", "tea"),
        ("2 h call\nBea", "2026-11-26T20:00:00+01:00", "call\nBea"),
        ("1D water", "2026-11-27T18:00:00+01:00", "water"),
        ("18:30 tea", "2026-11-26T18:30:00+01:00", "tea"),
        ("18:00 tea", "2026-11-27T18:00:00+01:00", "tea"),
        ("9:05 tea", "2026-11-27T09:05:00+01:00", "tea"),
        ("2026-12-24 09:00 the tree", "2026-12-24T09:00:00+01:00", "the tree"),
        ("2026-07-01T09:00 sun", "2026-07-01T09:00:00+02:00", "sun"),
        ("2026-02-30 09:00 never", None, ""),
        ("25:00 never", None, ""),
        ("20m", None, ""),
        ("20 tea", None, ""),
        ("tea in 20m", None, ""),
        ("", None, ""),
    ],
)
def test_times_are_read_as_people_write_them(argument: str, at: str | None, text: str) -> None:
    """A time of day is the next one, and a day that does not exist is none."""
    found = read_reminder(argument, NOW, "Europe/Berlin")

    assert (found.at.isoformat() if found else None) == at
    assert (found.text if found else "") == text


async def test_a_reminder_is_a_job_that_is_made_once(tmp_path: Path) -> None:
    """A platform may hand the command in again after a crash; what is past is refused."""
    async with open_http_gateway(tmp_path) as gateway:
        ask = gateway.schedules, gateway.clock, "Asia/Tokyo", KEY
        told = await remind(*ask, "20m *tea*", "telegram:7:1")
        again = await remind(*ask, "20m *tea*", "telegram:7:1")
        past = await remind(*ask, "2020-01-01 09:00 tea", "telegram:7:2")
        none = await remind(*ask, "tea", "telegram:7:3")
        (view,) = gateway.schedules.jobs()
        await remind(*ask, f"20m {'y' * 4_000}", "telegram:7:4")
        payloads = [str(each.job.payload) for each in gateway.schedules.jobs()]

    assert told == again
    assert told.startswith("I will remind you at ")
    assert told.endswith(r"Asia/Tokyo: \*tea\*")
    assert none == reminder_how()
    assert any("y" * 4_000 in each for each in payloads), "nothing is lost in silence"
    assert past.startswith("I cannot remind you at 2020-01-01 09:00: it is ")
    assert view.job.agent == "test"
    assert view.job.is_once
    assert view.job.made.key == KEY
