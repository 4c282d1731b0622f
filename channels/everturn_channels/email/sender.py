"""What the bot says: each mail handed to the server for outgoing mail once, under its own id.

That server takes the same mail twice as two, and says so at the end of a mail alone: where its
answer is lost nobody knows whether it took it. Then a look into the folder of sent mail tells,
where the provider files there what it sends; else the mail goes again, under the same Message-ID,
which many mail programs show once, and with a line that says that it may be a repeat.
"""

from __future__ import annotations

import logging
from typing import Final

from everturn_actors.ports import Clock
from everturn_channels.adapter import Outbound
from everturn_channels.email.account import EmailAccount
from everturn_channels.email.composing import Context, compose
from everturn_channels.email.mailbox import open_mailbox
from everturn_channels.email.parsing.fields import address_in
from everturn_channels.email.submission import Submissions
from everturn_channels.email.threads import Threads, parent_of
from everturn_channels.errors import ChannelError, NotSentError, RefusedError

logger = logging.getLogger(__name__)

FILES_MAX_BYTES: Final = 20 * 1024 * 1024
"Of one file: providers take 25 MB of a mail, which is a third larger than what is in it."


class Sender:
    """Sends mails of one mailbox."""

    def __init__(
        self, account: EmailAccount, threads: Threads, submissions: Submissions, clock: Clock
    ) -> None:
        self._account, self._threads, self._clock = account, threads, clock
        self._submissions = submissions

    async def send(self, message: Outbound) -> str:
        """As `Adapter.send`."""
        threads, topic = self._threads, message.topic
        to = address_in(message.chat_id)
        if not to:
            msg = f"{message.chat_id} is no address that mail can be sent to"
            raise RefusedError(msg, is_chat_gone=True)
        if why := threads.bounced(to):
            msg = f"Mail to {to} comes back: {why}"
            raise RefusedError(msg, is_chat_gone=True)
        message_id = threads.own_id(message.nonce, topic)
        if message.is_repeat and await self._is_filed(message_id):
            return message_id
        known = threads.get(message.chat_id, topic)
        # Without a topic a mail is an answer only where it says to which.
        thread = known if topic or message.reply_to else None
        context = Context(
            message_id=message_id,
            thread=thread,
            quote=threads.quote(parent_of(thread, message.reply_to)),
            now=self._clock.now(),
        )
        try:
            mail = compose(self._account, message, context)
        except ValueError as error:
            msg = f"What is to be sent to {to} cannot be written as mail: {error}"
            raise RefusedError(msg) from error
        if message.buttons:
            await threads.questions.note(message_id, message.buttons)
        await self._submissions.submit(to, mail)
        threads.note_sent(message_id, to)
        if self._account.files_sent:
            await self._file(mail)
        return message_id

    # --- the folder of sent mail ---

    async def _is_filed(self, message_id: str) -> bool:
        """Whether a mail that may have been sent surely was.

        Raises:
            NotSentError: That cannot be known now.
        """
        try:
            async with open_mailbox(self._account) as box:
                folder = self._account.sent_folder or await box.sent_folder()
                return bool(folder) and await box.has(folder, message_id)
        except ChannelError as error:
            raise NotSentError(str(error)) from error

    async def _file(self, mail: bytes) -> None:
        """Put a mail into the folder of sent mail; what fails leaves a gap there, and no more."""
        try:
            async with open_mailbox(self._account) as box:
                folder = self._account.sent_folder or await box.sent_folder()
                if folder:
                    await box.file(folder, mail)
        except ChannelError as error:
            logger.warning("a mail was sent, and could not be filed", extra={"why": str(error)})
