"""The channels that come with Everturn keep the published contract."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
import anyio.abc
import pytest
from anyio import to_thread
from support.discord_api import TOKEN as DISCORD_TOKEN
from support.discord_api import DiscordApi, open_discord_api
from support.inbox import QuickClock
from support.plugins import write_plugin
from support.suites import hold_to_suite
from support.telegram_api import ANN, STARTED_S, TOKEN, TelegramApi, open_telegram_api

from everturn.testing import ChannelContract, RecordingHandler
from everturn_channels.discord import DiscordAdapter, DiscordServers, client
from everturn_channels.ingestion.history import BacklogLimits
from everturn_channels.plugin.adapter import PluginAdapter
from everturn_channels.telegram import TelegramAdapter, WebhookPlace
from everturn_gateway.clock import SystemClock

BACKLOG: Final = 5
ODD: Final = {"message": {"message_id": "odd", "chat": 5}}


class Polling(ChannelContract):
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
        return [str(call.result["text"]) for call in self.api.sent()]

    async def lose_answer(self) -> None:
        """Send, and cut the connection."""
        self.api.cut("sendMessage")

    async def slow_down(self, silence_s: float) -> None:
        """Refuse as for too many messages."""
        self.api.fail("sendMessage", 429, "Too Many Requests", retry_after=int(silence_s))

    async def expel(self) -> None:
        """Refuse as where the bot was blocked."""
        self.api.fail("sendMessage", 403, "Forbidden: bot was blocked by the user")

    async def revoke(self) -> None:
        """Know the token no more."""
        self.api.token = "9:another"

    async def change(self, message_id: str, text: str) -> None:
        """Push an edit."""
        chat = int(self.chat_id)
        message = self.api.message(text, chat=chat, edit_date=STARTED_S + 60)
        self.api.push({"edited_message": message | {"message_id": int(message_id)}})

    async def react(self, message_id: str, emoji: str) -> None:
        """Put a reaction in the place of another one."""
        change: dict[str, object] = {
            "chat": self.api.chat(int(self.chat_id)),
            "message_id": int(message_id),
            "user": {"id": ANN, "is_bot": False, "first_name": "Ann"},
            "date": STARTED_S + 60,
            "old_reaction": [{"type": "emoji", "emoji": "👎"}],
        }
        for new in ([{"type": "emoji", "emoji": emoji}], []):
            self.api.push({"message_reaction": change | {"new_reaction": new}})

    async def write_file(self, name: str, data: bytes, chat_id: str) -> None:
        """Send a document."""
        self.api.files[name] = data
        document = {"file_id": name, "file_unique_id": name, "file_name": name}
        self.api.say("", chat=int(chat_id), document=document | {"file_size": len(data)})

    async def files(self) -> Sequence[bytes]:
        """Return what was uploaded."""
        return [data for name, data in self.api.files.items() if name.startswith("sent/")]

    def text_of(self, payload: str) -> str:
        """Return the text."""
        return str(json.loads(payload)["text"])


class Webhook(Polling):
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


class Discord(ChannelContract):
    """Discord: cursors and histories."""

    backlog_max_messages = BACKLOG
    keeps_reactions = False
    api: DiscordApi

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

    async def lose_answer(self) -> None:
        """Take a message, and cut the connection."""
        self.api.fail("POST", "/messages$", 0, happens=True)

    async def slow_down(self, silence_s: float) -> None:
        """Refuse as for too many messages."""
        body: dict[str, object] = {"retry_after": silence_s, "global": True, "message": "slow"}
        headers = {"Retry-After": str(silence_s), "Via": "1.1 google"}
        self.api.fail("POST", "/messages$", 429, body=body, headers=headers)

    async def expel(self) -> None:
        """Refuse as where the bot cannot see the channel any more."""
        self.api.refuse(self.chat_id, 403, 50001, "Missing Access")

    async def revoke(self) -> None:
        """Know the token no more."""
        self.api.fail("GET", "/users/@me$", 401, body={"message": "401: Unauthorized"})

    async def remove(self, message_id: str) -> None:
        """Delete a message."""
        await self.api.deletes(self.api.world.messages[self.chat_id][message_id])

    async def change(self, message_id: str, text: str) -> None:
        """Edit a message."""
        message = self.api.world.messages[self.chat_id][message_id]
        await self.api.edits(message, text, at="2026-11-22T12:00:01+00:00")

    async def react(self, message_id: str, emoji: str) -> None:
        """Put a reaction on a message, as the bot does, too, and on one of somebody's."""
        bot = self.api.world.bot
        for who, author in ((bot, bot), (self.ann, self.ann), (self.ann, bot)):
            await self.api.reacts(self.chat_id, message_id, emoji, who=who, author=author)

    async def files(self) -> Sequence[bytes]:
        """Return what was attached."""
        return [data for call in self.api.calls for _, data in call.files]

    async def write_file(self, name: str, data: bytes, chat_id: str) -> None:
        """Write a message with an attachment."""
        self.api.blobs[name] = data
        cdn = self.api.base.replace("/api/v10", "/cdn")
        attachment = {
            "id": self.api.world.new_id(),
            "filename": name,
            "size": len(data),
            "url": f"{cdn}/{name}",
            "proxy_url": "",
        }
        await self.api.says("", author=self.ann, channel=chat_id, attachments=[attachment])

    def text_of(self, payload: str) -> str:
        """Return the text."""
        return str(json.loads(payload)["content"])


