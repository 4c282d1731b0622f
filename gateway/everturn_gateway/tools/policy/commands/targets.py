"""Words of a command that name files. Pure."""

from __future__ import annotations

import glob
from typing import Final

from msgspec import Struct

from everturn_gateway.tools.policy.commands.words import Word

_EXPANDED_BY_US: Final = frozenset("*?]")
"""Brackets mean more to a shell (`[[:lower:]]`, `[^x]`) than to whoever looks here. One that closes
and was not opened is a character."""


class Target(Struct, frozen=True, kw_only=True):
    """A name of a file, or of several, as a command writes it."""

    text: str
    "Without quotes; a null character for what is filled in."
    glob: str = ""
    "What the shell expands, special characters of the fixed parts escaped; empty = nothing."
    is_known: bool = True
    "Whether the words alone, or a look into the folder, tell which files are meant."


def target_of(word: Word) -> Target:
    """Return what a word names."""
    if word.is_fixed:
        return Target(text=word.flat)
    wild = "".join(piece.text for piece in word.pieces if piece.kind == "wild")
    is_known = _EXPANDED_BY_US.issuperset(wild) and not any(p.kind == "filled" for p in word.pieces)
    pattern = "".join(
        glob.escape(piece.text) if piece.kind == "fixed" else piece.text for piece in word.pieces
    )
    return Target(text=word.flat, glob=pattern if is_known else "", is_known=is_known)


def value_of(word: Word, value: str) -> Target:
    """Return what the end of a word names, which is the value of an option."""
    return Target(text=value, is_known=word.is_fixed)
