"""The Events API over HTTP: what Slack delivers to an address of the gateway.

Source: https://docs.slack.dev/apis/events-api and
https://docs.slack.dev/authentication/verifying-requests-from-slack, read 2026-11-27.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Final
from urllib.parse import parse_qsl

import anyio
import orjson

from everturn_actors.json_values import is_object
from everturn_actors.ports import Clock
from everturn_channels.adapter import InboundHandler
from everturn_channels.errors import ChannelError
from everturn_channels.ingestion.deliveries import (
    BAD_REQUEST,
    OK,
    UNAUTHORIZED,
    UNAVAILABLE,
    Confirm,
    DeliveryAnswer,
    answered,
    is_signed,
)
from everturn_channels.ingestion.json_fields import Json, text_of
from everturn_channels.slack.cursors import ChannelCursors
from everturn_channels.slack.receiver import Receiver
from everturn_channels.slack.requests import RequestFailedError, SlackApi

SIGNATURE, TIMESTAMP = "X-Slack-Signature", "X-Slack-Request-Timestamp"
AGE_MAX_S: Final = 300
"Whoever copied a delivery could show it again later."
_BODY_MAX_BYTES: Final = 1024 * 1024
_ANSWER_S: Final = 2.5
"Slack waits three seconds; what takes longer is delivered again, and is known then."
GIVEN_UP: Final = timedelta(minutes=5)
"So long Slack tries: after a longer silence there may be what it will not deliver any more."
_LOOK_S: Final = 20.0
_TOKEN_S: Final = 600.0  # between two looks at whether the token holds: no socket would tell
_EMPTY: Final = DeliveryAnswer(status=OK, body=b"")  # any other is shown to whoever gave a command

logger = logging.getLogger(__name__)


class EventsApi:
    """The deliveries to one app."""

    def __init__(self, signing_secret: str, clock: Clock) -> None:
        self._secret, self._clock = signing_secret.encode(), clock
        self._receiver: Receiver | None = None
        "None = it is not served."
        self._failure: ChannelError | None = None
        self._news = anyio.Event()
        self._was_heard = False
        self._heard_at = clock.now()

    async def run(
        self,
        receiver: Receiver,
        on_open: Callable[[], Awaitable[None]],
        *,
        api: SlackApi,
        handler: InboundHandler,
        cursors: ChannelCursors,
    ) -> ChannelError | RequestFailedError:
        """Take deliveries until something fails; return what did."""
        self._receiver, self._failure = receiver, None
        self._was_heard = False
        self._heard_at = self._clock.now()
        looked_at = anyio.current_time()
        try:
            await on_open()
            while (failure := self._told()) is None:
                self._news = anyio.Event()
                with anyio.move_on_after(_LOOK_S):
                    await self._news.wait()
                if self._was_heard:
                    self._was_heard = False
                    handler.received()
                    await cursors.hear()
                if anyio.current_time() - looked_at > _TOKEN_S:
                    looked_at = anyio.current_time()
                    await api.read("auth.test")
        except RequestFailedError as error:
            return error
        finally:
            self._receiver = None
        return failure

    def _told(self) -> ChannelError | None:
        """Return what a delivery said that ends the channel."""
        return self._failure

    async def take(self, headers: Mapping[str, str], body: bytes) -> DeliveryAnswer:
        """Take a delivery; answer when what it brings is durable, or that it has to come again."""
        if len(body) > _BODY_MAX_BYTES:
            return DeliveryAnswer(status=BAD_REQUEST)
        if not self._is_signed(headers.get(SIGNATURE, ""), headers.get(TIMESTAMP, ""), body):
            return DeliveryAnswer(status=UNAUTHORIZED)
        try:
            kind, payload = _read(body, headers.get("Content-Type", ""))
        except ValueError:
            return DeliveryAnswer(status=BAD_REQUEST)
        if text_of(payload, "type") == "url_verification":
            answer = orjson.dumps({"challenge": text_of(payload, "challenge")})
            return DeliveryAnswer(status=OK, body=answer)
        if text_of(payload, "type") == "app_rate_limited":
            logger.warning("Slack delivers less: too many events came in an hour")
            return _EMPTY
        receiver = self._receiver
        if receiver is None:
            return DeliveryAnswer(status=UNAVAILABLE)
        if not text_of(payload, "event", "bot_id"):  # the bot's own say nothing of others
            self._was_heard = True
        silent_since, self._heard_at = self._heard_at, self._clock.now()
        if self._heard_at - silent_since > GIVEN_UP:
            receiver.doubt()

        async def take(confirm: Confirm) -> None:
            try:
                await receiver.take(kind, payload, text_of(payload, "event_id"), confirm)
            except ChannelError as error:
                self._failure = error
                self._news.set()

        return await answered(take, within_s=_ANSWER_S, taken=_EMPTY)

    def _is_signed(self, signature: str, timestamp: str, body: bytes) -> bool:
        if not (timestamp.isascii() and timestamp.isdecimal()) or len(timestamp) > 12:
            return False
        if abs(self._clock.now().timestamp() - int(timestamp)) > AGE_MAX_S:
            return False
        signed = b"v0:" + timestamp.encode() + b":" + body
        return is_signed(signature, signed, self._secret, prefix="v0=")


def _read(body: bytes, media_type: str) -> tuple[str, Json]:
    """Return the kind of a delivery as Socket Mode calls it, and what it brings.

    Raises:
        ValueError: Slack sends no such thing.
    """
    kind = "events_api"
    if media_type.partition(";")[0].strip().lower() == "application/x-www-form-urlencoded":
        form = dict(parse_qsl(body.decode(), keep_blank_values=True))
        if "payload" not in form:
            return "slash_commands", {**form}
        kind, body = "interactive", form["payload"].encode()
    found: object = orjson.loads(body)
    if not is_object(found):
        msg = "it is no JSON object"
        raise ValueError(msg)
    return kind, found
