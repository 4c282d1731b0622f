"""Usage and cost over HTTP: of a message, a session, and the last days."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
from support.gateway import open_http_gateway

from everturn_actors.model import Reply, Usage
from everturn_actors.testing import ManualClock, ScriptedProvider

USED = Usage(
    input_tokens=100,
    output_tokens=10,
    cached_tokens=60,
    cache_written_tokens=20,
    cost_nanodollars=1_234_567,
)
BODY = {
    "input_tokens": 100,
    "output_tokens": 10,
    "cached_tokens": 60,
    "cache_written_tokens": 20,
    "cost_usd": 0.001234567,
}


def priced(*, replies: int = 1) -> ScriptedProvider:
    """Return a model that says what it cost."""
    return ScriptedProvider(*[Reply(text="fine", model="m", usage=USED)] * replies)


async def test_message_session_and_report_tell_what_it_cost(tmp_path: Path) -> None:
    """A client that bills its users needs all of them to agree."""
    async with (
        open_http_gateway(tmp_path, provider=priced(replies=2)) as gateway,
        gateway.client() as client,
    ):
        session = f"/api/v1/sessions/{await gateway.session()}"
        answers = [
            (await client.post(f"{session}/messages", json={"content": "Hi"})).json()
            for _ in range(2)
        ]
        history = (await client.get(f"{session}/messages")).json()["messages"]
        state = (await client.get(session)).json()
        report = (await client.get("/api/v1/usage", params={"days": 2})).json()

    both: dict[str, Any] = {name: value * 2 for name, value in BODY.items()}
    assert [answer["usage"] for answer in answers] == [BODY, BODY]
    assert [each["usage"] for each in history if each["role"] == "assistant"] == [BODY, BODY]
    assert state["usage"] == both
    assert report["total"] == {**both, "calls": 2, "unpriced_calls": 0, "saved_usd": 0}
    assert [(row["agent"], row["model"]) for row in report["rows"]] == [
        ("test", "scripted/scripted")
    ]


async def test_a_report_is_of_days_and_agents(tmp_path: Path) -> None:
    """A chart asks for a month of one agent."""
    clock = ManualClock(datetime(2026, 1, 31, 12, tzinfo=UTC))
    async with (
        open_http_gateway(tmp_path, provider=priced(), clock=clock) as gateway,
        gateway.client() as client,
    ):
        for agent in ("test", "gone"):
            gateway.usage.add(agent, "x/y", USED, priced=False)
        clock.advance(24 * 3600)
        gateway.usage.add("test", "x/y", USED, priced=True)

        async def days(**asked: str | int) -> list[tuple[str, str]]:
            answer = await client.get("/api/v1/usage", params=asked)
            return [(row["day"], row["agent"]) for row in answer.json()["rows"]]

        everything = await days()
        today = await days(days=1)
        one = await days(days=30, agent="gone")
        nobody = await days(agent="nobody")
        # A mistyped number must not look like a week without costs.
        for asked in ("days=0", "days=367", "days=x", "agent=" + "a" * 129):
            refused = await client.get(f"/api/v1/usage?{asked}")
            assert refused.status_code == 422, asked
            assert refused.json()["errors"][0]["parameter"].startswith("query.")

    assert everything == [
        ("2026-01-31", "gone"),
        ("2026-01-31", "test"),
        ("2026-02-01", "test"),
    ]
    assert today == [("2026-02-01", "test")]
    assert one == [("2026-01-31", "gone")]
    assert nobody == []


async def test_a_report_is_of_sessions_jobs_or_principals(tmp_path: Path) -> None:
    """Which conversation cost what; nothing of an agent that nobody asked for."""
    async with (
        open_http_gateway(tmp_path, provider=priced(replies=3)) as gateway,
        gateway.client() as client,
    ):
        quiet, busy = await gateway.session(), await gateway.session()
        for session_id in (quiet, busy, busy):
            path = f"/api/v1/sessions/{session_id}/messages"
            await client.post(path, json={"content": "Find a flight"})
        sessions = (await client.get("/api/v1/usage?by=session")).json()
        of_nobody = (await client.get("/api/v1/usage?by=session&agent=nobody")).json()
        schedules = (await client.get("/api/v1/usage?by=schedule")).json()
        principals = (await client.get("/api/v1/usage?by=principal")).json()
        wrong = await client.get("/api/v1/usage?by=colour")
        by_day = (await client.get("/api/v1/usage")).json()

    assert [(each["name"], each["title"], each["agent"]) for each in sessions["groups"]] == [
        (busy, "Find a flight", "test"),
        (quiet, "Find a flight", "test"),
    ]
    assert sessions["groups"][1].items() >= BODY.items()
    assert sessions["is_partial"] is False
    assert of_nobody["groups"] == schedules["groups"] == principals["groups"] == []
    assert wrong.status_code == 422
    assert by_day["limits"] == []


async def test_a_report_tells_what_is_left_of_the_day(tmp_path: Path) -> None:
    """Before the agent refuses, and not after."""
    clock = ManualClock(datetime(2026, 1, 31, 12, tzinfo=UTC))
    async with (
        open_http_gateway(tmp_path, provider=priced(), clock=clock) as gateway,
        gateway.client() as client,
    ):
        file = anyio.Path(gateway.config.agents_dir) / "test" / "agent.yaml"
        text = await file.read_text()
        await file.write_text(text.replace("spec:", "spec:\n  usage: {daily_tokens: 5000}", 1))
        await gateway.library.reload()
        path = f"/api/v1/sessions/{await gateway.session()}/messages"
        await client.post(path, json={"content": "Hi"})
        limits = (await client.get("/api/v1/usage")).json()["limits"]

    assert limits == [
        {
            "agent": "test",
            "limit_usd": None,
            "limit_tokens": 5000,
            "used_usd": 0.001234567,
            "used_tokens": 110,
        }
    ]