PROGRAM: Final = """
import base64, pathlib, queue, threading, time

def listen(lines):
    for line in sys.stdin:
        lines.put(json.loads(line))
    os._exit(0)

lines, sent, last, held = queue.Queue(), {}, 0, 0
parts = b""
if os.path.exists("revoked"):
    hello()
    say(type="failed", kind="setup", why="the token was taken back")
    stay()
connect(edits=True, files_max_bytes=1_000_000)
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
            number, chat, name = (path.name + "..").split(".")[0:3]
            where = {"id": last, "chat": {"id": chat}, "sender": {"id": "ann"}}
            if name == "gone":
                say(type="deleted", message_id=path.read_text(), id=last, chat={"id": chat})
            elif name == "react":
                on, emoji = path.read_text().split()
                say(type="reaction", message_id=on, emoji=emoji, **where)
            elif name == "edit":
                say(type="edited", message_id=number + "." + chat, text=path.read_text(), **where)
            elif name:
                name = base64.b64decode(name).decode()
                file = {"file": str(path), "file_name": name, "media_type": "application/pdf"}
                say(type="message", message_id=path.name, text="", files=[file], **where)
            else:
                say(type="message", message_id=path.name, text=path.read_text(), **where)
    try:
        said = lines.get(timeout=0.01)
    except queue.Empty:
        continue
    if said["type"] == "taken":
        sent.pop(said["id"]).unlink()
    elif said["type"] == "not_taken":
        del sent[said["id"]]
        held = time.monotonic() + said["retry_after_s"]
    elif said["type"] == "fetch":
        data = pathlib.Path(said["file"]).read_bytes()
        part = data[said["offset"] : said["offset"] + said["max_bytes"]]
        done(said, data=base64.b64encode(part).decode())
    elif said["type"] == "upload":
        parts = (parts if said["offset"] else b"") + base64.b64decode(said["data"])
    elif said["type"] == "edit":
        pathlib.Path("out", said["message_id"]).write_text(said["text"])
        done(said)
    elif said["type"] == "send":
        refusal = pathlib.Path("refusal")
        answer = json.loads(refusal.read_text()) if refusal.exists() else {"outcome": "done"}
        refusal.unlink(missing_ok=True)
        if answer["outcome"] in ("done", "unknown"):
            name = str(len(os.listdir("out")))
            target = pathlib.Path("files" if said["file"] else "out", name)
            target.write_bytes(parts if said["file"] else said["text"].encode())
            answer["message_id"] = name
        say(type="result", request=said["request"], **answer)
"""
"A folder of letters, `in/NUMBER.CHAT`: one that was taken is removed."


