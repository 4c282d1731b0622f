"""Markdown laid out as messages of Discord."""

from __future__ import annotations

import json

from support.tables import table

from everturn_channels.discord.markup import LIMIT_UNITS, render
from everturn_channels.discord.splitting import units


def shown(markdown: str, *, is_plain: bool = False) -> list[str]:
    """Return the messages of a text."""
    return [json.loads(p)["content"] for p in render(markdown, is_plain=is_plain)]


@table(
    "text",
    [
        "plain text, 2 * 3 * 4, snake_case_name",
        "# Title\ntext **bold** *em* _em_ ~~gone~~ ||spoiler|| `code`",
        "- one\n- two\n  - inner\n1. a\n2. b",
        "> quoted\n> more\n\nafter",
        "```py\nx = 1\n\ny = 2\n```",
        "[text](https://e.org/x) <https://e.org> https://e.org/a_b_c",
        "\\*not bold\\* &lt; <b>no html</b>".replace("&lt;", "<"),
        "[1]: https://e.org/source",
        "a\n---\nb",
        "-# small\n\n@everyone <@1>",
    ],
)
def test_what_discord_understands_goes_through_as_it_was_written(text: str) -> None:
    """Models write for such renderers; each change is a risk."""
    assert shown(text) == [text]


@table(
    ("text", "expected"),
    [
        ("__bold__", "**bold**"),
        ("#### Deep *one*", "**Deep *one***"),
        ("![a cat](https://e.org/cat.png)", "[a cat](https://e.org/cat.png)"),
        ("![](https://e.org/cat.png)", "https://e.org/cat.png"),
        ("[file](./x.md)", "file (./x.md)"),
        ("[its](./__test__/x.js)", r"its (./\_\_test\_\_/x.js)"),
        ("![](a_b_c.png)", r"a\_b\_c.png"),
        ("| a | b |\n|---|---|\n| 1 | **2** |", "```\na | b\n--+--\n1 | 2\n```"),
        ("> > deep", "> deep"),
        ("+ item", "- item"),
        ("~~~py\na```b\n~~~", "```py\na`\u200b``b\n```"),
        ("```py\nunfinished", "```py\nunfinished\n```"),
    ],
)
def test_what_it_does_not_understand_is_said_in_its_words(text: str, expected: str) -> None:
    """A raw table or a fourth-level heading is noise in a chat."""
    assert shown(text) == [expected]


def test_gw_07_sizes() -> None:
    """2,001 characters are two messages, and emoji count as what they cost."""
    assert [len(c) for c in shown("x" * 2000)] == [2000]
    assert len(shown("x" * 2001)) == 2
    parts = shown("🔥" * 2100)
    assert all(units(p) <= LIMIT_UNITS for p in parts)
    assert "".join(parts) == "🔥" * 2100


def test_bold_across_a_cut_is_bold_in_both() -> None:
    """GW-07: an open mark at an end formats nothing, or everything after it."""
    first, second = shown("**" + "word " * 600 + "end**")

    assert first.startswith("**word")
    assert first.endswith("word**")
    assert second.startswith("**word")
    assert second.endswith("end**")


def test_code_across_a_cut_keeps_its_language() -> None:
    """Half a program must not turn into prose."""
    parts = shown("Look:\n\n```python\n" + "x = 1\n" * 700 + "```\n\nThat is it.")
    long = shown("```py\n" + "__all__ = x\n" * 6_000 + "```")

    assert all(p.startswith("```py\n") and p.endswith("\n```") for p in long)
    assert all(p.count("```") == 2 for p in parts[:-1])
    assert [p.startswith("```python\n") for p in parts[1:]] == [True] * len(parts[1:])
    assert parts[-1].endswith("```\n\nThat is it.")


def test_links_quotes_and_list_items_go_on_after_a_cut() -> None:
    """Each message is read by itself."""
    link = shown("[" + "word " * 600 + "](https://e.org)")
    quote = shown("> " + "word " * 600)
    item = shown("- " + "word " * 600)
    nested = shown("- a\n  > **" + "word " * 600 + "end**")

    assert [p.endswith("](https://e.org)") and p.startswith("[word") for p in link] == [True] * 2
    assert [p.startswith("> word") for p in quote] == [True] * 2
    assert [p[:6] for p in item] == ["- word", "  word"]
    assert nested[1].startswith("  > **word")


def test_a_cut_falls_between_blocks_and_not_below_a_heading() -> None:
    """A heading at the end of one message belongs to the next."""
    text = "word " * 300 + "\n\n## Next\n\n" + "more " * 200
    first, second = shown(text)

    assert first.endswith("word")
    assert second.startswith("## Next\n\nmore")


def test_visible_characters_stay_whole() -> None:
    """Half a family is another emoji."""
    family = "👨‍👩‍👧‍👦"
    for text in (family * 300, "e\u0301" * 1500, "🇩🇪" * 700, "👍🏽" * 700):
        parts = shown("x" + text, is_plain=True)

        assert len(parts) > 1
        assert "".join(parts) == "x" + text
        assert all(not p.startswith(("\u200d", "\u0301", "🏽")) for p in parts)
        assert all(sum("🇦" <= c <= "🇿" for c in p) % 2 == 0 for p in parts)


@table("text", ["", "  \n\t\n", "\u200b\u200b", "#", "```\n\n```x"])
def test_nothing_to_show_is_no_message(text: str) -> None:
    """Discord refuses empty messages, and a refused chunk is a failed reply."""
    assert all(part.strip() for part in shown(text))
    if not text.strip(" \n\t\u200b"):
        assert shown(text) == []


def test_plain_text_stays_as_it_stands() -> None:
    """What is sent because formatting failed must not be formatted again."""
    assert shown("# a\n\n__b__ | c |", is_plain=True) == ["# a\n\n__b__ | c |"]


@table(
    "text",
    [
        "[" * 50_000,
        "![[" * 20_000,
        "*a " * 20_000,
        ">" * 20_000,
        "`a " * 20_000,
        "[a](" * 8_000,
        "_" * 30_001,
        "".join("  " * i + "- a\n" for i in range(300)),
        "|a" * 3000 + "\n" + "|-" * 3000 + "\n",
        "[x](https://e.org/" + "y" * 5000 + ")",
        "```" + "z" * 5000 + "\ncode\n```",
        "\ud800 lone \udfff",
        "a\0b",
    ],
)
def test_bombs_and_broken_text_are_cut_like_any_other(text: str) -> None:
    """One odd reply must not stop a chat, and never the whole bot."""
    parts = shown(text)

    assert parts
    assert all(0 < units(p) <= LIMIT_UNITS for p in parts)
