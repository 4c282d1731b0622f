"""The channels that come with Everturn keep the published contract."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
import pytest
from support.discord_api import TOKEN as DISCORD_TOKEN
from support.discord_api import DiscordApi, open_discord_api
from support.inbox import QuickClock
from support.plugins import write_plugin
from support.telegram_api import ANN, TOKEN, TelegramApi, open_telegram_api

from everturn.testing import ChannelContract, RecordingHandler
from everturn_channels.discord import DiscordAdapter, DiscordServers, client
from everturn_channels.ingestion.history import BacklogLimits
from everturn_channels.plugin.adapter import PluginAdapter
from everturn_channels.telegram import TelegramAdapter, WebhookPlace
from everturn_gateway.clock import SystemClock

BACKLOG: Final = 5
ODD: Final = {"message": {"message_id": "odd", "chat": 5}}


class TestPolling(ChannelContract):
    """Telegram, asked for updates."""

    chat_id = str(ANN)
    other_chat_id = "1002"
    backlog_max_messages = BACKLOG
    api: TelegramApi

    @asynccontextmanager
    async def open_platform(self) -> AsyncGenerator[None]:
        """Run a Bot API."""
        async with open_telegram_api() as self.api:
            for chat in (self.chat_id, self.other_chat_id):
                self.api.chat(int(chat))
            yield

    def make_channel(self) -> TelegramAdapter:
        """Return the bot."""
        return TelegramAdapter(
            name="telegram",
            token=TOKEN,
            clock=QuickClock(),
            api_base=self.api.url,
            backlog_max_messages=BACKLOG,
        )

    async def until_ready(self, handler: RecordingHandler) -> None:
        """Wait until it asks: what was written before its first start is not read."""
        await handler.until(lambda: handler.account and handler.cursors)
        await self.api.until(lambda: self.api.has_poll)

    async def write(self, text: str, chat_id: str) -> None:
        """Let somebody write to the bot."""
        self.api.say(text, chat=int(chat_id))

    async def write_unreadable(self) -> None:
        """Send an update that is none."""
        self.api.push(ODD)

    async def interrupt(self) -> None:
        """Answer as a gateway whose server is away."""
        self.api.fail("getUpdates", 502, "Bad Gateway", times=2)
        self.api.cut("getUpdates")

    async def unconfirmed(self, handler: RecordingHandler) -> int:
        """Return how many updates Telegram holds."""
        del handler
        return len(self.api.updates)

    async def shown(self) -> Sequence[str]:
        """Return what the bot sent."""
        return [str(call.params["text"]) for call in self.api.sent()]

    def text_of(self, payload: str) -> str:
        """Return the text."""
        return str(json.loads(payload)["text"])


class TestWebhook(TestPolling):
    """Telegram, which calls us: it brings again what was not answered with 200."""

    tasks: anyio.abc.TaskGroup
    backlog_max_messages = 0

    @asynccontextmanager
    async def open_platform(self) -> AsyncGenerator[None]:
        """Run a Bot API that delivers the first update of each chat, until it is taken."""
        async with super().open_platform(), anyio.create_task_group() as self.tasks:
            self.tasks.start_soon(self._deliver)
            yield
            self.tasks.cancel_scope.cancel()

    def make_channel(self) -> TelegramAdapter:
        """Return the bot."""
        self.bot = TelegramAdapter(
            name="telegram",
            token=TOKEN,
            clock=QuickClock(),
            api_base=self.api.url,
            webhook=WebhookPlace(url="https://bot.example/hook", secret="s3cret"),  # noqa: S106 - of the double
        )
        return self.bot

    async def until_ready(self, handler: RecordingHandler) -> None:
        """Wait until the webhook is set."""
        await handler.until_connected()
        await self.api.until(lambda: self.api.webhook.get("url"))

    async def interrupt(self) -> None:
        """Let Telegram be away when it is asked whether it reaches us."""
        self.api.cut("getWebhookInfo", times=2)

    async def _deliver(self) -> None:
        busy: set[int] = set()

        async def deliver(update: dict[str, object]) -> None:
            number = int(str(update["update_id"]))
            if await self.bot.take_webhook("s3cret", json.dumps(update).encode()) == 200:
                self.api.updates = [u for u in self.api.updates if u["update_id"] != number]
            busy.discard(number)

        while True:
            await anyio.sleep(0.005)
            for update in self.api.updates if self.api.webhook.get("url") else []:
                if update["update_id"] not in busy:
                    busy.add(update["update_id"])
                    self.tasks.start_soon(deliver, update)


class TestDiscord(ChannelContract):
    """Discord: cursors and histories."""

    backlog_max_messages = BACKLOG
    api: DiscordApi

    @pytest.fixture(autouse=True)
    def _no_pauses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(client, "IDENTIFY_PAUSE_S", (0.0, 0.0))
        monkeypatch.setattr(client, "GUILD_READY_S", 0.02)
        monkeypatch.setattr(client, "CONNECT_PAUSE_S", (0.01, 0.01))

    @asynccontextmanager
    async def open_platform(self) -> AsyncGenerator[None]:
        """Run a Discord with two channels."""
        async with open_discord_api() as self.api:
            self.chat_id = self.api.world.general
            self.other_chat_id = self.api.world.add_channel("other")
            self.ann = self.api.world.add_user("ann")
            yield

    def make_channel(self) -> DiscordAdapter:
        """Return the bot."""
        return DiscordAdapter(
            name="discord",
            token=DISCORD_TOKEN,
            clock=QuickClock(self.api.world.now),
            servers=DiscordServers(api_base=self.api.base, gateway_url=self.api.gateway),
            backlog=BacklogLimits(max_messages=BACKLOG, max_age_s=86_400),
        )

    async def until_ready(self, handler: RecordingHandler) -> None:
        """Wait until it knows where the channels stand."""
        await handler.until(lambda: handler.account and handler.cursor(self.other_chat_id))

    async def write(self, text: str, chat_id: str) -> None:
        """Write in a channel."""
        await self.api.says(text, author=self.ann, channel=chat_id)

    async def write_unreadable(self) -> None:
        """Write as nobody."""
        message = self.api.world.add_message(self.ann, self.chat_id, "odd")
        message["author"] = {"id": "odd"}
        await self.api.emit("MESSAGE_CREATE", message)

    async def interrupt(self) -> None:
        """Cut the connection, and forget the session."""
        await self.api.invalidate()

    async def unconfirmed(self, handler: RecordingHandler) -> int:
        """Return how many messages stand behind the cursor."""
        cursor = int(handler.cursor(self.chat_id))
        return sum(int(number) > cursor for number in self.api.world.messages[self.chat_id])

    async def shown(self) -> Sequence[str]:
        """Return what the bot sent."""
        return [str(message["content"]) for message in self.api.said()]

    def text_of(self, payload: str) -> str:
        """Return the text."""
        return str(json.loads(payload)["content"])


PROGRAM: Final = """
import pathlib, queue, threading, time

