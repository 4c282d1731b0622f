"""What Meta says later of the messages that the bot sent.

The answer to a request says alone that a message was accepted: whether it goes out comes to the
webhook, as `sent`, `delivered`, `read`, `played` or `failed`. So whoever sent it waits a moment
for the first of them: then a failure is that of the message, and the next one of a reply is sent
when the one before is under way (Meta promises no order else). Each message carries its nonce as
`biz_opaque_callback_data`, which comes back with its statuses: so a message whose answer was lost
is known once one of them came.

Source: https://developers.facebook.com/documentation/business-messaging/whatsapp/webhooks/reference/messages/status
(updated 2026-05-21, read 2026-11-27). That the field comes back with statuses was read of clients
of the API alone (whatsapp-api-js 6.2.1), not at Meta.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

import anyio
from msgspec import Struct

from everturn_channels.ingestion.json_fields import Json, objects_of, text_of
from everturn_channels.whatsapp.chats import keep
from everturn_channels.whatsapp.content import time_of
from everturn_channels.whatsapp.failures import Failure, failure_of

WAIT_S: Final = 5.0
_KNOWN_MAX: Final = 5_000
_UNKNOWN: Final = Failure(code=131000, words="Meta does not say why")


class Status(Struct, frozen=True, kw_only=True):
    """What became of a message."""

    id: str
    "Of the message."
    nonce: str
    failure: Failure | None
    "None = it is under way, or arrived."
    at: datetime
    "When that was so; UTC."
    names: tuple[str, ...] = ()
    "By which its recipient is named: a number, a user id; of a group, its id."


class Statuses:
    """The newest statuses of one number, and who waits for one."""

    def __init__(self) -> None:
        self._by_id: OrderedDict[str, Status] = OrderedDict()
        self._by_nonce: OrderedDict[str, Status] = OrderedDict()
        self._waits: dict[str, anyio.Event] = {}
        self._in_flight: Counter[tuple[str, str]] = Counter()
        "By chat and nonce, messages whose ids are not known yet."
        self._is_deaf = False
        "Whether none came when one was awaited: they may go to another gateway."

    def note(self, raw: Json) -> Status | None:
        """Note a status; return one that failed where nobody waits to be told: it is news.

        Statuses come in no order: what failed stays so, and the same one more time is no news.
        """
        status = _status_of(raw)
        if status is None:
            return None
        self._is_deaf = False
        before = self._by_id.get(status.id)
        if before is not None and before.failure is not None:
            return None
        keep(self._by_id, status.id, status, _KNOWN_MAX)
        if status.nonce:
            keep(self._by_nonce, status.nonce, status, _KNOWN_MAX)
        if wait := self._waits.get(status.id):
            wait.set()
            return None
        is_expected = any(
            chat in status.names and status.nonce in {"", nonce} for chat, nonce in self._in_flight
        )
        return None if status.failure is None or is_expected else status

    def of_nonce(self, nonce: str) -> Status | None:
        """Return the newest status of a message by its nonce; None = none came."""
        return self._by_nonce.get(nonce) if nonce else None

    @contextmanager
    def expecting(self, chat: str, nonce: str) -> Generator[None]:
        """Take a failure in a chat, while the block runs, for that of what is sent there now.

        Unless it names another nonce. Ask for its `first` as soon as the block is left.
        """
        sent = chat, nonce
        self._in_flight[sent] += 1
        try:
            yield
        finally:
            self._in_flight[sent] -= 1
            if not self._in_flight[sent]:
                del self._in_flight[sent]

    async def first(self, wamid: str) -> Status | None:
        """Return the first status of a message, as soon as it comes; None = it takes too long."""
        if wamid not in self._by_id and not self._is_deaf:
            self._waits[wamid] = wait = anyio.Event()
            try:
                with anyio.move_on_after(WAIT_S) as scope:
                    await wait.wait()
            finally:
                del self._waits[wamid]
            self._is_deaf = scope.cancelled_caught
        return self._by_id.get(wamid)


def _status_of(raw: Json) -> Status | None:
    wamid, kind = text_of(raw, "id"), text_of(raw, "status")
    if not wamid or not kind:
        return None
    failure = None
    if kind == "failed":
        found = map(failure_of, objects_of(raw, "errors"))
        failure = next(filter(None, found), _UNKNOWN)
    names = (text_of(raw, "recipient_id"), text_of(raw, "recipient_user_id"))
    return Status(
        id=wamid,
        nonce=text_of(raw, "biz_opaque_callback_data"),
        failure=failure,
        at=_at(raw),
        names=tuple(filter(None, names)),
    )


def _at(raw: Json) -> datetime:
    """Return when a status was so; of one that does not say, the beginning of time."""
    try:
        return time_of(raw)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
