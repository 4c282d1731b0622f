"""The texts of an agent: named files in its folder, inline texts, directives, placeholders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from everturn_actors.json_values import as_object
from everturn_actors.spec import PromptSpec
from everturn_gateway.errors import ConfigError, Fault
from everturn_gateway.late_loading import late_pattern
from everturn_gateway.yaml_files import Document, FieldPath, is_there, read_text, resolved

FILES = {
    "soul": "SOUL.md",
    "system_prompt": "SYSTEM_PROMPT.md",
    "instructions": "INSTRUCTIONS.md",
}
"By field: the file that is read where the field is left out."

_SUFFIXES = (".md", ".markdown", ".txt")
_DIRECTIVES_MAX = 100  # in one folder; a prompt of more would be nobody's intention
_PATH_CHARACTERS = 255  # no file system has longer names; a longer line is a text
_PLACEHOLDER = late_pattern(r"\{\{\s*(?P<name>agent\.name|agent\.home|date|time)\s*\}\}")


def read_prompt(
    document: Document, folder: Path, *, shared: Path | None = None
) -> tuple[PromptSpec, tuple[Fault, ...]]:
    """Read what the document's `spec` names, and the directives: those of all agents, then its own.

    `shared` is the folder with those of all agents; None = there is none.
    `{{agent.name}}` and `{{agent.home}}` are filled in; `{{date}}` and `{{time}}` stay for the
    turn that renders them, and other braces stay as they are.
    """
    reader = _Reader(document, folder)
    texts = {field: reader.text(("spec", field), file) for field, file in FILES.items()}
    directives = tuple(reader.directives(shared))
    return PromptSpec(**texts, directives=directives), tuple(reader.faults)


def read_text_field(
    document: Document, folder: Path, path: FieldPath, default_file: str
) -> tuple[str, tuple[Fault, ...]]:
    """Read one more field that names a file in the agent's folder or is the text itself.

    Where it is left out, `default_file` is read, which has to be there.
    """
    reader = _Reader(document, folder)
    text = reader.text(path, default_file, must_exist=True)
    return text, tuple(reader.faults)


def is_path(value: str, folder: Path) -> bool:
    """Return whether the value of a prompt field names a file, or is the text itself.

    A path is one line that starts with `./` or `../`, ends like a text file, or is the name of a
    file that is there. A block (`soul: |`) has a line end and so is always a text.
    """
    if "\n" in value or not value.strip() or len(value) > _PATH_CHARACTERS:
        return False
    if value.startswith(("./", "../")) or value.lower().endswith(_SUFFIXES):
        return True
    return (folder / value).is_file()


class _Reader:
    def __init__(self, document: Document, folder: Path) -> None:
        self.faults: list[Fault] = []
        self._document, self._folder = document, folder
        name = _section(document.data.get("metadata")).get("name")
        self._values = {"agent.name": str(name), "agent.home": str(folder.absolute())}

    def text(self, path: FieldPath, default_file: str, *, must_exist: bool = False) -> str:
        value: object = self._document.data
        for part in path:
            value = _section(value).get(str(part))
        if value is None:
            default = self._folder / default_file
            return self._file(default, path) if must_exist or is_there(default) else ""
        if not isinstance(value, str):
            return ""  # checking says so
        if is_path(value, self._folder):
            return self._file(self._folder / value, path)
        return self._filled(value)

    def directives(self, shared: Path | None) -> Iterator[str]:
        own = (self._folder / "directives", self._folder)
        for folder, within in ((shared, shared), own):
            if folder is None or within is None:
                continue
            found = self._listed(folder)
            if len(found) > _DIRECTIVES_MAX:
                message = f"holds {len(found)} directives, and {_DIRECTIVES_MAX} are the most"
                self.faults.append(Fault(file=folder, message=message))
            for file in found[:_DIRECTIVES_MAX]:
                if text := self._file(file, (), within=within).strip():
                    yield text

    def _listed(self, folder: Path) -> list[Path]:
        """Return the directives in a folder, by name; none where there is no folder."""
        if not is_there(folder):
            return []
        try:
            names = sorted(each.name for each in folder.iterdir())
        except OSError as error:
            message = f"cannot be read: {error.strerror or error}"
            self.faults.append(Fault(file=folder, message=message))
            return []
        return [folder / name for name in names if fnmatchcase(name, "*.md")]

    def _file(self, file: Path, path: FieldPath, *, within: Path | None = None) -> str:
        within = within or self._folder
        try:
            real = resolved(file)
            inside = real.is_relative_to(resolved(within))
        except OSError as error:  # a loop of symbolic links
            self.faults.append(Fault(file=file, message=f"cannot be read: {error.strerror}"))
            return ""
        shown = file.relative_to(self._folder) if file.is_relative_to(self._folder) else file
        if not inside and not path:
            whose = "the agent's folder" if within == self._folder else "its folder"
            self.faults.append(Fault(file=file, message=f"leads out of {whose}"))
        elif not inside:
            self._complain(path, f"{shown} leads out of the agent's folder")
        elif not real.exists():
            self._complain(path, f"there is no file {shown} in the agent's folder")
        else:
            try:
                return self._filled(read_text(file))
            except ConfigError as error:
                self.faults += error.faults
        return ""

    def _filled(self, text: str) -> str:
        return _PLACEHOLDER.sub(
            # What the turn fills in is only tidied: `{{ date }}` becomes `{{date}}`.
            lambda match: self._values.get(match["name"], f"{{{{{match['name']}}}}}"),
            text,
        )

    def _complain(self, path: FieldPath, message: str) -> None:
        self.faults.append(self._document.fault(path, message))


def _section(value: object) -> Mapping[str, object]:
    return as_object(value)
