"""The HTML of a mail as Markdown, without what its reader would not see. Pure.

Text that is hidden from people is how a stranger speaks to a model behind their back: it is left
out, and counted. Pictures are left out as well; nothing is fetched.
"""

from __future__ import annotations

import re
from html import escape
from html.parser import HTMLParser
from typing import Final

from html_to_markdown import ConversionOptions, convert
from msgspec import Struct

HTML_MAX_CHARS: Final = 300_000
_DEPTH_MAX: Final = 300
"What is nested deeper is treated as hidden: nobody writes that to be read."
_DROPPED: Final = frozenset(
    {"script", "style", "head", "title", "template", "noscript", "svg", "object", "iframe"}
)
_VOID: Final = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
)
_HIDING: Final = re.compile(
    r"display:none|visibility:(hidden|collapse)|opacity:0?\.?0*(;|$)"
    r"|(font-size|line-height|max-height|max-width|width|height):0(px|pt|em|rem|%)?(;|$|!)"
    r"|text-indent:-\d{3,}|(left|top):-\d{4,}|mso-hide:all"
)
# The parser looks to the end of a page for each that has no end: minutes, in a page of those.
_UNSEEN: Final = re.compile(
    r"<!--.*?(?:-->|\Z)|<[!?][^>]*(?:>|\Z)|</(?![A-Za-z][^<>]*>)", re.DOTALL
)
_BLANK_LINES: Final = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
_KEPT_ATTRIBUTES: Final = frozenset({"href", "start", "colspan", "rowspan"})


class HtmlText(Struct, frozen=True, kw_only=True):
    """What a page says."""

    text: str
    hidden_chars: int = 0
    "Of text that people do not see."
    is_cut: bool = False
    "Whether it is the beginning of a longer one."


def text_of_html(page: str) -> HtmlText:
    """Return the text of a page as Markdown."""
    seen = _Seen()
    seen.feed(_UNSEEN.sub("", page[:HTML_MAX_CHARS]))
    seen.close()
    options = ConversionOptions(extract_metadata=False)
    content = convert("".join(seen.kept), options).content or ""
    lines = (line.rstrip() for line in content.split("\n"))
    text = _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()
    return HtmlText(text=text, hidden_chars=seen.hidden, is_cut=len(page) > HTML_MAX_CHARS)


class _Seen(HTMLParser):
    """Keeps the elements of a page that people see."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.kept: list[str] = []
        self.hidden = 0
        self._open: list[tuple[str, bool]] = []
        "The elements that are open, and whether each hides what is in it."
        self._hiding = 0
        self._too_deep = 0
        "How many elements are open below that."

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep a tag, unless it is hidden, with the attributes that mean something in Markdown."""
        if tag in _VOID:
            if not self._hiding and not self._too_deep:
                self.kept.append(f"<{tag}>" if tag in {"br", "hr"} else _emoji(tag, dict(attrs)))
            return
        if len(self._open) >= _DEPTH_MAX:
            self._too_deep += 1
            return
        is_hiding = tag in _DROPPED or _hides(dict(attrs))
        self._open.append((tag, is_hiding))
        self._hiding += is_hiding
        if not self._hiding:
            written = "".join(
                f' {name}="{escape(value or "")}"'
                for name, value in attrs
                if name in _KEPT_ATTRIBUTES
            )
            self.kept.append(f"<{tag}{written}>")

    def handle_endtag(self, tag: str) -> None:
        """End an element, and those within it that nobody ended."""
        if self._too_deep:
            self._too_deep -= tag not in _VOID
            return
        if not any(name == tag for name, _ in self._open):
            return
        while self._open:
            name, is_hiding = self._open.pop()
            if not self._hiding:
                self.kept.append(f"</{name}>")
            self._hiding -= is_hiding
            if name == tag:
                break

    def handle_data(self, data: str) -> None:
        """Keep text, or count it where nobody sees it."""
        if not self._hiding and not self._too_deep:
            self.kept.append(escape(data, quote=False))
        elif not any(name in _DROPPED for name, _ in self._open):
            self.hidden += len(data.strip())


def _emoji(tag: str, attributes: dict[str, str | None]) -> str:
    """Return the emoji that a picture stands for; words beside a picture are none."""
    words = (attributes.get("alt") or "").strip()
    is_emoji = tag == "img" and not any(char.isalnum() or char.isspace() for char in words)
    return escape(words) if is_emoji and not _hides(attributes) else ""


def _hides(attributes: dict[str, str | None]) -> bool:
    if "hidden" in attributes:
        return True
    style = "".join((attributes.get("style") or "").lower().split())
    return bool(style) and _HIDING.search(style) is not None
