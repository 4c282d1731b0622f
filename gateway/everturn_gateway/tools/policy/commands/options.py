"""Options among the words of a command: what may be one, and what its value is. Pure.

Whatever a word may be counts: a beginning of a long option, a letter in a group of short ones, what
the shell fills in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from everturn_gateway.tools.policy.commands.targets import Target, target_of, value_of
from everturn_gateway.tools.policy.commands.words import Word

_SHORT_CHARACTERS = 2


def may_be_option(word: Word) -> bool:
    """Return whether a word can begin with a dash once the shell has filled it in.

    What is filled in without quotes can be several words.
    """
    if any(piece.kind == "filled" and not piece.is_quoted for piece in word.pieces):
        return True
    for piece in word.pieces:
        if piece.kind != "fixed":
            return True
        if piece.text:
            return piece.text.startswith("-")
    return False


def is_listed(word: Word) -> bool:
    """Return whether a word stands for names of files that a look into the folder tells."""
    return target_of(word).is_known


def is_one_dash(option: str) -> bool:
    """Return whether this is a long option of one dash, as those of find."""
    return not option.startswith("--") and len(option) > _SHORT_CHARACTERS


def before_end(arguments: Sequence[Word], *, honours_end: bool = True) -> Iterator[Word]:
    """Yield the words that a program may take for options.

    `--` ends them only where it comes before all that may be one: behind an option it may be its
    value.
    """
    seen_option = False
    for word in arguments:
        if honours_end and not seen_option and word.is_fixed and word.flat == "--":
            return
        seen_option = seen_option or may_be_option(word)
        yield word


def matching(
    options: Sequence[str], takes: str, word: Word, *, whole: Sequence[str] = ()
) -> Iterator[tuple[str, str]]:
    """Yield which of `options` a word may be, and what of the word is the option's value.

    Args:
        options: Such as `-o`, `--output`, `-exec`.
        takes: Letters of short options with a value: what follows one is no option.
        word: The word.
        whole: Other long options, which are meant where they are written out.
    """
    text = word.flat
    if not text.startswith("-") or text in ("-", "--"):
        return
    if text.startswith("--"):
        begun, _, value = text.partition("=")
        if begun not in whole:
            yield from ((each, value) for each in options if each.startswith(begun))
        return
    if any(map(is_one_dash, options)):
        yield from ((each, "") for each in options if each == text)
        return
    for at, letter in enumerate(text[1:], 1):
        if (option := f"-{letter}") in options:
            yield option, text[at + 1 :]
        if letter in takes:
            return


def values(options: Sequence[str], takes: str, arguments: Sequence[Word]) -> Iterator[Target]:
    """Yield the values of options; where none is in the word itself, the next word may be one."""
    for number, word in enumerate(arguments):
        for _, value in matching(options, takes, word):
            if value:
                yield value_of(word, value)
            else:
                yield from map(target_of, arguments[number + 1 : number + 2])
