"""Words of ours for what people send beside text and files, the same on every platform. Pure."""

from __future__ import annotations

from typing import Final

WORDS_MAX: Final = 300  # characters of what somebody wrote into a title or a name


def quoted(text: str, limit: int = WORDS_MAX) -> str:
    """Return what somebody wrote into a title or a name, in quotation marks and in one line."""
    return f'"{short(text, limit)}"'


def short(text: str, limit: int = WORDS_MAX) -> str:
    """Return a text in one line of at most `limit` characters.

    >>> short("a  long  name", 7)
    'a long…'
    """
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def unknown_kind(kind: str = "") -> str:
    """Return what stands for a message that cannot be read; `kind` is what its platform calls it.

    >>> unknown_kind("hologram")
    'message of a kind that is not known here: hologram'
    """
    return "message of a kind that is not known here" + (f": {kind}" if kind else "")
