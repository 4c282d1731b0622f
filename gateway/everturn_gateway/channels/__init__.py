"""The chat channels of a gateway: which bots there are, and what stands behind them."""

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
