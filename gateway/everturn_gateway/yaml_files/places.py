"""A file that was read, and where each of its values stands."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from everturn_actors.json_values import as_list, as_object, is_list, is_object
from everturn_gateway.errors import Fault

FieldPath: TypeAlias = tuple[str | int, ...]

NULL_TEXTS = frozenset(("", "~", "null", "Null", "NULL"))
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"[-+]?[0-9]{1,17}\.[0-9]{1,17}")


class Place(Struct, frozen=True, kw_only=True):
    """Where a value stands."""

    line: int
    "Counted from 1: the line of its name, or of the value itself in a list."
    kind: Literal["scalar", "list", "section"] = "scalar"
    written: str = ""
    "A scalar as it stands in the file, variables not expanded."
    plain: bool = False
    "A scalar without quotes."

    @property
    def natural(self) -> str | float | bool | None:
        """What the scalar looks like to a person: `8080` is a number, `"8080"` a text."""
        if not self.plain:
            return self.written
        if self.written in NULL_TEXTS:
            return None
        if self.written in {"true", "false"}:
            return self.written == "true"
        if _INTEGER.fullmatch(self.written):
            return int(self.written)
        return float(self.written) if _DECIMAL.fullmatch(self.written) else self.written


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A YAML file, read but not checked yet."""

    file: Path
    text: str = field(repr=False)
    "As it stands in the file, variables not expanded."
    data: dict[str, Any] = field(repr=False)
    "Dicts with text names, lists, texts with variables expanded, and None."
    places: Mapping[FieldPath, Place] = field(repr=False)
    faults: tuple[Fault, ...] = ()
    "What was wrong in single fields; the file as a whole could be read."
    is_file: bool = True
    "Whether the text stands in a file, so that its lines tell somebody something."

    def as_written(self) -> dict[str, Any]:
        """Return the data as it stands in the file, variables not expanded: fit to be shown."""
        return {name: self._natural(value, (name,)) for name, value in self.data.items()}

    def line(self, path: FieldPath) -> int:
        """Return the line of a field, or of the innermost section around it that is there.

        0 where the data stands in no file.
        """
        for length in range(len(path), 0, -1):
            if place := self.places.get(path[:length]):
                return place.line
        return 1 if self.is_file else 0

    def at(self, path: FieldPath) -> object:
        """Return what stands at a path; None where nothing does."""
        here: object = self.data
        for part in path:
            if is_list(here) and isinstance(part, int):
                here = here[part] if part < len(here) else None
            elif is_object(here) and isinstance(part, str):
                here = here.get(part)
            else:
                return None
        return here

    def section(self, path: FieldPath) -> Mapping[str, object]:
        """Return the fields at a path; none where no section stands there."""
        return as_object(self.at(path))

    def items(self, path: FieldPath) -> Sequence[object]:
        """Return the entries of a list at a path; none where no list stands there."""
        return as_list(self.at(path))

    def fault(self, path: FieldPath, message: str) -> Fault:
        """Return a fault that points to a field."""
        return Fault(file=self.file, line=self.line(path), field=dotted(path), message=message)

    def _natural(self, value: object, path: FieldPath) -> object:
        if is_object(value):
            return {name: self._natural(inner, (*path, name)) for name, inner in value.items()}
        if is_list(value):
            return [self._natural(item, (*path, n)) for n, item in enumerate(value)]
        return self.places[path].natural


def dotted(path: FieldPath) -> str:
    """Return a path as people write it: `spec.tools[0].name`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")
