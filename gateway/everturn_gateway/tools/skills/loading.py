"""Agent Skills: folders with a SKILL.md, of which the prompt names each, and a tool reads one.

Source: agentskills.io, specification (read 2026-11-22).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from everturn_gateway.errors import ConfigError, Fault
from everturn_gateway.tools.skills.front_matter import (
    Field,
    FrontMatter,
    FrontMatterError,
    read_front_matter,
)
from everturn_gateway.tools.skills.grants import patterns_of, tools_of
from everturn_gateway.tools.wording import shown
from everturn_gateway.yaml_files import is_there, read_text, resolved

SKILL_FILE: Final = "SKILL.md"
SKILLS_MAX: Final = 200
NAME_CHARACTERS: Final = 64
DESCRIPTION_CHARACTERS: Final = 1024
COMPATIBILITY_CHARACTERS: Final = 500
INDEX_CHARACTERS: Final = 8_000  # sent with every request
_SHORT_CHARACTERS = 120  # of a description, where the index would be longer
_INTRODUCTION: Final = (
    "## Skills\n"
    "Instructions for certain tasks. If one fits what you are to do, call read_skill with its name"
    " before you begin."
)


class Skill(Struct, frozen=True, kw_only=True):
    """One skill, without its instructions."""

    name: str
    description: str
    folder: Path
    allowed_tools: tuple[str, ...] = ()
    "As they stand in the file."
    grants: tuple[str, ...] = ()
    "The same as patterns of the tool policy."
    license: str = ""
    compatibility: str = ""
    "What it needs of its surroundings, in words."
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


def load_skills(folder: Path) -> tuple[tuple[Skill, ...], tuple[Fault, ...]]:
    """Read the skills of a folder: all that can be read, by name, and what is wrong with others.

    A folder that is not there has none. Reads files: not for the event loop.
    """
    try:
        found = sorted(each.name for each in folder.iterdir())
    except FileNotFoundError:
        return (), ()
    except (OSError, ValueError) as error:  # a name with a NUL in it is no name
        why = error.strerror if isinstance(error, OSError) else None
        return (), (Fault(file=folder, message=f"cannot be read: {why or error}"),)
    skills: list[Skill] = []
    faults: list[Fault] = []
    for name in found:
        skill, wrong = _load(folder, folder / name)
        faults += wrong
        if skill is not None and len(skills) == SKILLS_MAX:
            message = f"holds more than {SKILLS_MAX} skills; those from {name} on are left out"
            faults.append(Fault(file=folder, message=message))
            break
        if skill is not None:
            skills.append(skill)
    return tuple(skills), tuple(faults)


def skills_index(skills: tuple[Skill, ...]) -> str:
    """Return what the prompt says of the skills; empty where there are none.

    Each has its name and description. Where that is more than `INDEX_CHARACTERS`, descriptions
    are shortened; where it still is, the last ones have only their name.
    """
    if not skills:
        return ""
    lines = [f"- {skill.name}: {_line(skill.description)}" for skill in skills]
    if sum(map(len, lines)) > INDEX_CHARACTERS:
        lines = [_cut(line, len(skill.name)) for line, skill in zip(lines, skills, strict=True)]
    size, last = 0, len(lines)
    for number, line in enumerate(lines):
        size += len(line)
        if size > INDEX_CHARACTERS:
            last = number
            break
    rest = ", ".join(skill.name for skill in skills[last:])
    more = [f"- without a description: {rest}"] if rest else []
    return "\n".join((_INTRODUCTION, *lines[:last], *more))


def body_of(text: str) -> str:
    """Return the instructions of a SKILL.md, or all of it where its front matter went missing."""
    try:
        return read_front_matter(text).body
    except FrontMatterError:
        return text


def _line(text: str) -> str:
    return " ".join(text.split())


def _cut(line: str, name_characters: int) -> str:
    most = name_characters + _SHORT_CHARACTERS
    return line if len(line) <= most else f"{line[:most].rstrip()}…"


def _load(root: Path, folder: Path) -> tuple[Skill | None, list[Fault]]:
    file = folder / SKILL_FILE
    try:
        if not is_there(file):
            return None, []
        if not resolved(file).is_relative_to(resolved(root)):
            return None, [Fault(file=file, message="leads out of the skills folder")]
        front = read_front_matter(read_text(file))
    except ConfigError as error:
        return None, [*error.faults]
    except FrontMatterError as error:
        return None, [Fault(file=file, line=error.line, field=error.field, message=str(error))]
    except OSError as error:
        return None, [Fault(file=file, message=f"cannot be read: {error.strerror or error}")]
    reader = _Reader(file, front)
    skill = reader.skill(folder)
    return (None if reader.faults else skill), reader.faults


class _Reader:
    """Checks the fields of one front matter; unknown ones are for other clients."""

    def __init__(self, file: Path, front: FrontMatter) -> None:
        self._file, self._fields = file, front.fields
        self.faults: list[Fault] = []

    def skill(self, folder: Path) -> Skill:
        name = self._name(folder)
        tools = self._tools()
        return Skill(
            name=name,
            description=self._text("description", DESCRIPTION_CHARACTERS, required=True),
            folder=folder,
            allowed_tools=tools,
            grants=patterns_of(tools),
            license=self._text("license"),
            compatibility=self._text("compatibility", COMPATIBILITY_CHARACTERS),
            metadata=self._metadata(),
        )

    def _name(self, folder: Path) -> str:
        name = unicodedata.normalize("NFKC", self._text("name", NAME_CHARACTERS, required=True))
        if not name or self.faults:
            return name
        wrong = next(_wrong_with(name), "")
        if not wrong and name != unicodedata.normalize("NFKC", folder.name):
            wrong = f"is {name!r}, and the folder is {folder.name!r}; they have to be the same"
        if wrong:
            self._complain("name", wrong)
        return name

    def _text(self, name: str, most: int | None = None, *, required: bool = False) -> str:
        found = self._fields.get(name)
        value = found.value if found else None
        if value is not None and not isinstance(value, str):
            self._complain(name, "must be a text")
            return ""
        text = (value or "").strip()
        if not text and (required or value is not None):
            self._complain(name, "is required" if found is None else "must not be empty")
        if most is not None and len(text) > most:
            self._complain(name, f"has {len(text)} characters, and {most} are the most")
        return text

    def _tools(self) -> tuple[str, ...]:
        value = self._fields.get("allowed-tools", Field(value=None, line=0)).value
        if isinstance(value, dict):
            self._complain("allowed-tools", "must be a text with blanks, or a list of texts")
            return ()
        for each in (value,) if isinstance(value, str) else value or ():
            if each.strip() and not tools_of(each):
                self._complain(
                    "allowed-tools", f"cannot read {shown(each)!r}; write Bash(git:*) Read"
                )
        return tools_of(value or ())

    def _metadata(self) -> dict[str, str]:
        value = self._fields.get("metadata", Field(value=None, line=0)).value
        if value is not None and not isinstance(value, dict):
            self._complain("metadata", "must be a section of fields")
        return value if isinstance(value, dict) else {}

    def _complain(self, name: str, message: str) -> None:
        line = self._fields[name].line if name in self._fields else 1
        self.faults.append(Fault(file=self._file, line=line, field=name, message=message))


def _wrong_with(name: str) -> Iterator[str]:
    if any(not (each.isalnum() or each == "-") for each in name) or name != name.lower():
        yield "must be lower-case letters, digits and hyphens"
    if name.startswith("-") or name.endswith("-") or "--" in name:
        yield "must not begin or end with a hyphen, nor have two in a row"
