"""What of an answer is read aloud: its words, and neither code, tables nor addresses. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from everturn_gateway.late_loading import late

if TYPE_CHECKING:
    import markdown_it
    from markdown_it.token import Token
else:
    markdown_it = late("markdown_it")

_ADDRESS: Final = re.compile(r"<?\b(?:(?:https?|ftp|file)://|mailto:)[^\s>]+>?", re.IGNORECASE)
_ENDS: Final = (".", "!", "?", ":", ";", ",", "…")


def aloud(markdown: str) -> str:
    r"""Return the words of an answer, as they are spoken; empty where there are none.

    >>> aloud("# Weather\n\nIt is **warm**, see [here](https://a.example).\n\n```sh\nls\n```")
    'Weather.\nIt is warm, see here.'
    """
    found: list[str] = []
    in_table = 0
    for token in markdown_it.MarkdownIt("commonmark").enable("table").parse(markdown):
        in_table += {"table_open": 1, "table_close": -1}.get(token.type, 0)
        if token.type == "inline" and not in_table:
            words = " ".join(_ADDRESS.sub("", "".join(_words(token.children or ()))).split())
            if any(char.isalnum() for char in words):
                found.append(words if words.endswith(_ENDS) else f"{words}.")
    return "\n".join(found)


def _words(tokens: Iterable[Token]) -> Iterable[str]:
    for token in tokens:
        match token.type:
            case "text" | "code_inline":
                yield token.content
            case "softbreak" | "hardbreak":
                yield " "
            case "image":
                yield " "
            case _:
                pass
