"""The Telegram channel. Importing it loads aiogram, which takes seconds: do so only where used.

- `adapter`: Telegram as a channel: one bot, and everything that it does
- `checking`: looking at what may be wrong with a bot, for its owner
- `connection`: the connection of one bot to the Bot API: requests with deadlines, and what failed
  in our words
- `content`: what a message holds beside text and files, in words that a model reads
- `mapping`: what Telegram reports, as the values of a channel
- `markup`: Markdown as Telegram shows it: text with entities, cut into messages that fit
- `polling`: asking Telegram for updates, and confirming them only when they are durable
- `reach`: how events are answered, and their files fetched, whichever connection there is by then
- `rich_text`: the words of a rich message, which other bots write and people pass on
- `sender`: what a bot shows people: messages, edits, drafts, signs and answers to buttons
- `updates`: updates of Telegram, read one by one: what polling and webhook have in common
- `webhook`: having Telegram send updates to an address of the gateway, each confirmed once it is
  durable
"""

from __future__ import annotations

from everturn_channels.telegram.adapter import TelegramAdapter
from everturn_channels.telegram.webhook import WebhookPlace

__all__ = ["TelegramAdapter", "WebhookPlace"]
