"""What the repositories of a workspace would make git run. Reads files: not for the event loop.

git takes its configuration from `.git` of the folder where it works, or of one above it, and runs
itself in repositories below. What of that can start a program is found here, see `commands.git`.
Sources: gitrepository-layout(5), gitmodules(5), git 2.39.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from everturn_gateway.tools.policy.commands.git import (
    GitUse,
    is_address,
    risky_keys,
    settings,
)

_CONFIG_BYTES: Final = 1 << 20
_POINTER_BYTES: Final = 4096  # of a file that names a folder
_WALKED_MAX: Final = 200_000  # entries of a workspace
_GIT: Final = ".git"
_PLACES: Final = ("remote.pushdefault", "remote.default")


class _UnreadableError(Exception):
    """Something in a repository cannot be read, so nobody knows what git would run."""

    def __init__(self, what: str) -> None:
        super().__init__(what)


class GitState(Struct):
    """What was found for one command of git."""

    fault: str = ""
    "Why it may run a program that nobody named; empty where it does not."
    files: dict[Path, None] = field(default_factory=dict[Path, None])
    "The configurations that were read."


def look_at_git(use: GitUse, folders: Sequence[Path], root: Path) -> GitState:
    """Return what git would run in any of `folders`, which are real paths in the workspace."""
    state = GitState()
    try:
        for gitdir, is_nested in _repositories(folders, root):
            state.fault = _look(gitdir, use, state, root, is_nested=is_nested)
            if state.fault:
                break
        else:
            state.fault = _no_remote(use, state, folders) if use.reaches else ""
    except (OSError, _UnreadableError) as error:
        state.fault = f"its repository cannot be read for certain ({error})"
    return state


def _repositories(folders: Iterable[Path], root: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the `.git` of every repository that git may look into, and whether another holds it."""
    own: dict[Path, None] = {}
    for folder in folders:
        for each in (folder, *folder.parents):
            if not each.is_relative_to(root):
                break
            if os.path.lexists(each / _GIT):
                own[each] = None
    for each in own:
        yield each / _GIT, False
    nested: dict[Path, None] = {}
    seen = 0
    for outer in own:
        waiting = [outer]
        while waiting:
            folder = waiting.pop()
            with os.scandir(folder) as entries:
                for entry in entries:
                    seen += 1
                    if seen > _WALKED_MAX:
                        msg = "the workspace has too many files to look at all"
                        raise _UnreadableError(msg)
                    if entry.name.casefold() == _GIT:
                        if folder not in own:
                            nested[Path(entry.path)] = None
                    elif entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
    yield from ((gitdir, True) for gitdir in nested)


def _look(entry: Path, use: GitUse, state: GitState, root: Path, *, is_nested: bool) -> str:
    """Return what one repository would run."""
    gitdir = _gitdir(entry)
    for config in _configs(gitdir):
        text = _text(config, _CONFIG_BYTES)
        if text is None:
            continue
        state.files[config] = None
        if risky := next(risky_keys(text, is_nested=is_nested), None):
            what = f"{_shown(config, root)}, line {risky.line}, {risky.key}"
            inner = " in a repository inside another" if is_nested else ""
            return f"git may run what its configuration says{inner} ({what})"
        if use.reaches and (fault := _elsewhere(text, gitdir)):
            return f"git would run in another folder of this machine ({fault})"
    for module in _modules(gitdir / "modules"):
        if fault := _look(module, use, state, root, is_nested=True):
            return fault
    return ""


def _gitdir(entry: Path) -> Path:
    """Return the folder that `.git` is, or that it names."""
    found = entry.stat()
    if stat.S_ISDIR(found.st_mode):
        return Path(os.path.realpath(entry))
    text = _text(entry, _POINTER_BYTES) or ""
    kind, _, path = text.partition("gitdir: ")
    if kind or not path.strip():
        msg = f"{entry.name} is no folder and names none"
        raise _UnreadableError(msg)
    return Path(os.path.realpath(entry.parent / path.rstrip("\r\n")))


def _configs(gitdir: Path) -> Iterator[Path]:
    folders = [gitdir]
    if common := _text(gitdir / "commondir", _POINTER_BYTES):
        folders.append(Path(os.path.realpath(gitdir / common.rstrip("\r\n"))))
    for folder in folders:
        yield folder / "config"
        yield folder / "config.worktree"


def _modules(folder: Path) -> Iterator[Path]:
    """Yield the repositories of submodules, whose names may have slashes."""
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                below = [Path(each.path) for each in entries if each.is_dir()]
        except FileNotFoundError:
            continue
        if here != folder and (here / "config").exists():
            yield here
        elif len(waiting) < _WALKED_MAX:
            waiting += below


def _elsewhere(text: str, gitdir: Path) -> str:
    """Return what leads to a repository on this machine, whose configuration nobody looked at."""
    pairs = list(settings(text))
    names = _remotes(pairs)
    for key, value in pairs:
        if key.startswith("remote.") and key.endswith(("url",)) and not is_address(value):
            return f"{key} is {value}"
        is_place = key in _PLACES or (
            key.startswith("branch.") and key.endswith((".remote", ".pushremote"))
        )
        if is_place and value not in names and value != ".":
            return f"{key} is {value}"
    for older in ("remotes", "branches"):
        if (gitdir / older).is_dir() and any((gitdir / older).iterdir()):
            return f"{gitdir.name}/{older} holds remotes in an older format"
    return ""


def _remotes(pairs: Sequence[tuple[str, str]]) -> frozenset[str]:
    return frozenset(
        key.removeprefix("remote.").rpartition(".")[0]
        for key, _ in pairs
        if key.startswith("remote.") and key.endswith(".url")
    )


def _no_remote(use: GitUse, state: GitState, folders: Iterable[Path]) -> str:
    """Return which word of a command may lead to a repository on this machine.

    git takes a word that is no remote for a folder or a bundle, with endings of its own.
    """
    names: set[str] = set()
    for config in state.files:
        names |= _remotes(list(settings(_text(config, _CONFIG_BYTES) or "")))
    for word in use.remotes:
        if word in names or is_address(word):
            continue
        paths = (folder / f"{word}{end}" for folder in folders for end in ("", ".git", ".bundle"))
        is_local = word.startswith(("/", ".", "~", "file:")) or "::" in word
        if is_local or any(map(os.path.lexists, paths)):
            return f"git would run in another folder of this machine, or a program ({word})"
    return ""


def _text(file: Path, limit_bytes: int) -> str | None:
    """Return the text of a plain file; None where there is none."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > limit_bytes:
            msg = f"{file.name} is no plain file, or too large"
            raise _UnreadableError(msg)
        data = os.read(fd, limit_bytes)
    finally:
        os.close(fd)
    return data.decode("utf-8", "surrogateescape")


def _shown(file: Path, root: Path) -> str:
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file)
