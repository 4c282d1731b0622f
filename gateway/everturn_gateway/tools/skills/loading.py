"""Agent Skills: folders with a SKILL.md, of which the prompt names each, and a tool reads one.

What breaks the specification without harm is put right and told: public collections hold many
such skills, and other clients load them. What a skill *allows* is never guessed.
Source: agentskills.io, specification, and its guide for clients (read 2026-11-22).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
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
FOLDERS_MAX: Final = 5_000
"That are looked into; a collection that was copied whole is not walked without an end."
INDEX_CHARACTERS: Final = 8_000  # sent with every request
_DEPTH_MAX = 4  # folders of folders, as collections are sorted
_PASSED_OVER = frozenset(("node_modules", "__pycache__"))
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
        folders, is_all = _folders(folder)
    except FileNotFoundError:
        return (), ()
    except (OSError, ValueError) as error:  # a name with a NUL in it is no name
        why = error.strerror if isinstance(error, OSError) else None
        return (), (Fault(file=folder, message=f"cannot be read: {why or error}"),)
    skills: dict[str, Skill] = {}
    faults: list[Fault] = []
    if not is_all:
        message = f"holds more than {FOLDERS_MAX} folders; skills in the others are not found"
        faults.append(Fault(file=folder, message=message))
    for each in folders:
        skill, wrong = _load(folder, each)
        faults += wrong
        if skill is None:
            continue
        if (first := skills.get(skill.name)) is not None:
            where = first.folder.relative_to(folder)
            message = f"{skill.name!r} is also the skill in {str(where)!r}; this one is left out"
            faults.append(Fault(file=each / SKILL_FILE, field="name", message=message))
        elif len(skills) == SKILLS_MAX:
            name = each.relative_to(folder)
            message = f"holds more than {SKILLS_MAX} skills; those from {name} on are left out"
            faults.append(Fault(file=folder, message=message))
            break
        else:
            skills[skill.name] = skill
    return tuple(skills.values()), tuple(faults)


def _folders(root: Path) -> tuple[list[Path], bool]:
    """Return the folders with a SKILL.md below a folder, in order, and whether these are all.

    What is below a skill belongs to it. Links are looked at beside other skills, and not gone
    into below: they may lead in a circle.
    """
    found: list[Path] = []
    waiting = [(root, 0)]
    seen = 0
    while waiting:
        folder, depth = waiting.pop()
        if depth and is_there(folder / SKILL_FILE):
            found.append(folder)
            continue
        seen += 1
        if seen > FOLDERS_MAX:
            return sorted(found), False
        if depth < _DEPTH_MAX and not (depth and folder.is_symlink()):
            waiting += [(each, depth + 1) for each in _inside(folder, is_root=not depth)]
    return sorted(found), True


def _inside(folder: Path, *, is_root: bool) -> list[Path]:
    try:
        inside = [*folder.iterdir()]
    except OSError:
        if is_root:
            raise
        return []
    return [
        each
        for each in inside
        if not each.name.startswith(".") and each.name not in _PASSED_OVER and _is_folder(each)
    ]


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


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
    return reader.skill(folder), reader.faults


class _Reader:
    """Reads the fields of one front matter; unknown ones are for other clients."""

    def __init__(self, file: Path, front: FrontMatter) -> None:
        self._file, self._front, self._fields = file, front, front.fields
        self.faults: list[Fault] = []

    def skill(self, folder: Path) -> Skill | None:
        if (irregular := self._front.irregular) is not None:
            rest = "" if not self._fields else "; it is read line by line, and allows no tools"
            fault = Fault(file=self._file, line=irregular.line, message=f"{irregular}{rest}")
            self.faults.append(fault)
        name = self._name(folder)
        description = self._description()
        if not name or not description:
            return None
        tools = self._tools()
        return Skill(
            name=name,
            description=description,
            folder=folder,
            allowed_tools=tools,
            grants=patterns_of(tools),
            license=self._text("license"),
            compatibility=self._text("compatibility", COMPATIBILITY_CHARACTERS),
            metadata=self._metadata(),
        )

    def _name(self, folder: Path) -> str:
        """Return the name in the file, put into the form that names have; else the folder's."""
        written = unicodedata.normalize("NFKC", self._text("name"))
        name = _name_of(written) or _name_of(unicodedata.normalize("NFKC", folder.name))
        if not name:
            self._complain("name", "has no letter or digit; the skill is left out")
        elif not written:
            if self._fields:
                self._complain("name", f"is required; the folder's is taken: {name}")
        elif name != written:
            rule = f"lower-case letters, digits and single hyphens, at most {NAME_CHARACTERS}"
            self._complain("name", f"must be {rule}; the skill is called {name}")
        elif name != unicodedata.normalize("NFKC", folder.name):
            self._complain("name", f"is {name!r}, and the folder is {folder.name!r}")
        return name

    def _description(self) -> str:
        text = self._text("description")
        if text:
            return self._cut("description", text, DESCRIPTION_CHARACTERS)
        text = _first_paragraph(self._front.body)
        if not text:
            self._complain("description", "is required; the skill is left out")
        elif self._fields:
            self._complain("description", "is required; the first paragraph is taken for it")
        return text[:DESCRIPTION_CHARACTERS]

    def _text(self, name: str, most: int | None = None) -> str:
        found = self._fields.get(name)
        value = found.value if found else None
        if value is not None and not isinstance(value, str):
            self._complain(name, "must be a text; it is passed over")
            return ""
        text = (value or "").strip()
        return text if most is None else self._cut(name, text, most)

    def _cut(self, name: str, text: str, most: int) -> str:
        if len(text) <= most:
            return text
        self._complain(name, f"has {len(text)} characters, and {most} are the most; it is cut")
        return f"{text[: most - 1].rstrip()}…"

    def _tools(self) -> tuple[str, ...]:
        # what was mended could allow something that nobody wrote
        mended = self._front.irregular is not None
        value = None if mended else self._fields.get("allowed-tools", _NOTHING).value
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
        value = self._fields.get("metadata", _NOTHING).value
        if isinstance(value, dict):
            return value
        if value is not None and self._front.irregular is None:
            self._complain("metadata", "must be a section of fields; it is passed over")
        return {}

    def _complain(self, name: str, message: str) -> None:
        line = self._fields[name].line if name in self._fields else 1
        self.faults.append(Fault(file=self._file, line=line, field=name, message=message))


_NOTHING: Final = Field(value=None, line=0)


def _name_of(text: str) -> str:
    """Return a text in the form that names have: empty where nothing of it can stay."""
    words = re.findall(r"[^\W_]+", text.lower())
    return "-".join(words)[:NAME_CHARACTERS].rstrip("-")


def _first_paragraph(body: str) -> str:
    paragraphs = (each.strip() for each in re.split(r"\n\s*\n", body))
    texts = (each for each in paragraphs if each and not each.startswith(("#", "```", "---", "<")))
    return _line(next(texts, ""))
