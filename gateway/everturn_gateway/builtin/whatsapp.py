"""The WhatsApp channel as a plug-in: its settings, and what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from everturn_actors.model import ConversationKey
from everturn_channels.adapter import Adapter, ChatType
from everturn_gateway.builtin.addresses import ProxyUrl, Url, proxy_password
from everturn_gateway.builtin.channels import Token
from everturn_gateway.late_loading import late
from everturn_gateway.plugins import (
    ChannelPlugin,
    ChannelSetup,
    PluginChannelSettings,
    secret_fields,
)
from everturn_gateway.plugins.channels import DeliverySettings
from everturn_gateway.yaml_files import FieldPath

if TYPE_CHECKING:
    from everturn_channels import whatsapp
else:
    whatsapp = late("everturn_channels.whatsapp")

_NUMBER_ID: Final = re.compile(r"[0-9]{5,20}")
_SECRET: Final = re.compile(r"[0-9a-f]{32}")
_WEEK_HOURS: Final = 168.0


class WhatsAppSettings(PluginChannelSettings):
    """`channels.whatsapp`."""

    phone_number_id: str
    "What the Cloud API calls the number; it is no telephone number."
    token: Token = ""
    "Of a system user, with whatsapp_business_messaging."
    app_secret: Token = ""
    "Of the app: by it Meta shows that it is Meta."
    verify_token: Token = ""
    "Chosen freely: Meta shows it when the address is set."
    read_receipts: bool = True
    "Whether people see that what they wrote was read."
    api_base: Url | None = None
    "Of the Cloud API, where it is not Meta's own, or in another version."
    proxy: ProxyUrl | None = None
    "Through which it is reached."
    # What comes after a day waits until its person writes again, and they may write on Monday.
    delivery: DeliverySettings = DeliverySettings(give_up_after_hours=_WEEK_HOURS)


def _whatsapp(setup: ChannelSetup[WhatsAppSettings]) -> Adapter:
    settings = setup.settings
    return whatsapp.WhatsAppAdapter(
        name=setup.name,
        account=whatsapp.WhatsAppAccount(
            phone_number_id=settings.phone_number_id,
            token=settings.token,
            app_secret=settings.app_secret,
            verify_token=settings.verify_token,
            has_receipts=settings.read_receipts,
            api_base=settings.api_base or whatsapp.WHATSAPP_API,
            proxy=settings.proxy or "",
        ),
        clock=setup.clock,
    )


def _faults(settings: WhatsAppSettings) -> Iterator[tuple[FieldPath, str]]:
    if not _NUMBER_ID.fullmatch(settings.phone_number_id):
        message = "must be digits alone: the Phone number ID in the app, and not the number itself"
        yield ("phone_number_id",), message
    if not settings.token:
        yield ("token",), "token is empty; set WHATSAPP_TOKEN, or enabled: false"
    if not settings.app_secret:
        yield ("app_secret",), "is required: without it anybody could deliver"
    elif not _SECRET.fullmatch(settings.app_secret):
        message = "is no secret of an app; Meta's are 32 hexadecimal digits (App settings, Basic)"
        yield ("app_secret",), message
    if not settings.verify_token:
        yield ("verify_token",), "is required: Meta shows it when you set the address"


def _secrets(settings: WhatsAppSettings) -> Iterator[str]:
    yield from secret_fields(settings)
    yield from proxy_password(settings.proxy)


def _number(settings: WhatsAppSettings) -> str:
    return settings.phone_number_id


def _app_secret(settings: WhatsAppSettings) -> str:
    return settings.app_secret


def _chat_type(key: ConversationKey) -> ChatType:
    """Return the type of a chat: what names no person is a group; see `whatsapp.people`."""
    return "group" if whatsapp.is_group(key.chat) else "dm"


WHATSAPP: Final = ChannelPlugin(
    name="whatsapp",
    interface=1,
    summary="a WhatsApp number, by the Cloud API",
    docs="docs/whatsapp.md",
    settings=WhatsAppSettings,
    make=_whatsapp,
    faults=_faults,
    secrets=_secrets,
    identity=_number,
    chat_type=_chat_type,
    webhook_secret=_app_secret,
    webhook_header="X-Hub-Signature-256",
    is_webhook_signed=True,
    is_shareable=True,
)