class Program(ChannelContract):
    """A program of somebody's own, which brings again what was not taken."""

    folder: Path
    letters = 0

    @asynccontextmanager
    async def open_platform(self) -> AsyncGenerator[None]:
        """Make its folders, and what starts it twice."""
        await to_thread.run_sync(self._make)
        yield

    def _make(self) -> None:
        for name in ("in", "out", "files"):
            (self.folder / name).mkdir()
        self.channels = [write_plugin(self.folder, PROGRAM, clock=SystemClock()) for _ in range(2)]

    def make_channel(self) -> PluginAdapter:
        """Return the program."""
        return self.channels.pop()

    async def write(self, text: str, chat_id: str) -> None:
        """Leave a letter."""
        await self._leave(text.encode(), chat_id)

    async def _leave(self, data: bytes, *ends: str) -> None:
        self.letters += 1
        draft = anyio.Path(self.folder / "draft")
        await draft.write_bytes(data)
        await draft.rename(self.folder / "in" / ".".join((f"{self.letters:06}", *ends)))

    async def change(self, message_id: str, text: str) -> None:
        """Leave another letter of the same name."""
        self.letters = int(message_id.partition(".")[0]) - 1
        await self._leave(text.encode(), self.chat_id, "edit")

    async def remove(self, message_id: str) -> None:
        """Leave a letter that says which one is gone."""
        await self._leave(message_id.encode(), self.chat_id, "gone")

    async def react(self, message_id: str, emoji: str) -> None:
        """Leave a letter that says which reaction stands on what."""
        await self._leave(f"{message_id} {emoji}".encode(), self.chat_id, "react")

    async def write_file(self, name: str, data: bytes, chat_id: str) -> None:
        """Leave a file."""
        await self._leave(data, chat_id, base64.b64encode(name.encode()).decode())

    async def files(self) -> Sequence[bytes]:
        """Return the files that the bot sent."""
        return [
            await path.read_bytes() async for path in anyio.Path(self.folder / "files").iterdir()
        ]

    async def _refuse(self, **result: object) -> None:
        await anyio.Path(self.folder / "refusal").write_text(json.dumps(result))

    async def lose_answer(self) -> None:
        """Let the program not know whether it was sent."""
        await self._refuse(outcome="unknown", why="the connection broke")

    async def slow_down(self, silence_s: float) -> None:
        """Let the program say that it was too fast."""
        await self._refuse(outcome="not_sent", why="too fast", retry_after_s=silence_s)

    async def expel(self) -> None:
        """Let the program say that the chat is gone."""
        await self._refuse(outcome="refused", why="removed", chat_gone=True)

    async def revoke(self) -> None:
        """Let the program say that its token was taken back."""
        await anyio.Path(self.folder / "revoked").touch()

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
        found = [path async for path in anyio.Path(self.folder / "out").iterdir()]
        found.sort(key=lambda path: int(path.name))
        return [await path.read_text() for path in found]

    def text_of(self, payload: str) -> str:
        """Return the text."""
        return payload.partition(":")[2]


DELETION: Final = "test_a_deletion_of_what_somebody_wrote_names_the_message"
FILES_AS_ONE: Final = "test_files_of_one_message_are_one_message"


@pytest.mark.parametrize(
    ("channel", "left_out"),
    [
        pytest.param(Polling, {DELETION}, id="Telegram, asked"),
        pytest.param(Webhook, {DELETION}, id="Telegram, calling"),
        pytest.param(Discord, set(), id="Discord"),
        pytest.param(Program, {FILES_AS_ONE}, id="a program"),
    ],
)
def test_a_channel_keeps_the_contract(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    channel: type[ChannelContract],
    left_out: set[str],
) -> None:
    """Each promise is tried, but for those of what its platform cannot do."""
    monkeypatch.setattr(client, "IDENTIFY_PAUSE_S", (0.0, 0.0))
    monkeypatch.setattr(client, "GUILD_READY_S", 0.02)
    monkeypatch.setattr(client, "CONNECT_PAUSE_S", (0.01, 0.01))

    hold_to_suite(channel, tmp_path, left_out=left_out)
