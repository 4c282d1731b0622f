"""What is shown of a long text around a place in it. Pure."""

from __future__ import annotations

from typing import Final

from everturn_gateway.tools.recall.pages import character_start

SHOWN_CHARACTERS: Final = 400  # of a message that was found; most are shown whole
_BEFORE_CHARACTERS: Final = 120


def snippet(text: str, position: int, limit: int = SHOWN_CHARACTERS) -> str:
    """Return a text, or what stands around a position where it is longer, in one line."""
    if len(text) <= limit:
        return " ".join(text.split())
    begin = character_start(text, max(min(position - _BEFORE_CHARACTERS, len(text) - limit), 0))
    end = character_start(text, min(begin + limit, len(text)), begin)
    line = " ".join(text[begin:end].split())
    return f"{'…' if begin else ''}{line}{'…' if end < len(text) else ''}"
