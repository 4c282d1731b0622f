"""Splits any text into what may be its commands: nothing is refused, nothing is certain. Pure.

This is the wide reading, for what must not be missed. It takes more for a command than the shell
does, and sees through texts that no grammar accepts.
"""

from __future__ import annotations

import re
from typing import Final

from everturn_gateway.late_loading import late_pattern

_TOKEN: Final = late_pattern(
    r"(?P<joined>\\\n)"
    r"|(?P<variable>\$(?:[A-Za-z_]\w*|[0-9@*#?$!-]))"
    r"|(?P<blank>[ \t]+|<<<)"
    r"|(?P<redirection>(?:\d+|&)?(?:<<-?|>>|>&|<&|>\||<>|>|<)(?!\()[ \t]*)"
    r"|(?P<break>\$\(|[<>]\(|[\n;&|()`]|\$\{)"
    r"|(?P<part>\\.|'[^']*'?|\$'(?:[^'\\]|\\.)*'?|\"(?:[^\"\\]|\\.)*\"?|[^ \t\n;&|()`<>\\'\"$]+|.)",
    re.DOTALL,
)
_RESERVED: Final = frozenset(
    ("if", "then", "else", "elif", "while", "until", "do", "done", "fi", "{", "}", "!", "esac")
)
_ASSIGNMENT: Final = late_pattern(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=", re.ASCII)
_HOLDS_COMMANDS: Final = late_pattern(r"\$\(|`")


def split_loosely(text: str) -> tuple[tuple[str, ...], ...]:
    """Return what may be the commands of `text`, each as its words as they are written.

    Assignments, reserved words and targets of redirections are left out; a here-string that
    follows a name counts as an argument.
    """
    found: list[tuple[str, ...]] = []
    waiting = [text]
    while waiting:
        _split(waiting.pop(), found, waiting)
    return tuple(dict.fromkeys(found))


def _split(text: str, found: list[tuple[str, ...]], waiting: list[str]) -> None:
    words: list[str] = []
    word = ""
    is_target = False
    for token in _TOKEN.finditer(text):
        kind, written = token.lastgroup, token[0]
        if kind in ("part", "variable"):
            word += written
            if _is_looked_into(written, text):
                waiting.append(written.lstrip("$")[1:])
            continue
        if kind == "joined":
            continue
        if word and not is_target:
            words.append(word)
        if word:
            is_target = False
        word = ""
        if kind == "redirection" or (written == "<<<" and not words):
            is_target = True
        elif kind == "break":
            _finish(words, found)
            words, is_target = [], False
    if word and not is_target:
        words.append(word)
    _finish(words, found)


def _is_looked_into(part: str, text: str) -> bool:
    """Return whether a quoted part may hold commands.

    In a here-document every quote is but a character, and nobody knows here where one ends.
    """
    quote = part.lstrip("$")[:1]
    return (quote == '"' or (quote == "'" and "<<" in text)) and bool(_HOLDS_COMMANDS.search(part))


def _finish(words: list[str], found: list[tuple[str, ...]]) -> None:
    first = 0
    while first < len(words) and (words[first] in _RESERVED or _ASSIGNMENT.match(words[first])):
        first += 1
    if words[first:]:
        found.append(tuple(words[first:]))
