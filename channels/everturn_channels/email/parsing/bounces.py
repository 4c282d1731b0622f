"""What a mail server says of a mail that could not be delivered (RFC 3464). Pure."""

from __future__ import annotations

import re
from email.message import Message
from typing import Final

from msgspec import Struct

from everturn_actors.json_values import is_list
from everturn_channels.email.parsing.fields import Fields, is_mail
from everturn_channels.email.parsing.structure import parsed
from everturn_channels.names import one_line

_RETURNED: Final = frozenset({"message/rfc822", "message/global", "message/global-headers"})
_WORDS: Final = 200
_WORK_MAX: Final = 1_000_000  # anybody can send one, without a name
_STATUS: Final = re.compile(r"5\.\d{1,3}\.\d{1,3}")


class Bounce(Struct, frozen=True, kw_only=True):
    """A mail that came back for good."""

    message_id: str
    "Of the mail that came back."
    why: str
    "In the server's words, one line."


def may_be_bounce(fields: Fields) -> bool:
    """Whether a mail may say that another one could not be delivered."""
    kind = fields.first("content-type").lower()
    return kind.startswith("multipart/report") and "delivery-status" in kind


def bounce_of(raw: bytes) -> Bounce | None:
    """Return what came back; None where nothing did, or only for now."""
    message, _ = parsed(raw, _WORK_MAX)
    why = message_id = ""
    for part in message.walk():
        kind = part.get_content_type()
        if kind == "message/delivery-status" and not why:
            why = _why(part)
        elif kind in _RETURNED and part.is_multipart() and not message_id:
            within = part.get_payload(0)
            message_id = Fields(within).message_id if is_mail(within) else ""
        elif kind == "text/rfc822-headers" and not message_id:
            data = part.get_payload(decode=True)
            message_id = Fields.of(data).message_id if isinstance(data, bytes) else ""
    return Bounce(message_id=message_id, why=why) if why and message_id else None


def _why(part: Message) -> str:
    """Return why a recipient was given up; empty where none was."""
    blocks = part.get_payload()
    for block in blocks if is_list(blocks) else ():
        if not is_mail(block):
            continue
        fields = Fields(block)
        failed = fields.first("action").lower() == "failed"
        if failed and _STATUS.match(fields.first("status")):
            said = fields.text("diagnostic-code") or fields.first("status")
            return one_line(said.partition(";")[2] or said, _WORDS)
    return ""
