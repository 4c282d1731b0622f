"""Whatever Meta and strangers send is read, if only as nothing, and whatever is said is sent."""

from __future__ import annotations

from collections.abc import Mapping

import anyio
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from everturn.testing import RecordingHandler
from everturn_channels.whatsapp.content import described
from everturn_channels.whatsapp.failures import failure_of, to_send_error
from everturn_channels.whatsapp.markup import render, text_of
from everturn_channels.whatsapp.people import People, is_phone, is_user_id
from everturn_channels.whatsapp.statuses import Statuses

_KINDS = st.sampled_from(
    [
        *("text", "image", "audio", "location", "contacts", "sticker", "order", "unsupported"),
        *("interactive", "button", "system", "edit", "revoke", "failed", "sent", "US.1", "12345"),
    ]
)
_FIELDS = st.sampled_from(
    [
        *("type", "id", "from", "from_user_id", "timestamp", "text", "body", "context", "status"),
        *("location", "latitude", "longitude", "name", "contacts", "phones", "order", "errors"),
        *("code", "product_items", "interactive", "nfm_reply", "referral", "error_data", "title"),
        *("recipient_id", "biz_opaque_callback_data", "unsupported", "sticker"),
    ]
)
_LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | _KINDS
)
_JSON = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_FIELDS, inner, max_size=5),
    max_leaves=20,
)
_MARKUP = st.lists(
    st.sampled_from(
        [*"*_~`#>-|[]()!\\ \n", "```", "**", "word", "1. ", "https://e.org", "\u200a", "a", "é"]
    ),
    max_size=60,
)


@examples(24)
@given(st.dictionaries(_FIELDS, _JSON, max_size=8))
def test_any_message_and_any_status_is_read(raw: Mapping[str, object]) -> None:
    """As something, if only as nothing."""
    failure = failure_of(raw)
    status = Statuses().note(raw)

    assert all(described(raw))
    if failure is not None:
        assert f"{failure.code}" in str(to_send_error(failure))
    assert status is None or status.failure is not None


@examples(24)
@given(_MARKUP)
def test_any_text_is_shown_with_all_its_words(pieces: list[str]) -> None:
    """And in pieces that are taken."""
    text = "".join(pieces)
    for is_plain in (False, True):
        shown = [text_of(each) for each in render(text, is_plain=is_plain)]

        assert all(0 < len(each) <= 4_096 and each.strip() for each in shown)
        assert "".join(shown).count("word") >= (text.count("word") if is_plain else 0)


@examples(24)
@given(st.text(max_size=30) | _KINDS, st.text(max_size=30) | _KINDS)
def test_whoever_is_named_is_somebody_or_nobody(phone: str, user_id: str) -> None:
    """The same one again and again, and after a restart."""

    async def ask() -> list[str]:
        handler, found = RecordingHandler(), list[str]()
        for _ in range(2):
            try:
                found.append(await People(handler).id_of(phone, user_id))
            except ValueError:
                found.append("")
        return found

    first, again = anyio.run(ask)

    assert first == again
    assert bool(first) == (is_phone(phone) or is_user_id(user_id))


def test_nobody_is_taken_for_who_had_their_number_however_many_write() -> None:
    """More people than are kept: who comes too late is known by Meta's id, before and after."""

    async def ask() -> None:
        handler = RecordingHandler()
        people, numbers = People(handler), range(10_000_000, 10_006_000)
        first = [await people.id_of(f"{n}", f"DE.{n}") for n in numbers]
        again = [await People(handler).id_of(f"{n}", f"DE.{n}") for n in numbers]
        heirs = [await people.id_of(f"{n}", f"US.{n}") for n in numbers]

        assert first == again
        assert sum(map(is_phone, first)) > 3_500  # of the 4,000 that are kept
        assert heirs == [f"US.{n}" for n in numbers]
        assert len(handler.cursors) <= 8_000  # a channel keeps 10,000 of all kinds

    anyio.run(ask)
