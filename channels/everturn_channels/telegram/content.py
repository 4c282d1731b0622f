"""What a message holds beside text and files, in words that a model reads. Pure.

`location 52.52, 13.405, live`, `poll "Lunch?": Pizza / Salad`. Source:
https://core.telegram.org/bots/api#message, read 2026-11-26.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from aiogram import types
from aiogram.enums import ContentType

from everturn_channels.ingestion.described import quoted, short, unknown_kind

Described: TypeAlias = types.Message | types.ExternalReplyInfo


def described(message: Described) -> str:
    """Return what a message holds beside text and files; empty = nothing."""
    for kind, words in _KINDS.items():
        value = getattr(message, kind, None)
        if value:
            return words(value)
    if isinstance(message, types.Message) and message.content_type == ContentType.UNKNOWN:
        return unknown_kind()
    return ""


def is_anothers(message: Described) -> bool:
    """Whether what it holds may be the words of somebody who did not send it."""
    return any(getattr(message, kind, None) for kind in _ANOTHERS)


def _location(value: types.Location) -> str:
    live = ", live" if value.live_period else ""
    return f"location {value.latitude:.6g}, {value.longitude:.6g}{live}"


def _venue(value: types.Venue) -> str:
    return f"venue {quoted(value.title)}, {quoted(value.address)}, {_location(value.location)}"


def _contact(value: types.Contact) -> str:
    name = " ".join(filter(None, (value.first_name, value.last_name)))
    return f"contact {quoted(name)}, {value.phone_number}"


def _poll(value: types.Poll) -> str:
    options = " / ".join(short(each.text) for each in value.options)
    closed = ", closed" if value.is_closed else ""
    kind = "quiz" if value.type == "quiz" else "poll"
    return f"{kind} {quoted(value.question)}: {options}{closed}"


def _dice(value: types.Dice) -> str:
    return f"dice {value.emoji} {value.value}"


def _sticker(value: types.Sticker) -> str:
    of = f" of {quoted(value.set_name)}" if value.set_name else ""
    return f"sticker {value.emoji or ''}".rstrip() + of


def _story(value: types.Story) -> str:
    return f"story of {quoted(value.chat.title or value.chat.full_name or str(value.chat.id))}"


def _checklist(value: types.Checklist) -> str:
    tasks = (
        f"{'done' if each.completion_date else 'open'}: {short(each.text)}" for each in value.tasks
    )
    return f"checklist {quoted(value.title)}: {' / '.join(tasks)}"


def _game(value: types.Game) -> str:
    return f"game {quoted(value.title)}: {short(value.description)}"


def _invoice(value: types.Invoice) -> str:
    amount = f"{value.total_amount} {value.currency} in its smallest unit"
    return f"invoice {quoted(value.title)}, {amount}"


def _said(words: str) -> Callable[[object], str]:
    return lambda _: words


_KINDS: Final[Mapping[str, Callable[[Any], str]]] = {
    "sticker": _sticker,
    "venue": _venue,  # before the location that it has as well
    "location": _location,
    "contact": _contact,
    "poll": _poll,
    "dice": _dice,
    "game": _game,
    "story": _story,
    "checklist": _checklist,
    "invoice": _invoice,
    "live_photo": _said("live photo"),
    "paid_media": _said("paid media"),
    "gift": _said("gift"),
    "unique_gift": _said("gift"),
    "giveaway": _said("giveaway"),
    "rich_message": _said("rich message"),
}
_ANOTHERS: Final = frozenset(("story", "game", "invoice"))
