"""Having Telegram send updates to an address of the gateway, each confirmed once it is durable."""

from __future__ import annotations

import hmac
import logging
import re
from datetime import datetime
from typing import Final

import anyio
from aiogram import types
from aiogram.exceptions import TelegramBadRequest
from aiogram.methods import GetWebhookInfo, SetWebhook
from msgspec import Struct, field

from everturn_channels.errors import SetupError
from everturn_channels.ingestion.chat_queues import ChatQueues, open_chat_queues
from everturn_channels.telegram.connection import explained, read_json
from everturn_channels.telegram.mapping import UPDATES
from everturn_channels.telegram.updates import Served

logger = logging.getLogger(__name__)

OK, BAD_REQUEST, UNAUTHORIZED, UNAVAILABLE = 200, 400, 401, 503
"HTTP's own numbers. Telegram sends again what was not answered with one of the 200s."

_LOOK_S: Final = 60.0  # between two looks at whether Telegram reaches us
_CONNECTIONS: Final = 16  # updates that Telegram sends side by side
_CHAT_CONNECTIONS: Final = 4  # of them so many wait for one chat
_SENT_BACK_S: Final = 600.0  # Telegram's pauses between its tries grow to some minutes
_UPDATE_MAX_BYTES: Final = 1024 * 1024  # far more than any update is
_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{1,256}")  # api#setwebhook, secret_token


class WebhookPlace(Struct, frozen=True, kw_only=True):
    """Where Telegram delivers, and how it shows that it is Telegram; a bot without one asks."""

    url: str = ""
    secret: str = ""


def faults(place: WebhookPlace, where: str, *, takes_http: bool) -> list[str]:
    """Return what is wrong with the settings of a webhook; Telegram's own server takes no http."""
    found: list[str] = []
    if not place.url.startswith(("https://", "http://") if takes_http else "https://"):
        found.append(f"{where}.webhook.url has to be an https:// address that Telegram can reach")
    if not _SECRET.fullmatch(place.secret):
        found.append(f"{where}.webhook.secret needs 1 to 256 letters, digits, _ and - (at random)")
    return found


class _Reply(Struct, eq=False):
    """What Telegram is answered about one update."""

    status: int = UNAVAILABLE
    is_known: anyio.Event = field(default_factory=anyio.Event)

    async def ok(self) -> None:
        """Say that it is durable."""
        self.status = OK
        self.is_known.set()

    async def unavailable(self, _wait_s: float) -> None:
        """Have it sent again; when, Telegram decides."""
        self.is_known.set()


class Hook:
    """One bot's webhook, while it is served."""

    def __init__(
        self,
        served: Served,
        *,
        url: str,
        secret: str,
    ) -> None:
        self._line, self._handler, self._updates = served.line, served.handler, served.updates
        self._clock, self._where = served.clock, served.where
        self._url, self._secret = url, secret
        self._queues: ChatQueues | None = None
        "None = it is not served."
        self._replies: set[_Reply] = set()
        self._pending = 0
        self._last_error: datetime | None = None

    async def run(self) -> None:
        """Set the webhook and look after it until cancelled; it stays set, so nothing is lost.

        Raises:
            SetupError: Telegram does not take the address, or does not know the token.
            ConnectionLostError: Telegram cannot be reached.
        """
        async with open_chat_queues(
            self._handler, self._clock, chat_max=_CHAT_CONNECTIONS, redelivery_s=_SENT_BACK_S
        ) as queues:
            self._queues = queues
            try:
                await self._set()
                while True:
                    await self._look()
                    await self._clock.sleep(_LOOK_S)
            finally:
                self._queues = None
                for reply in self._replies:
                    reply.is_known.set()

    async def take(self, secret: str, body: bytes) -> int:
        """Take an update; return the HTTP status to answer with."""
        if not hmac.compare_digest(secret.encode(), self._secret.encode()):
            return UNAUTHORIZED
        if len(body) > _UPDATE_MAX_BYTES:
            return BAD_REQUEST
        try:
            raw: dict[str, object] = read_json(body)
        except ValueError:
            return BAD_REQUEST
        match raw:
            case {"update_id": int()}:
                pass
            case _:
                return BAD_REQUEST
        self._handler.received()
        update, queues = self._updates.read(raw), self._queues
        if update is None:
            return OK  # sent again it would not be understood either
        if queues is None:
            return UNAVAILABLE
        reply = _Reply()
        self._replies.add(reply)
        try:
            event = self._updates.event([update], confirm=reply.ok, send_back=reply.unavailable)
            await queues.put(event)
            await reply.is_known.wait()
        finally:
            self._replies.discard(reply)
        return reply.status

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
