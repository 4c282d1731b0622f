"""WhatsApp keeps the published contract, on a pretended Cloud API that fails as a test wants."""

from __future__ import annotations

from pathlib import Path

from support.suites import hold_to_suite
from support.whatsapp_world import WhatsAppPlatform

from everturn.testing import ChannelContract


class OnWhatsApp(WhatsAppPlatform, ChannelContract):
    """What Meta delivers over HTTP, and what is sent to it."""


LEFT_OUT = ["test_a_message_of_the_bot_can_be_changed", "test_files_of_one_message_are_one_message"]


def test_whatsapp_keeps_the_contract_of_channels(tmp_path: Path) -> None:
    """As every channel does, whatever goes wrong on its platform."""
    hold_to_suite(OnWhatsApp, tmp_path, left_out=LEFT_OUT)
