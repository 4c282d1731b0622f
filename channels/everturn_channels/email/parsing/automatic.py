"""Which mail was written by a machine, and is answered by nobody. Pure.

Two machines that answer each other do so for ever. Sources: RFC 3834, section 2, and RFC 5230,
section 4.6, read 2026-11-27.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Final

from everturn_channels.email.account import EmailAccount
from everturn_channels.email.parsing.fields import Fields
from everturn_channels.names import one_line

_BULK: Final = frozenset({"bulk", "junk", "list", "auto_reply"})
_FIELDS: Final = frozenset({"x-autoreply", "x-autorespond", "x-loop"})
_MACHINES: Final = re.compile(
    r"(mailer-daemon|postmaster|majordomo|listserv|(do[-_.]?)?no[-_.]?t?[-_.]?reply|bounces?)([+=-].*)?"
)
_HOUR: Final = timedelta(hours=1)
_ADDRESSES_MAX: Final = 4_096


def why_unanswered(fields: Fields, account: EmailAccount) -> str:
    """Return why nobody answers a mail; empty = a person seems to have written it."""
    sender = fields.sender.address
    if sender and account.is_own(sender):
        return "it is the bot's own"
    kind = fields.first("auto-submitted").partition(";")[0].strip().lower()
    if kind and kind != "no":
        return f"Auto-Submitted: {one_line(kind)}"
    if fields.first("content-type").lower().startswith("multipart/report"):
        return "a report, as of a mail that was opened"
    if fields.first("precedence").lower() in _BULK:
        return f"Precedence: {fields.first('precedence').lower()}"
    if "return-path" in fields.names and fields.first("return-path").replace(" ", "") == "<>":
        return "an empty Return-Path"
    for name in fields.names:
        if name.startswith("list-") or name in _FIELDS:
            return f"the field {one_line(name)}"
    if _MACHINES.fullmatch(sender.rpartition("@")[0]):
        return "its sender is a program"
    return ""


class HourlyLimit:
    """Lets so many mails of one address through in an hour, by when the server took them."""

    def __init__(self, per_hour: int) -> None:
        self._per_hour = per_hour
        self._taken: OrderedDict[str, list[datetime]] = OrderedDict()

    def may(self, address: str, at: datetime) -> bool:
        """Return whether one more is let through; if so, it counts."""
        recent = [each for each in self._taken.pop(address, []) if each > at - _HOUR]
        is_let = len(recent) < self._per_hour
        self._taken[address] = [*recent, at] if is_let else recent
        if len(self._taken) > _ADDRESSES_MAX:
            self._taken.popitem(last=False)
        return is_let
