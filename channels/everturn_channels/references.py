"""Lines of Markdown that say where links lead: `[name]: https://example.org`. Pure.

A link may stand in another message than its address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from everturn_channels.tables import FENCE

_REFERENCE: Final = re.compile(r"([ >]{0,12})\[(?=[^\]]{1,200}\]:)(.*)")


def only_references(text: str) -> str:
    r"""Return what a text says of where its links lead, a paragraph each, the same one once.

    A parser reads it in good time, however long the text is.

    >>> only_references("See [a] and [b].\n\n[a]: https://a.org\n[b]:\n  https://b.org")
    '[a]: https://a.org\n\n[b]: https://b.org'
    """
    lines = text.split("\n")
    found: list[str] = []
    for at, name in _references(lines):
        is_whole = not name.rstrip().endswith("]:")
        more = "" if is_whole else "".join(lines[at + 1 : at + 2]).lstrip("> ")
        found.append(f"[{name.rstrip()}{' ' if more else ''}{more}")
    return "\n\n".join(dict.fromkeys(found))


def with_shown_references(text: str) -> str:
    r"""Return a text in which these lines are shown as they are written.

    >>> print(with_shown_references("[a]: https://a.org"))
    \[a]: https://a.org
    """
    if "]:" not in text:
        return text
    lines = text.split("\n")
    for at, name in _references(lines):
        before = lines[at][: -len(name) - 1]
        lines[at] = f"{before}\\[{name}"
    return "\n".join(lines)


def _references(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield which lines of a text these are, and what stands in each behind its bracket."""
    fence = ""
    for at, line in enumerate(lines):
        if marker := FENCE.match(line):
            is_end = bool(fence) and marker[1].startswith(fence) and not marker[2].strip()
            fence = "" if is_end else fence or marker[1]
        elif not fence and (found := _REFERENCE.fullmatch(line)):
            yield at, found[2]
