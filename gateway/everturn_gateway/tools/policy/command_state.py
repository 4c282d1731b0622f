"""What a command line would meet in the workspace: what of it can run, write and name.

Reads the disk, as it is now: not for the event loop. What is judged here is judged again directly
before the command runs, for files may change in between.
"""

from __future__ import annotations

import glob
import itertools
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from everturn_gateway.tools.environment import CommandPlace
from everturn_gateway.tools.policy.commands.analysis import CommandLine
from everturn_gateway.tools.policy.commands.git_state import look_at_git
from everturn_gateway.tools.policy.commands.programs import look_up
from everturn_gateway.tools.policy.commands.targets import Target
from everturn_gateway.tools.policy.commands.uses import Use
from everturn_gateway.tools.policy.files.protected_files import reason_on_disk

# Of os.path, since a name that is too long is no error there: it is no name of anything.

_FOLDERS_MAX: Final = 32  # in which parts of one line may work
_EXPANDED_MAX: Final = 1_000  # names that one word stands for
_TREE_MAX: Final = 5_000  # entries of a folder that is moved or copied
_PARTS: Final = "=:,@"
"Between such characters an argument may hold a name of a file."


class LineState(Struct, frozen=True, kw_only=True):
    """What is known of a command line beyond its words."""

    faults: tuple[str, ...]
    "For each of its commands, why no `bash:` pattern allows it now; empty where one may."
    configured_by: tuple[str, ...]
    "Files of the workspace that configure what it runs, as seen from there, without links."
    is_sealed: bool
    "Whether what it runs stays in the sandbox, without network."


def look_at_line(line: CommandLine, place: CommandPlace, *, named: Collection[str]) -> LineState:
    """Return what a command line would meet.

    Args:
        line: The line.
        place: Where it would run.
        named: Files that the policy names, as seen from the workspace.
    """
    look = _Look(line, place, named)
    return LineState(
        faults=tuple(look.fault_of(number) for number in range(len(line.uses))),
        configured_by=look.configured_by(),
        is_sealed=place.is_sealed,
    )


class _TooManyError(Exception):
    """There is more than can be looked at before a command runs."""


