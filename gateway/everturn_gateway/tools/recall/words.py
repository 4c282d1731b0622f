"""Where words were said: plain words, whatever their case, no patterns. Pure.

Long texts are looked through in pieces, so that a thread which does it lets others run.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from everturn_gateway.tools.recall.messages import NAME, Said, whole
from everturn_gateway.tools.recall.pages import character_start

_PIECE_CHARACTERS = 64_000
_BEFORE_CHARACTERS, _AFTER_CHARACTERS = 80, 160  # of a snippet, around the beginning of the hit


def words_of(query: str) -> tuple[str, ...]:
    """Return the words that a text must hold, each once, in the form in which they are compared."""
    return tuple(dict.fromkeys(query.casefold().split()))


def searched(message: Said) -> str | None:
    """Return what a message is searched in; None where that is not what anybody said.

    Calls of this tool and what it returned only repeat what stands elsewhere.
    """
    if message.kind in {"summary", "turn"} or message.name == NAME:
        return None
    if message.kind != "assistant":
        return message.text
    calls = tuple(call for call in message.calls if call.name != NAME)
    return whole(replace(message, calls=calls), message.text)


def find(text: str, words: Sequence[str]) -> int | None:
    """Return where a text speaks of all `words`; None where one of them is missing.

    That is where they stand together, or else where the longest of them stands first.
    """
    places = [_place(text, word) for word in words]
    if not words or None in places:
        return None
    together = _place(text, " ".join(words)) if len(words) > 1 else None
    return places[words.index(max(words, key=len))] if together is None else together


def snippet(text: str, position: int) -> str:
    """Return what stands around a position, in one line."""
    begin = character_start(text, max(position - _BEFORE_CHARACTERS, 0))
    end = character_start(text, min(position + _AFTER_CHARACTERS, len(text)), position)
    line = " ".join(text[begin:end].split())
    return f"{'…' if begin else ''}{line}{'…' if end < len(text) else ''}"


def _place(text: str, word: str) -> int | None:
    for begin in range(0, len(text) or 1, _PIECE_CHARACTERS):
        piece = text[begin : begin + _PIECE_CHARACTERS + len(word)]
        folded = piece.casefold()
        at = folded.find(word)
        if at >= 0:
            return begin + (at if len(folded) == len(piece) else _unfolded(piece, at))
    return None


def _unfolded(piece: str, at: int) -> int:
    """Return the place in `piece` of what stands at `at` in its folded form, which is longer."""
    for index, character in enumerate(piece):
        at -= len(character.casefold())
        if at < 0:
            return index
    return len(piece)
