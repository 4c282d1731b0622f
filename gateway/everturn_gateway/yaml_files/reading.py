"""From bytes to plain data: size, encoding, YAML, aliases, environment variables."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import yaml
from msgspec import Struct, field
from yaml import CSafeLoader
from yaml.reader import ReaderError

from everturn_gateway.errors import ConfigError, Fault, UnreadableNowError
from everturn_gateway.yaml_files.paths import may_pass
from everturn_gateway.yaml_files.places import (
    NULL_TEXTS,
    Document,
    FieldPath,
    Place,
    dotted,
)

MAX_FILE_BYTES = 1024 * 1024  # a configuration or a prompt; anything larger is not one
MAX_DEPTH = 64  # nested sections; libyaml's composer recurses in C and would crash the process
MAX_VALUES = 20_000  # after aliases are followed: a few lines of them can stand for billions

_YAML = "tag:yaml.org,2002:"
_MERGE, _NULL = f"{_YAML}merge", f"{_YAML}null"
_TAGS = frozenset(
    f"{_YAML}{kind}"
    for kind in ("map", "seq", "str", "int", "float", "bool", "null", "timestamp", "value")
)
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # what YAML 1.1 counts as a line's end
_REFERENCE = re.compile(r"\$(?P<plain>\$(?=\{))|\$\{(?P<inside>[^}]*)(?P<end>\}?)")
_VARIABLE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)


def expand(text: str, environ: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Replace `${NAME}` and `${NAME:-default}` by environment variables.

    As in a shell the default also stands in for a variable that is set but empty. `$${` gives a
    plain `${`; any other `$` stays. What comes in is not expanded again.

    Returns:
        The text, and what was wrong, in words: variables that are not set, references that cannot
        be read. Those are left as they stand.
    """
    problems: list[str] = []

    def value_of(match: re.Match[str]) -> str:
        if match["plain"]:
            return "$"
        whole, inside = match[0], match["inside"]
        variable = _VARIABLE.fullmatch(inside)
        if not match["end"] or variable is None or "${" in inside:
            problems.append(
                f"cannot read {whole!r}: write ${{NAME}} or ${{NAME:-default}},"
                " or $${ where a plain ${ is meant"
            )
            return whole
        name, default = variable["name"], variable["default"]
        found = environ.get(name)
        if default is not None:
            return found or default
        if found is None:
            problems.append(
                f"the environment variable {name} is not set;"
                f" set it, or give a default: ${{{name}:-...}}"
            )
            return whole
        return found

    return _REFERENCE.sub(value_of, text), tuple(problems)


def read_text(file: Path) -> str:
    r"""Return the text of a configuration file or a prompt, line ends as `\n`, without a BOM.

    Raises:
        ConfigError: It is missing, not a plain file, not readable, too large, or not UTF-8.
    """
    try:
        # Before it is opened: opening a pipe would wait for somebody to write.
        if not stat.S_ISREG(file.stat().st_mode):
            raise _unreadable(file, "is not a file")
        with file.open("rb") as stream:
            raw = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise _unreadable(file, "there is no such file") from None
    except OSError as error:
        fault = Fault(file=file, message=f"cannot be read: {error.strerror or error}")
        if may_pass(error):
            raise UnreadableNowError(faults=[fault]) from None
        raise ConfigError(faults=[fault]) from None
    if len(raw) > MAX_FILE_BYTES:
        raise _unreadable(file, f"is larger than {MAX_FILE_BYTES // 1024} KiB")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        message = f"is not valid UTF-8 (byte 0x{raw[error.start]:02x})"
        raise _unreadable(file, message, line) from None
    return text.replace("\r\n", "\n")


def read_document(file: Path, environ: Mapping[str, str] | None) -> Document:
    """Read a YAML file and expand the variables in its values. An empty file is an empty section.

    Without `environ` nothing is expanded: `${NAME}` is a text like any other.

    Names given twice, variables that are not set, and tags stand in `Document.faults`, so that
    they can be reported together with what `check` finds.

    Raises:
        ConfigError: The file cannot be read, or is not one YAML mapping.
    """
    return parse_document(file, read_text(file), environ)


def parse_document(file: Path, text: str, environ: Mapping[str, str] | None) -> Document:
    """Read a YAML text as `read_document` reads a file.

    Args:
        file: What faults say where they were found.
        text: The YAML.
        environ: The environment variables; None = nothing is expanded.

    Raises:
        ConfigError: It is not one YAML mapping.
    """
    try:
        _refuse_deep(file, text)
        root = yaml.compose(text, Loader=CSafeLoader)
    except yaml.YAMLError as error:
        raise ConfigError(faults=[_syntax_fault(file, text, error)]) from None
    if root is None or root.tag == _NULL:
        return Document(file=file, text=text, data={}, places={})
    if not isinstance(root, yaml.MappingNode):
        raise _unreadable(file, "must be a mapping of fields (name: value)", _line(root))
    builder = _Builder(file=file, environ=environ)
    data = builder.mapping(root, ())
    return Document(
        file=file, text=text, data=data, places=builder.places, faults=tuple(builder.faults)
    )


