"""The Matrix channel: one account on a homeserver. The only package that knows matrix-nio.

- `account`: who the bot is on its homeserver, how it logs in, and a look at what may be wrong with
  it
- `adapter`: the Matrix channel as an `Adapter`: one login after the other, and what is said in
  between
- `content`: what the content of a message says, as values of ours
- `encryption`: end-to-end encryption: matrix-nio's machine and store of keys, over our own requests
- `machine`: matrix-nio's machine of keys, as much of it as is used here, with types
- `markup`: Markdown as Matrix shows it: the text as it was written, and HTML beside it
- `reading`: what an event of a room means, as values of a channel
- `receiver`: what comes from a homeserver, put into the queues of its rooms
- `requests`: requests to a homeserver: each once, with a deadline, and what failed in our words
- `rooms`: what is known of rooms: who is in them, how they are called, whether they are encrypted
- `sender`: what the bot says and does in rooms: each request once, under a name that the homeserver
  knows
- `signing`: cross-signing: the bot's account vouches for its device
- `visiting`: which rooms the bot goes into, leaves, and follows into another
"""

from __future__ import annotations

from everturn_channels.matrix.account import MatrixAccount
from everturn_channels.matrix.adapter import MatrixAdapter

__all__ = ["MatrixAccount", "MatrixAdapter"]
