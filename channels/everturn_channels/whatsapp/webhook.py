"""The address to which Meta delivers: its handshake, and signatures.

Source: https://developers.facebook.com/documentation/business-messaging/whatsapp/webhooks/create-webhook-endpoint
(updated 2026-05-21, read 2026-11-27): `hub.challenge`, and `X-Hub-Signature-256`, the HMAC-SHA-256
of the body with the app's secret; payloads have up to 3 MB.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from typing import Final

import anyio
import orjson

from everturn_actors.json_values import is_object
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
from everturn_channels.whatsapp.account import WhatsAppAccount
from everturn_channels.whatsapp.receiver import Receiver
from everturn_channels.whatsapp.requests import CloudApi, RequestFailedError

SIGNATURE: Final = "X-Hub-Signature-256"
_PREFIX: Final = "sha256="
BODY_MAX_BYTES: Final = 4 * 1024 * 1024
ANSWER_S: Final = 5.0
"Whoever delivers waits so long; how long Meta does is not documented. It delivers again."
TOKEN_S: Final = 600.0
"Between two looks at whether the token holds: no delivery would tell."
_TAKEN: Final = DeliveryAnswer(status=OK, body=b"")
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_.-]{1,200}")
_OBJECT: Final = "whatsapp_business_account"


class Webhook:
    """The deliveries to one number."""

    def __init__(self, account: WhatsAppAccount) -> None:
        self._secret, self._verify = account.app_secret.encode(), account.verify_token.encode()
        self._receiver: Receiver | None = None
        "None = it is not served."

    async def run(self, receiver: Receiver, api: CloudApi, channel: str) -> ChannelError:
        """Take deliveries until something fails; return what did."""
        self._receiver = receiver
        try:
            while True:
                await anyio.sleep(TOKEN_S)
                await api.number("id")
        except RequestFailedError as error:
            return error.to_connection_error(channel)
        finally:
            self._receiver = None

    def answer_challenge(self, query: Mapping[str, str]) -> DeliveryAnswer:
        """Answer whoever sets the address, if they know the token that the owner chose."""
        shown = query.get("hub.verify_token", "").encode("utf-8", "replace")
        if not self._verify or not hmac.compare_digest(shown, self._verify):
            return DeliveryAnswer(status=UNAUTHORIZED)
        challenge = query.get("hub.challenge", "")
        if query.get("hub.mode") != "subscribe" or not _CHALLENGE.fullmatch(challenge):
            return DeliveryAnswer(status=BAD_REQUEST)
        return DeliveryAnswer(status=OK, body=challenge.encode(), media_type="text/plain")

    async def take(self, headers: Mapping[str, str], body: bytes) -> DeliveryAnswer:
        """Take a delivery; answer when what it brings is durable, or that it has to come again."""
        if len(body) > BODY_MAX_BYTES:
            return DeliveryAnswer(status=BAD_REQUEST)
        if not is_signed(headers.get(SIGNATURE, ""), body, self._secret, prefix=_PREFIX):
            return DeliveryAnswer(status=UNAUTHORIZED)
        payload = _read(body)
        if payload is None:
            return DeliveryAnswer(status=BAD_REQUEST)
        receiver = self._receiver
        if receiver is None:
            return DeliveryAnswer(status=UNAVAILABLE)

        async def take(confirm: Confirm) -> None:
            await receiver.take(payload, confirm)

        return await answered(take, within_s=ANSWER_S, taken=_TAKEN)


def _read(body: bytes) -> Json | None:
    """Return what a delivery brings; None = Meta sends no such thing."""
    try:
        found: object = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return found if is_object(found) and text_of(found, "object") == _OBJECT else None
