"""The Discord channel: a bot account over discord.py. The only package that knows that library."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    # its voice part imports `audioop`, which Python 3.11 and 3.12 call deprecated
    warnings.simplefilter("ignore", DeprecationWarning)
    import discord as discord

from everturn_channels.discord.adapter import DiscordAdapter, DiscordServers

__all__ = ["DiscordAdapter", "DiscordServers"]
