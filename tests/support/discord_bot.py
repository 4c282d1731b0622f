"""A bot on the pretended Discord, whose events are kept in an inbox."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from support.discord_api import TOKEN, DiscordApi
from support.inbox import Inbox, QuickClock, serving

from everturn_channels.discord import DiscordAdapter, DiscordServers


@asynccontextmanager
async def bot(api: DiscordApi, inbox: Inbox) -> AsyncGenerator[None]:
    """Run a bot until the block ends, which begins when it has seen the server's channels."""
    adapter = DiscordAdapter(
        name="discord",
        token=TOKEN,
        clock=QuickClock(api.world.now),
        servers=DiscordServers(api_base=api.base, gateway_url=api.gateway),
    )
    async with serving(adapter, inbox):
        await api.until(lambda: inbox.cursor(api.world.general))
        yield
