"""The WhatsApp channel: one number of the Cloud API, to which Meta delivers over HTTP.

- `account`: which number it is, and how Meta reaches it
- `adapter`: the WhatsApp channel as an `Adapter`: one login, what is said through it, and a look at
  what may be wrong with the number
- `chats`: what is known of each chat while the gateway runs: its last message, and whether it takes
  anything now
- `content`: what a message holds beside text and files, in words that a model reads
- `failures`: what Meta's error codes mean, whether they are answered or come later
- `markup`: Markdown as WhatsApp shows it
- `media`: files both ways: as which kind of message they go, and how they are fetched
- `people`: by which id a person is known, who may show a number, an id, or both
- `reading`: what a message that was delivered means, as values of a channel
- `receiver`: what Meta delivers, put into the queues of its chats
- `requests`: requests to the Cloud API: each once, with a deadline, and what failed in our words
- `sender`: what the bot says and does: each request once
- `statuses`: what Meta says later of the messages that the bot sent
- `webhook`: the address to which Meta delivers: its handshake, and signatures
"""

from __future__ import annotations

from everturn_channels.whatsapp.account import WHATSAPP_API, WhatsAppAccount
from everturn_channels.whatsapp.adapter import WhatsAppAdapter
from everturn_channels.whatsapp.people import is_group

__all__ = ["WHATSAPP_API", "WhatsAppAccount", "WhatsAppAdapter", "is_group"]
