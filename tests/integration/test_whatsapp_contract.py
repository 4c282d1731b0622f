"""WhatsApp keeps the published contract, on a pretended Cloud API that fails as a test wants."""

from __future__ import annotations

from support.whatsapp_world import WhatsAppPlatform

from everturn.testing import ChannelContract


class TestWhatsApp(WhatsAppPlatform, ChannelContract):
    """What Meta delivers over HTTP, and what is sent to it."""