class _Builder(Struct, kw_only=True):
    """Turns YAML nodes into plain data and remembers where each value stands."""

    file: Path
    environ: Mapping[str, str] | None
    places: dict[FieldPath, Place] = field(default_factory=dict[FieldPath, Place])
    faults: list[Fault] = field(default_factory=list[Fault])
    visits: int = 0

    def mapping(self, node: yaml.MappingNode, path: FieldPath) -> dict[str, object]:
        data: dict[str, object] = {}
        for key, value in self._pairs(node, path):
            name = str(key.value)
            here = (*path, name)
            if name in data:
                first = self.places[here].line
                self._complain(here, _line(key), f"is given twice, first in line {first}")
                continue
            self.places[here] = _place(_line(key), value)
            data[name] = self._value(value, here)
        return data

    def _value(self, node: yaml.Node, path: FieldPath) -> Any:  # YAML data
        self._visit(node, len(path))
        if node.tag not in _TAGS:
            tag = node.tag.removeprefix(_YAML)
            self._complain(path, _line(node), f"the tag {tag!r} is not supported")
            return None
        match node:
            case yaml.MappingNode():
                return self.mapping(node, path)
            case yaml.SequenceNode():
                return self._sequence(node, path)
            case _:
                return self._scalar(node, path)

    def _sequence(self, node: yaml.SequenceNode, path: FieldPath) -> list[object]:
        items: list[object] = []
        for index, item in enumerate(_items(node)):
            here = (*path, index)
            self.places[here] = _place(_line(item), item)
            items.append(self._value(item, here))
        return items

    def _scalar(self, node: yaml.Node, path: FieldPath) -> str | None:
        if node.tag == _NULL:
            return None
        text = str(node.value)
        if self.environ is not None:
            text, problems = expand(text, self.environ)
            for problem in problems:
                self._complain(path, self.places[path].line, problem)
        # A quoted empty text is a text; a bare one, like a variable that is empty, is no value.
        return None if _is_plain(node) and text in NULL_TEXTS else text

    def _pairs(
        self, node: yaml.MappingNode, path: FieldPath, *, depth: int = 0
    ) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        """Yield the fields of a mapping, then those that it merges in (`<<: *name`) and lacks."""
        merged: list[yaml.Node] = []
        own: set[str] = set()
        for key, value in _fields(node):
            if not isinstance(key, yaml.ScalarNode):
                self._complain(path, _line(key), "the name of a field must be a text")
            elif key.tag == _MERGE:
                merged += _items(value) if isinstance(value, yaml.SequenceNode) else [value]
            else:
                own.add(str(key.value))
                yield key, value
        for source in merged:
            self._visit(source, len(path) + depth)
            if not isinstance(source, yaml.MappingNode):
                self._complain(path, _line(source), "<< must name a mapping (*name)")
                continue
            for key, value in self._pairs(source, path, depth=depth + 1):
                if str(key.value) not in own:
                    own.add(str(key.value))
                    yield key, value

    def _visit(self, node: yaml.Node, depth: int) -> None:
        self.visits += 1
        if self.visits > MAX_VALUES or depth > MAX_DEPTH:
            message = "stands for too many values; look at the aliases (*name)"
            raise _unreadable(self.file, message, _line(node))

    def _complain(self, path: FieldPath, line: int, message: str) -> None:
        self.faults.append(Fault(file=self.file, line=line, field=dotted(path), message=message))


def _fields(node: yaml.MappingNode) -> Sequence[tuple[yaml.Node, yaml.Node]]:
    return cast("Sequence[tuple[yaml.Node, yaml.Node]]", node.value)


def _items(node: yaml.SequenceNode) -> Sequence[yaml.Node]:
    return cast("Sequence[yaml.Node]", node.value)


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1


def _is_plain(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and not node.style


def _place(line: int, node: yaml.Node) -> Place:
    match node:
        case yaml.MappingNode():
            return Place(line=line, kind="section")
        case yaml.SequenceNode():
            return Place(line=line, kind="list")
        case _:
            return Place(line=line, written=str(node.value), plain=_is_plain(node))


def _unreadable(file: Path, message: str, line: int = 0) -> ConfigError:
    return ConfigError(faults=[Fault(file=file, line=line, message=message)])


def _refuse_deep(file: Path, text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            line = event.start_mark.line + 1 if event.start_mark else 0
            raise _unreadable(file, f"is nested deeper than {MAX_DEPTH} levels", line)


def _syntax_fault(file: Path, text: str, error: yaml.YAMLError) -> Fault:
    if isinstance(error, ReaderError):
        # libyaml counts bytes here and gives no line.
        line = text.encode().count(b"\n", 0, error.position) + 1
        character = error.character if isinstance(error.character, int) else ord(error.character)
        message = f"holds the control character 0x{character:02x}"
        return Fault(file=file, line=line, message=message)
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line, column = (int(mark.line), int(mark.column)) if mark else (0, 0)
    lines = _LINE_BREAK.split(text)
    indent = lines[line][: column + 1] if line < len(lines) else ""
    context, problem = getattr(error, "context", None), getattr(error, "problem", None)
    if "\t" in indent and not indent.strip():
        message = "a tab cannot indent YAML; use spaces"
    elif context == "expected a single document in the stream":
        message = "holds more than one YAML document (a second `---`)"
    else:
        message = (
            f"is not valid YAML: {', '.join(str(part) for part in (problem, context) if part)}"
        )
    # At the end of the text the mark may stand on a line that is not there.
    return Fault(file=file, line=min(line + 1, len(lines)), message=message)
