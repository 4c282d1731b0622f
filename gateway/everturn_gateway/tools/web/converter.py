"""Turns the bytes of one web page into text. A program of its own: `converting` starts it.

Whatever a page does to a parser - never ends, takes all memory, brings it down - it does to this
process, which has limits of its own, and not to the gateway and its conversations.

It reads one line of JSON (see `Order`) and then the bytes, until its input ends; it writes one line
of JSON (see `Answer`) and then the text in UTF-8. Needs nothing of the gateway, so that it starts
in a few hundredths of a second.
"""

from __future__ import annotations

import codecs
import html
import json
import re
import resource
import sys
import zlib
from contextlib import suppress
from typing import BinaryIO, Final, TypedDict

MEMORY_BYTES: Final = 1024**3
CPU_S: Final = 15

_TITLE = re.compile(r"<title\b[^>]{0,500}>([^<]{0,2000})", re.IGNORECASE)
_TITLE_CHARACTERS: Final = 200
_HEAD_CHARACTERS: Final = 500_000  # where a title is looked for
_CHARSET = re.compile(rb"<meta[^>]{0,300}?charset\s{0,9}=\s{0,9}[\"']?([A-Za-z0-9_.:-]{2,40})")
_XML_CHARSET = re.compile(rb"\A<\?xml[^>]{0,100}?encoding=[\"']([A-Za-z0-9_.:-]{2,40})")
_SNIFFED_BYTES: Final = 1024
_CONTROLS: Final = dict.fromkeys(
    [*range(0x20), *range(0x7F, 0xA0), 0xFEFF, 0xFFFE, 0xFFFF], None
) | {0x09: "\t", 0x0A: "\n"}
_BLANK_LINES = re.compile(r"[ \t]+\n|\n{3,}")
_NESTED: Final = "parts of the page are nested too deep to be read and are left out"

# What web pages may be written in; as browsers do, some names stand for their larger successor.
# Source: https://encoding.spec.whatwg.org/#names-and-labels, November 2026.
_CHARSETS: Final = {
    "ascii": "cp1252",
    "big5": "big5hkscs",
    "cp932": "cp932",
    "cp949": "cp949",
    "euc_jp": "euc_jp",
    "euc_kr": "cp949",
    "gb18030": "gb18030",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso2022_jp": "iso2022_jp",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "shift_jis": "cp932",
    "tis-620": "cp874",
    "utf-16": "utf-16",
    "utf-16-be": "utf-16-be",
    "utf-16-le": "utf-16-le",
    "utf-8": "utf-8",
}
_SAME_NAME = re.compile(r"iso8859-\d{1,2}|cp125\d|cp874|cp866|koi8-[ru]|mac-roman|mac-cyrillic")
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class Order(TypedDict):
    """What is to be done with the bytes."""

    kind: str
    "html, text for what is passed on as it is, or unknown."
    address: str
    "Of the page: links are relative to it."
    charset: str
    "As the server says; empty where it does not."
    encoding: str
    "Content-Encoding: gzip, deflate or empty."
    limit_bytes: int
    "Of the page when it is unpacked."
    limit_characters: int
    "Of the text that is made of it."


class Answer(TypedDict):
    """What stands before the text."""

    title: str
    notes: list[str]
    "What a reader has to know, in words."


def unpack(body: bytes, encoding: str, limit_bytes: int) -> tuple[bytes, bool]:
    """Return the bytes of a page, and whether there would be more than `limit_bytes` of them.

    Bytes that break off give what they hold.

    Raises:
        zlib.error: They are not what `encoding` says.
    """
    if not encoding:
        return body[:limit_bytes], len(body) > limit_bytes
    try:
        # 32: gzip or zlib, by the first bytes
        unpacked = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(body, limit_bytes + 1)
    except zlib.error:
        if encoding != "deflate":
            raise
        # Some servers leave the header out.
        unpacked = zlib.decompressobj(-zlib.MAX_WBITS).decompress(body, limit_bytes + 1)
    return unpacked[:limit_bytes], len(unpacked) > limit_bytes


