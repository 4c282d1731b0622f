"""The Telegram channel. Importing it loads aiogram, which takes seconds: do so only where used."""

from __future__ import annotations

from everturn_channels.telegram.adapter import TelegramAdapter
from everturn_channels.telegram.webhook import WebhookPlace

__all__ = ["TelegramAdapter", "WebhookPlace"]
