"""Updates of Telegram, made bad: left out, or an event that a channel can take.

See `test_fuzz_journal` for how to run it for longer.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final

from aiogram.types import Update
from hypothesis import example, given
from hypothesis import strategies as st
from support.examples import examples
from support.mutations import as_json, mutated
from support.odd_events import API, LINKED, SAID, TELEGRAM_UPDATES
from support.telegram_api import ANN, BOT, BOT_ID

from everturn_channels.adapter import ChatMoved, Message
from everturn_channels.telegram.mapping import Note, Reading, chat_of, merged
from everturn_channels.telegram.updates import album_of, number_of, numbered, read_update

NOW: Final = datetime(2026, 11, 22, tzinfo=UTC)


class NoReach:
    """Nothing is answered or fetched here."""

    async def fetch(self, file_id: str, size_bytes: int | None, limit_bytes: int) -> bytes:
        raise AssertionError((file_id, size_bytes, limit_bytes))

    async def answer(self, chat: str, topic: str, reply_to: str, text: str) -> None:
        raise AssertionError((chat, topic, reply_to, text))

    async def answer_click(self, query_id: str, text: str) -> None:
        raise AssertionError((query_id, text))

    def whole_of(self, chat: str, message_id: str) -> str:
        """Know of no album."""
        return message_id if chat else ""

    def topic_of(self, chat: str, message_id: str) -> str | None:
        return {"8": "17"}.get(message_id) if chat else None


READING: Final = Reading(bot_id=BOT_ID, username=BOT, reach=NoReach())


def sent(update: object) -> bytes:
    """Return a page with one update."""
    return as_json([{"update_id": 5} | update if isinstance(update, dict) else update])


def arrive(data: bytes) -> None:
    """Take a page of updates as polling does; check what comes of it."""
    try:
        page = json.loads(data)
    except (ValueError, RecursionError):
        return  # the client refuses the whole answer and asks again
    page = [raw for raw in page if isinstance(raw, dict)]
    for raw in numbered(page):
        assert number_of(raw) > 0
        update = read_update(raw)
        if update is not None:
            check(update)


def numbering(updates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return updates with their numbers."""
    return [{"update_id": number, **update} for number, update in enumerate(updates, 1)]


def check(update: Update) -> None:
    """Check that an update is nobody's word, or something that an handler can take."""
    assert isinstance(chat_of(update), int)
    assert isinstance(album_of(update), str)
    event = READING.event(update, NOW)
    if isinstance(event, Note | ChatMoved):
        return
    assert event.chat.id.lstrip("-").isdigit()
    assert event.chat.type in {"dm", "group", "channel"}
    assert event.at.tzinfo is UTC
    if isinstance(event, Message):
        together = merged([event, event])
        assert len(together.files) == 2 * len(event.files)
        assert len(event.quoted) <= 1_001


@examples(75)
@given(st.sampled_from(TELEGRAM_UPDATES).flatmap(mutated).map(sent))
@example(b'[{"update_id":"x"},{"update_id":true},{},{"update_id":-5},{"update_id":1e300}]')
@example(as_json([{"update_id": 5, "edited_message": SAID | {"edit_date": 10**17}}]))
@example(as_json([{"update_id": 5, "message": SAID | {"date": "0001-01-01T00:00:00+14:00"}}]))
@example(
    as_json(
        [
            {
                "update_id": 5,
                "message": LINKED
                | {"entities": [{"type": "text_link", "offset": 2, "length": 7, "url": "\ud800"}]},
            }
        ]
    )
)
def test_any_update_is_left_out_or_arrives(data: bytes) -> None:
    """What cannot be taken comes again with every poll: one odd update would silence the bot."""
    arrive(data)


@examples(20)
@given(
    st.lists(st.sampled_from(TELEGRAM_UPDATES), min_size=1, max_size=4)
    .map(numbering)
    .flatmap(mutated)
)
def test_no_update_hides_those_after_it(page: object) -> None:
    """A page has up to a hundred, of as many people."""
    if isinstance(page, list):
        arrive(as_json([*page, {"update_id": 77, "message": API.message("hi", chat=ANN)}]))
