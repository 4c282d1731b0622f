"""Whatever a homeserver and strangers send is read, if only as nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from everturn_channels.matrix import content, markup

ME, NAME = "@bot:everturn.test", "Bot"
NOW = datetime(2026, 11, 26, tzinfo=UTC)
_WORDS = st.sampled_from(
    [
        "m.text",
        "m.file",
        "m.emote",
        "m.replace",
        "m.thread",
        "m.annotation",
        "1️⃣",
        "> a\n\nb",
        ME,
        "",
    ]
)
_FIELDS = st.sampled_from(
    [
        "msgtype",
        "body",
        "filename",
        "info",
        "m.relates_to",
        "rel_type",
        "event_id",
        "key",
        "m.in_reply_to",
        "is_falling_back",
        "m.mentions",
        "user_ids",
        "m.poll",
        "question",
        "answers",
        "m.text",
        "origin_server_ts",
    ]
)
_LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | _WORDS
)
_JSON = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_FIELDS, inner, max_size=5),
    max_leaves=20,
)
_OBJECTS = st.dictionaries(_FIELDS, _JSON, max_size=8)


@examples(100)
@given(_OBJECTS, st.sampled_from(["m.room.message", "m.sticker", "m.poll.start", "m.new"]))
def test_any_content_is_read(found: Mapping[str, object], kind: str) -> None:
    """As something, if only as nothing."""
    text = content.body_of(found, NAME)
    relation = content.related(found)
    button = content.button_of(found)

    assert isinstance(text, str)
    assert isinstance(content.described(kind, found), str)
    assert isinstance(content.mentions(found, ME, NAME), bool)
    assert content.without_name(text, ME, NAME) in {text.strip(), *_ends(text)}
    assert content.time_of(found, NOW).tzinfo is UTC
    assert all(isinstance(each, str) for each in (relation.thread, relation.replaces))
    assert button is None or button in range(10)


def _ends(text: str) -> set[str]:
    return {text[at:].strip() for at in range(len(text) + 1)}


@examples(60)
@given(st.text(max_size=300), st.booleans())
def test_any_text_can_be_said(text: str, is_plain: bool) -> None:
    """Each piece is a message, and nobody is notified by what it holds."""
    for payload in markup.render(text, is_plain=is_plain):
        said = markup.content_of(payload, is_repeat=True)

        assert str(said["body"]).strip()
        assert said["m.mentions"] == {}
