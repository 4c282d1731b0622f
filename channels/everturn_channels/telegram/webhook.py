"""Having Telegram send updates to an address of the gateway, each confirmed once it is durable."""

from __future__ import annotations

import hmac
import logging
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Final, cast

import anyio
from aiogram import types
from aiogram.exceptions import TelegramBadRequest
from aiogram.methods import GetWebhookInfo, SetWebhook

from everturn_actors.ports import Clock
from everturn_channels.adapter import InboundHandler
from everturn_channels.errors import NotNowError, SetupError
from everturn_channels.telegram.connection import Line, explained, read_json
from everturn_channels.telegram.mapping import UPDATES, chat_of
from everturn_channels.telegram.receiver import Receiver

logger = logging.getLogger(__name__)

OK, BAD_REQUEST, UNAUTHORIZED, UNAVAILABLE = 200, 400, 401, 503
"HTTP's own numbers. Telegram sends again what was not answered with one of the 200s."

_LOOK_S: Final = 60.0  # between two looks at whether Telegram reaches us
_CONNECTIONS: Final = 16  # updates that Telegram sends side by side
_CHAT_CONNECTIONS: Final = 4  # of them so many wait for one chat
_SENT_BACK_S: Final = 600.0  # Telegram's pauses between its tries grow to some minutes
_UPDATE_MAX_BYTES: Final = 1024 * 1024  # far more than any update is
_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{1,256}")  # api#setwebhook, secret_token


def faults(url: str, secret: str, where: str, *, takes_http: bool) -> list[str]:
    """Return what is wrong with the settings of a webhook; Telegram's own server takes no http."""
    found: list[str] = []
    if not url.startswith(("https://", "http://") if takes_http else "https://"):
        found.append(f"{where}.webhook.url has to be an https:// address that Telegram can reach")
    if not _SECRET.fullmatch(secret):
        found.append(f"{where}.webhook.secret needs 1 to 256 letters, digits, _ and - (at random)")
    return found


class Hook:
    """One bot's webhook, while it is served."""

    def __init__(
        self,
        *,
        line: Line,
        handler: InboundHandler,
        receiver: Receiver,
        clock: Clock,
        where: str,
        url: str,
        secret: str,
    ) -> None:
        self._line, self._handler, self._receiver, self._clock = line, handler, receiver, clock
        self._where, self._url, self._secret = where, url, secret
        self._turns: dict[int, tuple[anyio.Lock, int]] = {}
        self._sent_back: dict[int, dict[int, datetime]] = {}
        "By chat, the updates that Telegram was told to send again, and how long they are awaited."
        self._pending = 0
        self._last_error: datetime | None = None

    async def run(self) -> None:
        """Set the webhook and look after it until cancelled; it stays set, so nothing is lost.

        Raises:
            SetupError: Telegram does not take the address, or does not know the token.
            ConnectionLostError: Telegram cannot be reached.
        """
        await self._set()
        while True:
            await self._look()
            await self._clock.sleep(_LOOK_S)

    async def take(self, secret: str, body: bytes) -> int:
        """Take an update; return the HTTP status to answer with."""
        if not hmac.compare_digest(secret.encode(), self._secret.encode()):
            return UNAUTHORIZED
        if len(body) > _UPDATE_MAX_BYTES:
            return BAD_REQUEST
        try:
            raw = cast("dict[str, object]", read_json(body))
        except ValueError:
            return BAD_REQUEST
        match raw:
            case {"update_id": int()}:
                pass
            case _:
                return BAD_REQUEST
        self._handler.received()
        update = self._receiver.read(raw)
        if update is None:
            return OK  # sent again it would not be understood either
        return await self._take(update)

    async def _take(self, update: types.Update) -> int:
        """Take an update unless one before it in its chat was sent back and may come again."""
        chat, number = chat_of(update), update.update_id
        if self._turns.get(chat, (None, 0))[1] >= _CHAT_CONNECTIONS:
            return self._send_back(chat, number)  # the other connections are for other chats
        async with self._in_turn(chat):
            now = self._clock.now()
            before = self._sent_back.get(chat, {})
            if any(other < number and now < until for other, until in before.items()):
                return self._send_back(chat, number)
            try:
                await self._receiver.take([update])
            except NotNowError as error:
                logger.info(
                    "a message cannot be taken now and stays with Telegram",
                    extra={"chat": chat, "why": str(error)},
                )
                return self._send_back(chat, number)
            self._forget(chat, number)
        return OK

    def _send_back(self, chat: int, number: int) -> int:
        """Note that an update comes again; those after it in its chat wait for it for a while."""
        until = self._clock.now() + timedelta(seconds=_SENT_BACK_S)
        self._sent_back.setdefault(chat, {})[number] = until
        return UNAVAILABLE

    def _forget(self, chat: int, number: int) -> None:
        """Note that an update was taken, and forget those that did not come again."""
        left = self._sent_back.get(chat, {})
        left.pop(number, None)
        now = self._clock.now()
        left = {other: until for other, until in left.items() if now < until}
        if left:
            self._sent_back[chat] = left
        else:
            self._sent_back.pop(chat, None)

    @asynccontextmanager
    async def _in_turn(self, chat: int) -> AsyncGenerator[None]:
        """Let the updates of one chat through one after the other, in the order they came."""
        lock, waiting = self._turns.get(chat, (anyio.Lock(), 0))
        self._turns[chat] = (lock, waiting + 1)
        try:
            async with lock:
                yield
        finally:
            lock, waiting = self._turns[chat]
            if waiting > 1:
                self._turns[chat] = (lock, waiting - 1)
            else:
                del self._turns[chat]

    async def _set(self) -> None:
        request = SetWebhook(
            url=self._url,
            secret_token=self._secret,
            allowed_updates=list(UPDATES),
            max_connections=_CONNECTIONS,
            drop_pending_updates=False,
        )
        with explained(self._line, self._where):
            try:
                await self._line.ask(request)
            except TelegramBadRequest as error:
                why = str(self._line.refused(error))
                msg = f"Telegram does not take the address of {self._where}.webhook.url: {why}"
                raise SetupError(msg) from None

    async def _look(self) -> None:
        """Ask Telegram whether it reaches us; only then the channel counts as heard from."""
        with explained(self._line, self._where):
            info = await self._line.ask(GetWebhookInfo())
        if info.url != self._url:
            logger.warning("somebody changed the bot's webhook; it is set again")
            await self._set()
            return
        if self._reaches_us(info):
            self._handler.received()
        self._pending, self._last_error = info.pending_update_count, info.last_error_date

    def _reaches_us(self, info: types.WebhookInfo) -> bool:
        """Tell whether nothing waits, or less than before; of failures, leave a line in the log."""
        if info.last_error_date is not None and info.last_error_date != self._last_error:
            logger.warning(
                "Telegram could not deliver to the webhook",
                extra={"why": info.last_error_message, "pending": info.pending_update_count},
            )
        return info.pending_update_count == 0 or info.pending_update_count < self._pending
