"""Words of a command line: what is fixed in them, and what the shell fills in. Pure."""

from __future__ import annotations

import re
import shlex
from typing import Final, Literal

from msgspec import Struct

from everturn_gateway.late_loading import late_pattern

FILLED = "\0"
"""Stands in a text for what the shell fills in: a variable, the output of a command.

No command line can hold this character, so only a star of a pattern matches it.
"""
WILD_CHARACTERS: Final = frozenset("*?[]{}~")
"What the shell may replace by names of files, or by several words, where it is not quoted."

_PLAIN: Final = late_pattern(r"[\w@%+=:,./^!-]*")
_BRACES: Final = late_pattern(r"\{[^{}]*\}")
_MAX_EXPANDED = 64  # words that one word with braces stands for

_SIMPLE_ESCAPES: Final = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r",
    "t": "\t", "v": "\v", "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
_ESCAPE: Final = late_pattern(
    r"\\(?:x(?P<hex>[0-9A-Fa-f]{1,2})|u(?P<short>[0-9A-Fa-f]{1,4})|U(?P<long>[0-9A-Fa-f]{1,8})"
    r"|(?P<octal>[0-7]{1,3})|(?P<simple>[abeEfnrtv\\'\"?])|(?P<other>.?))",
    re.DOTALL,
)


class Piece(Struct, frozen=True):
    """Part of a word."""

    kind: Literal["fixed", "wild", "filled"]
    text: str
    "fixed: what it stands for, without quotes. wild: as it is written. filled: nothing."
    is_quoted: bool = False
    "filled: whether it is one word whatever it is; without quotes it may become several."


class Word(Struct, frozen=True):
    """One word of a command."""

    pieces: tuple[Piece, ...]
    start: int = 0
    end: int = 0
    "Where it stands in the text."
    source: str = ""
    "As it is written; empty where that is not known."

    @property
    def is_fixed(self) -> bool:
        """Whether it is the same whatever variables, files and commands there are."""
        return all(piece.kind == "fixed" for piece in self.pieces)

    @property
    def flat(self) -> str:
        """What it stands for, without quotes; `FILLED` for what is filled in."""
        return "".join(FILLED if p.kind == "filled" else p.text for p in self.pieces)

    @property
    def hazy(self) -> str:
        """As `flat`, of the same length, with `FILLED` for each wild character too."""
        return "".join(
            p.text if p.kind == "fixed" else FILLED * max(1, len(p.text)) for p in self.pieces
        )

    @property
    def shown(self) -> str:
        """The one way to write it, whichever quotes were used: equal words are written alike."""
        if not self.pieces:
            return "''"
        joined: list[Piece] = []
        for piece in self.pieces:
            if joined and joined[-1].kind == piece.kind == "fixed":
                joined[-1] = Piece("fixed", joined[-1].text + piece.text)
            else:
                joined.append(piece)
        return "".join(map(_shown, joined)) or "''"

    @property
    def expanded(self) -> tuple[str, ...]:
        """The words that its braces make of it, `{a,b}c` gives `ac bc`; bounded, nested too."""
        return _expand(self.flat) if any(p.kind == "wild" for p in self.pieces) else (self.flat,)


def _shown(piece: Piece) -> str:
    match piece.kind:
        case "filled":
            return FILLED
        case "wild":
            return piece.text
        case "fixed":
            return piece.text if _PLAIN.fullmatch(piece.text) else shlex.quote(piece.text)


def _expand(text: str) -> tuple[str, ...]:
    done: list[str] = []
    waiting = [text]
    while waiting:
        word = waiting.pop()
        found = next((m for m in _BRACES.finditer(word) if "," in m[0]), None)
        choices = found[0][1:-1].split(",") if found else []
        if found is None or len(waiting) + len(done) + len(choices) > _MAX_EXPANDED:
            done.append(word)
            continue
        before, after = word[: found.start()], word[found.end() :]
        waiting += [f"{before}{one}{after}" for one in reversed(choices)]
    return tuple(done)