def decode(body: bytes, charset: str, *, sniff: bool) -> str:
    """Return bytes as text; what cannot be read becomes U+FFFD.

    `sniff`: where neither the server nor a mark at the beginning tells the charset, the page may.
    """
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    if sniff and not _known(charset):
        head = body[:_SNIFFED_BYTES]
        found = _CHARSET.search(head) or _XML_CHARSET.search(head)
        charset = found[1].decode("ascii") if found else ""
        if _known(charset).startswith("utf-16"):
            charset = "utf-8"  # else the line that says so could not have been read
    return body.decode(_known(charset) or "utf-8", "replace")


def _known(charset: str) -> str:
    """Return Python's name of a charset of the web, empty where it is none."""
    try:
        name = codecs.lookup(charset.strip("\"' ")).name
    except (LookupError, ValueError):
        return ""
    return name if _SAME_NAME.fullmatch(name) and name not in _CHARSETS else _CHARSETS.get(name, "")


def clean(text: str) -> str:
    """Return text with one kind of line end and without control characters."""
    return text.replace("\r\n", "\n").replace("\r", "\n").translate(_CONTROLS)


def title_of(page: str) -> str:
    """Return the title of an HTML page on one line, empty where it has none."""
    found = _TITLE.search(page, 0, _HEAD_CHARACTERS)
    return " ".join(html.unescape(found[1]).split())[:_TITLE_CHARACTERS] if found else ""


def to_markdown(page: str, address: str) -> tuple[str, list[str]]:
    """Return an HTML page as Markdown with absolute links, and what a reader has to know of it."""
    import html_to_markdown  # 20 ms that plain text need not pay

    options = html_to_markdown.ConversionOptions(
        base_url=address,
        extract_metadata=False,
        inline_data_media="alt_text_only",
        exclude_selectors=["svg"],
        # Else what stands in a form is left out, which on some sites is the whole page.
        preprocessing=html_to_markdown.PreprocessingOptions(
            enabled=True, preset="minimal", remove_navigation=False, remove_forms=False
        ),
    )
    result = html_to_markdown.convert(page, options)
    nested = any("depth" in str(warning.kind).lower() for warning in result.warnings)
    text = _BLANK_LINES.sub(lambda blank: "\n" * min(blank[0].count("\n"), 2), result.content or "")
    return text.strip(), [_NESTED] if nested else []


def kind_of(page: bytes) -> str:
    """Return what bytes without a type seem to be: html, text, or binary."""
    head = page[:_SNIFFED_BYTES].lstrip().lower()
    if head.startswith((b"<!doctype html", b"<html")):
        return "html"
    return "binary" if b"\0" in head else "text"


def work(order: Order, body: bytes) -> tuple[Answer, str]:
    """Return what stands before the text, and the text."""
    notes: list[str] = []
    page, cut = unpack(body, order["encoding"], order["limit_bytes"])
    kind = order["kind"] if order["kind"] != "unknown" else kind_of(page)
    if kind == "binary":
        return Answer(title="", notes=["this is no text, and cannot be read here"]), ""
    if cut:
        notes.append(f"only the first {order['limit_bytes'] // 1024:,} KiB of the page were read")
    is_html = kind == "html"
    text = clean(decode(page, order["charset"], sniff=is_html))
    title = ""
    if is_html:
        title = clean(title_of(text))
        text, more = to_markdown(text, order["address"])
        text = clean(text)  # references stand for control characters, too
        notes += more
    if not text.strip():
        notes.append("there is no text on it; a program in the browser may have to make it")
    if len(text) > order["limit_characters"]:
        text = text[: order["limit_characters"]]
        notes.append(f"only the first {order['limit_characters']:,} characters of it are kept")
    return Answer(title=title, notes=notes), text


def main(source: BinaryIO, sink: BinaryIO) -> None:
    """Do one piece of work and end. Fails with a traceback, which nobody reads."""
    order: Order = json.loads(source.readline())
    answer, text = work(order, source.read())
    head: dict[str, object] = dict(answer)
    sink.write(json.dumps(head).encode() + b"\n" + text.encode("utf-8", "replace"))


def limit_itself() -> None:
    """Bound memory, time and reach of this process, as far as the system can."""
    limits = {
        resource.RLIMIT_CPU: CPU_S,
        resource.RLIMIT_AS: MEMORY_BYTES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
    }
    for kind, limit in limits.items():
        with suppress(OSError, ValueError):
            resource.setrlimit(kind, (limit, limit))


if __name__ == "__main__":
    limit_itself()
    main(sys.stdin.buffer, sys.stdout.buffer)
