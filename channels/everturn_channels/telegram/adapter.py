"""Telegram as a channel: one bot, and everything that it does."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final

import anyio
from aiogram.exceptions import TelegramAPIError
from aiogram.methods import GetMe, GetMyCommands, GetWebhookInfo, SetMyCommands
from aiogram.types import BotCommand

from everturn_actors.ports import Clock
from everturn_actors.supervisor import attempt
from everturn_channels.adapter import Adapter, Capabilities, InboundHandler, Outbound
from everturn_channels.command_registry import CommandSpec, plain_name
from everturn_channels.errors import (
    SendError,
    SetupError,
)
from everturn_channels.languages import LANGUAGES, ready, said, speaking
from everturn_channels.menu_sync import sync_menu
from everturn_channels.telegram import markup
from everturn_channels.telegram.checking import look
from everturn_channels.telegram.connection import Line, explained, open_line
from everturn_channels.telegram.mapping import Reading
from everturn_channels.telegram.polling import Poller
from everturn_channels.telegram.reach import LineReach
from everturn_channels.telegram.sender import FILES_AT_ONCE, FILES_MAX_BYTES
from everturn_channels.telegram.updates import Served, UpdateReader, begin
from everturn_channels.telegram.webhook import UNAVAILABLE, Hook, WebhookPlace, faults

logger = logging.getLogger(__name__)

_API_BASE: Final = "https://api.telegram.org"
_TYPING_S: Final = 5.0  # https://core.telegram.org/bots/api#sendchataction
_PREVIEW_S: Final = 1.5  # "avoid sending more than one message per second" in a chat: bots/faq
_IDLE_POLLING_S: Final = 90.0  # a poll ends after 25 s at the latest
_IDLE_WEBHOOK_S: Final = 180.0  # every 60 s Telegram is asked whether it reaches us
_DESCRIPTION_CHARACTERS: Final = 256  # https://core.telegram.org/bots/api#botcommand
_BEGUN: Final = "begun"  # the cursor that says that the channel ran before


class TelegramAdapter(Adapter):
    """One bot on Telegram. See `Adapter`."""

    def __init__(
        self,
        *,
        name: str,
        token: str,
        clock: Clock,
        api_base: str = _API_BASE,
        webhook: WebhookPlace | None = None,
        proxy: str = "",
        backlog_max_messages: int = 100,
    ) -> None:
        self.name, self._token, self._clock = name, token, clock
        self._api_base, self._proxy = api_base, proxy
        self._webhook = webhook
        self._backlog_max_messages = backlog_max_messages
        self._where = "channels.telegram" if name == "telegram" else f"channels.telegram ({name})"
        self._reach = LineReach(self._where)
        self._hook: Hook | None = None
        self._has_begun = False

    @property
    def platform(self) -> str:
        """`telegram`."""
        return "telegram"

    @property
    def capabilities(self) -> Capabilities:
        """What Telegram can do."""
        return Capabilities(
            edits=True,
            typing_s=_TYPING_S,
            preview_s=_PREVIEW_S,
            drafts=("dm",),
            buttons=True,
            files_max_bytes=FILES_MAX_BYTES,
            files_at_once=FILES_AT_ONCE,
            reactions=True,
            chunk_units=markup.CHUNK_UNITS,
            idle_s=_IDLE_POLLING_S if self._webhook is None else _IDLE_WEBHOOK_S,
        )

    async def serve(self, handler: InboundHandler) -> None:
        """Receive until cancelled. See `Adapter.serve`."""
        if faults := self._faults():
            raise SetupError("; ".join(faults))
        async with self._open_line() as line:
            with explained(line, self._where):
                me = await line.ask(GetMe())
            reading = Reading(bot_id=me.id, username=me.username or "", reach=self._reach)
            updates = UpdateReader(handler=handler, reading=reading, clock=self._clock)
            self._reach.line = line
            try:
                handler.connected(f"@{me.username}")
                await self._receive_and_offer(line, handler, updates)
            finally:
                self._reach.line = self._hook = None

    async def stand_by(self) -> None:
        """Send, and receive nothing, until cancelled. See `Adapter.stand_by`."""
        async with self._open_line() as line:
            with explained(line, self._where):
                await line.ask(GetMe())
            self._reach.line = line
            try:
                await anyio.sleep_forever()
            finally:
                self._reach.line = None

    async def check(self) -> Sequence[str]:
        """Look at what may be wrong. See `Adapter.check`."""
        async with self._open_line() as line:
            return await look(
                line,
                where=self._where,
                mode="polling" if self._webhook is None else "webhook",
                url="" if self._webhook is None else self._webhook.url,
                faults=self._faults(),
            )

    def render(self, markdown: str, *, is_plain: bool = False) -> tuple[str, ...]:
        """Return a text as payloads. See `Adapter.render`."""
        return markup.render(markdown, is_plain=is_plain)

    async def send(self, message: Outbound) -> str:
        """Send a message. See `Adapter.send`."""
        sent = await self._reach.sender().send(message)
        self._reach.note_sent(message, sent)
        return sent[0]

    async def edit(self, chat_id: str, topic: str, platform_id: str, payload: str) -> None:
        """Change a message of the bot. See `Adapter.edit`."""
        await self._reach.sender().edit(chat_id, platform_id, payload)

    async def show_draft(self, chat_id: str, topic: str, draft: int, text: str) -> None:
        """Show a draft. See `Adapter.show_draft`."""
        await self._reach.sender().show_draft(chat_id, topic, draft, text)

    async def type(self, chat_id: str, topic: str) -> None:
        """Show the typing indicator once. See `Adapter.type`."""
        await self._reach.sender().type(chat_id, topic)

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """Put a reaction on a message. See `Adapter.react`."""
        await self._reach.sender().react(chat_id, message_id, emoji)

    async def take_webhook(self, secret: str, body: bytes) -> int:
        """Take what Telegram sent to the webhook; return the HTTP status to answer with.

        `secret` is the header `X-Telegram-Bot-Api-Secret-Token`. 200 only when the update is
        durable, 401 for a wrong secret, 400 for what is no update, 503 while it cannot be kept.
        """
        if self._hook is None:
            return UNAVAILABLE
        return await self._hook.take(secret, body)

    # --- inside ---

    async def _receive_and_offer(
        self, line: Line, handler: InboundHandler, updates: UpdateReader
    ) -> None:
        """Receive until cancelled, and keep the bot's menu beside that."""
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            offer = partial(self._offer_commands, line)
            tasks.start_soon(sync_menu, handler, offer)
            failure = await attempt(partial(self._receive, line, handler, updates))
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure  # and not in a group

    async def _receive(self, line: Line, handler: InboundHandler, updates: UpdateReader) -> None:
        offset = 0
        if self._webhook is None or await self._has_much_waiting(line, handler):
            offset = await self._begin(line, handler)
        served = Served(
            line=line, handler=handler, updates=updates, clock=self._clock, where=self._where
        )
        if self._webhook is None:
            await Poller(served, offset=offset).run()
            return
        self._hook = Hook(served, url=self._webhook.url, secret=self._webhook.secret)
        await self._hook.run()

    async def _begin(self, line: Line, handler: InboundHandler) -> int:
        with explained(line, self._where):
            offset = await begin(
                line,
                handler,
                skips_all=handler.is_new and not self._has_begun and not handler.cursor(_BEGUN),
                backlog_max_messages=self._backlog_max_messages,
            )
        self._has_begun = True
        if not handler.cursor(_BEGUN):
            await handler.keep_cursor(_BEGUN, self._clock.now().isoformat())
        return offset

    async def _has_much_waiting(self, line: Line, handler: InboundHandler) -> bool:
        """Tell whether something has to be left out before a webhook is set."""
        if not self._has_begun and not handler.cursor(_BEGUN):
            return True
        with explained(line, self._where):
            info = await line.ask(GetWebhookInfo())
        return info.pending_update_count > self._backlog_max_messages

    async def _offer_commands(self, line: Line, menu: Sequence[CommandSpec]) -> None:
        """Show the menu to everybody in English, and to whoever uses Telegram in another language.

        A language for which Telegram has no menu is shown the one without a language.
        Source: https://core.telegram.org/bots/api#setmycommands, read 2026-11-26.
        """
        try:
            for language in LANGUAGES:
                code = None if language == "en" else language
                with speaking(await ready(language)):
                    wanted = [
                        BotCommand(
                            command=plain_name(each.name),
                            description=said(each.what)[:_DESCRIPTION_CHARACTERS],
                        )
                        for each in menu
                    ]
                if await line.ask(GetMyCommands(language_code=code)) != wanted:
                    await line.ask(SetMyCommands(commands=wanted, language_code=code))
        except (TelegramAPIError, SendError) as error:  # a menu is no reason to stay away
            why = line.refused(error) if isinstance(error, TelegramAPIError) else error
            logger.warning("the bot's menu could not be set", extra={"why": str(why)})

    def _open_line(self) -> AbstractAsyncContextManager[Line]:
        return open_line(
            token=self._token,
            api_base=self._api_base,
            proxy=self._proxy,
            clock=self._clock,
            where=self._where,
        )

    def _faults(self) -> list[str]:
        """Return what is wrong with the settings, as far as that shows here."""
        if self._webhook is None:
            return []
        own_server = self._api_base.rstrip("/") != _API_BASE
        return faults(self._webhook, self._where, takes_http=own_server)
