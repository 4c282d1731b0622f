"""Markdown as Telegram shows it: what fits, what stays intact, what cannot hurt."""

from __future__ import annotations

import json
import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.tables import table

from everturn_channels.telegram import markup
from everturn_channels.telegram.markup import CHUNK_UNITS, render


def chunks(markdown: str, *, is_plain: bool = False) -> list[dict[str, Any]]:
    """Lay a text out, and see that each message is one that Telegram takes."""
    found = [json.loads(payload) for payload in render(markdown, is_plain=is_plain)]
    for chunk in found:
        text, entities = chunk["text"], chunk["entities"]
        size = len(text.encode("utf-16-le")) // 2
        assert 0 < size <= CHUNK_UNITS < 4096
        assert text.strip()
        assert len(entities) <= 100
        for entity in entities:
            assert 0 <= entity["offset"] < entity["offset"] + entity["length"] <= size
    return found


def shown(chunk: dict[str, Any], kind: str) -> list[str]:
    """Return what is formatted so."""
    data = chunk["text"].encode("utf-16-le")
    return [
        data[2 * e["offset"] : 2 * (e["offset"] + e["length"])].decode("utf-16-le")
        for e in chunk["entities"]
        if e["type"] == kind
    ]


def test_formatting_becomes_entities_in_utf16_units() -> None:
    """Offsets in other units format the wrong words as soon as there is an emoji."""
    (chunk,) = chunks("🔥 **bold** `code` [site](https://a.example) [file](notes/a.md)\n\n# Title")

    assert chunk["text"] == "🔥 bold code site file (notes/a.md)\n\nTitle"
    assert shown(chunk, "bold") == ["bold", "Title"]
    assert shown(chunk, "code") == ["code"]
    assert shown(chunk, "text_link") == ["site"]


@table(
    ("text", "count"),
    [("x" * 4097, 2), ("🔥" * 2100, 2), ("x" * CHUNK_UNITS, 1), ("", 0), (" \n\t\n", 0)],
)
def test_a_text_takes_as_many_messages_as_it_needs(text: str, count: int) -> None:
    """4,097 characters, and 2,100 signs of two units each, are two messages; nothing is none."""
    found = chunks(text)

    assert len(found) == count
    assert "".join(chunk["text"] for chunk in found) == text.strip()


def test_formatting_is_intact_on_both_sides_of_a_cut() -> None:
    """Bold that spans messages is bold in each, and code stays code."""
    words = " ".join(f"word{number}" for number in range(900))
    bold = chunks(f"**{words}**")
    code = chunks("before\n```py\n" + "print('hello')\n" * 700 + "```\nafter")

    assert [shown(chunk, "bold") for chunk in bold] == [[chunk["text"]] for chunk in bold]
    assert " ".join(chunk["text"] for chunk in bold) == words
    assert len(code) == 3
    assert all(part.startswith("print(") for chunk in code for part in shown(chunk, "pre"))
    assert {e.get("language") for chunk in code for e in chunk["entities"]} == {"py"}
    assert code[-1]["text"].endswith("print('hello')\nafter")


def test_a_short_code_block_is_not_cut_where_it_need_not_be() -> None:
    """Who copies a listing wants it in one piece."""
    listing = "\n".join(f"line {number}" for number in range(60))
    first, second = chunks("x " * 1950 + f"\n\n```\n{listing}\n```")

    assert not shown(first, "pre")
    assert shown(second, "pre") == [listing]


def test_more_formatting_than_telegram_shows_is_split() -> None:
    """Telegram formats a hundred pieces of a message and forgets the rest."""
    found = chunks(" ".join(f"**bold{number}**" for number in range(250)))

    assert [text for chunk in found for text in shown(chunk, "bold")] == [
        f"bold{number}" for number in range(250)
    ]


@table("sign", ["👨‍👩‍👧‍👦", "🇩🇪", "👍🏽", "e\u0301", "1\ufe0f\u20e3"])
def test_a_sign_is_never_cut_in_two(sign: str) -> None:
    """Half a family is two strangers."""
    for before in ("", "x"):
        found = chunks(before + sign * 3000)

        assert all(chunk["text"].endswith(sign) for chunk in found)
        assert all(chunk["text"].startswith((sign, "x")) for chunk in found)


