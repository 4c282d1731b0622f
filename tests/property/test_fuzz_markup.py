"""What models and pages write, made bad, on its way to people: nothing too long, nothing hidden.

See `test_fuzz_journal` for how to run it for longer.
"""

from __future__ import annotations

import gzip
import json
import zlib
from contextlib import suppress
from typing import Final

from hypothesis import example, given
from hypothesis import strategies as st
from support.examples import examples
from support.mutations import HOSTILE_TEXTS, torn

from everturn_channels.discord import markup as discord
from everturn_channels.discord.splitting import units as discord_units
from everturn_channels.names import NAME_LIMIT, clean, one_line, visible
from everturn_channels.telegram import markup as telegram
from everturn_gateway.tools.web.converter import Order, work

REPLY: Final = """\
# Heading

Some **bold *both* ~~gone~~** text with `code`, a [link](https://e.org/a_(b) "title"), \\*escaped\\*
and a <b>tag</b>, $x^2$, \\(y\\), ||spoiler||, __under__, https://e.org/x?y=1&z=2#a.

1. one
   - two
     > quoted
     > - [ ] three \U0001f468\u200d\U0001f469\u200d\U0001f467
2. four

| a | b |
|:--|--:|
| 1 | `|` |

```python
print("```")
```

![image](https://e.org/i.png) [ref][1] <https://e.org> &amp; &#0; e\u0301 \U0001f1e9\U0001f1ea

[1]: https://e.org/ref
"""
PAGE: Final = """\
<!doctype html><html><head><meta charset="utf-8"><title>A &amp; B</title><base href="/x/"></head>
<body><h1>Hi</h1><p>One<br>two <a href="b?c=1">link</a> <img src="data:image/png;base64,AA" alt="i">
<script>alert(1)</script><style>p{}</style><!-- no --><svg><text>s</text></svg>
<table><tr><th>a<td>b</table><pre><code class="language-py">x = 1</code></pre><form>
<input value="v"></form><ul><li>1<ul><li>2</ul></ul><blockquote>q</blockquote></body></html>
"""
MARKS: Final = (
    *(b"**", b"__", b"~~", b"||", b"```", b"`", b"\n\n", b"\n", b"> ", b"- ", b"1. ", b"# ", b"| "),
    *(b"[", b"](", b")", b"<", b">", b"\\(", b"\\[", b"$$", b"$", b"\\", b"&#x", b"    ", b"<b>"),
    *(b"](tg://user?id=1)", b"](https://e.org)", b"[a]: ", b"<!--", b"<![CDATA[", b"<?", b"</b>"),
    *(
        b"> " * 60,
        b"- " * 60,
        b"*" * 300,
        b"[" * 300,
        b"(" * 300,
        b"x" * 5_000,
        "\U0001f600".encode() * 2_100,
    ),
)
texts = st.one_of(
    torn(REPLY.encode(), tokens=MARKS, most=8).map(lambda data: data.decode("utf-8", "replace")),
    st.lists(
        st.sampled_from([*(mark.decode() for mark in MARKS), *HOSTILE_TEXTS, "word ", "a"]),
        max_size=40,
    ).map("".join),
    st.text(max_size=60),
)


@examples(60)
@given(texts, st.booleans())
@example("\ud800" * 5_000, False)  # noqa: FBT003 - the drawn flag
@example("\\(" * 101 + "**x", False)  # noqa: FBT003 - the drawn flag
def test_any_reply_becomes_messages_that_telegram_takes(
    text: str,
    is_plain: bool,
) -> None:
    """A message that is refused is said later or never; a bad entity refuses the whole."""
    payloads = [json.loads(each) for each in telegram.render(text, is_plain=is_plain)]

    assert bool(payloads) or not telegram.clean(text).strip()
    for payload in payloads:
        shown, entities = telegram.labelled(payload["text"], payload["entities"])
        data = shown.encode("utf-16-le")
        assert payload["text"].strip()
        assert "\0" not in shown
        assert len(data) // 2 <= telegram.TEXT_UNITS
        assert len(entities) <= telegram.ENTITIES_MAX
        for entity in entities:
            begin, length = int(str(entity["offset"])), int(str(entity["length"]))
            assert 0 <= begin < begin + length <= len(data) // 2
            data[2 * begin : 2 * (begin + length)].decode("utf-16-le")  # no half of a character
            assert entity["type"] != "text_link" or entity["url"]


@examples(60)
@given(texts, st.booleans())
def test_any_reply_becomes_messages_that_discord_takes(
    text: str,
    is_plain: bool,
) -> None:
    """The same there."""
    chunks = [json.loads(each)["content"] for each in discord.render(text, is_plain=is_plain)]

    for chunk in chunks:
        chunk.encode()
        assert chunk.strip()
        assert 0 < discord_units(chunk) <= discord.LIMIT_UNITS


@examples(30)
@given(texts, st.integers(1, 200))
def test_any_text_is_cut_within_its_units_and_without_halves(text: str, limit: int) -> None:
    """Quotes, drafts and answers to buttons have limits of their own."""
    for piece in (telegram.head(text, limit), telegram.tail(text, limit)):
        assert telegram.units(piece) <= max(limit, 1)
        piece.encode()


@examples(30)
@given(texts)
def test_nothing_in_a_text_reaches_a_terminal_or_hides_from_who_decides(text: str) -> None:
    """Escape sequences and marks of direction show another call than the one that runs."""
    assert all(c in "\n\t" or not (ord(c) < 32 or 0x7F <= ord(c) < 0xA0) for c in clean(text))
    assert all(c == "\n" or c.isprintable() for c in visible(text))
    name = one_line(text)
    assert len(name) <= NAME_LIMIT
    assert "\n" not in name
    name.encode()


@examples(30)
@given(
    torn(
        PAGE.encode(),
        tokens=(
            b"<",
            b">",
            b"<p",
            b"</",
            b"&",
            b"&#x1b;[2J",
            b"&#0;",
            b"&#155;",
            b"&#xd800;",
            b"<table>" * 40,
            b"<div>" * 90,
        ),
    ),
    st.sampled_from(["", "gzip", "deflate"]),
    st.sampled_from(["", "utf-8", "utf-16", "shift_jis", "utf-7", "x\0", "\ud800"]),
    st.sampled_from(["html", "text", "unknown"]),
    st.booleans(),
)
def test_any_page_becomes_bounded_text(
    page: bytes,
    encoding: str,
    charset: str,
    kind: str,
    packed: bool,
) -> None:
    """What fails here is told as a page that cannot be read, and costs a process."""
    body = (
        page if not packed else gzip.compress(page) if encoding == "gzip" else zlib.compress(page)
    )
    order = Order(
        kind=kind,
        address="https://e.org/a",
        charset=charset,
        encoding=encoding if packed else "",
        limit_bytes=2_000,
        limit_characters=900,
    )
    with suppress(zlib.error):
        answer, text = work(order, body)

        assert len(text) <= 900
        assert all(c in "\n\t" or not (ord(c) < 32 or 0x7F <= ord(c) < 0xA0) for c in text)
        json.dumps(answer)
