"""Finds the texts for people in the sources, of the console and of Python."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

_LITERAL = r'"(?:[^"\\]|\\.)*"'
_IN_SCRIPTS = re.compile(
    rf"(?<![\w.])(?P<how>t|rich|tn)\(\s*(?P<one>{_LITERAL})?(?:\s*,\s*(?P<other>{_LITERAL}))?"
)
_IN_PROGRAMS = re.compile(r"\b(?:t|marked|t\.plural)\(")
_PLACES = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, kw_only=True)
class Use:
    """A text where it stands."""

    where: str
    "File and line."
    text: str
    "The key; empty where no literal stands there, so that nobody could find it."
    one: str = ""
    "The English singular, of a text that depends on a number."

    @property
    def places(self) -> set[str]:
        """The names of its placeholders."""
        return set(_PLACES.findall(self.text))


def places_of(text: str) -> set[str]:
    """Return the names of a text's placeholders."""
    return set(_PLACES.findall(text))


@cache
def uses() -> list[Use]:
    """Return all texts of the product."""
    static = ROOT / "gateway/everturn_gateway/http/console/static"
    scripts = (each for each in static.rglob("*.js") if "vendor" not in each.parts)
    programs = (
        each
        for top in ("channels", "gateway")
        for each in (ROOT / top).rglob("*.py")
        if each.parent.name != "languages"
    )
    return [
        *(use for path in sorted(scripts) for use in _of_script(path)),
        *(use for path in sorted(programs) for use in _of_program(path)),
    ]


def _of_script(path: Path) -> Iterator[Use]:
    source = path.read_text()
    if path.name == "texts.js":
        return  # where they are looked up
    for found in _IN_SCRIPTS.finditer(source):
        where = f"{path.relative_to(ROOT)}:{source.count(chr(10), 0, found.start()) + 1}"
        one, other = (json.loads(found[name] or '""') for name in ("one", "other"))
        if found["how"] == "tn":
            yield Use(where=where, text=other, one=one)
        else:
            yield Use(where=where, text=one)


def _of_program(path: Path) -> Iterator[Use]:
    source = path.read_text()
    if not _IN_PROGRAMS.search(source):  # to take apart all of them takes seconds
        return
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        where = f"{path.relative_to(ROOT)}:{node.lineno}"
        match node.func:
            case ast.Name(id="t" | "marked"):
                yield Use(where=where, text=_literal(node, 0))
            case ast.Attribute(value=ast.Name(id="t"), attr="plural"):
                yield Use(where=where, text=_literal(node, 1), one=_literal(node, 0))
            case _:
                pass


def _literal(call: ast.Call, position: int) -> str:
    if position >= len(call.args):
        return ""
    match call.args[position]:
        case ast.Constant(value=str(text)):
            return text
        case _:
            return ""
