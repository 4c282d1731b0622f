"""YAML that people may have edited, read without harm to whoever reads it. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias, cast

import yaml
from yaml.constructor import SafeConstructor

_Loader: TypeAlias = type[yaml.SafeLoader | yaml.CSafeLoader]
# PyYAML may be built without libyaml; it is slower then, and reads the same.
_LOADER: _Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEPTH_MAX = 100  # what we write has four levels
_PARTS = re.compile(r"[^.\[\]]+")
_NESTS = "[{?:-"  # without so many of them nothing is so deep
_CANNOT_BE_MADE = (ValueError, LookupError, AttributeError, ArithmeticError, TypeError)
"What PyYAML lets through of scalars that look like a number or a time, and are none."


class BadYamlError(Exception):
    """A text that is no YAML, or none that is read; it names the line. Never leaves `journal`."""


def parse_mapping(data: bytes) -> dict[str, object]:
    """Return the fields of a file.

    Raises:
        BadYamlError: It is no YAML, no mapping, too deep, or holds what has no value.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        msg = f"line {line}: this is not UTF-8"
        raise BadYamlError(msg) from error
    try:
        _refuse_deep(text, _LOADER)
        document = yaml.load(text, _LOADER)  # noqa: S506 - a safe one
    except yaml.YAMLError:
        document = _parse_slowly(text)
    except _CANNOT_BE_MADE as error:
        raise _not_made(text) from error
    if not isinstance(document, dict):
        msg = "line 1: it holds no mapping of fields"
        raise BadYamlError(msg)
    return {str(name): value for name, value in cast("dict[object, object]", document).items()}


def _refuse_deep(text: str, loader: _Loader) -> None:
    """Refuse what nobody writes: libyaml recurses in C, where too deep is the process's end.

    And lists or mappings that have a name: a few lines of `*name` can stand for billions.
    """
    if "&" not in text and sum(map(text.count, _NESTS)) < _DEPTH_MAX:
        return
    depth = 0
    for event in yaml.parse(text, loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            line = event.start_mark.line + 1 if event.start_mark else 1
            if depth > _DEPTH_MAX:
                msg = f"line {line}: it is nested deeper than {_DEPTH_MAX} levels"
                raise BadYamlError(msg)
            if event.anchor:
                msg = f"line {line}: a list or mapping must have no name (&{event.anchor})"
                raise BadYamlError(msg)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _compose(text: str) -> yaml.Node | None:
    """Return the nodes of a text; in Python where libyaml refuses it, see `_parse_slowly`."""
    try:
        _refuse_deep(text, _LOADER)
        return yaml.compose(text, _LOADER)
    except yaml.YAMLError:
        _refuse_deep(text, yaml.SafeLoader)
        return yaml.compose(text, yaml.SafeLoader)


def _not_made(text: str) -> BadYamlError:
    """Return the error of the first scalar that is no value of its kind, such as `2026-13-45`."""
    make = cast("Callable[[yaml.Node], object]", SafeConstructor().construct_object)
    for node in _scalars(_compose(text)):
        try:
            make(node)
        except (yaml.YAMLError, *_CANNOT_BE_MADE):
            kind = node.tag.rpartition(":")[2]
            return BadYamlError(
                f"line {node.start_mark.line + 1}: {node.value[:40]!r} is no {kind}; quote it"
                " where it is a text"
            )
    return BadYamlError("line 1: a value of it cannot be read")


def _scalars(node: yaml.Node | None) -> Iterator[yaml.ScalarNode]:
    match node:
        case yaml.ScalarNode():
            yield node
        case yaml.SequenceNode():
            for item in cast("list[yaml.Node]", node.value):
                yield from _scalars(item)
        case yaml.MappingNode():
            for pair in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
                yield from _scalars(pair[0])
                yield from _scalars(pair[1])
        case _:
            pass


def _parse_slowly(text: str) -> object:
    """Parse in Python: unlike libyaml it takes escaped surrogates, and words its errors better."""
    try:
        _refuse_deep(text, yaml.SafeLoader)
        return yaml.safe_load(text)
    except _CANNOT_BE_MADE as error:
        raise _not_made(text) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        msg = f"line {line}: this is not YAML: {error.problem or error.context or 'unreadable'}"
        raise BadYamlError(msg) from error
    except yaml.YAMLError as error:
        position = getattr(error, "position", 0)
        line = text.count("\n", 0, position) + 1
        msg = f"line {line}: this is not YAML: {str(error).splitlines()[0]}"
        raise BadYamlError(msg) from error


def line_of(data: bytes, path: str) -> int:
    """Return the line of a field, `checkpointed[2].users`, or of what holds it; 1 = not found."""
    try:
        node = _compose(data.decode())
    except (yaml.YAMLError, UnicodeDecodeError, BadYamlError):
        return 1
    line = 1
    for part in _PARTS.findall(path):
        found = _within(node, part)
        if found is None:
            break
        line, node = found
    return line


def _within(node: yaml.Node | None, part: str) -> tuple[int, yaml.Node] | None:
    """Return the line of a part of a node, and the part; None where it has no such part."""
    if isinstance(node, yaml.MappingNode):
        for key, value in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            if key.value == part:
                return key.start_mark.line + 1, value
    if isinstance(node, yaml.SequenceNode) and part.isdecimal():
        entries = cast("list[yaml.Node]", node.value)
        if int(part) < len(entries):
            entry = entries[int(part)]
            return entry.start_mark.line + 1, entry
    return None
