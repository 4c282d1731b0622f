"""What one channel works with while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from everturn_channels.adapter import Adapter
from everturn_channels.channel_context import ChannelContext
from everturn_channels.chats.aliases import ChatAliases
from everturn_channels.chats.chat_languages import ChatLanguages
from everturn_channels.chats.chat_types import ChatTypes
from everturn_channels.chats.cursors import Cursors
from everturn_channels.delivery.rate_limiter import RateLimiter
from everturn_channels.health import Health
from everturn_channels.settings import ChannelSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one channel takes."""

    flood_messages: int = 30
    "So many messages of one person in one chat are taken at once, and as many again in"
    flood_s: float = 60
    "this time."
    word_every_s: float = 60
    "How often a person is told the same about messages that are not taken."
    fetch_retry_s: float = 0.5
    "The wait before a file is fetched again."
    take_s: float = 60
    "For one event, its files included: three times what those may take."


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningChannel:
    """One bot on its platform, with what stands behind it and what is known of its chats."""

    adapter: Adapter
    context: ChannelContext
    "What stands behind every channel."
    settings: ChannelSettings
    health: Health
    "Where it is noted how the channel is."
    cursors: Cursors
    "Where the adapter keeps how far it has read."
    limiter: RateLimiter
    "When the bot may speak: that of its deliveries."
    aliases: ChatAliases
    "Chats that were given another id: those that the adapter speaks to."
    chat_types: ChatTypes = field(default_factory=ChatTypes)
    "Where it is noted which kind of chat somebody writes in."
    languages: ChatLanguages = field(default_factory=ChatLanguages)
    "In which language it speaks to whom."
    limits: Limits = field(default_factory=Limits)
    "How much is taken at a time."

    @property
    def name(self) -> str:
        """The channel's name."""
        return self.adapter.name
