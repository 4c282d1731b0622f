"""Owners on the real clients: aiogram and discord.py against platforms on loopback."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.discord_api import TOKEN as DISCORD_TOKEN
from support.discord_api import open_discord_api
from support.feeding_adapter import Fed, feeding
from support.inbox import QuickClock
from support.telegram_api import ANN, TOKEN, Json, TelegramApi, open_telegram_api
from support.tool_doubles import Deed, Rules, by_name

from everturn_actors.model import ConversationKey, IncomingMessage
from everturn_actors.ports import Verdict
from everturn_actors.testing import ManualClock, ScriptedProvider, calling
from everturn_channels.access.owners import Owner
from everturn_channels.discord import DiscordAdapter, DiscordServers, client
from everturn_channels.ingestion.history import BacklogLimits
from everturn_channels.telegram import TelegramAdapter
from everturn_channels.texts import unknown_command

BOB = 1002
ADA = Owner(name="ada", accounts=frozenset({("telegram", str(ANN))}))
ELSEWHERE = ConversationKey(channel="http", chat="x", agent="test")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten what the product waits out of politeness; no outcome depends on it."""
    monkeypatch.setattr(client, "IDENTIFY_PAUSE_S", (0.0, 0.0))
    monkeypatch.setattr(client, "GUILD_READY_S", 0.02)
    monkeypatch.setattr(client, "CONNECT_PAUSE_S", (0.01, 0.01))


def _asking() -> tuple[Deed, Rules, ScriptedProvider]:
    tool, verdict = Deed("send"), Verdict(effect="ask", reason="it sends", approvers=("nobody",))
    return tool, Rules({"send": verdict}), ScriptedProvider(calling(("c1", "send")), "sent")


async def _until_asked(fed: Fed) -> None:
    """Begin a turn somewhere else, and wait until it asks."""
    asked = await fed.service.submit(IncomingMessage(text="send it", key=ELSEWHERE))
    async for _ in fed.service.watch(asked.session_id, after=0):
        if await fed.service.activity.awaiting_approval():
            return


def _said(api: TelegramApi, chat: int) -> list[str]:
    return [c.params["text"] for c in api.sent() if c.params["chat_id"] == str(chat)]


async def test_an_owner_on_telegram_answers_what_waits_elsewhere(tmp_path: Path) -> None:
    """A question that came over HTTP waits for the owner's phone; strangers learn nothing."""
    tool, gate, provider = _asking()
    async with open_telegram_api() as api:
        api.chat(ANN)
        bot = TelegramAdapter(name="telegram", token=TOKEN, clock=QuickClock(), api_base=api.url)
        async with feeding(
            tmp_path,
            platform=bot,
            provider=provider,
            tools=by_name(tool),
            gate=gate,
            owners=[ADA],
            clock=ManualClock(),
        ) as fed:
            await api.until(lambda: api.has_poll)
            await _until_asked(fed)
            bob = {"id": BOB, "is_bot": False, "first_name": "Bob"}
            api.say("/questions", chat=BOB, **{"from": bob})
            await api.until(lambda: _said(api, BOB))
            api.say("/questions", forward_origin={"type": "user", "date": 1, "sender_user": bob})
            api.say("/questions")
            await api.until(lambda: len(_said(api, ANN)) >= 2)
            question = _question(api)
            button = question["reply_markup"]["inline_keyboard"][0][0]["callback_data"]
            api.click(question, button)
            await api.until(lambda: tool.runs)

            assert _said(api, BOB) == [unknown_command("questions").replace("`", "")]
            assert tool.runs == {"c1": 1}
            assert "questions" not in [each["command"] for each in api.commands]


def _question(api: TelegramApi) -> Json:
    found = next(c for c in api.sent() if "reply_markup" in c.params)
    assert "test asks, in http x" in found.params["text"]
    result: Json = found.result
    return result


async def test_an_owner_on_discord_answers_what_waits_elsewhere(tmp_path: Path) -> None:
    """Commands of owners are written there: a slash command would be shown to everybody."""
    tool, gate, provider = _asking()
    async with open_discord_api() as api:
        ada, bob = api.world.add_user("ada"), api.world.add_user("bob")
        bot = DiscordAdapter(
            name="discord",
            token=DISCORD_TOKEN,
            clock=ManualClock(api.world.now),
            servers=DiscordServers(api_base=api.base, gateway_url=api.gateway),
            backlog=BacklogLimits(max_messages=100, max_age_s=86_400),
        )
        owner = Owner(name="ada", accounts=frozenset({("discord", ada["id"])}))
        async with feeding(
            tmp_path,
            platform=bot,
            provider=provider,
            tools=by_name(tool),
            gate=gate,
            owners=[owner],
            clock=ManualClock(api.world.now),
        ) as fed:
            await api.until(lambda: api.sessions)
            await _until_asked(fed)
            dm, other = api.world.dm(ada), api.world.dm(bob)
            await api.until(lambda: fed.health.status().state == "connected")
            await api.says("/questions", author=ada, channel=dm)
            await api.until(lambda: len(api.said(dm)) == 2)
            button = api.said(dm)[1]["components"][0]["components"][0]["custom_id"]
            denied = await api.button_clicks(button, author=bob, channel=other)
            await api.until(lambda: denied["said"])
            before = dict(tool.runs)
            allowed = await api.button_clicks(button, author=ada, channel=dm)
            await api.until(lambda: tool.runs and allowed["said"])

    assert api.said(dm)[0]["content"] == "1 question waits for an answer."
    assert "test asks, in http x" in api.said(dm)[1]["content"]
    assert before == {}
    assert [each["content"] for each in allowed["said"]] == ["Allowed, this once."]
    assert tool.runs == {"c1": 1}
