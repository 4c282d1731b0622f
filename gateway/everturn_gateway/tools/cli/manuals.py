"""What a README says of a tool in a sentence or two. Pure."""

from __future__ import annotations

import re
from typing import Final

_SUMMARY_CHARACTERS: Final = 300  # sent with every request
_FRONT_MATTER: Final = re.compile(r"---[ \t]*\n(?P<fields>.*?)\n---[ \t]*(?:\n|$)", re.DOTALL)
_DESCRIPTION: Final = re.compile(
    r"^description:[ \t]*(?P<line>[^\n]*)(?P<more>(?:\n[ \t]+[^\n]*)*)", re.MULTILINE
)
_BLOCK: Final = re.compile(r"[|>][+-]?\d?")  # YAML's sign that the text begins in the next line
_GAP: Final = re.compile(r"\n[ \t]*\n")
_NOT_PROSE: Final = re.compile(r"#|<|!\[|\[!\[|```|~~~|\||[-=*_]{3,}\s*$")


def summary(text: str) -> str:
    """Return the `description` of a README's front matter, or its first paragraph; "" of none."""
    text = text.replace("\r\n", "\n").lstrip()
    front = _FRONT_MATTER.match(text)
    if front is not None:
        if described := _DESCRIPTION.search(front["fields"]):
            line = described["line"].strip()
            first = "" if _BLOCK.fullmatch(line) else _unquoted(line)
            if found := _one_line(f"{first} {described['more']}"):
                return found
        text = text[front.end() :]
    for paragraph in _GAP.split(text):
        if found := _prose(paragraph):
            return found
    return ""


def _prose(paragraph: str) -> str:
    """Return a paragraph without its headings, in one line; "" where it is none."""
    lines = paragraph.strip().splitlines()
    while lines and lines[0].lstrip().startswith("#"):
        del lines[0]
    if not lines or _NOT_PROSE.match(lines[0].lstrip()):
        return ""
    return _one_line(" ".join(lines))


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    if len(line) <= _SUMMARY_CHARACTERS:
        return line
    return line[: _SUMMARY_CHARACTERS - 1].rsplit(" ", 1)[0] + "…"


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text
