"""Chats of tutorials: what people write and see on a pretended platform, line by line.

    you: good morning
    bot: You said
    ann press: Allow once

A shell asks for a block by its number, and goes on when all of it has happened.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol

import anyio
from aiohttp import web
from support.discord_api import TOKEN, DiscordApi, open_discord_api
from support.telegram_api import TelegramApi, open_telegram_api

_LINE: Final = re.compile(r"(\w+)( press)?: (.*)")
_WAIT_S: Final = 30.0


class Platform(Protocol):
    """Where the people of a tutorial write."""

    settings: str
    "What leads a gateway there, as a line of YAML under the channel."

    async def say(self, who: str, text: str) -> None:
        """Have somebody write."""
        ...

    async def press(self, who: str, label: str) -> None:
        """Have somebody press the newest button of this name."""
        ...

    def seen(self) -> list[str]:
        """Return what the bot has shown so far."""
        ...


class OnTelegram:
    """One person in a private chat."""

    def __init__(self, api: TelegramApi) -> None:
        self._api = api
        self.settings = f"telegram: {{api_base: {api.url}}}"

    async def say(self, who: str, text: str) -> None:
        """See `Platform`."""
        assert who == "you"
        self._api.say(text)

    async def press(self, who: str, label: str) -> None:
        """See `Platform`."""
        raise NotImplementedError

    def seen(self) -> list[str]:
        """See `Platform`."""
        return [str(call.result["text"]) for call in self._api.sent()]


class OnDiscord:
    """Several people in a channel; the ids of a page are those of `you` and of the channel."""

    YOU: Final = "1573994509040091151"
    CHANNEL: Final = "1573994509040091152"

    def __init__(self, api: DiscordApi) -> None:
        self._api, world = api, api.world
        self._people: dict[str, Any] = {name: world.add_user(name) for name in ("you", "ann")}
        self.settings = f"discord: {{api_base: {api.base}, gateway_url: '{api.gateway}'}}"
        self.ids = {
            "bot.token": TOKEN,
            self.YOU: self._people["you"]["id"],
            self.CHANNEL: world.general,
        }

    async def say(self, who: str, text: str) -> None:
        """See `Platform`."""
        mention = f"<@{self._api.world.bot['id']}>"
        await self._api.says(text.replace("@bot", mention), author=self._people[who])

    async def press(self, who: str, label: str) -> None:
        """See `Platform`."""
        buttons = [
            button
            for message in self._api.said()
            for row in message["components"]
            for button in row["components"]
            if button["label"] == label
        ]
        await self._api.button_clicks(buttons[-1]["custom_id"], author=self._people[who])

    def seen(self) -> list[str]:
        """See `Platform`."""
        return [f"{each['content']} {each.get('embeds', '')}" for each in self._api.said()]


@asynccontextmanager
async def open_platform(page: str) -> AsyncGenerator[Platform | None]:
    """Open the platform that a page is about, if any."""
    if "setup telegram\n" in page and "```chat" in page:
        async with open_telegram_api() as telegram:
            yield OnTelegram(telegram)
    elif "setup discord\n" in page:
        async with open_discord_api() as discord:
            yield OnDiscord(discord)
    else:
        yield None


@asynccontextmanager
async def open_chats(platform: Platform, blocks: Sequence[str]) -> AsyncGenerator[str]:
    """Play a block for each request of `ADDRESS/NUMBER`; yield the address."""

    async def play(request: web.Request) -> web.Response:
        block = blocks[int(request.match_info["number"])]
        try:
            with anyio.fail_after(_WAIT_S):
                await _play(platform, block)
        except (TimeoutError, IndexError) as error:
            text = f"{error!r} in\n{block}\nthe bot showed {platform.seen()}"
            return web.Response(status=500, text=text)
        return web.Response(text="done\n")

    app = web.Application()
    app.router.add_get("/{number}", play)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def _play(platform: Platform, block: str) -> None:
    shown = 0
    for line in block.splitlines():
        found = _LINE.fullmatch(line)
        assert found, line
        who, presses, text = found.groups()
        if who == "bot":
            while not any(text in each for each in platform.seen()[shown:]):  # noqa: ASYNC110
                await anyio.sleep(0.02)
        elif presses:
            await platform.press(who, text)
        else:
            await platform.say(who, text)
