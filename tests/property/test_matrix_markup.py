"""Markdown as Matrix shows it, for any text."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from everturn_channels.matrix.markup import CONTENT_MAX_BYTES, render

SHOWN = frozenset(
    (
        "del",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "blockquote",
        "p",
        "a",
        "ul",
        "ol",
        "li",
        "strong",
        "em",
        "s",
        "code",
        "hr",
        "br",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "pre",
    )
)
"Of the elements that clients show; https://spec.matrix.org/v1.16/client-server-api/#mroommessage-msgtypes."
ALLOWED = {"a": {"href"}, "code": {"class"}, "ol": {"start"}}
_PIECES = st.sampled_from(
    [
        "word ",
        "**bold** ",
        "`code` ",
        "[link](https://e.org/x?a=1&b=2) ",
        "[odd](javascript:alert(1)) ",
        "![i](https://e.org/i.png) ",
        "<b onclick=x>html</b> ",
        "&lt; & < > \" ' ",
        "\n\n",
        "# ",
        "- ",
        "  - ",
        "3. ",
        "> ",
        "\n```py\ncode <&>\n```\n",
        "\n| a | b |\n|:--|--:|\n| 1 | 2 |\n\n",
        "🔥é" * 30,
        "~~gone~~ ",
        "\x00\ud800",
    ]
)


class _Elements(HTMLParser):
    """Notes what a piece of HTML is made of, and what people read of it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@examples(15)
@given(st.lists(_PIECES, max_size=60).map("".join), st.integers(1, 40))
def test_every_piece_fits_and_holds_what_clients_show(text: str, times: int) -> None:
    """A homeserver refuses what is too large; clients drop other elements with what is in them."""
    pieces = render(f"begin {text * times} end")

    for payload in pieces:
        assert len(payload.encode()) <= CONTENT_MAX_BYTES
        elements = _Elements()
        elements.feed(json.loads(payload).get("html", ""))
        for tag, attributes in elements.found:
            assert tag in SHOWN
            assert attributes.keys() <= ALLOWED.get(tag, set())
            assert not (attributes.get("href") or "").startswith("javascript")
    bodies = " ".join(json.loads(payload)["body"] for payload in pieces)
    assert bodies.startswith("begin")
    assert bodies.endswith("end")


@examples(5)  # of some four thousand words each, and one list of words is as good as another
@given(st.lists(st.from_regex(r"[a-z]{1,12}", fullmatch=True), min_size=25, max_size=40))
def test_no_word_is_lost(some: list[str]) -> None:
    """In the text as in the HTML; links of a very long one lead where its last lines say."""
    found: list[str] = []
    addresses: set[str | None] = set()
    words = some * 120
    links = " ".join(f"[{word}][{word}]" for word in words)
    ends = "\n".join(f"[{word}]: https://e.org/{word}" for word in dict.fromkeys(some))
    for payload in render(f"{links}\n\n{ends}"):
        told = json.loads(payload)
        elements = _Elements()
        elements.feed(told.get("html") or told["body"])
        addresses |= {fields.get("href") for tag, fields in elements.found if tag == "a"}
        found += re.findall(r"\w+", elements.text)

    assert found[: len(words)] == words
    assert addresses == {f"https://e.org/{word}" for word in some}
