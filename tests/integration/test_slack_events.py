"""Slack's deliveries over HTTP: what is believed, what is answered, and when."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio
import pytest
from support.inbox import QuickClock
from support.slack_api import SIGNING_SECRET, signed
from support.slack_world import DM, SlackWorld, deliver_to, make_bot, open_slack_world

from everturn.testing import RecordingHandler
from everturn_channels.adapter import Button, ButtonClick, Command
from everturn_channels.errors import SetupError
from everturn_channels.ingestion.deliveries import DeliveryAnswer
from everturn_gateway.clock import SystemClock

SETTINGS: dict[str, Any] = {"app_token": "", "signing_secret": SIGNING_SECRET}


def body_of(**event: object) -> bytes:
    """Return the body of a delivery."""
    return json.dumps({"type": "event_callback", "event_id": "Ev1", "event": event}).encode()


async def delivering(world: SlackWorld) -> None:
    """Let Slack deliver to the bot that runs."""
    world.api.deliver = partial(deliver_to, world.bot)


async def test_what_slack_did_not_sign_is_not_believed() -> None:
    """Nor what was signed long ago, or with another secret; whoever finds the address may try."""
    body = body_of(type="message", channel=DM, user="U1", text="hi", ts="1795749251.000001")
    now = SystemClock().now().timestamp()
    good = signed(body)
    rows: list[tuple[dict[str, str], bytes, int]] = [
        ({}, body, 401),
        ({**good, "X-Slack-Signature": "v0=00"}, body, 401),
        ({**good, "X-Slack-Signature": "v0=\u00e4"}, body, 401),
        (good, body + b" ", 401),
        (signed(body, secret="another"), body, 401),  # noqa: S106 - of a test
        (signed(body, now - 400), body, 401),
        (signed(body, now + 400), body, 401),
        ({**good, "X-Slack-Request-Timestamp": "9" * 400}, body, 401),
        ({**good, "X-Slack-Request-Timestamp": "now"}, body, 401),
        (signed(b"[]"), b"[]", 400),
        (signed(b"{"), b"{", 400),
        (signed(b" " * 2_000_000), b" " * 2_000_000, 400),
        (good, body, 200),
    ]
    async with open_slack_world(**SETTINGS) as world, world.running() as handler:
        found = [(await world.bot.take_delivery(headers, raw)).status for headers, raw, _ in rows]

    assert found == [status for _, _, status in rows]
    assert handler.texts() == ["hi"]


async def test_clicks_and_commands_come_as_forms_and_are_answered_with_nothing() -> None:
    """Slack would show any other answer; the challenge is answered before the bot runs."""
    body = b'{"type": "url_verification", "challenge": "3eZbrw1a"}'
    limited = b'{"type": "app_rate_limited"}'
    async with open_slack_world(**SETTINGS) as world:
        early = make_bot(world.api, **SETTINGS)
        challenge = await early.take_delivery(signed(body), body)
        event = body_of(type="message", channel=DM)
        unserved = await early.take_delivery(signed(event), event)
        async with world.running() as handler:
            await delivering(world)
            warned = await world.bot.take_delivery(signed(limited), limited)
            asked = await world.say(DM, "May I?", buttons=(Button(label="Yes", data="y"),))
            await world.api.click(DM, asked, 0)
            await world.api.command(DM, "status")
            click, command = sorted(await handler.until_handled(2), key=lambda e: str(type(e)))
            while world.api.pending:  # noqa: ASYNC110 - it does not tell
                await anyio.sleep(0.01)

    assert challenge == DeliveryAnswer(status=200, body=b'{"challenge":"3eZbrw1a"}')
    assert unserved.status == 503
    assert warned == DeliveryAnswer(status=200, body=b"")
    assert isinstance(click, ButtonClick)
    assert isinstance(command, Command)
    assert (click.data, command.name) == ("y", "status")


async def test_what_slack_gave_up_on_is_read_before_what_comes_next() -> None:
    """No socket ends when the gateway cannot be reached: Slack tries for five minutes."""
    async with open_slack_world(**SETTINGS) as world, world.running() as handler:
        clock = world.bot._clock
        assert isinstance(clock, QuickClock)

        async def deliver(headers: Mapping[str, str], body: bytes) -> int:
            now = signed(body, clock.now().timestamp())
            return await deliver_to(world.bot, {**headers, **now}, body)

        world.api.deliver = deliver
        await world.api.say(DM, "heard")
        await handler.until_handled(1)
        world.api.deliver = None
        await world.api.say(DM, "in vain")
        world.api.pending.clear()
        clock.advance(301)
        world.api.deliver = deliver
        await world.api.say(DM, "again")
        await world.api.say(DM, "and on")
        await handler.until(lambda: "and on" in handler.texts())
        asked = [(method, fields.get("channel")) for method, fields in world.api.calls]

    assert handler.texts() == ["heard", "in vain", "again", "and on"]
    assert asked.count(("conversations.history", DM)) == 2, "at the start, and after the silence"


async def test_an_app_that_was_removed_needs_its_owner() -> None:
    """No socket would tell."""
    body = body_of(type="tokens_revoked", tokens={"bot": ["UBOT00001"]})
    async with open_slack_world(**SETTINGS) as world:
        handler = RecordingHandler()

        async def tell() -> None:
            await handler.until_connected()
            assert (await world.bot.take_delivery(signed(body), body)).status == 200

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tell)
            with pytest.raises(SetupError, match="removed"):
                await world.bot.serve(handler)