@table(
    ("markdown", "text"),
    [
        ("a\n\n<div>b</div>\n\nc", "a\n\n<div>b</div>\n\nc"),
        ("use <br> or <b>x</b>", "use <br> or <b>x</b>"),
        ("<!-- only this -->", "<!-- only this -->"),
        ("`<b>`", "<b>"),
        ("![](https://e.org/a_b_c.png)", "🖼https://e.org/a_b_c.png"),
        ("[1]: https://a.example", "[1]: https://a.example"),
        ("a\ud83d\ude00b\ud800c\0", "a😀b\ufffdc"),
    ],
)
def test_nothing_that_was_said_is_left_out(markdown: str, text: str) -> None:
    """HTML, comments and broken characters are words of the reply too."""
    assert [chunk["text"] for chunk in chunks(markdown)] == [text]


BOMBS = {
    "stars": "*" * 100_000,
    "open stars": "*a" * 50_000,
    "nested emphasis": "**_" * 900 + "x" + "_**" * 900,
    "nested quotes": ">" * 5_000 + "x",
    "nested lists": "- " * 5_000 + "x",
    "indented lists": "\n".join(" " * (2 * depth) + "- a" for depth in range(300)),
    "latex": "\\[" * 5_000,
    "brackets": "[" * 50_000,
    "backticks": "`" * 50_000,
    "html": "<b>" * 3_000,
    "comments": "<!--" * 3_000,
    "entities": "`a` " * 2_000,
    "flags": "🇩🇪" * 20_000,
    "combining": "e" + "\u0301" * 50_000,
    "blank code": "```\n" + "\n" * 50_000 + "```",
}


@table("name", BOMBS)
def test_markup_bombs_go_off_quietly(name: str) -> None:
    """One odd reply must not hold up everybody else, and still arrives."""
    began = time.process_time()
    laid_out = chunks(BOMBS[name])

    assert time.process_time() - began < 3  # of the processor; squares would take minutes
    assert laid_out


def test_plain_text_is_taken_as_it_stands() -> None:
    """Tool activity and the like is not Markdown."""
    (chunk,) = chunks("**not bold** <b>", is_plain=True)

    assert chunk == {"text": "**not bold** <b>", "entities": []}


PIECES = st.sampled_from(
    ["word ", "**b** ", "🔥", "\n", "\n\n", "`c`", "```\ncode\n```\n", "- item\n", "x" * 500, "<b>"]
)


@given(st.lists(PIECES, max_size=60), st.integers(20, 200))
def test_cutting_loses_no_word(pieces: list[str], limit_units: int) -> None:
    """Whatever the limit, the messages together say what the text said."""
    text = "".join(pieces)
    parts = markup.cut(text, [], limit_units)

    assert "".join("".join(part for part, _ in parts).split()) == "".join(text.split())
    assert all(markup.units(part) <= limit_units for part, _ in parts)


@given(st.text(max_size=300), st.integers(2, 50))
def test_heads_and_tails_fit(text: str, limit_units: int) -> None:
    """Drafts and answers to buttons have limits of their own."""
    assert markup.units(markup.tail(text, limit_units)) <= limit_units + 1
    assert markup.units(markup.head(text, limit_units)) <= limit_units


@table(
    ("markdown", "text", "entities"),
    [
        (
            "See [`run`](https://a.b) and [x](https://c.d).",
            "See run (https://a.b) and x.",
            [("code", "run"), ("text_link", "https://a.b"), ("text_link", "x")],
        ),
        (
            "**[`😀`](https://a.b)** [the `b` one](https://c.d)",
            "😀 (https://a.b) the b one (https://c.d)",
            [
                ("bold", "😀"),
                ("code", "😀"),
                ("text_link", "https://a.b"),
                ("code", "b"),
                ("text_link", "https://c.d"),
            ],
        ),
    ],
)
def test_a_link_around_code_keeps_its_address(
    markdown: str, text: str, entities: list[tuple[str, str]]
) -> None:
    """Telegram formats as a link or as code and never as both; half of a README is such links."""
    (payload,) = markup.render(markdown)
    shown = json.loads(payload)
    data = shown["text"].encode("utf-16-le")

    assert shown["text"] == text
    assert sorted(
        (
            each["type"],
            data[2 * each["offset"] : 2 * (each["offset"] + each["length"])].decode("utf-16-le"),
        )
        for each in shown["entities"]
    ) == sorted(entities)


def test_addresses_that_are_written_out_do_not_make_a_text_swell() -> None:
    """One address may stand behind many links: eight kilobytes would become a hundred."""
    markdown = "[`a`][x] " * 500 + "\n\n[x]: https://e.x/" + "y" * 4_000

    assert len(render(markdown)) <= 10
