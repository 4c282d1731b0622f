"""Texts as the index holds them, and questions as it is asked them. Pure.

Chinese, Japanese and other scripts without blanks are cut into pairs of characters that overlap, so
that a word is found wherever it stands; the index cuts all else at blanks and takes word stems.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from everturn_gateway.late_loading import late_pattern

WORDS_MAX: Final = 24  # of a question; the first ones count, and as many phrases
PHRASE_WORDS: Final = 24  # the first ones of a phrase; a long one of one sign takes a minute else
TEXT_CHARACTERS: Final = 200_000  # of one message; what stands behind is not found

# Han, kana, Hangul, bopomofo, and the scripts of South-East Asia that write no blanks.
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3100-\u318f"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_RUN: Final = late_pattern(f"[{_UNSPACED}]+")
_PART: Final = late_pattern(rf"(?P<run>[{_UNSPACED}]+)|(?P<word>[^\W_{_UNSPACED}]+)")
_QUOTED: Final = late_pattern(r'"([^"]*)"')

# Words of which nearly every English message has some: they say nothing of what is meant.
_COMMON: Final = frozenset(
    """
    a about after all also am an and any are as at be because been before being but by can could did
    do does doing for from had has have having he her hers him his how i if in into is it its just
    me more most my no not of on or our ours out over s she should so some such t than that the
    their them then there these they this those to too under up us very was we were what when where
    which while who whom whose why will with would you your yours
    """.split()  # noqa: SIM905 - as people read it
)


class Term(Struct, frozen=True):
    """One thing to look for."""

    text: str
    "A word, or words that stand behind one another."
    is_prefix: bool = False
    "Whether what begins so counts as well."

    @property
    def match(self) -> str:
        """As the index is asked for it; every character in it is taken as it is."""
        return f'"{self.text}"{"*" if self.is_prefix else ""}'


class Words(Struct, frozen=True, kw_only=True):
    """What a question looks for."""

    any_of: tuple[Term, ...] = ()
    "Each makes a message fit better."
    all_of: tuple[Term, ...] = ()
    "What stood in quotes: each has to be there."

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to look for."""
        return not self.any_of and not self.all_of


def indexed(text: str) -> str:
    """Return a text as the index takes it.

    >>> indexed("東京都 is far")
    ' 東京 京都 都  is far'
    """
    text = fold(text[:TEXT_CHARACTERS])
    return text if text.isascii() else _RUN.sub(_pairs, text)


def words_of(question: str) -> Words:
    """Return what a question looks for.

    >>> [term.text for term in words_of('where is the "red house" of Ann').any_of]
    ['ann']
    """
    phrases = dict.fromkeys(_phrase(quoted) for quoted in _QUOTED.findall(question))
    # Of a long question most words come several times: a term is made of each once.
    parts = dict.fromkeys(_PART.findall(fold(_QUOTED.sub(" ", question))))
    rest = list(dict.fromkeys(_terms(parts)))
    telling = [term for term in rest if term.text not in _COMMON] or rest
    return Words(
        any_of=tuple(telling[:WORDS_MAX]),
        all_of=tuple(phrase for phrase in phrases if phrase.text)[:WORDS_MAX],
    )


def is_telling(question: str) -> bool:
    """Return whether a question has a word that not nearly every message has.

    >>> is_telling("and what is it?"), is_telling("and the hotel?")
    (False, True)
    """
    parts = (match.groups("") for match in _PART.finditer(fold(question)))
    return any(term.text not in _COMMON for term in _terms(parts))


def spoken(question: str) -> tuple[str, ...]:
    """Return the words of a question as they may stand in a text, folded; longest first.

    All of them behind one another come first. For showing where in a text it was found.
    """
    plain = [fold(each).strip() for each in _QUOTED.findall(question)]
    parts = [match[0] for match in _PART.finditer(fold(_QUOTED.sub(" ", question)))]
    telling = [part for part in parts if part not in _COMMON] or parts
    whole = " ".join(telling) if len(telling) > 1 else ""
    found = (each for each in (*plain, whole, *telling) if each)
    return tuple(sorted(dict.fromkeys(found), key=len, reverse=True)[:WORDS_MAX])


def _terms(parts: Iterable[tuple[str, ...]]) -> Iterator[Term]:
    """Yield terms of parts as `_PART` finds them: a run of characters, or a word."""
    for run, word in parts:
        if word:
            yield Term(word)
        elif len(run) == 1:
            yield Term(run, is_prefix=True)
        else:
            yield from (Term(run[at : at + 2]) for at in range(len(run) - 1))


def _phrase(quoted: str) -> Term:
    """Return words that stand behind one another, cut as the index cuts them."""
    parts: list[str] = []
    for match in _PART.finditer(fold(quoted)):
        run = match["run"]
        if not run:
            parts.append(match["word"])
        elif len(run) == 1:
            parts.append(run)
        else:
            parts += [run[at : at + 2] for at in range(len(run) - 1)]
        if len(parts) > PHRASE_WORDS:
            break  # what begins so is found
    first = parts[:PHRASE_WORDS]
    is_prefix = bool(first) and len(first[-1]) == 1 and _RUN.match(first[-1]) is not None
    return Term(" ".join(first), is_prefix=is_prefix)


def _pairs(match: re.Match[str]) -> str:
    run = match[0]
    pairs = (run[at : at + 2] for at in range(len(run)))  # the last character stands alone, too
    return f" {' '.join(pairs)} "


def fold(text: str) -> str:
    """Return a text in the form in which words are compared."""
    # As people type it: `STRASSE` finds `Straße`, full width what is narrow, é however written.
    if text.isascii():
        return text.lower()
    # Half a surrogate pair is no text, and no database takes it.
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return unicodedata.normalize("NFKC", whole).casefold()
