"""What comes into a mailbox, put into the queues of its chats.

The numbers of mails (UIDs) rise, and one cursor says up to which all are durable: what waits in a
queue when the process ends comes again. Where the server gives new numbers to all (UIDVALIDITY),
what was missed is found by its time. Source: RFC 3501, section 2.3.1.1.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from msgspec import Struct

from everturn_actors.ports import Clock
from everturn_channels.adapter import ChatRef, InboundHandler
from everturn_channels.email.account import EmailAccount
from everturn_channels.email.mailbox import Envelope, Folder, Mailbox
from everturn_channels.email.parsing.authenticity import why_not_believed
from everturn_channels.email.parsing.automatic import HourlyLimit, why_unanswered
from everturn_channels.email.parsing.bounces import may_be_bounce
from everturn_channels.email.parsing.fields import Fields
from everturn_channels.email.reading import MailReader, chat_of
from everturn_channels.ingestion.chat_queues import ChatQueues
from everturn_channels.ingestion.events import Backfill, Gap, PlatformEvent
from everturn_channels.ingestion.history import BacklogLimits, History
from everturn_channels.ingestion.watermark import Watermark
from everturn_channels.rate_limits import Cooldown

logger = logging.getLogger(__name__)

INBOX: Final = "inbox"
"The cursor with the UIDVALIDITY of the folder and the last UID up to which all is durable."
LAST: Final = "last"
"The cursor with the time of the last mail up to which all are durable."
LISTEN_S: Final = 300.0
"So long a server is listened to before it is asked: some forget who listens for longer."
POLL_S: Final = 30.0
"Between two questions to a server that does not tell by itself."
_PAGE: Final = 100
_TEXT_BYTES: Final = 16 * 1024  # what people write; larger ones hold files, and come by themselves
_FULL_S: Final = 1.0
_TOLD_EVERY_S: Final = 3600.0
_SLACK: Final = timedelta(minutes=1)
_BOUNCES: Final = "mailer-daemon"  # the queue of what came back


class _Arrived(Struct, frozen=True):
    """A mail that is handed in."""

    envelope: Envelope
    chat: ChatRef | None
    "None = it is a bounce."


class Receiver:
    """Receives for one connection."""

    def __init__(
        self,
        account: EmailAccount,
        handler: InboundHandler,
        queues: ChatQueues,
        clock: Clock,
        limits: BacklogLimits,
    ) -> None:
        self._account, self._handler, self._queues = account, handler, queues
        self._clock, self._limits = clock, limits
        self._mark: Watermark[int] = Watermark()
        self._hourly = HourlyLimit(account.mails_per_hour)
        self._told: Cooldown[str] = Cooldown(_TOLD_EVERY_S)
        self._validity = 0
        self._taken: dict[int, datetime] = {}
        "When mails came that were taken, and stand behind one that was not."

    async def run(self, box: Mailbox, folder: Folder, reader: MailReader) -> None:
        """Receive until cancelled.

        Raises:
            ConnectionLostError: The server does not answer as it should.
        """
        self._validity = folder.validity
        following = await self._catch_up(box, folder, reader)
        while True:
            self._handler.received()
            if box.has_idle:
                await box.until_news(LISTEN_S)
            else:
                await self._clock.sleep(POLL_S)
            uids = await box.uids_from(following)
            for page in _pages(uids):
                for each in await self._arrived(box, page, reader):
                    self._mark.begin(each.envelope.uid)
                    await self._put(self._event(each, reader))
                await self._pass(page[-1])
                following = page[-1] + 1

    # --- what was missed ---

    async def _catch_up(self, box: Mailbox, folder: Folder, reader: MailReader) -> int:
        """Have read what came while nobody listened; return the number from which on all is new."""
        last = folder.next_uid - 1
        validity, read_to = _kept(self._handler.cursor(INBOX))
        after: datetime | None = None
        if not validity:
            await self._keep(last)
            return last + 1
        if validity == folder.validity:
            uids = await box.uids_from(read_to + 1)
        else:
            after = self._last_at() - _SLACK
            logger.warning(
                "the mail server gave all mails new numbers: what came since is found by its time",
                extra={"folder": self._account.inbox, "after": after.isoformat()},
            )
            # A server goes by its own day, which may be the one before (RFC 3501, section 6.4.4).
            uids = await box.uids_since((after - timedelta(days=1)).date())
        arrived: list[_Arrived] = []
        for page in _pages(uids):
            found = await self._arrived(box, page, reader, after=after)
            arrived += found
        last = max((last, read_to if validity == folder.validity else 0, *uids))
        await self._backfill(arrived, reader)
        await self._pass(last)
        return last + 1

    async def _backfill(self, arrived: Sequence[_Arrived], reader: MailReader) -> None:
        """Put what was missed in front of each chat, within the bounds of a backlog."""
        chats: dict[str, tuple[ChatRef, History]] = {}
        bounces: list[PlatformEvent] = []
        now = self._clock.now()
        for each in reversed(arrived):
            event = self._event(each, reader)
            if each.chat is None:
                bounces.append(event)
                continue
            _, history = chats.setdefault(each.chat.id, (each.chat, History(self._limits, now)))
            history.add(event, each.envelope.at)
        found = [(chat, history.backfill(chat)) for chat, history in chats.values()]
        taken = [event for _, each in found for event in each.events] + bounces
        for uid in sorted(_uid(event) for event in taken):
            self._mark.begin(uid)
        for chat, backfill in found:
            self._queues.append_gap(Gap(chat=chat.id, read=partial(_known, backfill)))
        for event in reversed(bounces):
            await self._put(event)

    def _last_at(self) -> datetime:
        try:
            return datetime.fromisoformat(self._handler.cursor(LAST))
        except ValueError:
            return self._clock.now() - timedelta(seconds=self._limits.max_age_s)

    # --- one mail ---

    async def _arrived(
        self,
        box: Mailbox,
        uids: Sequence[int],
        reader: MailReader,
        *,
        after: datetime | None = None,
    ) -> Sequence[_Arrived]:
        """Return those of some mails that are handed in, in their order."""
        found: list[_Arrived] = []
        for envelope in await box.envelopes(uids, self._clock.now(), text_bytes=_TEXT_BYTES):
            if after is not None and envelope.at < after:
                continue
            try:
                arrived = self._judged(envelope, reader)
            except Exception as error:  # the boundary around one mail
                self._handler.unreadable("e-mail", error)
                continue
            if arrived is None:
                continue
            if arrived.chat is None or await self._is_within(arrived.chat, envelope):
                reader.fetcher.note(envelope)
                found.append(arrived)
        return found

    def _judged(self, envelope: Envelope, reader: MailReader) -> _Arrived | None:
        """Return a mail that somebody has to see to; None for one that nobody answers."""
        fields = Fields.of(envelope.head)
        bare = Envelope(uid=envelope.uid, at=envelope.at, size_bytes=envelope.size_bytes, head=b"")
        if may_be_bounce(fields):
            return _Arrived(bare, None)
        sender = fields.sender.address
        if why := why_unanswered(fields, self._account):
            about = {"sender": sender, "why": why}
            logger.info("a mail is left alone: no person wrote it", extra=about)
            return None
        if why := why_not_believed(fields, self._account):
            self._handler.unreadable("e-mail", f"{sender or 'nobody'}: {why}")
            return None
        return _Arrived(bare, chat_of(fields, reader.threads))

    async def _is_within(self, chat: ChatRef, envelope: Envelope) -> bool:
        """Whether a mail is one of those of an hour that are read; else its sender is told once."""
        if self._hourly.may(chat.id, envelope.at):
            return True
        limit = self._account.mails_per_hour
        logger.warning("too many mails of one address: one is not read", extra={"chat": chat.id})
        if self._told.may(chat.id, envelope.at):
            await self._handler.skipped(
                chat, 1, f"no more than {limit} e-mails are read in an hour"
            )
        return False

    def _event(self, arrived: _Arrived, reader: MailReader) -> PlatformEvent:
        envelope, chat = arrived.envelope, arrived.chat
        return PlatformEvent(
            chat=_BOUNCES if chat is None else chat.id,
            id=envelope.uid,
            read=partial(reader.read_bounce if chat is None else reader.read, envelope),
            kind="bounce" if chat is None else "e-mail",
            awaited_at=chat,
            confirm=partial(self._confirm, envelope),
        )

    async def _put(self, event: PlatformEvent) -> None:
        while not self._queues.put_nowait(event):
            await self._queues.make_room(event.chat)
            await self._clock.sleep(_FULL_S)

    # --- how far was read ---

    async def _confirm(self, envelope: Envelope) -> None:
        self._taken[envelope.uid] = envelope.at
        await self._settle(envelope.uid)

    async def _pass(self, uid: int) -> None:
        """Note that nothing else is to be read up to a number."""
        self._mark.begin(uid)
        await self._settle(uid)

    async def _settle(self, uid: int) -> None:
        await self._mark.settle(uid)
        before = self._mark.reached
        self._mark.advance()
        reached = self._mark.reached
        if reached is None or reached == before:
            return
        passed = [self._taken.pop(each) for each in list(self._taken) if each <= reached]
        if passed:
            await self._handler.keep_cursor(LAST, max(passed).isoformat())
        await self._keep(reached)

    async def _keep(self, uid: int) -> None:
        await self._handler.keep_cursor(INBOX, f"{self._validity}:{uid}")


async def _known(found: Backfill) -> Backfill:
    return found


def _uid(event: PlatformEvent) -> int:
    assert isinstance(event.id, int)
    return event.id


def _pages(uids: Sequence[int]) -> Sequence[Sequence[int]]:
    return [uids[at : at + _PAGE] for at in range(0, len(uids), _PAGE)]


def _kept(cursor: str) -> tuple[int, int]:
    """Return the UIDVALIDITY and the UID that a cursor holds; zeros where it holds none."""
    validity, _, uid = cursor.partition(":")
    return (int(validity), int(uid)) if validity.isdigit() and uid.isdigit() else (0, 0)
