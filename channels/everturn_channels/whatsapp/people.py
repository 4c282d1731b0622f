"""By which id a person is known, who may show a telephone number, an id of Meta's, or both.

Source: https://developers.facebook.com/documentation/business-messaging/whatsapp/business-scoped-user-ids
(updated 2026-11-05, read 2026-11-27): since April 2026 each message names a business-scoped user id
(`US.13491208655302741918`); whoever takes a user name may hide the number. `to` takes a number,
`recipient` such an id, and Meta recommends the number where it is known. Such an id stays as long
as its person has their number (https://developer.zendesk.com/documentation/conversations/messaging-platform/programmable-conversations/whatsapp-bsuid-migration/,
read 2026-11-27); that whoever gets the number later has another one follows from it, and was not
tried.
"""

from __future__ import annotations

import logging
import re
from hashlib import sha256
from typing import Final

from everturn_channels.adapter import InboundHandler

logger = logging.getLogger(__name__)

_PHONE: Final = re.compile(r"[0-9]{5,20}")
_USER_ID: Final = re.compile(r"[A-Z]{2}\.(ENT\.)?[A-Za-z0-9]{1,128}")
_SLOTS: Final = 4_000
"Of numbers, and as many of ids: each write of the cursors holds all, and they drop what is oldest."
_TRIES: Final = 8
"Slots that a name may have."


def is_phone(text: str) -> bool:
    """Return whether a text is a telephone number as WhatsApp writes it: digits alone."""
    return _PHONE.fullmatch(text) is not None


def is_user_id(text: str) -> bool:
    """Return whether a text is a business-scoped user id.

    >>> is_user_id("US.13491208655302741918"), is_user_id("16505551234")
    (True, False)
    """
    return _USER_ID.fullmatch(text) is not None


def is_group(chat_id: str) -> bool:
    """Return whether a chat is a group: whatever names no person."""
    return not is_phone(chat_id) and not is_user_id(chat_id)


def recipient_of(chat_id: str) -> dict[str, object]:
    """Return the fields of a message that say to whom it goes."""
    if is_user_id(chat_id):
        return {"recipient_type": "individual", "recipient": chat_id}
    kind = "individual" if is_phone(chat_id) else "group"
    return {"recipient_type": kind, "to": chat_id}


class People:
    """The people of one number: each keeps the id by which they were known first.

    Operators give a number to somebody else once it was free for a while. Meta's id says so: it
    stays as long as a person has their number, and another person has another one. They are then
    known by that, and by nothing that the one before them was let in for. So nobody is known by a
    number whose holder cannot be kept, as there is no more place: Meta's id says who they are.
    """

    def __init__(self, handler: InboundHandler) -> None:
        self._handler = handler

    async def id_of(self, phone: str, user_id: str) -> str:
        """Return the id of somebody who shows a number, an id of Meta's, or both.

        Whoever wrote with a number and hides it later stays who they were.

        Raises:
            ValueError: It is neither.
        """
        phone = phone if is_phone(phone) else ""
        if not is_user_id(user_id):
            if not phone:
                msg = "it names neither a telephone number nor a user id"
                raise ValueError(msg)
            return phone
        holder = self._kept("number", phone) if phone else user_id
        known = self._kept("id", user_id)
        if not holder and known in {"", phone} and await self._keep("number", phone, user_id):
            holder = user_id
        found = known or (phone if phone and holder == user_id else user_id)
        if not known:
            await self._keep("id", user_id, found)
            if holder != user_id:
                why = "is somebody else's now" if holder else "is one too many to keep"
                extra = {"chat": found, "number": phone}
                logger.warning("a telephone number %s: allow the id of Meta's", why, extra=extra)
        return found

    def _kept(self, kind: str, name: str) -> str:
        """Return what is kept of a name; empty = nothing."""
        for slot in _slots(kind, name):
            whose, _, value = self._handler.cursor(slot).partition(" ")
            if whose == name:
                return value
        return ""

    async def _keep(self, kind: str, name: str, value: str) -> bool:
        """Keep what is known of a name where no other is kept; return whether there was a place."""
        for slot in _slots(kind, name):
            if not self._handler.cursor(slot):
                await self._handler.keep_cursor(slot, f"{name} {value}")
                return True
        return False


def _slots(kind: str, name: str) -> list[str]:
    first = int(sha256(name.encode()).hexdigest(), 16)
    return [f"{kind}:{(first + step) % _SLOTS}" for step in range(_TRIES)]
