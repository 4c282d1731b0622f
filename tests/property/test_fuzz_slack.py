"""Whatever Slack and strangers send is read, if only as nothing."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from everturn_channels.slack.files import has_file
from everturn_channels.slack.formats import content, text
from everturn_channels.slack.formats.emojis import name_of

_WORDS = st.sampled_from(
    ["message", "file_share", "<@U1>", "<@U1|a>", "<!here>", "<a|b>", "&lt;", "1.2", "U1", ""]
)
_FIELDS = st.sampled_from(
    [
        *("type", "subtype", "user", "bot_id", "text", "ts", "thread_ts", "files", "attachments"),
        *("is_share", "author_name", "room", "name", "size", "edited", "fallback"),
        *("blocks", "message_blocks", "message", "elements", "rows"),
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


@examples(24)
@given(st.dictionaries(_FIELDS, _JSON, max_size=8), st.lists(_WORDS | st.text(max_size=9)))
def test_any_message_is_read(raw: Mapping[str, object], words: list[str]) -> None:
    """As something, if only as nothing."""
    written = "".join(words)
    read = text.readable(written, {"U1": "Ann"}, "U1")
    passed_on = [each for one in content.passed_on(raw) for each in (one.written, one.author)]

    assert "<@U1>" not in read or "&lt;" in written or "<<" in written
    assert isinstance(text.is_from_person(raw), bool)
    assert all(
        isinstance(each, str)
        for each in (
            *(text.thread_of(raw), content.written_in(raw)),
            *(*passed_on, *content.embeds_in(raw), *content.described(raw)),
        )
    )
    assert text.order_of(written) >= (0, 0)
    assert isinstance(has_file([raw], "a", 1, "U1"), str)
    assert isinstance(name_of(written), str)
