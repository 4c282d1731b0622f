"""From the bytes of a page to text: charsets, packing, Markdown."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from typing import cast

import pytest
from support.tables import table

from everturn_gateway.tools.web.converter import (
    Order,
    clean,
    decode,
    kind_of,
    main,
    title_of,
    to_markdown,
    unpack,
    work,
)

ADDRESS = "https://site.example/a/b.html"


def order(kind: str = "html", **changes: object) -> Order:
    """Return what is asked for, by default without limits that matter."""
    plain = Order(
        kind=kind,
        address=ADDRESS,
        charset="",
        encoding="",
        limit_bytes=1_000_000,
        limit_characters=1_000_000,
    )
    return cast("Order", {**plain, **changes})


@table(
    ("body", "charset", "text"),
    [
        ("Zoë €".encode(), "", "Zoë €"),
        ("Zoë €".encode("cp1252"), "iso-8859-1", "Zoë €"),
        ("Zoë €".encode("iso8859-15"), "ISO-8859-15", "Zoë €"),
        ("日本語".encode("cp932"), "Shift_JIS", "日本語"),
        ("中文".encode("gb18030"), "gb2312", "中文"),
        ("한국어".encode("cp949"), "euc-kr", "한국어"),
        ("привет".encode("koi8-r"), "KOI8-R", "привет"),
        ("Zoë".encode("utf-8-sig"), "iso-8859-1", "Zoë"),
        ("Zoë".encode("utf-16"), "", "Zoë"),
        ("Zoë".encode("utf-16-le"), "utf-16le", "Zoë"),
        ("Zoë".encode(), "no-such-charset", "Zoë"),
        ("Zoë".encode(), "rot13", "Zoë"),
        ("Zoë".encode(), "zip", "Zoë"),
        (b"xn--a", "idna", "xn--a"),
        (b"a\xff", "utf-8", "a\ufffd"),
    ],
)
def test_a_charset_is_taken_as_browsers_take_it(body: bytes, charset: str, text: str) -> None:
    """Much of the web says one thing and means another; odd codecs of Python are none of it."""
    assert decode(body, charset, sniff=False) == text


@table(
    "head",
    [
        b'<meta charset="windows-1251">',
        b"<META http-equiv=Content-Type content='text/html; CHARSET=windows-1251'>".lower(),
        b'<?xml version="1.0" encoding="windows-1251"?>',
    ],
)
def test_a_page_may_say_its_charset_itself(head: bytes) -> None:
    """Servers often do not."""
    body = head + "привет".encode("cp1251")

    assert decode(body, "", sniff=True).endswith("привет")
    assert not decode(body, "", sniff=False).endswith("привет")
    assert not decode(body, "utf-8", sniff=True).endswith("привет")


def test_packed_bytes_are_unpacked_up_to_the_limit_and_no_further() -> None:
    """A few kilobytes can stand for gigabytes."""
    bomb = gzip.compress(b"a" * 5_000_000)

    assert unpack(bomb, "gzip", 1_000) == (b"a" * 1_000, True)
    assert unpack(gzip.compress(b"abc"), "gzip", 3) == (b"abc", False)
    assert unpack(zlib.compress(b"abc"), "deflate", 9) == (b"abc", False)
    assert unpack(zlib.compress(b"abc")[2:-4], "deflate", 9) == (b"abc", False)
    assert unpack(b"abcd", "", 3) == (b"abc", True)
    assert unpack(gzip.compress(b"abc")[:-6], "gzip", 9) == (b"abc", False)
    for encoding in ("gzip", "deflate"):
        with pytest.raises(zlib.error):
            unpack(b"\xffnot packed", encoding, 9)


def test_a_title_is_one_short_line_and_a_text_has_no_control_characters() -> None:
    """It stands in the heading, where a page should not say more than its name."""
    assert title_of("<html><TITLE id=x>\n Fish &amp;\n chips </TITLE>") == "Fish & chips"
    assert title_of("<title>" + "a " * 500) == ("a " * 500)[:200]
    assert title_of("<p>no</p>") == ""

    # A terminal obeys an escape sequence, and a journal is read by people.
    assert clean("a\r\nb\rc\x1b[31md\x00e\tf\x9bg\ufeff") == "a\nb\nc[31mde\tfg"


def test_what_is_made_of_a_page_is_what_a_person_would_read() -> None:
    """Neither scripts nor hidden words, and all that stands in a form: some sites are one."""
    page = """<html><head><title>T</title><base href="/c/"><style>p {}</style></head><body>
      <nav><a href="one">One</a></nav><form><main><h1>Head</h1>
      <p>See <a href="two?x=1&amp;y=2">two</a><img src="i.png" alt="a cat">
      <img src="data:image/png;base64,AAAA" alt="dot"></p>
      <pre><code>x = 1 * 2</code></pre>
      <table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table></main></form>
      <script>alert("no")</script><svg><text>no</text></svg><div hidden>no</div>
      <div style="display:none">no</div></body></html>"""
    text, notes = to_markdown(page, ADDRESS)

    assert notes == []
    assert "# Head" in text
    assert "[One](https://site.example/c/one)" in text
    assert "[two](https://site.example/c/two?x=1&y=2)" in text
    assert "![a cat](https://site.example/c/i.png)" in text
    assert "x = 1 * 2" in text
    assert "| 1 | 2 |" in text
    assert "dot" in text
    for absent in ("no", "AAAA", "base64", "p {}", "\n\n\n"):
        assert absent not in text


def test_what_is_nested_too_deep_is_left_out_and_told() -> None:
    """Nothing is hidden silently."""
    page = "<p>before</p>" + "<div>" * 20_000 + "deep" + "</div>" * 20_000 + "<p>after</p>"
    text, notes = to_markdown(page, ADDRESS)

    assert (text.split(), "deep" in text) == (["before", "after"], False)
    assert "nested too deep" in notes[0]


@table(
    ("body", "kind"),
    [
        (b"  <!DOCTYPE html><p>", "html"),
        (b"<HTML>", "html"),
        (b'{"a": 1}', "text"),
        (b"\x89PNG\r\n\0", "binary"),
    ],
)
def test_bytes_without_a_type_are_looked_at(body: bytes, kind: str) -> None:
    """Small servers name no type."""
    assert kind_of(body) == kind


def test_what_is_cut_or_not_there_is_told() -> None:
    """The model has to know that there was more, or nothing."""
    # The model has to know that there was more.
    answer, text = work(order("text", limit_bytes=2048, limit_characters=10), b"a" * 4096)

    assert text == "a" * 10
    assert answer["notes"] == [
        "only the first 2 KiB of the page were read",
        "only the first 10 characters of it are kept",
    ]

    # An empty result looks like a failure of the tool.
    assert "no text" in work(order(), b"<div id=app></div>")[0]["notes"][0]
    assert "no text" in work(order("unknown"), b"\0\1")[0]["notes"][0]


def test_the_program_reads_an_order_and_writes_an_answer() -> None:
    """Its one line of JSON and the text after it are all that passes between two processes."""
    source = io.BytesIO(json.dumps(order("unknown")).encode() + b"\n<html><title>T</title><p>a\nb")
    sink = io.BytesIO()
    main(source, sink)
    head, _, text = sink.getvalue().partition(b"\n")

    assert json.loads(head) == {"title": "T", "notes": []}
    assert text.split() == [b"a", b"b"]
