"""Which files of the workspace a call may read or run, as far as its words tell. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from everturn_actors.json_values import is_list, is_object
from everturn_gateway.tools.policy.commands.analysis import CommandLine
from everturn_gateway.tools.policy.commands.strict import SimpleCommand
from everturn_gateway.tools.policy.commands.uses import Use, use_of

MAX_NAMES: Final = 256  # of one call; one with more is taken to mean any file
_MAX_CHARACTERS = 4096  # of a path, as Linux has it
_MAX_DEPTH = 8  # of arguments inside each other
_TOKENS: Final = re.compile(r"[\s;&|<>(){}$`'\"\\]+")
_PARTS: Final = re.compile(r"[=,:@]")
_OPTION: Final = re.compile(r"-{1,2}[A-Za-z0-9]|\+")
_FILE_LIKE: Final = re.compile(r"[^/]\.[A-Za-z][A-Za-z0-9_]{0,11}\Z")
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class NamedFiles(Struct, frozen=True, kw_only=True):
    """What a call names of a workspace."""

    names: tuple[str, ...] = ()
    "Words that may be paths, or globs; most are no names of files."
    is_any: bool = False
    "Whether it may read or run files that its words do not name: any of the workspace."
    runs_code: bool = False
    "Whether what it does may stand in files of the workspace: no pattern tells what it does."
    runs_unknown: bool = False
    "Whether a program is among it of which nobody here knows what it does with files."


def named_by_line(line: CommandLine) -> NamedFiles:
    """Return what a command line names.

    A line that cannot be taken apart, a program that runs what stands in files, and a word that
    the shell fills in for a program that may run it, may each mean any file.
    """
    if not line.commands:
        return NamedFiles(is_any=True, runs_code=True)
    uses = [(each, use_of(each.words)) for each in line.commands]
    runs_code = any(_runs_code(command, use) for command, use in uses)
    is_any = runs_code or any(_is_open(command, use) for command, use in uses)
    runs_unknown = any(use.kind == "unknown" for _, use in uses)
    words = [word.flat for each in line.commands for word in each.words[1:]]
    words += [part for word in words for part in word.split()]
    # The words of a loop, and of redirections, stand in no command.
    words += _TOKENS.split(line.text)
    names = dict.fromkeys(name for word in words for name in _readings(word))
    if len(names) > MAX_NAMES:
        names, is_any = {}, True
    return NamedFiles(
        names=tuple(names), is_any=is_any, runs_code=runs_code, runs_unknown=runs_unknown
    )


def named_by_arguments(arguments: Mapping[str, object]) -> NamedFiles:
    """Return what the arguments of any other call name: every text that may be a path."""
    texts = dict.fromkeys(text for text in _texts(arguments, 0) if _may_be_path(text))
    if len(texts) > MAX_NAMES:
        return NamedFiles(is_any=True)
    return NamedFiles(names=tuple(texts))


def looks_like_file(name: str) -> bool:
    """Return whether a word that names nothing now is likely meant as a file that is to come."""
    if _ADDRESS.match(name) or name.startswith("-") or set(" \t*?[").intersection(name):
        return False
    return "/" in name or _FILE_LIKE.search(name) is not None


def _runs_code(command: SimpleCommand, use: Use) -> bool:
    return use.kind == "code" or bool(use.fault) or not command.words[0].is_fixed


def _is_open(command: SimpleCommand, use: Use) -> bool:
    """Return whether the shell fills in words, and what it fills in may matter."""
    is_filled = any(piece.kind == "filled" for word in command.words for piece in word.pieces)
    return is_filled and (use.kind != "plain" or use.folder is not None or bool(use.writes))


def _readings(word: str) -> Iterator[str]:
    """Yield what a word may mean as a path: itself, the value of an option, parts of a list."""
    if not _may_be_path(word):
        return
    yield word
    if option := _OPTION.match(word):
        yield word[option.end() :]
    parts = _PARTS.split(word)
    if len(parts) > 1:
        yield from filter(None, parts)


def _may_be_path(text: str) -> bool:
    return 0 < len(text) <= _MAX_CHARACTERS and not set("\0\n").intersection(text)


def _texts(value: object, depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, str):
        yield value
    elif is_object(value):
        yield from _texts([*value.values()], depth + 1)
    elif is_list(value):
        for each in value:
            yield from _texts(each, depth + 1)
