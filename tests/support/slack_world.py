"""Slack as the published contract sees it, and a bot that can be started again and again."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from support.inbox import QuickClock
from support.slack_api import ANN, APP_TOKEN, BOT, BOT_TOKEN, SlackApi
from support.slack_methods import open_slack_api

from everturn.testing import RecordingHandler
from everturn.testing._channel_inbound import PretendedPlatform, serve_on
from everturn_channels.adapter import Outbound
from everturn_channels.ingestion.history import BacklogLimits
from everturn_channels.slack import SlackAccount, SlackAdapter
from everturn_channels.slack.formats.emojis import name_of
from everturn_channels.slack.formats.markup import payload_of
from everturn_gateway.clock import SystemClock

BACKLOG: Final = 5
DM, OTHER_DM, ROOM = "DANN00001", "DBOB00001", "CROOM0001"


def make_bot(api: SlackApi, backlog: int = 100, **settings: Any) -> SlackAdapter:
    """Return a bot that does not run."""
    standard: dict[str, Any] = {"bot_token": BOT_TOKEN, "app_token": APP_TOKEN}
    return SlackAdapter(
        name="slack",
        account=SlackAccount(api_base=f"{api.url}/api", **(standard | settings)),
        clock=QuickClock(SystemClock().now()),
        backlog=BacklogLimits(max_messages=backlog, max_age_s=1e9),
    )


class SlackWorld:
    """A workspace, and a bot in it."""

    def __init__(self, api: SlackApi, settings: dict[str, Any]) -> None:
        self.api, self.settings = api, settings
        self.cursors: dict[str, str] = {}
        "What the last bot left."
        self.bot = make_bot(api, **settings)
        self.handler = RecordingHandler()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[RecordingHandler]:
        """Run the bot while the block runs, from where the last one ended."""
        self.bot = make_bot(self.api, **self.settings)
        self.handler = RecordingHandler(cursors=self.cursors)
        async with serve_on(self.bot, self.handler, RecordingHandler.until_connected):
            yield self.handler
            self.cursors = dict(self.handler.cursors)

    async def say(self, chat: str, markdown: str, **more: object) -> str:
        """Let the bot say something in one message; return its id."""
        (payload,) = self.bot.render(markdown)
        return await self.bot.send(Outbound(chat_id=chat, payload=payload, **more))  # type: ignore[arg-type]


@asynccontextmanager
async def open_slack_world(**settings: Any) -> AsyncGenerator[SlackWorld]:
    """Run a workspace with two people and a channel while the block runs."""
    async with open_slack_api() as api:
        api.add_channel(DM, ANN, name="")
        api.add_channel(ROOM, ANN)
        yield SlackWorld(api, settings)


async def deliver_to(bot: SlackAdapter, headers: Mapping[str, str], body: bytes) -> int:
    """Deliver to a bot as its gateway does; return the status."""
    return (await bot.take_delivery(headers, body)).status


class SlackPlatform(PretendedPlatform):
    """A bot, and two chats with it."""

    backlog_max_messages = BACKLOG
    chat_id, other_chat_id = DM, OTHER_DM
    api: SlackApi

    @asynccontextmanager
    async def open_platform(self) -> AsyncGenerator[None]:
        """Run a workspace."""
        async with open_slack_api() as self.api:
            for channel in (DM, OTHER_DM):
                self.api.add_channel(channel, ANN)
            yield

    def make_channel(self) -> SlackAdapter:
        """Return the bot."""
        return make_bot(self.api, BACKLOG)

    async def write(self, text: str, chat_id: str) -> None:
        """Let ann write."""
        await self.api.say(chat_id, text)

    async def unconfirmed(self, handler: RecordingHandler) -> int:
        """Return how many messages were not acknowledged."""
        del handler
        return self.api.unacknowledged(self.chat_id)

    async def write_unreadable(self) -> None:
        """Let something come that has no id."""
        await self.api._deliver_event({"type": "message", "channel": self.chat_id, "user": ANN})

    async def shown(self) -> Sequence[str]:
        """Return what ann sees of the bot."""
        return self.api.shown(self.chat_id)

    async def interrupt(self) -> None:
        """Close the socket."""
        await self.api.cut()

    async def lose_answer(self) -> None:
        """Show a message, and cut the connection."""
        self.api.cut_after = "chat.postMessage"

    async def slow_down(self, silence_s: float) -> None:
        """Ask for silence."""
        self.api.limits["chat.postMessage"] = deque([int(silence_s)])

    async def expel(self) -> None:
        """Remove the bot."""
        del self.api.channels[self.chat_id]

    async def revoke(self) -> None:
        """Take the tokens back."""
        self.api.revoked = True

    async def change(self, message_id: str, text: str) -> None:
        """Let ann change a message."""
        await self.api.change(self.chat_id, message_id, text)

    async def remove(self, message_id: str) -> None:
        """Let ann delete a message."""
        await self.api.delete(self.chat_id, message_id)

    async def react(self, message_id: str, emoji: str) -> None:
        """Let ann react to a message, as the bot does, too."""
        event: dict[str, Any] = {
            "type": "reaction_added",
            "reaction": name_of(emoji),
            "item_user": BOT,
            "item": {"type": "message", "channel": self.chat_id, "ts": message_id},
            "event_ts": "1780000000.000100",
        }
        for user in (BOT, ANN):
            await self.api._deliver_event(event | {"user": user})

    async def write_file(self, name: str, data: bytes, chat_id: str) -> None:
        """Let ann send a file."""
        await self.api.share(chat_id, name, data)

    async def files(self) -> Sequence[bytes]:
        """Return the files that ann got."""
        return self.api.sent_files(self.chat_id)

    def text_of(self, payload: str) -> str:
        """Return the text."""
        return payload_of(payload).text