class _Look:
    def __init__(self, line: CommandLine, place: CommandPlace, named: Collection[str]) -> None:
        self._line, self._place, self._named = line, place, named
        self._root = Path(os.path.realpath(place.root))
        self._folders, self._lost = _folders_of(line.uses, self._root, place.folder)
        self._configs: dict[Path, None] = {}

    def fault_of(self, number: int) -> str:
        """Return why no `bash:` pattern allows one command of the line now."""
        if self._place.is_typed:
            return "it is given to a program that runs, which may take it for anything"
        try:
            return self._fault(self._line.uses[number], number)
        except _TooManyError:
            return "its words stand for too many files to look at all"

    def _fault(self, use: Use, number: int) -> str:
        return (
            use.fault
            or (self._lost if use.folder is not None or use.git is not None else "")
            or self._program_fault(use)
            or self._option_fault(use)
            or self._link_fault(use)
            or self._write_fault(use)
            or (self._git_fault(use) if use.git is not None else "")
            or (self._unknown_fault(use, number) if use.kind == "unknown" else "")
        )

    def configured_by(self) -> tuple[str, ...]:
        """Return the configurations that were looked at, of those that lie in the workspace."""
        inside = (path for path in self._configs if path.is_relative_to(self._root))
        return tuple(path.relative_to(self._root).as_posix() for path in inside)

    # --- what runs ---

    def _program_fault(self, use: Use) -> str:
        """Return whether the program is one of the workspace, or another than its name says."""
        for found in self._programs(use.name):
            real = Path(os.path.realpath(found))
            if real.is_relative_to(self._root):
                return f"{use.name} is a file of the workspace, which the agent may have written"
            known = look_up(real.name)
            if use.kind == "unknown" and known.kind == "code":
                return f"{use.name} is {real.name}, which {known.why}"
        return ""

    def _programs(self, name: str) -> Iterator[Path]:
        if name.startswith("/"):
            yield Path(name)
            return
        for part in self._place.path.split(os.pathsep):
            for folder in self._folders if not part.startswith("/") else self._folders[:1]:
                path = folder / part / name
                if os.path.lexists(path):
                    yield path
                    if part.startswith("/"):
                        return

    def _option_fault(self, use: Use) -> str:
        for target in use.listed:
            for folder in self._folders:
                if any(name.startswith("-") for name in _expanded(target, folder)):
                    return (
                        f"{target.text} stands for a file whose name {use.name} takes for an option"
                    )
        return ""

    def _link_fault(self, use: Use) -> str:
        """Return whether a link is made that other commands of the line may go through."""
        if look_up(use.name).check == "ln" and len(self._line.uses) > 1:
            return "the line makes a link and does more"
        return ""

    # --- what is written ---

    def _write_fault(self, use: Use) -> str:
        for target in use.writes:
            if not target.is_known:
                return f"which files {use.name} writes is filled in by the shell"
        for folder in self._folders:
            for path in self._written(use, folder):
                if reason := reason_on_disk(self._root, str(path), named=self._named):
                    return f"{use.name} would write {self._shown(path)}: {reason}"
            if use.sources and (reason := self._source_fault(use, folder)):
                return f"{use.name} would make a copy or move: {reason}"
        return ""

    def _written(self, use: Use, folder: Path) -> Iterator[Path]:
        for target in use.writes:
            for name in _expanded(target, folder):
                yield folder / name
        for target in use.into:
            for name in _expanded(target, folder):
                yield from self._landed(folder / name, use, folder)

    def _landed(self, target: Path, use: Use, folder: Path) -> Iterator[Path]:
        """Yield where what is copied or moved may come to lie: in the target, by name or content.

        Of a folder, each file of it; `src/.` means what is in it.
        """
        for source in self._sources(use, folder):
            if source == target:
                continue
            yield target / source.name
            if os.path.isdir(source):
                for path in itertools.islice(_tree(source), _TREE_MAX):
                    inside = path.relative_to(source)
                    yield target / inside
                    yield target / source.name / inside

    def _sources(self, use: Use, folder: Path) -> Iterator[Path]:
        for source in use.sources:
            for name in _expanded(source, folder):
                yield folder / name

    def _source_fault(self, use: Use, folder: Path) -> str:
        """Return what would be made that is protected, by copying or moving what is there."""
        for source in self._sources(use, folder):
            is_folder = os.path.isdir(source)
            paths = itertools.islice(_tree(source), _TREE_MAX) if is_folder else [source]
            for number, path in enumerate(paths):
                if number == _TREE_MAX - 1:
                    return f"{self._shown(source)} holds too many files to look at all"
                if os.path.lexists(path) and (reason := reason_on_disk(self._root, str(path))):
                    return f"{self._shown(path)}: {reason}"
        return ""

    # --- what configures it ---

    def _git_fault(self, use: Use) -> str:
        assert use.git is not None, "asked of git alone"
        others = [other for other in self._line.uses if other is not use]
        if use.git.reaches and any(o.writes or (o.git and o.git.changes_remotes) for o in others):
            return "the line changes files or remotes, and git reaches for a repository elsewhere"
        found = look_at_git(use.git, self._folders, self._root)
        self._configs.update(found.files)
        return found.fault

    def _unknown_fault(self, use: Use, number: int) -> str:
        """Return whether a program that nobody knows would get something of the workspace."""
        if number > 0 and self._line.has_pipe:
            return f"{use.name} is no program that is known here, and may read what a pipe gives it"
        if not all(target.is_known for target in use.arguments):
            return f"{use.name} is no program that is known here, and the shell fills in its words"
        if use.arguments and any(other.writes for other in self._line.uses):
            return f"{use.name} is no program that is known here, and the line writes files before"
        named = next(iter(self._existing(use.arguments)), None)
        if named is None:
            return ""
        what = f"{self._shown(named)}, which the agent can write"
        return f"{use.name} is no program that is known here, and it gets {what}"

    def _existing(self, arguments: Iterable[Target]) -> Iterator[Path]:
        """Yield what is in the workspace of all that arguments may name."""
        for target in arguments:
            for folder in self._folders:
                names = _expanded(target, folder) if target.glob else _names_in(target.text)
                for name in names:
                    path = folder / name
                    if not os.path.lexists(path):
                        continue
                    real = Path(os.path.realpath(path))
                    lies_in = (Path(os.path.normpath(path)), real)
                    holds_it = self._root.is_relative_to(real)
                    if holds_it or any(each.is_relative_to(self._root) for each in lies_in):
                        yield real

    def _shown(self, path: Path) -> str:
        plain = Path(os.path.normpath(path))
        inside = plain.is_relative_to(self._root)
        return plain.relative_to(self._root).as_posix() if inside else str(plain)


def _folders_of(uses: Sequence[Use], root: Path, begin: Path) -> tuple[list[Path], str]:
    """Return in which folders the commands of a line may work, and why that is not known.

    Every `cd` may come before every command: loops and branches are not followed.
    """
    folders = [Path(os.path.realpath(begin))]
    steps = [use.folder for use in uses if use.folder is not None]
    steps += [folder for use in uses if use.git is not None for folder in use.git.folders]
    for folder in folders:  # grows
        for step in steps:
            new = Path(os.path.realpath(folder / step))
            if new in folders:
                continue
            if not new.is_relative_to(root):
                return folders, f"{step} leads out of the workspace"
            if len(folders) >= _FOLDERS_MAX:
                return folders, "the line goes through too many folders"
            folders.append(new)
    return folders, ""


def _expanded(target: Target, folder: Path) -> Iterator[str]:
    """Yield what the shell makes of a word in a folder; itself where it matches nothing."""
    if not target.glob:
        if "\0" not in target.text:
            yield target.text
        return
    found = glob.iglob(target.glob, root_dir=folder)  # the words of a shell
    count = 0
    for name in found:
        count += 1
        if count > _EXPANDED_MAX:
            raise _TooManyError
        yield name
    if count == 0:
        yield target.text


def _names_in(text: str) -> Iterator[str]:
    """Yield all that an argument may name: the word, and its parts behind `=`, `@`, an option."""
    if "\0" in text or not text:
        return
    parts = {text}
    for character in _PARTS:
        parts |= {piece for part in parts for piece in part.split(character)}
    if text.startswith("-"):
        parts |= {text[2:]}
    yield from sorted(part for part in parts if part)


def _tree(folder: Path) -> Iterator[Path]:
    for here, folders, files in os.walk(folder):
        for name in (*folders, *files):
            yield Path(here) / name
