"""What Meta delivers, put into the queues of its chats.

A delivery may bring several messages, of several people, in no order; it is confirmed once all of
them are durable. What is not confirmed comes again for up to seven days, in no order either: the
messages of a chat are taken by their times, as far as they are here by then. Statuses of the bot's
own messages come the same way.
Source: https://developers.facebook.com/documentation/business-messaging/whatsapp/webhooks/create-webhook-endpoint
and .../webhooks/overview, read 2026-11-27.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

from anyio.abc import TaskGroup

from everturn_channels.adapter import ChatRef, InboundHandler
from everturn_channels.errors import SendError
from everturn_channels.ingestion.chat_queues import ChatQueues
from everturn_channels.ingestion.deliveries import Confirm, Confirmations, once_all
from everturn_channels.ingestion.events import PlatformEvent
from everturn_channels.ingestion.json_fields import Json, object_of, objects_of, text_of
from everturn_channels.rate_limits import RecentKeys
from everturn_channels.whatsapp.account import WhatsAppAccount
from everturn_channels.whatsapp.content import is_quiet
from everturn_channels.whatsapp.failures import WINDOW
from everturn_channels.whatsapp.people import is_group, is_phone, is_user_id
from everturn_channels.whatsapp.reading import EventReader, Login
from everturn_channels.whatsapp.statuses import Status, Statuses

logger = logging.getLogger(__name__)

RECEIPTS_AT_ONCE: Final = 32
"More are left out: they are signs, and hold up nobody."
_FIELD: Final = "messages"
_LIVE: Final = frozenset({"user_changed_number", "user_changed_user_id"})


class Receiver:
    """Receives for one login."""

    def __init__(
        self,
        *,
        account: WhatsAppAccount,
        login: Login,
        statuses: Statuses,
        handler: InboundHandler,
        queues: ChatQueues,
        tasks: TaskGroup,
    ) -> None:
        self._account = account
        self._login, self._statuses = login, statuses
        self._handler, self._queues, self._tasks = handler, queues, tasks
        self._reader = EventReader(login)
        self._confirmations = Confirmations()
        self._settled: RecentKeys[tuple[str, str]] = RecentKeys()
        "What comes again though it was taken: a click would be answered twice."
        self._receipts = 0

    async def take(self, payload: Json, confirm: Confirm) -> None:
        """Take a delivery; `confirm` is called when all that it brings is settled."""
        self._handler.received()
        found: list[tuple[Json, Sequence[Json]]] = []
        for change in self._changes(payload):
            for status in objects_of(change, "statuses"):
                await self._take_status(status)
            for error in objects_of(change, "errors"):
                logger.warning("Meta tells of an error", extra={"error": str(error)[:500]})
            contacts = objects_of(change, "contacts")
            found += [(raw, contacts) for raw in objects_of(change, "messages")]
        if not found:
            # Statuses are kept in memory: there is nothing to wait for.
            await confirm()
            return
        one = once_all(confirm, len(found))
        for raw, contacts in sorted(found, key=lambda each: _seconds(each[0])):
            await self._take_message(raw, contacts, one)

    def _changes(self, payload: Json) -> Sequence[Json]:
        """Return what concerns this number; an app may have several, and one address for all."""
        found: list[Json] = []
        for entry in objects_of(payload, "entry"):
            for change in objects_of(entry, "changes"):
                value, field = object_of(change, "value"), text_of(change, "field")
                number = text_of(value, "metadata", "phone_number_id")
                if field == _FIELD and number == self._account.phone_number_id:
                    found.append(value)
                else:
                    extra = {"field": field, "number": number}
                    logger.warning(
                        "a delivery is passed over: it is not this number's", extra=extra
                    )
        return found

    async def _take_message(self, raw: Json, contacts: Sequence[Json], confirm: Confirm) -> None:
        kind, wamid = text_of(raw, "type"), text_of(raw, "id")
        chat = text_of(raw, "group_id") or text_of(raw, "from") or text_of(raw, "from_user_id")
        chat = chat or text_of(raw, "system", "previous_user_id")
        if is_quiet(raw) and text_of(raw, "system", "type") not in _LIVE:
            await confirm()
            return
        if not wamid or not (chat or contacts):
            self._handler.unreadable(kind or "message", "it has no id, or names nobody")
            await confirm()
            return
        key = (chat, wamid)
        if key in self._settled:
            await confirm()
            return
        self._confirmations.expect(key, confirm)
        gone = text_of(raw, "revoke", "original_message_id")
        read = partial(self._reader.read, raw, contacts)
        event = PlatformEvent(
            chat=chat,
            id=key,
            at=_seconds(raw),
            read=partial(self._delete, raw, contacts, gone) if gone else read,
            is_in_order=bool(gone),
            kind=kind or "message",
            awaited_at=ChatRef(id=chat) if is_phone(chat) or is_user_id(chat) else None,
            confirm=partial(self._settle, key, wamid),
        )
        if not self._queues.put_nowait(event):
            self._confirmations.forget(key)  # it is not answered, and comes again

    async def _settle(self, key: tuple[str, str], wamid: str) -> None:
        self._settled.note(key)
        await self._confirmations.settle(key)
        has_room = self._receipts < RECEIPTS_AT_ONCE
        # A receipt is a sign: where many are under way, further ones are left out.
        if self._account.has_receipts and has_room and not is_group(key[0]):
            self._receipts += 1
            self._tasks.start_soon(self._show_read, wamid)

    async def _show_read(self, wamid: str) -> None:
        try:
            await self._login.sender.mark_read(wamid)
        except SendError as error:
            logger.debug("a message could not be shown as read", extra={"why": str(error)})
        finally:
            self._receipts -= 1

    async def _delete(self, raw: Json, contacts: Sequence[Json], gone: str) -> tuple[()]:
        _, chat = await self._reader.whose(raw, contacts)
        await self._handler.deleted(chat.id, gone)
        return ()

    # --- statuses of the bot's own messages ---

    async def _take_status(self, raw: Json) -> None:
        """Note a status; one that failed where nobody waits for it is told to the owner."""
        failed = self._statuses.note(raw)
        if failed is None or failed.failure is None:
            return
        chat = await self._chat_of(failed)
        is_open = self._login.chats.is_open(chat, failed.at)
        if failed.failure.code == WINDOW and not is_open:
            self._login.sender.close(chat, failed.failure)
        self._handler.undelivered(chat, str(failed.failure), is_lost=True)

    async def _chat_of(self, status: Status) -> str:
        phone = next(filter(is_phone, status.names), "")
        user_id = next(filter(is_user_id, status.names), "")
        if not phone and not user_id:
            return status.names[0] if status.names else "?"
        return await self._login.people.id_of(phone, user_id)


def _seconds(raw: Json) -> int:
    text = text_of(raw, "timestamp")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 12 else 0
