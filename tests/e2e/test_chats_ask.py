"""What an agent asks in a chat, and prompts people send there, by the installed command."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from support.answers import Answer
from support.discord_api import TOKEN as DISCORD_TOKEN
from support.discord_api import open_discord_api
from support.mcp_server import open_http_server
from support.model_api import open_model_api
from support.process import DISCORD, TELEGRAM, gateway_process
from support.talking import (
    ANN,
    BOB,
    GROUP,
    OPEN,
    Brain,
    log_of,
    read,
    until,
    until_listening,
    until_state,
    write,
    write_talking,
)
from support.telegram_api import BOT, TOKEN, Json, TelegramApi, open_telegram_api

from everturn_actors.model import ToolCall
from everturn_channels.languages import ready, speaking
from everturn_channels.texts import click_late, click_refused

ASKS: Final = Answer(
    calls=(
        ToolCall(
            call_id="call-ask",
            name="ask_user",
            arguments='{"question": "Which colour?", "choices": ["Red", "Blue"]}',
        ),
    )
)


def write_asking(
    folder: Path, model_url: str, channels: dict[str, Any], tool: str = "", language: str = ""
) -> None:
    """Write a workspace whose agent may ask people, and has one more tool."""
    write_talking(folder, model_url, channels=channels, agents={"helper": OPEN})
    file = folder / "agents" / "helper" / "agent.yaml"
    more = "    - {type: builtin, name: ask_user}\n" + (f"    - {tool}\n" if tool else "")
    more += f"  language: {language}\n" if language else ""
    file.write_text(file.read_text() + more)


def results(folder: Path, chat: int | str) -> list[str]:
    """Return what calls gave in a chat, as it stands on disk."""
    return [e["text"] for e in log_of(folder, chat) if e["type"] == "call_finished"]


async def test_a_question_on_telegram_is_answered_by_who_is_asked(tmp_path: Path) -> None:
    """Nobody else's click counts, a kill in between loses nothing, and a late click says so.

    All in the language of the agent.
    """
    brain = Brain()
    async with open_model_api(default=brain) as model, open_telegram_api() as telegram:
        channel = {"bot_token": TOKEN, "api_base": telegram.url}
        write_asking(tmp_path, model.url, {"telegram": channel}, language="fr")
        brain.plan("paint", ASKS, Answer(text="Blue it is."))
        async with gateway_process(tmp_path, imported=TELEGRAM) as gateway:
            await until_listening(telegram)
            write(telegram, f"@{BOT} paint it", chat=GROUP)
            await until(lambda: asked(telegram))
            [(question, (red, blue))] = asked(telegram)
            text = question["text"]
            telegram.click(question, red, who=BOB)
            await until(lambda: told(telegram))
            refused = told(telegram)
            await gateway.kill()
        telegram.click(question, blue)
        async with gateway_process(tmp_path, imported=TELEGRAM):
            await until(lambda: read(telegram, GROUP)[-1] == "Blue it is.")
            telegram.click(question, red)
            await until(lambda: told(telegram)[2:])

    with speaking(await ready("fr")):
        assert refused == [click_refused()]
        assert told(telegram)[-1] == click_late()
    assert "peut répondre, jusqu" in text
    assert results(tmp_path, GROUP) == ["Blue"]
    assert len(brain.about("paint")) == 2
    assert "reply_markup" not in question or not question["reply_markup"]


def asked(telegram: TelegramApi) -> list[tuple[Json, list[str]]]:
    """Return the messages with buttons in the group, and what these send."""
    return [
        (message, [str(button["callback_data"]) for row in rows for button in row])
        for (chat, _), message in telegram.messages.items()
        if chat == GROUP and (rows := message.get("reply_markup", {}).get("inline_keyboard"))
    ]


def told(telegram: TelegramApi) -> list[str]:
    """Return what those who clicked were told."""
    return [c.params.get("text", "") for c in telegram.sent("answerCallbackQuery")]


async def test_a_question_on_discord_is_answered_by_who_is_asked(tmp_path: Path) -> None:
    """The same there, by the library that talks to Discord."""
    brain = Brain()
    async with open_model_api(default=brain) as model, open_discord_api() as discord:
        world = discord.world
        ann, bob, where = world.add_user("ann"), world.add_user("bob"), world.general
        channel = {
            "bot_token": DISCORD_TOKEN,
            "api_base": discord.base,
            "gateway_url": discord.gateway,
        }
        write_asking(tmp_path, model.url, {"discord": channel})
        brain.plan("paint", ASKS, Answer(text="Blue it is."))

        def buttons() -> list[str]:
            rows = [row for m in discord.said(where) for row in m["components"]]
            return [each["custom_id"] for row in rows for each in row["components"]]

        async with (
            gateway_process(tmp_path, imported=DISCORD) as gateway,
            gateway.client() as client,
        ):
            await until_state(client, "connected")
            await discord.says(f"<@{world.bot['id']}> paint it", author=ann)
            await until(buttons)
            red, blue = buttons()
            refused = await discord.button_clicks(red, author=bob)
            await until(lambda: refused["said"])
            await gateway.kill()
        discord.sessions.clear()
        async with (
            gateway_process(tmp_path, imported=DISCORD) as gateway,
            gateway.client() as client,
        ):
            await until_state(client, "connected")
            taken = await discord.button_clicks(blue, author=ann)
            await until(lambda: taken["said"])
            await until(lambda: discord.said(where)[-1]["content"] == "Blue it is.")
            late = await discord.button_clicks(red, author=ann)
            await until(lambda: late["said"])

        left = buttons()

    said = [each["said"][0]["content"] for each in (refused, taken, late)]
    assert said == [click_refused(), "Answered.", click_late()]
    assert results(tmp_path, where) == ["Blue"]
    assert left == []


async def test_a_prompt_of_an_mcp_server_is_sent_from_telegram(tmp_path: Path) -> None:
    """The bot lists it in its menu; what is sent is the server's text, in the person's name."""
    brain = Brain()
    async with (
        open_model_api(default=brain) as model,
        open_telegram_api() as telegram,
        open_http_server(has_prompts=True) as wiki,
    ):
        channel = {"bot_token": TOKEN, "api_base": telegram.url}
        tool = f"{{type: mcp, name: wiki, url: '{wiki.url}'}}"
        write_asking(tmp_path, model.url, {"telegram": channel}, tool)
        async with gateway_process(tmp_path, imported=TELEGRAM):
            await until_listening(telegram)
            write(telegram, "/prompt")
            await until(lambda: read(telegram, ANN))
            write(telegram, "/prompt wiki:summarize topic='big cats'")
            await until(lambda: len(read(telegram, ANN)) == 3)

        listed, sent, answer = read(telegram, ANN)
        assert "prompt" in [each["command"] for each in telegram.commands]

    assert "/prompt wiki:summarize topic=..." in listed
    assert sent.startswith("Sent: Sum up what is known of big cats.")
    assert answer.startswith("re: Sum up what is known of big cats.")
    received = [e for e in log_of(tmp_path, ANN) if e["type"] == "received"]
    assert [e["untrusted"] for e in received] == [True]
