"""The front matter of a SKILL.md: YAML between two lines of `---`. Pure.

Values are the texts that stand in the file; nothing in them is expanded, no alias followed, and no
object made. What is nested deeper than a field of a section is left out.

Many public skills hold no valid YAML, since other clients read them line by line: a colon in a
text without quotes, a list in the middle of a description. Such a front matter is read in that
way, too, and the reason is kept for a warning.
"""

from __future__ import annotations

import re
from typing import TypeAlias, cast

import yaml
from msgspec import Struct
from yaml import CSafeLoader

Value: TypeAlias = str | tuple[str, ...] | dict[str, str] | None

_BEFORE = re.compile(r"\s*(?:#|$)")  # blank lines and a title, as some skills have them
_MARK = re.compile(r"---\s*")
_FIELD_LINE = re.compile(r"(?P<name>[A-Za-z][\w-]*):(?:[ \t]+(?P<value>.*))?")
_QUOTED = re.compile(r"""(?P<quote>["'])(?P<text>.*)(?P=quote)""")
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_DEPTH_MAX = 64  # of what is left out; the time that libyaml takes grows with the square of it


class Field(Struct, frozen=True, kw_only=True):
    """One field of a front matter."""

    value: Value
    "A text, the texts of a list, or the texts of a section; None = no value."
    line: int
    "In the file, from 1."


class FrontMatter(Struct, frozen=True, kw_only=True):
    """What stands at the beginning of a SKILL.md."""

    fields: dict[str, Field]
    body: str
    "What follows, without blank lines around it."
    irregular: FrontMatterError | None = None
    "Why it was read line by line, or is not there; None where all is well."


class FrontMatterError(Exception):
    """A front matter that cannot be read.

    Attributes:
        line: Where, from 1.
        field: Which field, empty where it is none.
    """

    def __init__(self, message: str, *, line: int, field: str = "") -> None:
        self.line, self.field = line, field
        super().__init__(message)


def split(text: str) -> tuple[int, str, str] | None:
    """Return how many lines stand before the front matter's text, the text, and the body.

    None where there is no front matter.

    Raises:
        FrontMatterError: It has no end.
    """
    lines = text.split("\n")
    first = next((n for n, line in enumerate(lines) if not _BEFORE.match(line)), len(lines))
    if first == len(lines) or not _MARK.fullmatch(lines[first]):
        return None
    rest = enumerate(lines[first + 1 :], first + 1)
    last = next((n for n, line in rest if _MARK.fullmatch(line)), None)
    if last is None:
        msg = "the front matter has no end: a second line --- is missing"
        raise FrontMatterError(msg, line=first + 1)
    body = "\n".join(lines[last + 1 :]).strip()
    return first + 1, "\n".join(lines[first + 1 : last]), body


def read_front_matter(text: str) -> FrontMatter:
    """Read the front matter of a SKILL.md.

    Raises:
        FrontMatterError: It has no end, or is neither YAML fields nor lines of fields.
    """
    parts = split(text)
    if parts is None:
        msg = "has no front matter: it has to begin with a line ---, then name and description"
        return FrontMatter(fields={}, body=text.strip(), irregular=FrontMatterError(msg, line=1))
    before, front, body = parts
    try:
        return FrontMatter(fields=_Reader(front, before).fields(), body=body)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = before + (mark.line if mark else 0) + 1
        why = error.problem or error.context or "it cannot be read"
        hint = "; quote a text that holds ': '" if "mapping values" in why else ""
        irregular = FrontMatterError(f"is not valid YAML: {why}{hint}", line=line)
    except yaml.YAMLError:
        msg = "holds a control character"
        raise FrontMatterError(msg, line=before + 1) from None
    fields = _lines_of_fields(front, before)
    if not fields:
        raise irregular
    return FrontMatter(fields=fields, body=body, irregular=irregular)


def _lines_of_fields(front: str, before: int) -> dict[str, Field]:
    """Read `name: value` line by line; other lines go on with the text of the field above."""
    found: dict[str, Field] = {}
    name = ""
    for number, line in enumerate(front.split("\n"), before + 1):
        if start := _FIELD_LINE.fullmatch(line.rstrip()):
            name = start["name"]
            found.setdefault(name, Field(value=_unquoted(start["value"] or ""), line=number))
        elif name and (more := line.strip()):
            above = found[name]
            found[name] = Field(value=f"{above.value} {more}".strip(), line=above.line)
    return found


def _unquoted(text: str) -> str:
    text = text.strip()
    quoted = _QUOTED.fullmatch(text)
    return quoted["text"] if quoted else "" if text in {"|", ">", "|-", ">-"} else text


class _Reader:
    """Reads events, not nodes: libyaml's composer recurses, and aliases can stand for billions."""

    def __init__(self, text: str, before: int) -> None:
        self._events = iter(yaml.parse(text, Loader=CSafeLoader))
        self._before = before

    def fields(self) -> dict[str, Field]:
        for event in self._events:
            if isinstance(event, yaml.MappingStartEvent):
                found = self._mapping()
                self._refuse_more()
                return found
            if isinstance(event, yaml.NodeEvent):
                msg = "must be fields (name: value)"
                raise FrontMatterError(msg, line=self._line(event))
        return {}

    def _refuse_more(self) -> None:
        for event in self._events:  # to its end, or what is wrong there would not be seen
            if isinstance(event, yaml.DocumentStartEvent):
                msg = "holds more than one YAML document"
                raise FrontMatterError(msg, line=self._line(event))

    def _mapping(self) -> dict[str, Field]:
        found: dict[str, Field] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            line = self._line(event)
            name = self._value(event, depth=1)
            value = self._value(next(self._events))
            if not isinstance(name, str):
                msg = "the name of a field must be a text"
                raise FrontMatterError(msg, line=line)
            if name in found:
                msg = f"is given twice, first in line {found[name].line}"
                raise FrontMatterError(msg, line=line, field=name)
            found[name] = Field(value=value, line=line)
        return found

    def _value(self, event: yaml.Event, *, depth: int = 0) -> Value:
        match event:
            case yaml.ScalarEvent():
                text = str(event.value)
                return None if not event.style and text in _NULLS else text
            case yaml.SequenceStartEvent() if depth == 0:
                return tuple(self._items())
            case yaml.MappingStartEvent() if depth == 0:
                return self._section()
            case yaml.CollectionStartEvent():
                self._skip()
            case _:
                pass
        return None

    def _items(self) -> list[str]:
        found: list[str] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            value = self._value(event, depth=1)
            if isinstance(value, str):
                found.append(value)
        return found

    def _section(self) -> dict[str, str]:
        found: dict[str, str] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            name = self._value(event, depth=1)
            value = self._value(next(self._events), depth=1)
            if isinstance(name, str) and isinstance(value, str):
                found[name] = value
        return found

    def _skip(self) -> None:
        depth = 1
        while depth:
            event = next(self._events)
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEPTH_MAX:
                msg = f"is nested deeper than {_DEPTH_MAX} levels"
                raise FrontMatterError(msg, line=self._line(event))

    def _line(self, event: yaml.Event) -> int:
        mark = cast("yaml.Mark | None", event.start_mark)
        return self._before + (mark.line if mark else 0) + 1
