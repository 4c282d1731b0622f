"""Names, paths and sizes as a model may read them. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

_SHOWN_CHARACTERS = 300  # of a path
_NEAR = 3  # names that are offered in place of one that is not there


def shown(name: str) -> str:
    """Return a name in one line: what does not print is escaped, and a long one is shortened.

    File names may hold line ends, colours for terminals, and bytes that are no text.
    """
    cut = name if len(name) <= _SHOWN_CHARACTERS else f"{name[:_SHOWN_CHARACTERS]}…"
    if cut.isprintable():
        return cut
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


def near(name: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names most like one that is not among them, as they are shown."""
    plain: dict[str, str] = {}
    for each in names:
        plain.setdefault(each.casefold(), each)
    found = difflib.get_close_matches(name.casefold(), plain, n=_NEAR)
    return tuple(shown(plain[each]) for each in found)


def counted(number: int, thing: str, plural: str = "") -> str:
    """Return a number with the name of what it counts: `1 file`, `1,200 files`."""
    return f"{number:,} {thing if number == 1 else plural or f'{thing}s'}"
