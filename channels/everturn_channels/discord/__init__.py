"""The Discord channel: a bot account over discord.py. The only package that knows that library.

- `adapter`: the Discord channel as an `Adapter`: one login after the other, and what is said in
  between
- `catch_up`: in which channels something may have been said while nobody listened
- `checking`: finding out what is wrong with a bot before people notice
- `client`: discord.py's client as we use it: lean, at the addresses it is told, telling a listener
- `cursors`: how far each Discord channel was read, and which direct channels there are
- `event_reader`: what a message brings, as the value of a channel, or as much of it as can be read
- `failures`: what a failure of discord.py or of the network means to us, in words for people
- `files`: getting the files that came with messages, never more than is wanted
- `interactions`: slash commands and buttons: registered, acknowledged in time, answered to one
  person only
- `mapping`: what discord.py tells, as events
- `markup`: Markdown as a model writes it, as messages of Discord
- `messages`: messages as they come, and as the histories of channels tell them
- `payloads`: messages made of raw payloads, one by one: what cannot be read of one costs no other
- `receiver`: what comes through Discord's gateway, put into the queues of its chats
- `sender`: saying things on Discord: each request once, with a deadline and a clear outcome
- `splitting`: lines with formatting, packed into messages of bounded size
"""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    # its voice part imports `audioop`, which Python 3.11 and 3.12 call deprecated
    warnings.simplefilter("ignore", DeprecationWarning)
    import discord as discord

from everturn_channels.discord.adapter import DiscordAdapter, DiscordServers

__all__ = ["DiscordAdapter", "DiscordServers"]
