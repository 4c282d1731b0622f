"""The chat channels of a gateway: which bots there are, and what stands behind them.

- `adapters`: makes the bots of channels
- `answering`: what the gateway tells its channels: who answers where, and where their files go
- `bots`: one channel of a gateway: its bot is loaded, kept running, and delivers
- `checking`: whether a channel is set up as it has to be: a bot of its own logs in and looks
- `moves`: what an operator may change where chats were given another id by their platform
- `reminders`: `/remind` in a chat: a job of the agent, for the conversation in which it is given
- `running`: all channels of a gateway: run together, and asked for their status
- `searching`: `/search` in a chat: what was said in this conversation, in all its sessions
- `seats`: which of several gateways receives on a channel; all of them send
"""

from __future__ import annotations

from everturn_gateway.channels.answering import route_notes
from everturn_gateway.channels.checking import CheckedChannel, check_channel
from everturn_gateway.channels.moves import move_notes
from everturn_gateway.channels.running import START_GRACE_S, Channels, make_channels, no_channels

__all__ = [
    "START_GRACE_S",
    "Channels",
    "CheckedChannel",
    "check_channel",
    "make_channels",
    "move_notes",
    "no_channels",
    "route_notes",
]
