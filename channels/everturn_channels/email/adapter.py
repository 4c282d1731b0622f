"""The e-mail channel as an `Adapter`: one mailbox, read over IMAP, answered over SMTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import anyio

from everturn_actors.ports import Clock
from everturn_channels.adapter import Adapter, Capabilities, InboundHandler, Outbound
from everturn_channels.email import markup
from everturn_channels.email.account import EmailAccount
from everturn_channels.email.checking import look
from everturn_channels.email.mailbox import open_mailbox
from everturn_channels.email.reading import MailReader, open_fetcher
from everturn_channels.email.receiver import LISTEN_S, Receiver
from everturn_channels.email.sender import FILES_MAX_BYTES, Sender
from everturn_channels.email.submission import open_submissions
from everturn_channels.email.threads import Threads
from everturn_channels.errors import ChannelError
from everturn_channels.ingestion.chat_queues import open_chat_queues
from everturn_channels.ingestion.history import BacklogLimits
from everturn_channels.online import Online

_BACKLOG: Final = BacklogLimits(max_messages=100, max_age_s=86_400)
_OFFLINE: Final = "The bot is not logged in to its mailbox."

CAPABILITIES: Final = Capabilities(
    buttons=True,
    files_max_bytes=FILES_MAX_BYTES,
    chunk_units=markup.CHUNK_UNITS,
    idle_s=LISTEN_S + 120.0,
)


class EmailAdapter(Adapter):
    """One mailbox. Implements `adapter.Adapter`.

    Args:
        name: Of the channel.
        account: Whose mailbox it is.
        clock: The time.
        backlog: How much of what one address wrote during an absence is read.
    """

    def __init__(
        self,
        *,
        name: str,
        account: EmailAccount,
        clock: Clock,
        backlog: BacklogLimits = _BACKLOG,
    ) -> None:
        self.name, self._account, self._clock = name, account, clock
        self._backlog = backlog
        self._online: Online[Sender] = Online(_OFFLINE)

    @property
    def platform(self) -> str:
        """`email`."""
        return "email"

    @property
    def capabilities(self) -> Capabilities:
        """What mail can do: whole texts, files, and questions that are answered by a number."""
        return CAPABILITIES

    # --- in ---

    async def serve(self, handler: InboundHandler) -> None:
        """As `Adapter.serve`."""
        account = self._account
        threads = Threads(account, handler)
        failure: ChannelError | None = None
        async with open_mailbox(account) as box:
            folder = await box.select(account.inbox)
            async with (
                open_fetcher(account, folder.validity) as fetcher,
                open_submissions(account) as submissions,
                open_chat_queues(handler, self._clock) as queues,
            ):
                sender = Sender(account, threads, submissions, self._clock)
                reader = MailReader(
                    account=account, fetcher=fetcher, threads=threads, sender=sender
                )
                receiver = Receiver(account, handler, queues, self._clock, self._backlog)
                with self._online.through(sender):
                    handler.connected(account.address)
                    try:
                        await receiver.run(box, folder, reader)
                    except ChannelError as error:
                        failure = error
        if failure is not None:
            raise failure

    async def stand_by(self) -> None:
        """As `Adapter.stand_by`: what is known of threads is kept by who reads."""
        await anyio.sleep_forever()

    async def check(self) -> Sequence[str]:
        """As `Adapter.check`. Logs in to both servers, and reads who vouches for senders."""
        return await look(self._account, self._clock)

    # --- out ---

    def render(self, markdown: str, *, is_plain: bool = False) -> tuple[str, ...]:
        """As `Adapter.render`."""
        return markup.render(markdown, is_plain=is_plain)

    async def send(self, message: Outbound) -> str:
        """As `Adapter.send`."""
        return await self._online.sender.send(message)
