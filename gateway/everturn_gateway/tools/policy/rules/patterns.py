r"""Patterns of a tool policy, `type:glob`: read them, match them, write them. Pure.

A glob matches the whole text: `*` stands for any characters, also none, blanks or several words;
`\*` for a star and `\\` for a backslash; everything else stands for itself. Matching takes time
in proportion to the text, whatever the pattern.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

from msgspec import Struct

PatternKind: TypeAlias = Literal["bash", "code", "write", "builtin", "cli", "mcp", "*"]
KINDS: Final[tuple[PatternKind, ...]] = get_args(PatternKind)
MAX_PATTERN_CHARACTERS = 40_000  # an exact pattern of the longest command that is judged


class PatternError(ValueError):
    """The text is no pattern; the message says why, and what to write."""


class Pattern(Struct, frozen=True):
    """Which calls are meant."""

    kind: PatternKind
    """`*` = every type of tool. `code` = a command, whatever files of the workspace it runs;
    `write` = a protected file, by its path."""
    parts: tuple[str, ...]
    "The glob, split at its stars: as many parts as stars, and one."
    text: str
    "As it was written."

    @property
    def is_everything(self) -> bool:
        """Whether its glob matches whatever there is."""
        return len(self.parts) > 1 and not any(self.parts)

    @property
    def beginning(self) -> str:
        """What every text that it matches begins with; empty where it begins with a star."""
        return self.parts[0]

    def concerns(self, kind: str) -> bool:
        """Return whether it speaks of this type of tool."""
        return self.kind in ("*", kind)

    @property
    def is_for_commands(self) -> bool:
        """Whether it speaks of commands: to deny and to notify, `code:` means what `bash:` does."""
        return self.kind in ("*", "bash", "code")

    def matches(self, text: str, start: int = 0) -> bool:
        """Return whether the glob matches `text` from `start` to its end, all of it."""
        first, *rest = self.parts
        if not text.startswith(first, start):
            return False
        at = start + len(first)
        if not rest:
            return at == len(text)
        *middle, last = rest
        for part in middle:
            found = text.find(part, at)
            if found < 0:
                return False
            at = found + len(part)
        return len(text) - len(last) >= at and text.endswith(last)


def read_pattern(text: str) -> Pattern:
    """Return the pattern that `text` writes; without a colon it is one for every type of tool.

    Raises:
        PatternError: It is empty, too long, or names a type of tool that there is not.
    """
    kind, colon, glob = text.partition(":")
    if not colon:
        kind, glob = "*", text
    if kind not in KINDS:
        msg = (
            f"begins with {kind[:40]!r}, which is no type of tool; there are: {', '.join(KINDS)}."
            " Write *: in front of a text that has a colon of its own"
        )
        raise PatternError(msg)
    if not glob.strip():
        msg = "says nothing; write * where everything is meant"
        raise PatternError(msg)
    if len(text) > MAX_PATTERN_CHARACTERS:
        msg = f"is longer than {MAX_PATTERN_CHARACTERS} characters"
        raise PatternError(msg)
    if "\0" in text:
        msg = "holds a null character"
        raise PatternError(msg)
    return Pattern(kind, tuple(_split(glob)), text)


def read_glob(text: str) -> Pattern:
    """Return a pattern for every type of tool from a glob alone: a colon in it is a colon."""
    return Pattern("*", tuple(_split(text)), text)


def exact_pattern(kind: str, text: str) -> str:
    """Return the pattern that matches `text` and nothing else."""
    escaped = text.replace("\\", "\\\\").replace("*", "\\*")
    return f"{kind}:{escaped}"


def _split(glob: str) -> list[str]:
    parts = [""]
    at = 0
    while at < len(glob):
        if glob[at] == "\\" and glob[at + 1 : at + 2] in ("*", "\\"):
            parts[-1] += glob[at + 1]
            at += 2
            continue
        if glob[at] == "*":
            parts.append("")
        else:
            parts[-1] += glob[at]
        at += 1
    return parts
