"""Webhooks: what they are sent, what becomes of those that fail; no call waits for them."""

from __future__ import annotations

import json
import logging
from typing import Any

import anyio
import pytest
from support.policies import NOW, SESSION, Program, call, context
from support.tables import table
from support.web_server import Answer, Asked, WebServer, open_web_server, page, redirect, stall

from everturn_actors.testing import ManualClock
from everturn_gateway.logs import SecretRegistry
from everturn_gateway.tools.policy import (
    GuardedTool,
    Notifier,
    Notify,
    Policy,
    ToolNotice,
    WebhookDelivery,
    notifying,
    open_notifier,
    webhook_client,
)
from everturn_gateway.tools.policy.guarding import Beside

NOTICE = ToolNotice(
    agent="assistant",
    session_id=SESSION,
    call_id="call_1",
    tool="bash",
    command="git push t0psecret",
    arguments='{"command": "git push t0psecret"}',
    success=True,
)


def _secrets() -> SecretRegistry:
    secrets = SecretRegistry()
    secrets.add("t0psecret")
    return secrets


def _warnings(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [vars(each) for each in caplog.records if each.levelno >= logging.WARNING]


def _in_turn(*answers: Answer) -> Answer:
    left = list(answers)

    async def answer(asked: Asked, stream: anyio.abc.ByteStream) -> None:
        await left.pop(0)(asked, stream)

    return answer


def _tell(notifier: Notifier, web: WebServer, path: str = "/hook/t0ken") -> None:
    notifier.notify(NOTICE, (WebhookDelivery(f"{web.url}{path}"),))


async def test_a_webhook_is_sent_what_happened_without_secrets() -> None:
    """Whoever watches has to know who did what, when, and whether it went well."""
    async with open_web_server() as web, open_notifier(ManualClock(NOW), _secrets()) as notifier:
        web.routes["/hook/t0ken"] = page(b"")
        hook = WebhookDelivery(f"{web.url}/hook/t0ken")
        rules = Policy(notify=Notify(deliveries=(hook,)))
        tool = GuardedTool(
            Program(),
            agent="assistant",
            secrets=_secrets(),
            policy=rules,
            beside=Beside(notifier=notifier),
        )
        await tool.run(call(command="git push t0psecret"), context())
        await web.until_asked()

    (asked,) = web.asked
    assert (asked.method, asked.headers["content-type"]) == ("POST", "application/json")
    assert json.loads(asked.body) == {
        "event": "command_notification",
        "agent": "assistant",
        "session_id": SESSION,
        "call_id": "call_1",
        "tool": "bash",
        "command": "git push ***",
        "arguments": '{"command": "git push ***"}',
        "success": True,
        "at": "2026-11-21T22:49:56+00:00",
    }


@table("status", [500, 503, 429])
async def test_a_webhook_that_is_down_for_a_moment_is_tried_again(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Three times, with a pause that grows."""
    clock = ManualClock(NOW)
    async with open_web_server() as web, open_notifier(clock, _secrets()) as notifier:
        web.routes["/hook/t0ken"] = _in_turn(
            page(b"", status=status), page(b"", status=status), page(b"")
        )
        _tell(notifier, web)
        for times, pause_s in ((1, 1.0), (2, 4.0)):
            await web.until_asked(times)
            await clock.until_sleeping(pause_s)
            clock.advance(pause_s)
        await web.until_asked(3)

    assert len({each.body for each in web.asked}) == 1
    assert _warnings(caplog) == []


async def test_what_fails_in_the_end_is_logged_without_the_address_and_stops_no_other(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receiver that is off, or hangs, must not stop the next notice."""
    # The address of a webhook is a secret, as whoever has it can write there.
    clock = ManualClock(NOW)
    async with open_web_server() as web:
        async with open_notifier(clock, _secrets()) as notifier:
            web.routes["/hook/t0ken"] = page(b"", status=502)
            _tell(notifier, web)
            for pause_s in (1.0, 4.0):
                await clock.until_sleeping(pause_s)
                clock.advance(pause_s)
        assert len(web.asked) == 3

    (logged,) = _warnings(caplog)
    assert (logged["call_id"], logged["why"], logged["host"]) == (
        "call_1",
        "status 502",
        "127.0.0.1",
    )
    assert "t0ken" not in str(logged)

    # A receiver that is off must not stop the next notice.
    caplog.clear()
    clock = ManualClock(NOW)
    async with open_web_server() as web:
        async with open_web_server() as gone:
            pass
        async with open_notifier(clock, _secrets()) as notifier:
            web.routes["/hook/t0ken"] = page(b"")
            _tell(notifier, gone)
            _tell(notifier, web)
            for pause_s in (1.0, 4.0):
                await clock.until_sleeping(pause_s)
                clock.advance(pause_s)
        assert len(web.asked) == 1

    assert [each["why"] for each in _warnings(caplog)] == ["ConnectError"]

    # Every wait has an end, and the next notice its turn.
    caplog.clear()
    monkeypatch.setattr(webhook_client, "TRY_TIMEOUT_S", 0.05)
    clock = ManualClock(NOW)
    async with open_web_server() as web:
        web.routes["/hook/t0ken"] = stall
        async with open_notifier(clock, _secrets()) as notifier:
            _tell(notifier, web)
            for pause_s in (1.0, 4.0):
                await clock.until_sleeping(pause_s)
                clock.advance(pause_s)

    (logged,) = _warnings(caplog)
    assert "Timeout" in logged["why"] or logged["why"] == "no answer within 0.05 s"


@table(
    ("answer", "why"),
    [(page(b"", status=404), "status 404"), (redirect("/elsewhere"), "status 302")],
)
async def test_what_will_not_get_better_is_not_tried_again(
    answer: Answer, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """And no redirect is followed: what was done goes where the owner said, or nowhere."""
    async with open_web_server() as web:
        async with open_notifier(ManualClock(NOW), _secrets()) as notifier:
            web.routes["/hook/t0ken"] = answer
            _tell(notifier, web)
        assert [each.path for each in web.asked] == ["/hook/t0ken"]

    assert [each["why"] for each in _warnings(caplog)] == [why]


async def test_no_call_waits_for_a_webhook_and_a_full_queue_is_said(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receiver that hangs must not hold up work, nor eat memory without end."""
    monkeypatch.setattr(notifying, "QUEUE_LIMIT", 2)
    monkeypatch.setattr(notifying, "FLUSH_S", 0.0)
    async with open_web_server() as web:
        web.routes["/hook/t0ken"] = stall
        async with open_notifier(ManualClock(NOW), _secrets()) as notifier:
            _tell(notifier, web)
            await web.until_asked()
            for _ in range(5):
                _tell(notifier, web)

            assert notifier.dropped == 3

    told = _warnings(caplog)
    assert [each.get("dropped") for each in told] == [1, 2, 3, None]
    assert told[-1]["count"] == 3


async def test_what_waits_at_the_end_is_still_sent() -> None:
    """A gateway that stops owes what it saw."""
    async with open_web_server() as web:
        web.routes["/hook/t0ken"] = page(b"")
        async with open_notifier(ManualClock(NOW), _secrets()) as notifier:
            for _ in range(3):
                _tell(notifier, web)
        assert len(web.asked) == 3
