"""What a message holds beside text and files, in words that a model reads. Pure.

Kinds that are not known have words as well: nothing that somebody sent is a silence.
Source: https://developers.facebook.com/documentation/business-messaging/whatsapp/webhooks/reference/messages
(updated 2026-06-17, read 2026-11-27), one page for each kind; the kinds that are not passed on, of
https://docs.ycloud.com/en/documentation/inbox/unsupported-messages-in-inbox, read the same day.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from everturn_channels.ingestion.described import quoted, short, unknown_kind
from everturn_channels.ingestion.json_fields import Json, number_of, object_of, objects_of, text_of

_QUIET: Final = frozenset({"request_welcome", "system"})
_QUIET_ACTS: Final = frozenset({"keep_in_chat", "link_preview", "pin", "reaction"})
"What people do with a message that stands there, and that is not passed on."
_FILES: Final = frozenset({"image", "video", "audio", "document"})
_READ: Final = frozenset({"text", "button"}) | _FILES
"Kinds whose words or files are read."
_UNAVAILABLE: Final = 131060
_FORM: Final = 1_400  # of the answer to a form, which may be all that they say
_NUMBERS: Final = (int, float)
_SECONDS_MAX: Final = 11  # digits of a time


def time_of(raw: Json) -> datetime:
    """Return when something was written, or told; UTC.

    Raises:
        ValueError: It does not say.
    """
    seconds = text_of(raw, "timestamp")
    if not (seconds.isascii() and seconds.isdecimal()) or len(seconds) > _SECONDS_MAX:
        msg = f"{seconds[:40]!r} is no time"
        raise ValueError(msg)
    return datetime.fromtimestamp(int(seconds), UTC)


def is_quiet(raw: Json) -> bool:
    """Whether nobody expects an answer to a message."""
    return text_of(raw, "type") in _QUIET or text_of(raw, "unsupported", "type") in _QUIET_ACTS


def described(raw: Json) -> tuple[str, ...]:
    """Return what a message holds beside text and files."""
    kind = text_of(raw, "type")
    found = [_KINDS[kind](raw)] if kind in _KINDS else []
    if not found and kind not in _READ:
        found.append(unknown_kind(short(kind) or "none"))
    if kind in _FILES and not text_of(raw, kind, "id"):
        found.append(f"{kind} that WhatsApp does not pass on")
    told = (text_of(raw, "referral", each) for each in ("headline", "body", "source_url"))
    if advertisement := next(filter(None, told), ""):
        found.append(f"they came by the advertisement {quoted(advertisement)}")
    if product := text_of(raw, "context", "referred_product", "product_retailer_id"):
        found.append(f"about the product {quoted(product)} of the catalogue")
    return tuple(found)


def _location(raw: Json) -> str:
    place = object_of(raw, "location")
    at = [place.get(each) for each in ("latitude", "longitude")]
    shown = ", ".join(f"{each:.6g}" for each in at if isinstance(each, _NUMBERS))
    where = f"location {shown}".rstrip()
    name, address = text_of(place, "name"), text_of(place, "address")
    if not name and not address:
        return where
    return f"venue {', '.join(quoted(each) for each in (name, address) if each)}, {where}"


def _contacts(raw: Json) -> str:
    return "; ".join(_contact(each) for each in objects_of(raw, "contacts")) or "contact"


def _contact(raw: Json) -> str:
    phones = [text_of(each, "phone") for each in objects_of(raw, "phones")]
    emails = [text_of(each, "email") for each in objects_of(raw, "emails")]
    named = f"contact {quoted(text_of(raw, 'name', 'formatted_name'))}"
    return ", ".join([named, *map(short, filter(None, [*phones, *emails]))])


def _sticker(raw: Json) -> str:
    return "animated sticker" if object_of(raw, "sticker").get("animated") is True else "sticker"


def _order(raw: Json) -> str:
    items = objects_of(raw, "order", "product_items")
    shown = ", ".join(
        f"{each.get('quantity')} x {short(text_of(each, 'product_retailer_id'))} at"
        f" {each.get('item_price')} {short(text_of(each, 'currency'))}"
        for each in items
    )
    note = text_of(raw, "order", "text")
    return f"order of {shown or 'nothing'}" + (f", {quoted(note)}" if note else "")


def _unsupported(raw: Json) -> str:
    if any(number_of(each, "code") == _UNAVAILABLE for each in objects_of(raw, "errors")):
        return "message that WhatsApp could not pass on this time: it has to be sent again"
    kind = text_of(raw, "unsupported", "type").replace("_", " ")
    named = f": {short(kind)}" if kind and kind != "unknown" else ""
    return f"message of a kind that WhatsApp does not pass on to bots{named}"


def _answer(raw: Json) -> str:
    kind = text_of(raw, "interactive", "type")
    answer = text_of(raw, "interactive", "nfm_reply", "response_json")
    if answer:
        return f"answer to a form {quoted(answer, _FORM)}"
    return f"answer of a kind that is not known here: {short(kind) or 'none'}"


_KINDS: Final[Mapping[str, Callable[[Json], str]]] = {
    "location": _location,
    "contacts": _contacts,
    "sticker": _sticker,
    "order": _order,
    "unsupported": _unsupported,
    "unknown": _unsupported,
    "interactive": _answer,  # choices are clicks, and come not here
}
