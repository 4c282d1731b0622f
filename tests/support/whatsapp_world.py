"""WhatsApp as the published contract sees it, and a number that can be started again and again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from support.inbox import QuickClock
from support.whatsapp_api import (
    ANN,
    APP_SECRET,
    BOB,
    NUMBER_ID,
    TOKEN,
    VERIFY_TOKEN,
    WhatsAppApi,
    open_whatsapp_api,
)

from everturn.testing import RecordingHandler
from everturn.testing._channel_inbound import PretendedPlatform, serve_on
from everturn_channels.adapter import Outbound
from everturn_channels.whatsapp import WhatsAppAccount, WhatsAppAdapter
from everturn_channels.whatsapp.markup import text_of
from everturn_gateway.clock import SystemClock


def make_bot(api: WhatsAppApi, **settings: Any) -> WhatsAppAdapter:
    """Return a bot that does not run, to which Meta delivers from now on."""
    standard: dict[str, Any] = {
        "phone_number_id": NUMBER_ID,
        "token": TOKEN,
        "app_secret": APP_SECRET,
        "verify_token": VERIFY_TOKEN,
        "api_base": f"{api.url}/v25.0",
    }
    bot = WhatsAppAdapter(
        name="whatsapp",
        account=WhatsAppAccount(**(standard | settings)),
        clock=QuickClock(SystemClock().now()),
    )
    api.deliver = partial(deliver_to, bot)
    return bot


async def deliver_to(bot: WhatsAppAdapter, headers: Mapping[str, str], body: bytes) -> int:
    """Deliver to a bot as its gateway does; return the status."""
    return (await bot.take_delivery(headers, body)).status


class WhatsAppWorld:
    """A number, and who writes to it."""

    def __init__(self, api: WhatsAppApi, settings: dict[str, Any]) -> None:
        self.api, self.settings = api, settings
        self.cursors: dict[str, str] = {}
        "What the last bot left."
        self.bot = make_bot(api, **settings)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[RecordingHandler]:
        """Run the bot while the block runs, from where the last one ended."""
        self.bot = make_bot(self.api, **self.settings)
        handler = RecordingHandler(cursors=self.cursors)
        async with serve_on(self.bot, handler, RecordingHandler.until_connected):
            yield handler
            self.cursors = dict(handler.cursors)

    async def say(self, text: str, chat: str = ANN, **more: Any) -> str:
        """Let the bot say something in one message; return its id."""
        (payload,) = self.bot.render(text)
        return await self.bot.send(Outbound(chat_id=chat, payload=payload, **more))


@asynccontextmanager
async def open_whatsapp_world(**settings: Any) -> AsyncGenerator[WhatsAppWorld]:
    """Run a number while the block runs."""
    async with open_whatsapp_api() as api:
        yield WhatsAppWorld(api, settings)


class WhatsAppPlatform(PretendedPlatform):
    """A bot, and two people who wrote to it today."""

    chat_id, other_chat_id = ANN, BOB
    api: WhatsAppApi

    @asynccontextmanager
    async def open_platform(self) -> AsyncGenerator[None]:
        """Run the Cloud API."""
        async with open_whatsapp_api() as self.api:
            for who in (ANN, BOB):
                self.api.message({"type": "text"}, who)
            yield

    def make_channel(self) -> WhatsAppAdapter:
        """Return the bot."""
        return make_bot(self.api)

    async def write(self, text: str, chat_id: str) -> None:
        """Let somebody write."""
        await self.api.say(text, chat_id)

    async def unconfirmed(self, handler: RecordingHandler) -> int:
        """Return how many messages were not answered with 200."""
        del handler
        return self.api.unconfirmed(self.chat_id)

    async def write_unreadable(self) -> None:
        """Let something come that has no time."""
        await self.api.write({"type": "text", "timestamp": "soon"}, self.chat_id)

    async def shown(self) -> Sequence[str]:
        """Return what ann sees of the bot."""
        return self.api.shown(self.chat_id)

    async def interrupt(self) -> None:
        """Let nothing be delivered at first: Meta tries again."""
        deliver, self.api.deliver = self.api.deliver, None
        await self.api.say("meanwhile, unheard", BOB)
        self.api.deliver = deliver

    async def lose_answer(self) -> None:
        """Take a message, and cut the connection."""
        self.api.cut_after_message = True

    async def slow_down(self, silence_s: float) -> None:
        """Ask for silence."""
        del silence_s
        self.api.refusals.append((130429, 429))

    async def expel(self) -> None:
        """Let ann block the number."""
        self.api.gone.add(self.chat_id)

    async def revoke(self) -> None:
        """Take the token back."""
        self.api.revoked = True

    async def change(self, message_id: str, text: str) -> None:
        """Let ann change a message, which Meta tells of with numbers of the app."""
        message = {"type": "text", "text": {"body": text}}
        edit = {"original_message_id": message_id, "message": message}
        await self.api.write({"type": "edit", "edit": edit}, self.chat_id)

    async def remove(self, message_id: str) -> None:
        """Let ann delete a message, of which the same holds."""
        revoke = {"original_message_id": message_id}
        await self.api.write({"type": "revoke", "revoke": revoke}, self.chat_id)

    async def react(self, message_id: str, emoji: str) -> None:
        """Let ann react to a message."""
        reaction = {"message_id": message_id, "emoji": emoji}
        await self.api.write({"type": "reaction", "reaction": reaction}, self.chat_id)

    async def write_file(self, name: str, data: bytes, chat_id: str) -> None:
        """Let somebody send a file."""
        await self.api.share("document", data, chat_id, filename=name)

    async def files(self) -> Sequence[bytes]:
        """Return the files that ann got."""
        return self.api.sent_files()

    def text_of(self, payload: str) -> str:
        """Return the text."""
        return text_of(payload)
