"""A command line as a policy judges it: what may be allowed of it, and what must not be missed."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from everturn_gateway.tools.policy.commands.grammar import Tree, read_tree
from everturn_gateway.tools.policy.commands.loose import split_loosely
from everturn_gateway.tools.policy.commands.strict import (
    TEST,
    Reading,
    RefusedError,
    SimpleCommand,
    join_lines,
    read_strictly,
)
from everturn_gateway.tools.policy.commands.uses import Use, use_of
from everturn_gateway.tools.policy.commands.words import FILLED, Word, loose_word
from everturn_gateway.tools.policy.commands.wrappers import FEEDERS, WRAPPERS

MAX_CHARACTERS = 16_384  # of a command line that is judged by its parts
_FED: Final = "$_"  # stands for a word that is read from elsewhere
_MAX_SCRIPTS = 64  # texts inside a text: what `bash -c` and the like are given
_MAX_SCRIPT_CHARACTERS = 4 * MAX_CHARACTERS  # all of them together

_CACHED = 32  # command lines; one is judged, asked about and told of within moments
_SPECIAL: Final = re.compile(r"[\n;&|$`<>(){}]")
_JOINED_LINE: Final = re.compile(r"\\\n")


class Seen(Struct, frozen=True):
    """A command that may run, as patterns that deny or notify look at it."""

    flat: str
    "Its words without quotes, a blank between them, `FILLED` for what is filled in."
    hazy: str
    "The same with `FILLED` for what may become names of files or more words, too."
    starts: tuple[int, ...]
    "Where a command may begin in it: at the name, behind its folder, behind what wraps it."
    forms: tuple[str, ...]
    "Other ways to write it."


class CommandLine(Struct, frozen=True):
    """What is known of a command line."""

    text: str
    commands: tuple[SimpleCommand, ...]
    "Its simple commands, where both readings agree on them; empty otherwise."
    refusal: str
    "Why no pattern for a plain command can allow it, in words; empty where one can."
    exact: str
    "It as a pattern's glob would have to match it, where it is one simple command; or empty."
    seen: tuple[Seen, ...]
    "Every command that may run."
    is_clear: bool
    "Whether `seen` is known to be complete, but for what is filled in."
    uses: tuple[Use, ...] = ()
    "What each of `commands` does, by its words."
    has_pipe: bool = False
    "Whether one of `commands` may read what another prints."


@functools.lru_cache(maxsize=_CACHED)
def analyse(text: str) -> CommandLine:
    """Read a command line. Blocking for up to a second at worst: not for the event loop."""
    clean = text.replace(FILLED, "").encode("utf-8", "replace").decode()
    if len(clean) > MAX_CHARACTERS:
        seen = tuple(_see_loosely(clean))
        refusal = f"it is longer than {MAX_CHARACTERS} characters"
        return CommandLine(text, (), refusal, "", seen, is_clear=False)
    commands: tuple[SimpleCommand, ...] = ()
    refusal, exact, has_pipe = "", "", False
    try:
        reading = _vouched(text)
    except RefusedError as error:
        refusal = str(error)
    else:
        commands = reading.commands
        is_exact = reading.is_one and commands[0].is_fixed
        exact = commands[0].shown if is_exact else ""
        has_pipe = reading.has_pipe
    finder = _Finder()
    finder.look(clean)
    return CommandLine(
        text,
        commands,
        refusal,
        exact,
        tuple(finder.seen),
        finder.is_clear,
        uses=tuple(use_of(command.words) for command in commands),
        has_pipe=has_pipe,
    )


def _vouched(text: str) -> Reading:
    """Return the commands of a text, where two readings that share nothing see the same.

    Raises:
        RefusedError: They do not, or one of them gives up.
    """
    if FILLED in text or not _is_encodable(text):
        msg = "it holds a character that no command can hold"
        raise RefusedError(msg)
    joined = join_lines(text)
    reading = read_strictly(joined)
    tree = read_tree(joined)
    if not tree.is_whole:
        msg = "it cannot be parsed"
        raise RefusedError(msg)
    own = sorted(map(_spans, reading.commands))
    theirs = sorted(command.spans for command in tree.commands)
    if own != theirs or not all(command.is_simple for command in tree.commands):
        msg = "it can be read in more than one way"
        raise RefusedError(msg)
    return reading


def _spans(command: SimpleCommand) -> tuple[tuple[int, int], ...]:
    """Return where its words stand; of `[ ... ]` all of it as one, as the grammar says it."""
    if command.words[0].source == TEST:
        return ((command.words[0].start, command.words[-1].end),)
    return tuple((word.start, word.end) for word in command.words)


def _is_encodable(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


class _Finder:
    """Collects what may run, in a text and in the texts inside it."""

    def __init__(self) -> None:
        self.seen: dict[Seen, None] = {}
        self.is_clear = True
        self._waiting: list[str] = []
        self._known: set[str] = set()
        self._characters = 0

    def look(self, text: str) -> None:
        """Find every command in `text`."""
        self._expect(text)
        while self._waiting:
            self._read(self._waiting.pop(0))

    def _expect(self, script: str) -> None:
        for text in dict.fromkeys((script, _JOINED_LINE.sub("", script))):
            if text in self._known:
                continue
            self._characters += len(text)
            if len(self._known) >= _MAX_SCRIPTS or self._characters > _MAX_SCRIPT_CHARACTERS:
                self.is_clear = False
                return
            self._known.add(text)
            self._waiting.append(text)

    def _read(self, text: str) -> None:
        tree: Tree = read_tree(text)
        self.is_clear = self.is_clear and tree.is_whole
        for command in tree.commands:
            self._note(command.words, command.fed)
        if not tree.has_heredoc or not tree.is_whole:
            for words in split_loosely(text):
                self._note(words, ())

    def _note(self, sources: tuple[str, ...], fed: tuple[str, ...]) -> None:
        words = tuple(map(loose_word, sources))
        if not words:
            return
        self.seen.update(dict.fromkeys(_see(words, " ".join(sources))))
        if not _wraps(words[0].hazy):
            return
        arguments = [word.flat.replace(FILLED, "$_") for word in words[1:]]
        # Arguments without special characters are looked at as they stand, see `Seen.starts`.
        for script in arguments:
            if " " in script or _SPECIAL.search(script):
                self._expect(script)
        if _SPECIAL.search(joined := " ".join(arguments)):
            self._expect(joined)
        for script in fed:
            self._expect(script)


def _see_loosely(text: str) -> Iterable[Seen]:
    for sources in split_loosely(text):
        yield from _see(tuple(map(loose_word, sources)), " ".join(sources))


def _see(words: Sequence[Word], source: str) -> Iterable[Seen]:
    flat = [word.flat for word in words]
    shown = " ".join(word.shown for word in words)
    yield _seen(flat, [word.hazy for word in words], (shown, source))
    if flat[0].rpartition("/")[2] in FEEDERS:
        yield _seen([*flat, _FED], [*(word.hazy for word in words), _FED], ())
    expanded = [part for word in words for part in word.expanded]
    emptied = [part.replace(FILLED, "") for part in expanded]  # what is filled in may be: r$@m
    for other in (expanded, emptied):
        left = [word for word in other if word]
        if left and left != flat:
            yield _seen(left, left, ())


def _seen(flat: list[str], hazy: list[str], forms: tuple[str, ...]) -> Seen:
    behind = range(len(flat)) if _wraps(hazy[0]) else range(1)
    starts: list[int] = []
    at = 0
    for number, word in enumerate(flat):
        if number not in behind:
            break
        starts.append(at)
        if "/" in word:
            starts.append(at + word.rindex("/") + 1)
        at += len(word) + 1
    joined = " ".join(flat)
    others = tuple(form for form in dict.fromkeys(forms) if form != joined)
    return Seen(joined, " ".join(hazy), tuple(starts), others)


def _wraps(name: str) -> bool:
    """Return whether a command of this name may run what stands behind it.

    A name that is filled in may be empty, and then the next word is the name.
    """
    return FILLED in name or name.rpartition("/")[2] in WRAPPERS
