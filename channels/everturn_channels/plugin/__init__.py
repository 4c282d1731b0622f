"""Channels that are programs of their own: lines of JSON on standard input and output.

- `adapter`: the channel of a plug-in: its protocol on one side, the `Adapter` on the other
- `connection`: the conversation with one running plug-in: requests and their results, lines in and
  out
- `kit`: what the program of a channel needs to speak with Everturn, in one file to copy
- `meeting`: how a plug-in begins and how it ends: hello, login, and the words for what went wrong
- `process`: the program of a plug-in: started, written to, read from, and ended with all of its
  group
- `protocol`: the protocol `everturn-channel/1`: what a plug-in and the gateway say to each other
- `reading`: reads the lines of a plug-in
- `template`: a channel on the kit, to begin one's own with
- `trial`: plays the gateway to a plug-in and finds out whether it keeps the protocol
"""

from __future__ import annotations

from everturn_channels.plugin.adapter import PluginAdapter
from everturn_channels.plugin.process import Program

__all__ = ["PluginAdapter", "Program"]
