"""What a folder holds, and what was found, as text for the model."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import Final

from everturn_actors.errors import ToolFailedError
from everturn_gateway.tools.confined import Confined, is_temporary, kind_of
from everturn_gateway.tools.files.finder import End
from everturn_gateway.tools.files.finding import FILES_MAX, TOTAL_S, Found, SearchQuery
from everturn_gateway.tools.wording import counted, shown

ENTRIES_MAX: Final = 500  # of a listing
HITS_MAX: Final = 200  # of a search
_NAMES_MAX = 50_000  # in one folder; sorting more takes memory
_HITS_CHARACTERS = 20_000  # all together

_STOPPED: Final = {
    "files": f"stopped after {FILES_MAX:,} files; look in a folder further down",
    "time": f"stopped after {TOTAL_S:g} s; look in a folder further down",
}


def folder_text(confined: Confined, path: str, offset: int) -> str:
    """Return the entries of one folder, sorted, from the `offset`-th on, from 1. Blocking.

    Raises:
        ToolFailedError: It is no folder, or has fewer entries.
    """
    with confined.opened(path) as fd:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            msg = f"{shown(path)} is a file; read it with read_file"
            raise ToolFailedError(msg)
        names, is_all = _names(fd)
        if not names:
            return f"{_named(path)} is empty"
        wanted = names[offset - 1 : offset - 1 + ENTRIES_MAX]
        if not wanted:
            msg = f"offset: {_named(path)} has {counted(len(names), 'entry', 'entries')}"
            raise ToolFailedError(msg)
        lines = [_entry(name, fd) for name in wanted]
    last = offset - 1 + len(wanted)
    total = f"{len(names):,}" if is_all else f"more than {len(names):,}"
    which = "" if len(wanted) == len(names) else f", {offset}-{last}"
    rest = [f"(goes on: offset={last + 1})"] if last < len(names) else []
    return "\n".join((f"{_named(path)}, {total} in all{which}:", *lines, *rest))


def files_text(wanted: SearchQuery, found: Found, offset: int) -> str:
    """Return the files that fit a pattern, from the `offset`-th on.

    Raises:
        ToolFailedError: There are fewer.
    """
    hits = found.hits[offset - 1 : offset - 1 + ENTRIES_MAX]
    lines = [f"{shown(hit.path)}  {counted(hit.number, 'byte')}" for hit in hits]
    notes = _notes(found.end)
    if len(found.hits) > offset - 1 + ENTRIES_MAX:
        notes.insert(0, f"(goes on: offset={offset + ENTRIES_MAX})")
    where = _named(wanted.path)
    if not lines and found.hits:
        msg = f"offset: {counted(len(found.hits), 'file')} in {where} fit {shown(wanted.pattern)}"
        raise ToolFailedError(msg)
    if not lines:
        return "\n".join((f"no file in {where} fits {shown(wanted.pattern)}", *notes))
    return "\n".join((f"files in {where} that fit {shown(wanted.pattern)}:", *lines, *notes))


def hits_text(found: Found) -> str:
    """Return the lines that were found, each with its file and number."""
    lines: list[str] = []
    size = 0
    for hit in found.hits[:HITS_MAX]:
        line = f"{shown(hit.path)}:{hit.number}: {hit.line}"
        size += len(line)
        if size > _HITS_CHARACTERS:
            break
        lines.append(line)
    notes = _notes(found.end)
    if len(lines) < len(found.hits):
        notes.insert(0, f"(there are more than these {len(lines)}; search for something narrower)")
    end = found.end
    searched = f" in {counted(end['files'], 'file')}" if end else ""
    if not lines:
        return "\n".join((f"nothing found{searched}", *notes))
    return "\n".join((*lines, *notes))


def _notes(end: End | None) -> list[str]:
    """Return what was not looked at: nothing is left out without a word."""
    if end is None:
        return [f"({_STOPPED['time']})"]
    notes: list[str] = []
    if why := _STOPPED.get(end["why"]):
        notes.append(why)
    notes += _named_files("too large to search", end["large"])
    notes += _named_files("given up, the regex takes too long there", end["slow"])
    if end["left_out"]:
        notes.append(f"not looked into: {', '.join(end['left_out'])}; name one as path to do so")
    if end["unread"]:
        notes.append(f"{counted(end['unread'], 'entry', 'entries')} could not be opened")
    return [f"({note})" for note in notes]


def _named_files(why: str, paths: Sequence[str]) -> list[str]:
    return [f"{why}: {', '.join(map(shown, paths))}"] if paths else []


def _names(fd: int) -> tuple[list[str], bool]:
    names: list[str] = []
    with os.scandir(fd) as entries:
        for entry in entries:
            if len(names) == _NAMES_MAX:
                return sorted(names), False
            if not is_temporary(entry.name):
                names.append(entry.name)
    return sorted(names), True


def _entry(name: str, folder: int) -> str:
    try:
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(info.st_mode):
            return f"{shown(name)}/"
        if stat.S_ISREG(info.st_mode):
            return f"{shown(name)}  {counted(info.st_size, 'byte')}"
        if stat.S_ISLNK(info.st_mode):
            return f"{shown(name)} -> {shown(os.readlink(name, dir_fd=folder))}"
    except FileNotFoundError:
        return f"{shown(name)}  (just removed)"
    return f"{shown(name)}  ({kind_of(info)})"


def _named(path: str) -> str:
    plain = path.removeprefix("./").rstrip("/")
    return "the workspace" if plain in {"", "."} else f"{shown(plain)}/"
