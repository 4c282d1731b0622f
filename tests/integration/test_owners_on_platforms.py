"""Owners on the real clients: aiogram and discord.py against platforms on loopback."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import pytest
from msgspec import structs
from support.discord_api import TOKEN as DISCORD_TOKEN
from support.discord_api import open_discord_api
from support.feeding_adapter import OPEN, Fed, feeding
from support.inbox import QuickClock
from support.telegram_api import ANN, TOKEN, Json, TelegramApi, open_telegram_api
from support.tool_doubles import Deed, Rules, by_name

from everturn_actors.model import ConversationKey, IncomingMessage
from everturn_actors.ports import Verdict
from everturn_actors.testing import ManualClock, ScriptedProvider, calling
from everturn_channels.access.owners import Owner
from everturn_channels.command_registry import command_named
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


EVERYBODYS = (
    ("whoami", "", "answers here"),
    ("model", "", "scripted"),
    ("usage", "", "Tokens"),
    ("sessions", "", "active"),
    ("search", "cats", "found cats"),
    ("remind", "20m tea", "reminds of 20m tea"),
    ("undo", "", "took it back"),
    ("retry", "", "nothing to ask again"),
    ("new", "", "is over"),
    ("clear", "", "nothing to forget"),
    ("reset", "", "nothing to forget"),
)
"Commands, what follows them, and what they are answered, in a conversation of one turn."


async def _search(_key: ConversationKey, words: str) -> str:
    return f"found {words}"


async def _remind(_key: ConversationKey, words: str, _name: str) -> str:
    return f"reminds of {words}"


async def _undo(_agent: str, _session: str) -> str:
    return "took it back"


MORE: Mapping[str, object] = {"search": _search, "remind": _remind, "undo": _undo}
CLOSED = structs.replace(
    OPEN,
    dm=structs.replace(OPEN.dm, policy="allowlist"),
    groups=structs.replace(OPEN.groups, policy="allowlist"),
)


async def test_commands_and_owners_on_telegram(tmp_path: Path) -> None:
    """Each is answered there as everywhere; a person, a group and a topic are let in from chats."""
    async with open_telegram_api() as api:
        group = -100
        for chat in (ANN, BOB, group):
            api.chat(chat)
        bot = TelegramAdapter(name="telegram", token=TOKEN, clock=QuickClock(), api_base=api.url)
        bob = {"id": BOB, "is_bot": False, "first_name": "Bob"}

        async def asked(text: str, chat: int = BOB, sender: Json | None = None) -> str:
            before = len(_said(api, chat))
            api.say(text, chat=chat, **({"from": sender} if sender else {}))
            await api.until(lambda: len(_said(api, chat)) > before)
            return _said(api, chat)[-1]

        async with feeding(
            tmp_path, platform=bot, rules=CLOSED, owners=[ADA], clock=ManualClock(), more=MORE
        ) as fed:
            # What is written before it asks and waits is old to a bot that runs for the first time.
            await api.until(lambda: _is_waiting(api))
            code = re.findall(r"approve (\w+)", await asked("hello", sender=bob))[0]
            paired = await asked(f"/pair {code}", ANN)
            api.say("hello again", chat=BOB, **{"from": bob})
            await api.until(lambda: not api.updates and api.has_poll)
            key = ConversationKey(channel="telegram", chat=str(BOB), agent="test")
            await _until_answered(fed, key)
            told = [
                await asked(f"/{name} {argument}".strip(), sender=bob)
                for name, argument, _ in EVERYBODYS
            ]
            allowed = await asked("/allow@everturn_bot", group)
            chosen = await asked("/agent@everturn_bot test", group)

    assert "may talk to me" in paired
    assert _wrong(told) == []
    assert "I take part in this group" in allowed
    assert "test answers here from now on" in chosen


async def test_commands_and_owners_on_discord(tmp_path: Path) -> None:
    """Slash commands are answered to one person; those of owners are written."""
    async with open_discord_api() as api:
        world = api.world
        ada, bob = world.add_user("ada"), world.add_user("bob")
        me = f"<@{world.bot['id']}>"
        bot = DiscordAdapter(
            name="discord",
            token=DISCORD_TOKEN,
            clock=ManualClock(world.now),
            servers=DiscordServers(api_base=api.base, gateway_url=api.gateway),
            backlog=BacklogLimits(max_messages=100, max_age_s=86_400),
        )
        owner = Owner(name="ada", accounts=frozenset({("discord", ada["id"])}))

        async def asked(text: str, author: Json, channel: str) -> str:
            before = len(api.said(channel))
            await api.says(text, author=author, channel=channel, mentions=[world.bot])
            await api.until(lambda: len(api.said(channel)) > before)
            return str(api.said(channel)[-1]["content"])

        async def slash(name: str, argument: str) -> str:
            found = command_named(name, "private")
            assert found is not None
            names = [each.name for each in found.arguments]
            given = dict(zip(names, argument.split(" ", len(names) - 1), strict=False))
            state = await api.slash(
                found.name, author=bob, channel=dm, **(given if argument else {})
            )
            await api.until(lambda: state["said"])
            return str(state["said"][0]["content"])

        async with feeding(
            tmp_path,
            platform=bot,
            rules=CLOSED,
            owners=[owner],
            clock=ManualClock(world.now),
            more=MORE,
        ) as fed:
            dm, of_ada = world.dm(bob), world.dm(ada)
            await api.until(lambda: fed.health.status().state == "connected")
            code = re.findall(r"approve (\w+)", await asked("hello", bob, dm))[0]
            paired = await asked(f"/pair {code}", ada, of_ada)
            await api.says("hello again", author=bob, channel=dm)
            await _until_answered(fed, ConversationKey(channel="discord", chat=dm, agent="test"))
            told = [await slash(name, argument) for name, argument, _ in EVERYBODYS]
            allowed = await asked(f"{me} /allow", ada, world.general)
            chosen = await asked(f"{me} /agent test", ada, world.general)

    assert "may talk to me" in paired
    assert _wrong(told) == []
    assert "I take part in this group" in allowed
    assert "`test` answers here from now on" in chosen


def _is_waiting(api: TelegramApi) -> bool:
    return api.has_poll and api.asked("getUpdates")[-1].params["timeout"] != "0"


async def _until_answered(fed: Fed, key: ConversationKey) -> None:
    session_id = ""
    while not session_id:
        session_id = await fed.service.conversations.current(key)
        await anyio.sleep(0.01)
    async for _ in fed.service.watch(session_id, after=0):
        state = await fed.service.view(session_id)
        if state.turns and state.open_turn is None:
            return


def _wrong(told: Sequence[str]) -> list[tuple[str, str]]:
    """Return what was answered otherwise."""
    return [
        (name, text)
        for (name, _, expected), text in zip(EVERYBODYS, told, strict=True)
        if expected not in text
    ]
