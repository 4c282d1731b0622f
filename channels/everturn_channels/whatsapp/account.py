"""Which number it is, and how Meta reaches it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

WHATSAPP_API: Final = "https://graph.facebook.com/v25.0"
"""With the version of the Graph API.

Source: https://developers.facebook.com/documentation/business-messaging/whatsapp/messages, whose
examples name it (read 2026-11-27); a version is there for two years.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatsAppAccount:
    """A number in a WhatsApp Business account, as its owner set it up."""

    phone_number_id: str
    "What the Cloud API calls the number; it is no telephone number."
    token: str = field(repr=False)
    "Of a system user: with it the bot reads files, and writes."
    app_secret: str = field(repr=False)
    "Of the app: with it Meta signs what it delivers."
    verify_token: str = field(repr=False)
    "Chosen by the owner: Meta shows it when the address is set."
    has_receipts: bool = True
    "Whether people see that what they wrote was read."
    api_base: str = WHATSAPP_API
    proxy: str = ""
    "`http://host:port` or `socks5://host:port`; empty = none."
