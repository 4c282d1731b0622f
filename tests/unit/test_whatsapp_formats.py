"""Markdown as WhatsApp shows it, what an error means, and what a setting says."""

from __future__ import annotations

from support.tables import table

from everturn_actors.model import ConversationKey
from everturn_channels.whatsapp.markup import CHUNK_UNITS, render, text_of
from everturn_channels.whatsapp.people import recipient_of
from everturn_gateway.builtin.whatsapp import WHATSAPP


@table(
    ("markdown", "shown"),
    [
        ("# A *title*", "*A _title_*"),
        ("**bold *both* more**", "*bold _both_ more*"),
        ("~~gone~~ and `code`", "~gone~ and `code`"),
        ("a `` b`c `` d", "a ```b`c``` d"),
        ("[here](https://e.org) <https://e.org>", "here (https://e.org) https://e.org"),
        ("**[here](https://e.org)**", "*here (https://e.org)*"),
        ("![a cat](https://e.org/c.png)", "a cat (https://e.org/c.png)"),
        ("half**word**s", "halfwords"),
        ("**one\ntwo**", "*one*\n*two*"),
        ("## See `x` now", "*See* `x` *now*"),
        ("- a\n  - b\n\n1. c", "- a\n  - b\n\n1. c"),
        ("> one\n> two\n\nthree", "> one\n> two\n\nthree"),
        ("|a|b|\n|-|-|\n|1|2|", "```\na | b\n--+--\n1 | 2\n```"),
        ("```py\nx = '*y*'\n```", "```\nx = '*y*'\n```"),
        ("2 * 3 * 4, snake_case_name", "2 * 3 * 4, snake_case_name"),
        ("<b>no html</b>", "<b>no html</b>"),
        ("\\*no\\* format", "*\u200ano* format"),
    ],
)
def test_markdown_is_written_as_whatsapp_writes_it(markdown: str, shown: str) -> None:
    """Formats that it does not know become what it knows; nothing is lost."""
    assert [text_of(each) for each in render(markdown)] == [shown]


@table(
    ("plain", "shown"),
    [
        ("rm *.py *.pyc", "```rm *.py *.pyc```"),
        ("a\nmv _x_ y\nb", "a\n```mv _x_ y```\nb"),
        ("2 * 3", "2 * 3"),
        ("echo `id` *x*", "echo `\u200aid` *\u200ax*"),
    ],
)
def test_plain_text_shows_as_it_stands(plain: str, shown: str) -> None:
    """Else whoever allows a command would read another one."""
    assert [text_of(each) for each in render(plain, is_plain=True)] == [shown]


def test_a_long_text_comes_in_pieces_that_whatsapp_takes() -> None:
    """Code is closed and opened again; the line above a repeat has room."""
    code = "\n".join(f"line {number}" for number in range(1_500))
    pieces = render(f"before\n\n```py\n{code}\n```\n\n{'*' * 6_000}")
    shown = [text_of(each, is_repeat=True) for each in pieces]

    assert all(len(each.encode("utf-16-le")) // 2 <= 4_096 for each in shown)
    assert all(each.count("```") % 2 == 0 for each in shown[:3])
    assert shown[0].startswith("(This may be a repeat.)\nbefore")
    assert "line 1499" in "".join(shown)
    assert CHUNK_UNITS < 4_096


@table(
    ("chat", "fields"),
    [
        ("16505551234", {"recipient_type": "individual", "to": "16505551234"}),
        ("US.13491", {"recipient_type": "individual", "recipient": "US.13491"}),
        ("Y2FwaV9ncm91cDox", {"recipient_type": "group", "to": "Y2FwaV9ncm91cDox"}),
    ],
)
def test_a_chat_is_a_number_an_id_or_a_group(chat: str, fields: dict[str, str]) -> None:
    """By its id alone, also before anything was heard of it."""
    key = ConversationKey(channel="whatsapp", chat=chat, agent="a")
    kind = "group" if fields["recipient_type"] == "group" else "dm"

    assert recipient_of(chat) == fields
    assert WHATSAPP.chat_type is not None
    assert WHATSAPP.chat_type(key) == kind
