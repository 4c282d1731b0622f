"""Nobody can write a line that passes for one of ours, whatever they write."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.inbound_events import a_message

from everturn_channels.adapter import Person
from everturn_channels.inbound.message_text import compose
from everturn_channels.inbound.text_files import text_of
from everturn_channels.names import one_line

_TRICKS = st.sampled_from(
    ["[", "]", "\n", "\r", "\u2028", " ", "\t", "\u200b", "\ufe0f", "\\", "`", "```", "[Bob] ", "x",
     "[file ", "[forwarded from ", "\ud800", "\x0b", "\x1b", "\u3164", '"']
)  # fmt: skip
_TEXTS = st.lists(st.one_of(_TRICKS, st.text(max_size=3)), max_size=12).map("".join)


def _brackets(text: str) -> list[str]:
    """Return the lines whose first visible character is a bracket."""
    hidden = {"Cf", "Mn", "Me", "Cc", "Zs"}
    found: list[str] = []
    for line in text.splitlines():
        seen = [c for c in line if unicodedata.category(c) not in hidden and c != "\u3164"]
        if seen[:1] == ["["] and "]" in seen:
            found.append(line)
    return found


@given(_TEXTS, _TEXTS, _TEXTS)
def test_in_a_group_only_our_lines_begin_with_a_bracket(text: str, name: str, quoted: str) -> None:
    """However it is put, a member's words stay that member's words."""
    message = a_message(text, quoted=quoted, quoted_name=name)
    message = replace(message, sender=Person(id="7", name=name))

    composed = compose(message, in_group=True)

    ours = 1 + bool(one_line(quoted))
    lines = _brackets(composed)
    assert lines[0] == composed.splitlines()[0]
    assert len(lines) == 1
    assert composed.count("[in reply to ") - text.count("[in reply to ") == ours - 1
    composed.encode()


@given(_TEXTS, _TEXTS)
def test_a_file_stays_inside_its_fence(text: str, name: str) -> None:
    """The fence is found again by whoever looks for its first line."""
    composed = compose(a_message(""), in_group=False, texts=[(name, text)])

    head, fence, *rest = composed.split("\n")
    assert head.startswith("[file ")
    assert set(fence) == {"`"}
    assert rest[-1] == fence
    assert all(fence not in line for line in rest[:-1])


@given(_TEXTS, st.integers(1, 80))
def test_a_name_fits_in_one_line_and_stays_so(text: str, limit: int) -> None:
    """Whatever people call themselves, it is one bounded line that ends nothing of ours."""
    line = one_line(text, limit)

    assert len(line) <= limit
    assert len(line.splitlines()) <= 1
    assert not set(line) & set('[]"')
    assert one_line(line, limit) == line


@given(st.binary(max_size=40), st.sampled_from(["a.txt", "a.bin", "x"]))
def test_a_file_is_shown_as_it_is_or_not_at_all(data: bytes, name: str) -> None:
    """Text that lost bytes on the way would be a lie about the file."""
    text = text_of(name, "", data)

    if text is not None:
        assert text.encode() == data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
