"""The e-mail channel: one mailbox, read over IMAP, answered over SMTP.

The only package that knows imap-tools and aiosmtplib.

- `account`: whose mailbox it is, where its servers are, and with what it logs in
- `adapter`: the e-mail channel as an `Adapter`
- `checking`: a look at what may be wrong with a mailbox
- `composing`: a mail of the bot, as it goes out
- `mailbox`: one connection to a mailbox over IMAP
- `markup`: Markdown as mail programs show it: the text as it was written, and HTML beside it
- `parsing/`: what stands in a mail that somebody sent
- `reading`: what a mail means, as values of a channel
- `receiver`: what comes into a mailbox, put into the queues of its chats
- `sender`: what the bot says: each mail handed over once, under its own id
- `threads`: which mail belongs together: a thread is a conversation
"""

from __future__ import annotations

from everturn_channels.email.account import EmailAccount, MailServer
from everturn_channels.email.adapter import EmailAdapter

__all__ = ["EmailAccount", "EmailAdapter", "MailServer"]
