"""A look at what may be wrong with a mailbox, for its owner."""

from __future__ import annotations

from collections import Counter
from typing import Final

from everturn_actors.ports import Clock
from everturn_channels.email.account import EmailAccount
from everturn_channels.email.mailbox import Folder, Mailbox, open_mailbox
from everturn_channels.email.parsing.authenticity import servers_of
from everturn_channels.email.parsing.fields import Fields
from everturn_channels.email.submission import try_login
from everturn_channels.errors import NotSentError

_NEWEST: Final = 20


async def look(account: EmailAccount, clock: Clock) -> list[str]:
    """Return a line for each thing found; those with `problem: ` need the owner.

    Raises:
        SetupError: The mailbox does not let the bot in.
        ConnectionLostError: It cannot be reached.
    """
    found = [f"the address is {account.address}"]
    async with open_mailbox(account) as box:
        folder = await box.select(account.inbox)
        found.append(f"mail is read from {account.inbox} on {account.imap.host}")
        if not box.has_idle:
            found.append("the server does not tell when mail comes: it is asked every 30 s")
        found += await _senders(account, box, folder, clock)
        sent = account.sent_folder or await box.sent_folder()
        if sent:
            found.append(f"what may have been sent is looked for in {sent}")
        else:
            what = "problem: " if account.files_sent else ""
            found.append(f"{what}no folder of sent mail is known; name it as sent_folder")
    try:
        await try_login(account)
        found.append(f"mail is sent over {account.smtp.host}")
    except NotSentError as error:
        found.append(f"problem: {error}")
    for name, server in (("imap", account.imap), ("smtp", account.smtp)):
        if server.security == "none":
            found.append(f"{name} is not encrypted, on this machine alone")
    return found


async def _senders(account: EmailAccount, box: Mailbox, folder: Folder, clock: Clock) -> list[str]:
    """Say who vouches for the senders of the newest mails."""
    if account.secret_address:
        return ["mail to the secret address is believed"] if not account.authserv_id else []
    first = max(folder.next_uid - _NEWEST, 1)
    uids = await box.uids_from(first)
    newest = await box.envelopes(uids[-_NEWEST:], clock.now())
    named = Counter(servers_of(Fields.of(each.head)) or "nobody" for each in newest)
    if not named:
        return ["there is no mail yet that shows who vouches for senders"]
    said = ", ".join(f"{name} ({count})" for name, count in named.most_common(5))
    if account.authserv_id.lower() not in named:
        words = (
            f"problem: authserv_id is {account.authserv_id}, and of the newest mails these vouch"
            f" for the sender: {said}. What another one says is not believed"
        )
        return [words]
    return [f"who vouches for the senders of the newest mails: {said}"]
