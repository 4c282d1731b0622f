"""Matrix as the published contract sees it, on whichever homeserver."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import pytest
from support.inbox import QuickClock
from support.matrix_people import Person

from everturn.testing import ChannelContract, RecordingHandler
from everturn_channels.ingestion.history import BacklogLimits
from everturn_channels.matrix import MatrixAccount, MatrixAdapter
from everturn_gateway.clock import SystemClock

BACKLOG: Final = 5


class MatrixContract(ChannelContract):
    """A bot and ann in two rooms."""

    backlog_max_messages = BACKLOG
    is_encrypted = False
    url: str
    bot: Person
    ann: Person
    folder: Path
    limits = count(100)

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    async def users(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Return the ids and tokens of a bot and of a person that are new."""
        raise NotImplementedError

    def open_homeserver(self) -> AbstractAsyncContextManager[None]:
        """Run a homeserver, and set its `url`."""
        raise NotImplementedError

    @asynccontextmanager
    async def open_platform(self) -> AsyncGenerator[None]:
        """Run a homeserver on which ann and the bot share two rooms."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.open_homeserver())
            session = await stack.enter_async_context(aiohttp.ClientSession())
            bot, ann = await self.users()
            self.bot, self.ann = (Person(session, self.url, *each) for each in (bot, ann))
            if self.is_encrypted:
                await stack.enter_async_context(self.ann.encrypting(self.folder / "ann"))
            self.chat_id, self.other_chat_id = [await self._room() for _ in range(2)]
            yield

    async def _room(self) -> str:
        room_id = await self.ann.create_room(self.bot.user, is_encrypted=self.is_encrypted)
        await self.bot.join(room_id)
        return room_id

    def make_channel(self) -> MatrixAdapter:
        """Return the bot."""
        return MatrixAdapter(
            name="matrix",
            account=MatrixAccount(
                homeserver=self.url,
                access_token=self.bot.token,
                keys=self.folder / "bot" if self.is_encrypted else None,
            ),
            clock=QuickClock(SystemClock().now()),
            backlog=BacklogLimits(max_messages=BACKLOG, max_age_s=1e9),
        )

    async def until_ready(self, handler: RecordingHandler) -> None:
        """Wait until it knows where the rooms stand."""
        await handler.until(lambda: handler.account and handler.cursor("sync"))

    async def write(self, text: str, chat_id: str) -> None:
        """Let ann write."""
        await self.ann.write(chat_id, text)

    async def unconfirmed(self, handler: RecordingHandler) -> int:
        """Return how many of ann's messages come after the cursor."""
        # Synapse gives the same question the same answer for two minutes.
        chosen = {"room": {"timeline": {"limit": next(self.limits)}}}
        query = {"since": handler.cursor("sync"), "timeout": "0", "filter": json.dumps(chosen)}
        found = await self.bot.ask("GET", "/sync", query=query)
        room: dict[str, Any] = found.get("rooms", {}).get("join", {}).get(self.chat_id, {})
        events = room.get("timeline", {}).get("events", ())
        return sum(each["sender"] == self.ann.user and "state_key" not in each for each in events)

    async def shown(self) -> Sequence[str]:
        """Return what ann sees of the bot, each as it was last changed."""
        found: dict[str, str] = {}
        for event in await self.ann.events(self.chat_id):
            content = event["content"]
            if event["type"] != "m.room.message" or event["sender"] != self.bot.user:
                continue
            changed = content.get("m.relates_to", {}).get("event_id", "")
            now = content.get("m.new_content", content)
            found[changed if changed in found else event["event_id"]] = str(now["body"])
        return list(found.values())

    async def expel(self) -> None:
        """Let ann send the bot away."""
        path = f"/rooms/{quote(self.chat_id)}/kick"
        await self.ann.ask("POST", path, {"user_id": self.bot.user})

    async def revoke(self) -> None:
        """End the bot's login."""
        await self.bot.ask("POST", "/logout", {})

    async def change(self, message_id: str, text: str) -> None:
        """Let ann change a message."""
        relation = {"rel_type": "m.replace", "event_id": message_id}
        now = {"msgtype": "m.text", "body": text}
        more = {"m.new_content": now, "m.relates_to": relation}
        await self.ann.write(self.chat_id, f"* {text}", **more)

    async def remove(self, message_id: str) -> None:
        """Let ann take a message back."""
        await self.ann.redact(self.chat_id, message_id)

    async def react(self, message_id: str, emoji: str) -> None:
        """Let ann react to a message."""
        relation = {"rel_type": "m.annotation", "event_id": message_id, "key": emoji}
        await self.ann.send(self.chat_id, "m.reaction", {"m.relates_to": relation})

    async def write_file(self, name: str, data: bytes, chat_id: str) -> None:
        """Let ann send a file."""
        content = await self.ann.uploaded(data)
        await self.ann.write(chat_id, name, msgtype="m.file", filename=name, **content)

    async def files(self) -> Sequence[bytes]:
        """Return the files that ann sees of the bot."""
        said = await self.ann.messages(self.chat_id, self.bot.user)
        files = [content for content in said if content["msgtype"] == "m.file"]
        return [await self.ann.downloaded(content) for content in files]

    def text_of(self, payload: str) -> str:
        """Return the text."""
        return str(json.loads(payload)["body"])
