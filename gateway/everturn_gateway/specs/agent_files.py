"""The files of an agent's folder, for people who edit them: listed, read, replaced, tried.

Blocking: not for the event loop. Nothing here leaves the folder, through links neither.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final, TypeAlias

import yaml
from msgspec import Struct
from msgspec.structs import replace

from everturn_gateway.errors import ConfigError, Fault, GatewayError
from everturn_gateway.specs.loading import AgentFile
from everturn_gateway.tools.confined import Confined

FILE_BYTES_MAX: Final = 256 * 1024
FILES_MAX: Final = 500  # that are listed
_DEPTH_MAX: Final = 8
_WRITTEN_BY_AGENTS: Final = "memory"

Load: TypeAlias = Callable[[Path], AgentFile]


class AgentFilesError(GatewayError):
    """The file cannot be edited here."""


class FileChangedError(AgentFilesError):
    """The file is not the one that was read any more."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} was changed meanwhile")


class EditableFile(Struct, frozen=True, kw_only=True):
    """A text of an agent, as it was read."""

    path: str
    text: str
    version: str
    "Of its bytes; another one where a single one differs."


class AgentFolder:
    """One agent's folder, without what the agent itself writes."""

    def __init__(self, folder: Path, load: Load, *, workspace: Path | None = None) -> None:
        """Look at a folder.

        Args:
            folder: With an `agent.yaml`, or without.
            load: Reads the agent in a folder.
            workspace: Where its tools write, which is left out; None = elsewhere.
        """
        self._folder, self._load = folder, load
        closed = [folder / _WRITTEN_BY_AGENTS, *([workspace] if workspace else [])]
        self._files = Confined(folder, what="the agent's folder", closed=lambda: closed)

    def paths(self) -> tuple[str, ...]:
        """Return the paths of its files, hidden ones left out, up to a bound."""
        found: list[str] = []
        for path in self._walk("", _DEPTH_MAX):
            if len(found) == FILES_MAX:
                break
            found.append(path)
        return tuple(found)

    def read(self, path: str) -> EditableFile | None:
        """Return a file; None where there is none.

        Raises:
            AgentFilesError: It is too large, or no text, or holds a secret.
            ToolFailedError: The path leads elsewhere, or to no plain file.
        """
        if not (self._folder / _checked(path)).exists():
            return None
        with self._files.place(path) as place:
            found = place.read_if_there(FILE_BYTES_MAX + 1)
        return None if found is None else _text_of(path, found[0])

    def write(self, path: str, text: str, *, version: str) -> str:
        """Replace a file as a whole, or make it; return its new version when that is durable.

        Args:
            path: As seen from the folder.
            text: All of it.
            version: Of the file that this replaces; empty = there is none yet.

        Raises:
            FileChangedError: The file is another one.
            AgentFilesError: It is too large, or the one that stands there cannot be read.
            ToolFailedError: The path leads elsewhere, or it cannot be written.
        """
        data = text.encode()
        if len(data) > FILE_BYTES_MAX:
            raise AgentFilesError(_TOO_LARGE.format(path))
        with self._files.place(_checked(path), create=True) as place, place.locked():
            found = place.read_if_there(FILE_BYTES_MAX + 1)
            standing = "" if found is None else _text_of(path, found[0]).version
            if standing != version:
                raise FileChangedError(path)
            place.replace(data, expected=found[1] if found is not None else None)
        return _version(data)

    def faults(self, drafts: Mapping[str, str]) -> tuple[Fault, ...]:
        """Return what would be wrong with the agent if these texts stood in its files.

        Raises:
            AgentFilesError: A path is none of the agent's.
        """
        texts = {PurePosixPath(_checked(path)).parts: text for path, text in drafts.items()}
        with tempfile.TemporaryDirectory(prefix="everturn-") as outer:
            made = Path(outer) / self._folder.name
            _overlay(self._folder, made, texts)
            try:
                found = self._load(made).warnings
            except ConfigError as error:
                found = error.faults
        return tuple(_moved(fault, made, self._folder) for fault in found)

    def _walk(self, folder: str, depth: int) -> Iterator[str]:
        below: list[str] = []
        for name, is_folder in self._files.entries(folder or "."):
            if name.startswith("."):
                continue
            path = f"{folder}/{name}" if folder else name
            if not is_folder:
                yield path
            elif path != _WRITTEN_BY_AGENTS and self._is_open(path):
                below.append(path)
        for path in below if depth else ():
            yield from self._walk(path, depth - 1)

    def _is_open(self, path: str) -> bool:
        info = (self._folder / path).stat()
        return (info.st_dev, info.st_ino) not in self._files.closed()


_TOO_LARGE: Final = f"{{}} is larger than {FILE_BYTES_MAX // 1024} kB"


def _checked(path: str) -> str:
    """Return a path that names a file below the folder, in its one way to be written."""
    parts = PurePosixPath(path).parts
    is_plain = bool(parts) and "/".join(parts) == path and "\0" not in path
    if not is_plain or any(part == ".." or part.startswith((".", "/")) for part in parts):
        msg = f"{path!r} is no file of the agent: write it as seen from its folder"
        raise AgentFilesError(msg)
    return path


def _text_of(path: str, data: bytes) -> EditableFile:
    if len(data) > FILE_BYTES_MAX:
        raise AgentFilesError(_TOO_LARGE.format(path))
    try:
        text = data.decode()
    except UnicodeDecodeError:
        msg = f"{path} is no text in UTF-8"
        raise AgentFilesError(msg) from None
    return EditableFile(path=path, text=text, version=_version(data))


def _version(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def data_of(file: EditableFile) -> object:
    """Return what a YAML file holds; None where it is another file, or cannot be read."""
    if not file.path.endswith((".yaml", ".yml")):
        return None
    try:
        found: object = yaml.safe_load(file.text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return found


def _overlay(folder: Path, made: Path, texts: Mapping[tuple[str, ...], str]) -> None:
    """Make a folder that looks as `folder` would with `texts` in it: all else is linked."""
    made.mkdir()
    drafted = {parts[0] for parts in texts}
    if folder.is_dir():
        for entry in folder.iterdir():
            if entry.name not in drafted:
                (made / entry.name).symlink_to(entry)
    for name in drafted:
        text = texts.get((name,))
        if text is None:
            below = {parts[1:]: text for parts, text in texts.items() if parts[0] == name}
            _overlay(folder / name, made / name, below)
        else:
            (made / name).write_text(text, encoding="utf-8", newline="")


def _moved(fault: Fault, made: Path, to: Path) -> Fault:
    file = fault.file
    if file.is_relative_to(made):
        file = to / file.relative_to(made)
    return replace(fault, file=file, message=fault.message.replace(str(made), str(to)))