def ansi_c(body: str) -> str | None:
    r"""Return what `$'body'` stands for; None where that depends on the shell or is no text.

    Source: the manual of bash 5.2, ANSI-C Quoting.
    """
    unknown = False

    def value_of(match: re.Match[str]) -> str:
        nonlocal unknown
        if match["simple"]:
            return _SIMPLE_ESCAPES[match["simple"]]
        digits = match["hex"] or match["short"] or match["long"]
        code = int(digits, 16) if digits else int(match["octal"] or "0", 8)
        is_byte = not (match["short"] or match["long"])
        # A null ends the text for bash; a byte above 127 is but a part of a character.
        if match["other"] is not None or not 0 < code < (0x80 if is_byte else 0xD800):
            unknown = True
            return ""
        return chr(code)

    text = _ESCAPE.sub(value_of, body)
    return None if unknown else text


def loose_word(source: str) -> Word:
    """Read a word, or several, as well as can be: never fails, for what must not be missed."""
    pieces: list[Piece] = []
    at = 0
    while at < len(source):
        piece, at = _loose_piece(source, at)
        pieces += piece
    return Word(tuple(pieces), source=source)


def _loose_piece(source: str, at: int) -> tuple[list[Piece], int]:
    character, following = source[at], source[at + 1 : at + 2]
    if character == "\\":
        return ([Piece("fixed", following)] if following != "\n" else []), at + 2
    if character == "'":
        end = _closing(source, at + 1, "'")
        return [Piece("fixed", source[at + 1 : end])], end + 1
    if character == "$" and following == "'":
        end = _closing(source, at + 2, "'", escapes=True)
        body = ansi_c(source[at + 2 : end])
        return [Piece("filled", "") if body is None else Piece("fixed", body)], end + 1
    if character == '"' or (character == "$" and following == '"'):
        begin = at + 1 if character == '"' else at + 2
        end = _closing(source, begin, '"', escapes=True)
        return _loose_double(source[begin:end]), end + 1
    if character in "$`":
        end = _filled_end(source, at)
        return [Piece("filled", "") if end > at + 1 else Piece("fixed", character)], end
    kind: Literal["wild", "fixed"] = "wild" if character in WILD_CHARACTERS else "fixed"
    return [Piece(kind, character)], at + 1


def _loose_double(body: str) -> list[Piece]:
    pieces: list[Piece] = []
    at = 0
    while at < len(body):
        character, following = body[at], body[at + 1 : at + 2]
        if character == "\\" and following in ("$", "`", '"', "\\", "\n"):
            pieces += [Piece("fixed", following)] if following != "\n" else []
            at += 2
        elif character in "$`":
            end = _filled_end(body, at)
            pieces.append(Piece("filled", "") if end > at + 1 else Piece("fixed", character))
            at = end
        else:
            pieces.append(Piece("fixed", character))
            at += 1
    return pieces


def _closing(source: str, at: int, quote: str, *, escapes: bool = False) -> int:
    while at < len(source) and source[at] != quote:
        at += 2 if escapes and source[at] == "\\" else 1
    return min(at, len(source))


_NAME: Final = late_pattern(r"\w+|[@*#?$!-]")


def _filled_end(source: str, at: int) -> int:
    """Return where the expansion that begins at `at` ends; `at + 1` where it is none."""
    if source[at] == "`":
        return _closing(source, at + 1, "`", escapes=True) + 1
    opening = source[at + 1 : at + 2]
    closing = {"(": ")", "{": "}", "[": "]"}.get(opening)
    if closing is None:
        name = _NAME.match(source, at + 1)
        return name.end() if name else at + 1
    depth = 0
    for end in range(at + 1, len(source)):
        depth += (source[end] == opening) - (source[end] == closing)
        if depth == 0:
            return end + 1
    return len(source)