def listen(lines):
    for line in sys.stdin:
        lines.put(json.loads(line))
    os._exit(0)

lines, sent, last, held = queue.Queue(), {}, 0, 0
connect()
threading.Thread(target=listen, args=(lines,), daemon=True).start()
while True:
    if os.path.exists("die"):
        os.unlink("die")
        os._exit(1)
    if os.path.exists("odd"):
        os.unlink("odd")
        say(type="message", id=10_000, text="from nobody")
    for path in sorted(pathlib.Path("in").iterdir()):
        if path not in sent.values() and time.monotonic() >= held:
            last += 1
            sent[last] = path
            say(type="message", id=last, message_id=path.name, text=path.read_text(),
                chat={"id": path.name.partition(".")[2]}, sender={"id": "ann"})
    try:
        said = lines.get(timeout=0.01)
    except queue.Empty:
        continue
    if said["type"] == "taken":
        sent.pop(said["id"]).unlink()
    elif said["type"] == "not_taken":
        del sent[said["id"]]
        held = time.monotonic() + said["retry_after_s"]
    elif said["type"] == "send":
        with open("out", "a") as out:
            print(said["text"], file=out)
        done(said, message_id="1")
"""
"A folder of letters, `in/NUMBER.CHAT`: one that was taken is removed."


class TestProgram(ChannelContract):
    """A program of somebody's own, which brings again what was not taken."""

    folder: Path

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder, self.letters = tmp_path, 0
        (tmp_path / "in").mkdir()
        (tmp_path / "out").touch()
        self.channels = [write_plugin(tmp_path, PROGRAM, clock=SystemClock()) for _ in range(2)]

    def make_channel(self) -> PluginAdapter:
        """Return the program."""
        return self.channels.pop()

    async def write(self, text: str, chat_id: str) -> None:
        """Leave a letter."""
        self.letters += 1
        draft = anyio.Path(self.folder / "draft")
        await draft.write_text(text)
        await draft.rename(self.folder / "in" / f"{self.letters:06}.{chat_id}")

    async def write_unreadable(self) -> None:
        """Let the program say what is no event."""
        await anyio.Path(self.folder / "odd").touch()

    async def interrupt(self) -> None:
        """Let the program die."""
        await anyio.Path(self.folder / "die").touch()

    async def unconfirmed(self, handler: RecordingHandler) -> int:
        """Return how many letters lie there."""
        del handler
        return len([path async for path in anyio.Path(self.folder / "in").iterdir()])

    async def shown(self) -> Sequence[str]:
        """Return what the bot sent."""
        return (await anyio.Path(self.folder / "out").read_text()).splitlines()

    def text_of(self, payload: str) -> str:
        """Return the text."""
        return payload.partition(":")[2]
